"""Index kernels: enter rows into hash and bit-address indexes, and move an index on with its window.

An index is a block of `links`: bucket heads, then for each row the next one of the same bucket, newest first.

Many parameters: a compiled kernel takes arrays, not objects.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import int64, njit

from thalweg.state.kernels.hashing import address, hash_keys, mix
from thalweg.state.kernels.layout import KEYS, LINKS, MATRIX, TIME, VECTOR, Ints, Links

AHEAD: Final = 64
"""Rows looked up or entered together, so their memory accesses overlap."""
FELL: Final = -(1 << 63) + 1
"""Returned by `extend_hash` and `extend_bits` if times do not only rise."""


@njit(int64(MATRIX, LINKS, int64, int64, int64, int64, int64, int64, MATRIX, int64), cache=True, nogil=True)
def extend_hash(
    cells: Ints, links: Links, start: int, first: int, last: int, head: int, chain: int, mask: int, pairs: Ints,
    latest: int,
) -> int:  # fmt: skip
    """Enter rows first..last, counted from `start`, in a hash index on the columns `pairs[:, 1]`.

    Returns the latest time entered, or FELL if times did not only rise from `latest` on. Computes the buckets
    of many rows before entering any, so their memory accesses overlap.
    """
    buckets = np.empty(AHEAD, np.int64)
    for begin in range(first, last, AHEAD):
        count = min(AHEAD, last - begin)
        if pairs.shape[0] == 1:
            for j in range(count):
                buckets[j] = head + (mix(cells[start + begin + j, pairs[0, 1]]) & mask)
        else:
            for j in range(count):
                buckets[j] = head + (hash_keys(cells, start + begin + j, pairs, 1) & mask)
        for j in range(count):
            r = begin + j
            links[chain + r] = links[buckets[j]]
            links[buckets[j]] = r
            latest = cells[start + r, TIME] if cells[start + r, TIME] >= latest and latest != FELL else FELL
    return latest


@njit(int64(MATRIX, LINKS, int64, int64, int64, int64, int64, VECTOR, int64), cache=True, nogil=True)
def extend_bits(
    cells: Ints, links: Links, start: int, first: int, last: int, head: int, chain: int, bits: Ints, latest: int
) -> int:
    """The same for a bit-address index: `bits[k]` bits of attribute k, the first attribute's highest."""
    for r in range(first, last):
        bucket, place = 0, 0
        for k in range(bits.shape[0] - 1, -1, -1):
            bucket |= address(cells[start + r, KEYS + k], bits[k], place)
            place += bits[k]
        links[chain + r] = links[head + bucket]
        links[head + bucket] = r
        latest = cells[start + r, TIME] if cells[start + r, TIME] >= latest and latest != FELL else FELL
    return latest


@njit((LINKS, int64, int64, int64, int64), cache=True, nogil=True)
def slide(links: Links, head: int, heads: int, rows: int, first: int) -> None:
    """Count the rows of an index from its row `first` on; cuts links to earlier rows. `rows` rows are left."""
    for h in range(head, head + heads):
        links[h] = max(links[h] - first, -1)
    chain = head + heads
    for r in range(chain, chain + rows):
        links[r] = max(links[r + first] - first, -1)
