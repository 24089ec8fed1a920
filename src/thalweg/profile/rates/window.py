"""The profile window: the newest sampled tuples that some filter drops, with a bit for each filter (thesis 4.3.1).

`bits[t, f]` is 1 iff filter f drops tuple t. Tuples that pass everything are only counted: they add nothing to any drop
count, but the cost of an order needs their number. Filters are numbered as in the pipeline, not by place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import DROPPED

Bits = NDArray[np.uint8]


class ProfileWindow:
    """A sliding window of drop vectors, oldest first.

    >>> window = ProfileWindow(filters=2, size=3)
    >>> inserted, expired = window.push(np.array([[0, 1], [1, 1], [1, 1], [1, 0]], np.int8))
    >>> window.bits.tolist(), window.passed
    ([[1, 0], [0, 1]], 2)
    """

    def __init__(self, filters: int, size: int) -> None:
        self.size = size
        self.bits: Bits = np.zeros((0, filters), np.uint8)
        self._passed_before: NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def passed(self) -> int:
        """Sampled tuples of this window's span that no filter drops."""
        return int(self._passed_before.sum()) + self._tail

    _tail = 0

    def push(self, passed: NDArray[np.int8]) -> tuple[Bits, Bits]:
        """Log sampled tuples (pass bits as in Journey); returns the drop vectors that came and those that expired."""
        drops = (passed == DROPPED).astype(np.uint8)
        logged = drops.any(axis=1)
        counts = (
            np.diff(np.flatnonzero(np.concatenate([[True], logged]))) - 1 if logged.any() else np.zeros(0, np.int64)
        )
        new = drops[logged]
        if len(new):
            counts[0] += self._tail
            self._tail = int(len(drops) - 1 - np.flatnonzero(logged)[-1])
        else:
            self._tail += len(drops)
        bits = np.concatenate([self.bits, new])
        before = np.concatenate([self._passed_before, counts])
        over = max(0, len(bits) - self.size)
        self.bits, self._passed_before = bits[over:], before[over:]
        return new, bits[:over]

    def keep_newest(self, count: int) -> None:
        """Keep only the newest tuples, after a change."""
        start = max(0, len(self.bits) - count)
        self.bits, self._passed_before = self.bits[start:], self._passed_before[start:]
        if not len(self.bits):
            self._tail = 0

    def cost(self, order: Sequence[int], costs: NDArray[np.float64]) -> float:
        """Mean cost per tuple of an order, on the tuples of this window (equation 4.1 on the sample)."""
        each = self.costs(order, costs)
        total = len(each) + self.passed
        return float((each.sum() + self.passed * costs.sum()) / total) if total else float("nan")

    def costs(self, order: Sequence[int], costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cost of each logged tuple under an order: all filters through the first that drops it."""
        each: NDArray[np.float64] = np.cumsum(costs[list(order)])[self._dropped_at(order)]
        return each

    def met(self, order: Sequence[int]) -> NDArray[np.int64]:
        """The number of logged tuples that meet each filter under an order."""
        dropped = np.bincount(self._dropped_at(order), minlength=len(order))
        met = np.zeros(len(order), np.int64)
        met[list(order)] = np.cumsum(dropped[::-1])[::-1]
        return met

    def after(self, visited: Collection[int]) -> tuple[int, NDArray[np.int64]]:
        """The number of sampled tuples that pass all of these filters, and how many of those each filter drops."""
        left = self.bits[~self.bits[:, list(visited)].any(axis=1)] if visited else self.bits
        return len(left) + self.passed, left.sum(axis=0, dtype=np.int64)

    def _dropped_at(self, order: Sequence[int]) -> NDArray[np.int64]:
        """The place at which each logged tuple is dropped."""
        place: NDArray[np.int64] = self.bits[:, list(order)].argmax(axis=1)
        return place

    def snapshot(self) -> dict[str, Any]:
        packed = np.packbits(self.bits, axis=None).tobytes().hex()
        return {"rows": len(self.bits), "bits": packed, "before": self._passed_before.tolist(), "tail": self._tail}

    def restore(self, record: dict[str, Any]) -> None:
        rows, filters = record["rows"], self.bits.shape[1]
        flat = np.unpackbits(np.frombuffer(bytes.fromhex(record["bits"]), np.uint8))[: rows * filters]
        self.bits = flat.reshape(rows, filters).astype(np.uint8)
        self._passed_before = np.array(record["before"], np.int64)
        self._tail = record["tail"]
