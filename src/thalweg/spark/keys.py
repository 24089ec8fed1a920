"""Grouping keys for cells that land in distinct partitions.

Spark puts an integer key into partition pmod(murmur3(key), partitions), so 0, 1, 2 may well share one. The key of a
cell depends only on its number and the number of partitions: cell 0 keeps its key when the number of cells changes, and
so notices the change.
"""

from __future__ import annotations


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an INT, signed.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    k = value & 0xFFFFFFFF
    k = k * 0xCC9E2D51 & 0xFFFFFFFF
    k = (k << 15 | k >> 17) & 0xFFFFFFFF
    k = k * 0x1B873593 & 0xFFFFFFFF
    h = seed ^ k
    h = (h << 13 | h >> 19) & 0xFFFFFFFF
    h = h * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def cell_keys(cells: int, partitions: int) -> list[int]:
    """A key for each cell; consecutive cells go to consecutive partitions.

    >>> keys = cell_keys(4, 4)
    >>> sorted(murmur3(k) % 4 for k in keys)
    [0, 1, 2, 3]
    """
    found: list[int] = []
    taken: set[int] = set()
    for cell in range(cells):
        candidate = 0
        while candidate in taken or murmur3(candidate) % partitions != cell % partitions:
            candidate += 1
        taken.add(candidate)
        found.append(candidate)
    return found
