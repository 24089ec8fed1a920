"""How cost grows: with the number of tuples at a fixed window, and with the window at a fixed match rate.

A slope of 1 on a double logarithmic scale is linear. Work is free of noise; processor time is what a user pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.joins.thalweg_runs import feed
from benchmarks.joins.workloads import steady


@dataclass(frozen=True)
class Point:
    size: int
    seconds: float
    work: float
    stored: int


@dataclass(frozen=True)
class Curve:
    """Cost of a run against one size."""

    against: str
    points: tuple[Point, ...]

    def slope(self, what: str = "seconds") -> float:
        sizes = np.log([p.size for p in self.points])
        return float(np.polyfit(sizes, np.log([getattr(p, what) for p in self.points]), 1)[0])


def _point(size: int, tuples: int, window: int, rounds: int) -> Point:
    w = steady(tuples, window)
    taken, run = [], None
    for _ in range(rounds):
        started = time.process_time()
        run = feed(w, w.data, "written")
        taken.append(time.process_time() - started)
    assert run is not None
    return Point(size, min(taken), run.total_work, run.stored)


def against_tuples(
    sizes: Sequence[int], window: int = 10_000, rounds: int = 3, tell: Callable[[str], None] = lambda _: None
) -> Curve:
    points = []
    for n in sizes:
        tell(f"{n:,} tuples per stream")
        points.append(_point(n, n, window, rounds))
    return Curve("tuples", tuple(points))


def against_window(
    sizes: Sequence[int], tuples: int = 100_000, rounds: int = 3, tell: Callable[[str], None] = lambda _: None
) -> Curve:
    points = []
    for window in sizes:
        tell(f"a window of {window:,} ms")
        points.append(_point(window, tuples, window, rounds))
    return Curve("window", tuple(points))
