"""Grouping keys for cells that land in distinct partitions.

Spark puts an integer key into partition pmod(murmur3(key), partitions), so 0, 1, 2 may well share one. Keys depend
only on the number of cells, so a session with another number of partitions still finds the state. Cell 0 always has the
same key, and so notices when the number of cells changes.
"""

from __future__ import annotations

FIRST = 0
"""The key of the first cell, under every cut: it tells what all cells would tell."""


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


def cell_keys(cells: int) -> list[int]:
    """A key for each cell; keys fall into distinct partitions if there are exactly enough, or a multiple.

    >>> keys = cell_keys(4)
    >>> keys[0], sorted(murmur3(k) % 4 for k in keys)
    (0, [0, 1, 2, 3])
    """
    found, taken = [0], {murmur3(0) % cells}
    candidate = 0
    while len(found) < cells:
        candidate += 1
        if murmur3(candidate) % cells not in taken:
            taken.add(murmur3(candidate) % cells)
            found.append(candidate)
    return found


def tasks(cells: int, partitions: int) -> int:
    """The number of a shuffle's tasks that have a cell to run."""
    return len({murmur3(k) % partitions for k in cell_keys(cells)})
