"""Kernels of a cache: find keys, expand rows by their cached combinations, pack combinations, create and grow entries.

A record is one combination of a segment's rows: newest time, first expiry, the key values that it adds, and the id of
each row (`state/ids.py`). An entry is a bucket of a table that points at consecutive records of the heap.
Thesis 5.4.1. Each kernel has a plain twin in the tests.

Many parameters: a compiled kernel takes arrays, not objects.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import int64, njit, types

from thalweg.state.kernels.hashing import mix
from thalweg.state.kernels.layout import EXPIRY, MATRIX, NEWEST, VECTOR, Ints
from thalweg.state.kernels.memory import copy, load64, store64

# Columns of a bucket.
COUNT: Final = 0
"""Records of its entry; -1 if the bucket is empty."""
AT: Final = 1
"""The first of them in the heap."""
SPACE: Final = 2
"""Records that fit there."""
KEY: Final = 3
"""First column of the key."""

# Columns of a member's line: where a row of one input of the segment is.
ID: Final = 0
"""The record's column with its id."""
NUMBER: Final = 1
"""The partial result's column with its row number."""
FIRST: Final = 2
"""Number of the first slice listed."""
BASE: Final = 3
"""Where its slices are listed in the starts."""
SLICES: Final = 4
"""How many are listed."""
EXPIRIES: Final = 5
"""Address of the column of expiries; 0 where the window does not count rows."""
MEMBER: Final = 6
"""Length of the line."""

# The heap's state.
NEXT: Final = 0
END: Final = 1
HEAP: Final = 2

SHIFT: Final = 32
POSITION: Final = (1 << 32) - 1
GONE: Final = -1
WAYS: Final = 4
"""Buckets in which a key may be. The thesis has one (5.4.1): two frequent keys that share it drive each other out."""
LEAST: Final = 4
"""Records for which an entry that grows gets space, at least."""

_pair = types.UniTuple(int64, 2)  # type: ignore[no-untyped-call]


@njit(inline="always")
def hash_key(keys: Ints, row: int) -> int:
    h = 0
    for k in range(keys.shape[1]):
        h = mix(h ^ keys[row, k])
    return h


@njit(inline="always")
def _same(keys: Ints, row: int, table: Ints, slot: int) -> bool:
    same = True
    for k in range(keys.shape[1]):
        same = same and table[slot, KEY + k] == keys[row, k]
    return same


@njit(inline="always")
def bucket(keys: Ints, row: int, h: int, table: Ints) -> int:
    """The bucket of a key; -1 if there is none."""
    first = h & (table.shape[0] - 1) & ~(WAYS - 1)
    for slot in range(first, first + WAYS):
        if table[slot, COUNT] >= 0 and _same(keys, row, table, slot):
            return slot
    return -1


@njit(inline="always")
def victim(h: int, table: Ints) -> int:
    """The bucket for a new key: an empty one of its set, else one by lot."""
    first = h & (table.shape[0] - 1) & ~(WAYS - 1)
    for slot in range(first, first + WAYS):
        if table[slot, COUNT] < 0:
            return slot
    return int(first + ((h >> 40) & (WAYS - 1)))


@njit(int64(MATRIX, MATRIX, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def find(keys: Ints, table: Ints, at: Ints, count: Ints, first: Ints) -> int:
    """Where the records of each key are, and how many; where the table has none, a count of -1 and the number of the key
    among the distinct ones that are missing. `first` lists the first row of each of these. Returns how many there are."""
    rows, width, missing = keys.shape[0], keys.shape[1], 0
    seen, wrap = np.empty(0, np.int64), 0
    for row in range(rows):
        h = hash_key(keys, row)
        slot = bucket(keys, row, h, table)
        if slot >= 0:
            at[row], count[row] = table[slot, AT], table[slot, COUNT]
            continue
        count[row] = -1
        if not missing:
            size = 4
            while size < 2 * (rows - row):
                size *= 2
            seen, wrap = np.full(size, -1, np.int64), size - 1
        place = (h >> 20) & wrap
        while True:
            g = seen[place]
            if g < 0:
                seen[place], first[missing], at[row] = missing, row, missing
                missing += 1
                break
            equal = True
            for k in range(width):
                if keys[first[g], k] != keys[row, k]:
                    equal = False
                    break
            if equal:
                at[row] = g
                break
            place = (place + 1) & wrap
    return missing


@njit(inline="always")
def place(id: int, members: Ints, m: int, starts: Ints) -> int:
    """Where a row is now; GONE if its slice was dropped."""
    slice = (id >> SHIFT) - members[m, FIRST]
    if slice < 0 or slice >= members[m, SLICES]:
        return int(GONE)
    start = starts[members[m, BASE] + slice]
    return GONE if start < 0 else int(start + (id & POSITION))


@njit(inline="always")
def _end(records: Ints, r: int, members: Ints, starts: Ints) -> int:
    """When a combination leaves its windows; less than any time if a row of it is gone."""
    end = records[r, EXPIRY]
    for m in range(members.shape[0]):
        row = place(records[r, members[m, ID]], members, m, starts)
        if row == GONE:
            return -(1 << 63)
        if members[m, EXPIRIES] != 0:
            end = min(end, load64(members[m, EXPIRIES] + 8 * row))
    return int(end)


@njit(
    _pair(MATRIX, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX, VECTOR, MATRIX, VECTOR), cache=True, nogil=True
)  # fmt: skip
def expand(
    partial: Ints, at: Ints, count: Ints, records: Ints, adds: Ints, members: Ints, starts: Ints, out: Ints,
    cursor: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Write each partial result once for each of its records that is in its windows: those of row r are `at[r]` to
    `at[r] + count[r]`, none if the count is negative. Goes on from `cursor` (row, record) until `out` is
    full; done once the row is past the last. Returns the lines written and the records looked at."""
    width, size, rows, most = partial.shape[1], 8 * partial.shape[1], partial.shape[0], out.shape[0]
    partial_at, out_at = np.int64(partial.ctypes.data), np.int64(out.ctypes.data)
    written, looked, row, k = 0, 0, cursor[0], cursor[1]
    while row < rows:
        newest, expiry = partial[row, NEWEST], partial[row, EXPIRY]
        while k < count[row]:
            if written == most:
                cursor[0], cursor[1] = row, k
                return written, looked
            r = at[row] + k
            k += 1
            looked += 1
            if records[r, NEWEST] > expiry or records[r, EXPIRY] < newest:
                continue
            end, target, inside = min(expiry, records[r, EXPIRY]), out_at + size * written, True
            copy(target, partial_at + size * row, width)
            for m in range(members.shape[0]):
                here = place(records[r, members[m, ID]], members, m, starts)
                if here == GONE:
                    inside = False
                    break
                if members[m, EXPIRIES] != 0:
                    end = min(end, load64(members[m, EXPIRIES] + 8 * here))
                store64(target + 8 * members[m, NUMBER], here)
            if not inside or end < max(newest, records[r, NEWEST]):
                continue
            store64(target + 8 * NEWEST, max(newest, records[r, NEWEST]))
            store64(target + 8 * EXPIRY, end)
            for c in range(adds.shape[0]):
                store64(target + 8 * adds[c, 1], records[r, adds[c, 0]])
            written += 1
        row, k = row + 1, 0
    cursor[0], cursor[1] = row, 0
    return written, looked


@njit((MATRIX, MATRIX, MATRIX, MATRIX, MATRIX), cache=True, nogil=True)
def pack(chunk: Ints, adds: Ints, members: Ints, slices: Ints, records: Ints) -> None:
    """Combinations as records. `slices` lists (member, start, number), sorted by both; a member whose row number is not
    one of a stored row has no slices there, and keeps it."""
    for r in range(chunk.shape[0]):
        records[r, NEWEST], records[r, EXPIRY] = chunk[r, NEWEST], chunk[r, EXPIRY]
        for c in range(adds.shape[0]):
            records[r, adds[c, 0]] = chunk[r, adds[c, 1]]
        for m in range(members.shape[0]):
            row = chunk[r, members[m, NUMBER]]
            id = row
            for s in range(slices.shape[0] - 1, -1, -1):
                if slices[s, 0] == m and slices[s, 1] <= row:
                    id = slices[s, 2] << SHIFT | row - slices[s, 1]
                    break
            records[r, members[m, ID]] = id


@njit(int64(MATRIX, MATRIX, VECTOR, MATRIX, MATRIX, VECTOR, int64), cache=True, nogil=True)
def create(keys: Ints, table: Ints, bounds: Ints, records: Ints, heap: Ints, state: Ints, begin: int) -> int:
    """Create the entries of keys from `begin` on: those of key g are records `bounds[g]` to `bounds[g + 1]`. What was in
    their buckets goes. Stops at the first key for which the heap has no space and returns it."""
    for g in range(begin, keys.shape[0]):
        need = bounds[g + 1] - bounds[g]
        if state[NEXT] + need > state[END]:
            return g
        slot = victim(hash_key(keys, g), table)
        table[slot, COUNT], table[slot, AT], table[slot, SPACE] = need, state[NEXT], need
        for k in range(keys.shape[1]):
            table[slot, KEY + k] = keys[g, k]
        for r in range(need):
            for c in range(records.shape[1]):
                heap[state[NEXT] + r, c] = records[bounds[g] + r, c]
        state[NEXT] += need
    return int(keys.shape[0])


@njit(
    int64(MATRIX, MATRIX, MATRIX, MATRIX, VECTOR, MATRIX, VECTOR, int64, int64, VECTOR), cache=True, nogil=True
)  # fmt: skip
def insert(
    keys: Ints, records: Ints, table: Ints, heap: Ints, state: Ints, members: Ints, starts: Ints, floor: int,
    begin: int, tally: Ints,
) -> int:  # fmt: skip
    """Add records to the entries of their keys, where there are any. An entry without space loses its dead records (out of
    their windows before `floor`), or moves. Stops at the first that can't move for want of space and returns it.
    `tally[0]` counts the records added."""
    width = records.shape[1]
    for n in range(begin, keys.shape[0]):
        slot = bucket(keys, n, hash_key(keys, n), table)
        if slot < 0:
            continue
        if table[slot, COUNT] == table[slot, SPACE]:
            at, kept = table[slot, AT], 0
            for r in range(at, at + table[slot, COUNT]):
                if _end(heap, r, members, starts) >= floor:
                    if r != at + kept:
                        for c in range(width):
                            heap[at + kept, c] = heap[r, c]
                    kept += 1
            table[slot, COUNT] = kept
            if 2 * kept >= table[slot, SPACE]:
                space = max(2 * table[slot, SPACE], LEAST)
                if state[NEXT] + space > state[END]:
                    return n
                for r in range(kept):
                    for c in range(width):
                        heap[state[NEXT] + r, c] = heap[at + r, c]
                table[slot, AT], table[slot, SPACE] = state[NEXT], space
                state[NEXT] += space
        r = table[slot, AT] + table[slot, COUNT]
        for c in range(width):
            heap[r, c] = records[n, c]
        table[slot, COUNT] += 1
        tally[0] += 1
    return int(keys.shape[0])


@njit((MATRIX, MATRIX), cache=True, nogil=True)
def rehash(old: Ints, table: Ints) -> None:
    """Move entries to a larger table."""
    width = old.shape[1]
    for slot in range(old.shape[0]):
        if old[slot, COUNT] >= 0:
            h = 0
            for k in range(KEY, width):
                h = mix(h ^ old[slot, k])
            target = victim(h, table)
            for c in range(width):
                table[target, c] = old[slot, c]
