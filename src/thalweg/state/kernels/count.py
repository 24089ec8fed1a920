"""Counting kernels: how many stored rows match, with an index or without, and how evenly bits split keys."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import int64, njit, types

from thalweg.state.kernels.hashing import bucket_of, mix
from thalweg.state.kernels.layout import (
    EXPIRY,
    FALLING,
    FIRST_TIME,
    HEAD,
    LAST_EXPIRY,
    LINKS,
    MATRIX,
    MEMBERS,
    NEWEST,
    NEXT,
    START,
    TIME,
    VECTOR,
    WILD,
    Ints,
    Links,
    end_of,
)  # fmt: skip

SLOT_BITS: Final = 10
"""Slots of a scan for the keys it looks for, as a power of 2: far more than keys, so most rows hit an empty slot."""


@njit(inline="always")
def same_keys(partial: Ints, i: int, cells: Ints, row: int, pairs: Ints) -> bool:
    """Whether a stored tuple agrees with every key that a partial result knows."""
    k = 0
    while k < pairs.shape[0] and cells[row, pairs[k, 1]] == partial[i, pairs[k, 0]]:
        k += 1
    return bool(k == pairs.shape[0])


class Seen(NamedTuple):
    """One member's view of a stem: its bit, its window's span, and a column of expiries if the window counts rows."""

    member: int
    span: int
    expiries: Ints


SEEN = types.NamedTuple((int64, int64, VECTOR), Seen)  # type: ignore[no-untyped-call]


@njit(int64(MATRIX, MATRIX, LINKS, MATRIX, MATRIX, SEEN, int64, VECTOR), cache=True, nogil=True)
def count(
    partial: Ints, cells: Ints, links: Links, runs: Ints, pairs: Ints, seen: Seen, budget: int, matches: Ints
) -> int:
    """Matches of each partial result, nothing written. Stops after the row that brings the work to `budget`.

    Rows not tried get -1. Returns the work done: buckets looked up, and candidates that had not expired.
    """
    work = 0
    for i in range(partial.shape[0]):
        if work >= budget:
            matches[i] = -1
            continue
        newest, expiry = partial[i, NEWEST], partial[i, EXPIRY]
        found = 0
        for s in range(runs.shape[0]):
            if runs[s, LAST_EXPIRY] < newest or runs[s, FIRST_TIME] > expiry:
                continue
            start, head, chain, wild = runs[s, START], runs[s, HEAD], runs[s, NEXT], runs[s, WILD]
            falling = runs[s, FALLING] == 1
            bucket = bucket_of(partial, i, pairs, 0, pairs.shape[0], runs, s)
            w = 0
            while True:
                work += 1
                r = links[head + (bucket | w)]
                while r >= 0:
                    row = start + r
                    if end_of(cells[row, TIME], seen.span, seen.expiries, row) < newest:
                        if falling:
                            break
                    else:
                        work += 1
                        if cells[row, TIME] <= expiry and cells[row, MEMBERS] & seen.member:
                            found += same_keys(partial, i, cells, row, pairs)
                    r = links[chain + r]
                w = (w - wild) & wild
                if w == 0:
                    break
        matches[i] = found
    return work


@njit(inline="always")
def _slot(key: int) -> np.uint64:
    """The slot of a key in a scan; cheaper than the hash of an index, because a scan computes it for every row."""
    return (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - SLOT_BITS)


@njit(int64(MATRIX, MATRIX, MATRIX, MATRIX, SEEN, int64, VECTOR), cache=True, nogil=True)
def scan(partial: Ints, cells: Ints, blocks: Ints, pairs: Ints, seen: Seen, budget: int, matches: Ints) -> int:
    """As `count`, without an index: scan the rows from `blocks[k, 0]` to `blocks[k, 1]` once, for one key or more.

    Returns the number of pairs (stored row, partial result) that agree on the keys and had not expired, or -1 if more
    than `budget` pairs had to be compared; `matches` is then meaningless.
    """
    heads = np.full(1 << SLOT_BITS, -1, np.int64)
    chain = np.empty(partial.shape[0], np.int64)
    known, stored = pairs[0, 0], pairs[0, 1]
    for i in range(partial.shape[0]):
        slot = _slot(partial[i, known])
        chain[i], heads[slot], matches[i] = heads[slot], i, 0
    met, compared = 0, 0
    for b in range(blocks.shape[0]):
        for row in range(blocks[b, 0], blocks[b, 1]):
            i = heads[_slot(cells[np.uint64(row), np.uint64(stored)])]
            while i >= 0:
                compared += 1
                if compared > budget:
                    return -1
                end = end_of(cells[row, TIME], seen.span, seen.expiries, row)
                if end >= partial[i, NEWEST] and same_keys(partial, i, cells, row, pairs):
                    met += 1
                    matches[i] += cells[row, TIME] <= partial[i, EXPIRY] and cells[row, MEMBERS] & seen.member != 0
                i = chain[i]
    return met


@njit((MATRIX, VECTOR, MATRIX), cache=True, nogil=True)
def agreement(keys: Ints, sizes: Ints, agree: Ints) -> None:
    """For each column of keys and 0 to agree.shape[1] - 1 bits of their hashes, how many ordered pairs of rows agree.

    `sizes` is room for a count of each value of the most bits.
    """
    fine = agree.shape[1] - 1
    for k in range(keys.shape[1]):
        sizes[:] = 0
        for row in range(keys.shape[0]):
            sizes[(mix(keys[row, k]) >> (64 - fine)) & ((1 << fine) - 1)] += 1
        for b in range(fine, -1, -1):
            pairs = 0
            for v in range(1 << b):
                pairs += sizes[v] * (sizes[v] - 1)
            agree[k, b] = pairs
            for v in range(1 << b >> 1):
                sizes[v] = sizes[2 * v] + sizes[2 * v + 1]
