"""Clocks for operators. Decisions read costs only through a meter, so recorded costs give reproducible decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol


class Meter(Protocol):
    def start(self) -> float: ...

    def stop(self, started: float, operator: int, rows: int) -> float:
        """Seconds that `operator` took for `rows` rows since `started`."""
        ...


class WallMeter:
    """Real time: what a predicate that waits for a network costs is waiting."""

    def start(self) -> float:
        return perf_counter()

    def stop(self, started: float, operator: int, rows: int) -> float:
        return perf_counter() - started


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
