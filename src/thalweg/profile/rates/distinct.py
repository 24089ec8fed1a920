"""How many distinct keys have come: a Bloom filter with one hash, read by linear counting.

The share of new keys among the rows is the share that a cache would miss, before there is one (thesis 5.5.3). Two keys
may set the same bit, so b of m bits stand for -m ln(1 - b/m) keys.
"""

from __future__ import annotations

from math import log

import numpy as np
from numba import int64, njit, uint8
from numpy.typing import NDArray

Ints = NDArray[np.int64]
ROWS = 1 << 15
"""Size: rows after which the filter begins again. Keys that come back later count as new."""
BITS = 8
"""Size: bits for each of these rows: at most one in sixteen keys shares its bit with another."""


@njit(int64(int64[:, ::1], uint8[::1]), cache=True, nogil=True)
def mark(keys: Ints, bits: NDArray[np.uint8]) -> int:
    """Set the bits of keys; returns how many were not set."""
    fresh, mask = 0, bits.shape[0] - 1
    for row in range(keys.shape[0]):
        h = 0
        for k in range(keys.shape[1]):
            h = (h ^ keys[row, k]) * -7046029254386353131
            h ^= (h >> 32) & 0xFFFFFFFF
        at = (h * -4658895280553007687 >> 17) & mask
        fresh += bits[at] == 0
        bits[at] = 1
    return int(fresh)


class DistinctKeys:
    """Counts distinct keys.

    >>> seen = DistinctKeys()
    >>> new, known = (seen.see(np.arange(1000).reshape(-1, 1)) for _ in range(2))
    >>> 980 < new < 1020, round(known)
    (True, 0)
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.bits = np.zeros(BITS * rows, np.uint8)
        self.seen = self.set = 0

    def see(self, keys: Ints) -> float:
        """How many of these keys are new, about."""
        if self.seen >= self.rows:
            self.bits[:] = 0
            self.seen = self.set = 0
        before = self._count()
        self.set += mark(keys, self.bits)
        self.seen += len(keys)
        return self._count() - before

    def _count(self) -> float:
        size = len(self.bits)
        return -size * log(1 - min(self.set, size - 1) / size)
