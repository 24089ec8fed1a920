"""How cost grows: with the number of tuples at a fixed window, and with the window.

The window varies in two ways: with the same number of matches per probe at every size (keys spread as the window grows),
and with the same chance that any two tuples match (results then grow with the window too). A slope of 1 on a log-log
scale is linear. Work has no noise; processor time is what a user pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.joins.thalweg_runs import feed
from benchmarks.joins.workloads import Workload, steady

VALUES = 5_000
"""Values of the key if the chance to match is fixed."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    size: int
    seconds: float
    work: float
    stored: int
    results: int


@dataclass(frozen=True)
class Curve:
    """Cost of a run as a function of one size."""

    against: str
    points: tuple[Point, ...]

    def slope(self, what: str = "seconds") -> float:
        sizes = np.log([p.size for p in self.points])
        return float(np.polyfit(sizes, np.log([getattr(p, what) for p in self.points]), 1)[0])


def measure(against: str, workloads: Iterable[tuple[int, Workload]], tell: Tell, rounds: int = 3) -> Curve:
    points = []
    for size, w in workloads:
        tell(f"{against}: {size:,}")
        taken, run = [], None
        for _ in range(rounds):
            started = time.process_time()
            run = feed(w, w.data, "written")
            taken.append(time.process_time() - started)
        assert run is not None
        points.append(Point(size, min(taken), run.total_work, run.stored, run.count))
    return Curve(against, tuple(points))


def curves(sizes: Sequence[int], windows: Sequence[int], tuples: int, tell: Tell) -> list[Curve]:
    """All three curves."""
    return [
        measure("tuples per stream, window 10 s", ((n, steady(n, 10_000)) for n in sizes), tell),
        measure("window in ms, one match per probe", ((w, steady(tuples, w)) for w in windows), tell),
        measure("window in ms, fixed chance to match", ((w, _even(tuples, w)) for w in windows), tell),
    ]


def _even(tuples: int, window: int) -> Workload:
    return steady(tuples, window, streams=2, values=VALUES)
