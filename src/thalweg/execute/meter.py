"""Clocks for operators: the only file above `spark/` that reads one.

Decisions read costs only through a meter, so recorded costs give reproducible decisions. A meter belongs to one
pipeline, whose operators it knows by number.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time, thread_time_ns
from typing import Any, Protocol

if sys.platform == "linux":
    from resource import RUSAGE_THREAD, getrusage


class Meter(Protocol):
    def start(self) -> Any: ...

    def stop(self, started: Any, operator: int, rows: int) -> float:
        """Seconds that `operator` took for `rows` rows since `started`."""
        ...

    def share(self, seconds: float, operators: Sequence[int], work: Sequence[float]) -> Sequence[float]:
        """Seconds of each of several operators that took `seconds` in one call, by their work."""
        ...


class Shared:
    """Real clocks split the time of a joint call in proportion to the work of each operator."""

    def share(self, seconds: float, operators: Sequence[int], work: Sequence[float]) -> Sequence[float]:
        each = seconds / max(sum(work), 1)
        return [w * each for w in work]


class WallMeter(Shared):
    """Real time: a predicate that waits for a network costs its waiting."""

    def start(self) -> float:
        return perf_counter()

    def stop(self, started: float, operator: int, rows: int) -> float:
        return perf_counter() - started


class OwnMeter(Shared):
    """The predicate's own time: computing, and waiting it chose, but not the turns that other programs took.

    On a busy machine most of the scatter in real time comes from preemption. The kernel counts each thread's processor
    time and its voluntary context switches: with none, processor time is the cost; otherwise the predicate waited for
    something (a network, a disk), and real time is the cost.
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
    """Fixed seconds per row of a filter or per unit of work of a stem, independent of any clock.

    >>> RecordedMeter([1e-6, 5e-6]).stop(0.0, operator=1, rows=100)
    0.0005
    >>> RecordedMeter([1.0, 2.0]).share(99.0, [1, 0], [3, 4])
    [6.0, 4.0]
    """

    costs: Sequence[float]

    def start(self) -> float:
        return 0.0

    def stop(self, started: float, operator: int, rows: int) -> float:
        return self.costs[operator] * rows

    def share(self, seconds: float, operators: Sequence[int], work: Sequence[float]) -> Sequence[float]:
        return [self.costs[op] * w for op, w in zip(operators, work, strict=True)]


def now() -> float:
    """Real time in seconds from some moment on, to tell where it goes; no decision reads it."""
    return perf_counter()


def own_nanoseconds() -> int:
    """Processor time of this thread, for measuring prices."""
    return thread_time_ns()
