"""Clocks for operators. Decisions read costs only through a meter, so recorded costs give reproducible decisions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any, Protocol

if sys.platform == "linux":
    from resource import RUSAGE_THREAD, getrusage


class Meter(Protocol):
    def start(self) -> Any: ...

    def stop(self, started: Any, operator: int, rows: int) -> float:
        """Seconds that `operator` took for `rows` rows since `started`."""
        ...


class WallMeter:
    """Real time: what a predicate that waits for a network costs is waiting."""

    def start(self) -> float:
        return perf_counter()

    def stop(self, started: float, operator: int, rows: int) -> float:
        return perf_counter() - started


class OwnMeter:
    """Time that was the predicate's own doing: computing, and waiting it chose, but not the turns that other programs
    took.

    On a busy machine most of the scatter of real time is being set aside for others. The kernel counts for each thread
    what it computed and how often it gave up its turn of its own accord: if it never did, computing was all there was;
    if it did, it waited for something (a network, a disk), and real time is the cost.
    """

    def start(self) -> tuple[float, float, int]:
        return perf_counter(), thread_time(), getrusage(RUSAGE_THREAD).ru_nvcsw

    def stop(self, started: tuple[float, float, int], operator: int, rows: int) -> float:
        real, own = perf_counter() - started[0], thread_time() - started[1]
        waited = getrusage(RUSAGE_THREAD).ru_nvcsw != started[2]
        return real if waited else own


def clock() -> Meter:
    """The steadiest clock this system has."""
    return OwnMeter() if sys.platform == "linux" else WallMeter()


@dataclass(frozen=True)
class RecordedMeter:
    """Fixed seconds per row and operator, whatever the clock says.

    >>> RecordedMeter([1e-6, 5e-6]).stop(0.0, operator=1, rows=100)
    0.0005
    """

    costs: Sequence[float]

    def start(self) -> float:
        return 0.0

    def stop(self, started: float, operator: int, rows: int) -> float:
        return self.costs[operator] * rows
