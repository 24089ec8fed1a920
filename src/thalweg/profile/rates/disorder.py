"""Disorder: how far rows arrive behind the newest one, and so the lateness a stream needs.

A monitor, fed with times as they arrive. The thesis' ordered-arrival constraint (6.2) counts the same in rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.visits import Visits
from thalweg.plan.reason import Fact


class Disorder:
    """Counts rows that arrive after a newer one, and keeps the largest delay.

    >>> watch = Disorder("a")
    >>> watch.arrived(np.array([10, 12, 11, 20, 14]), None)
    >>> watch.found()
    {'rows': 5, 'behind': 2, 'farthest': 6}
    """

    name = "disorder"

    def __init__(self, alias: str = "") -> None:
        self.alias = alias
        self._newest: int | None = None
        self._rows = self._behind = self._farthest = 0

    def arrived(self, times: NDArray[np.int64], rows: pa.RecordBatch | None) -> None:
        if not len(times):
            return
        first = int(times[0]) if self._newest is None else self._newest
        newest = np.maximum.accumulate(np.concatenate([[first], times]))
        gaps = newest[1:] - times
        self._rows += len(times)
        self._behind += int(np.count_nonzero(gaps))
        self._farthest = max(self._farthest, int(gaps.max()))
        self._newest = int(newest[-1])

    def visited(self, visits: Visits) -> None:
        """Visits tell nothing about arrival times."""

    def found(self) -> dict[str, Fact]:
        """Rows seen, rows behind a newer one, and by how many ticks at most."""
        return {"rows": self._rows, "behind": self._behind, "farthest": self._farthest}

    def snapshot(self) -> dict[str, Any]:
        return {"newest": self._newest, "counts": [self._rows, self._behind, self._farthest]}

    def restore(self, record: dict[str, Any]) -> None:
        self._newest = record["newest"]
        self._rows, self._behind, self._farthest = record["counts"]
