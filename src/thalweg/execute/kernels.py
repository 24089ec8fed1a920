"""Numba kernels: arrays in, arrays out; the only loops over single tuples in the engine.

A partial result is one row of int64: newest time, first expiry, a value per key class, a row number per input. A stored
tuple is one row of `cells`: time, expiry (not before it), key values. An index is a block of `links`: bucket heads,
then for each row the next one of the same bucket, newest first. Invariant: a candidate is accepted iff all shared keys
are equal and newest time <= first expiry, so colliding buckets cost time, never correctness. Wildcard walks: AMRI,
section 4.1.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import int32, int64, njit, types, uint8
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Links = NDArray[np.int32]
Bytes = NDArray[np.uint8]

NEWEST: Final = 0
"""Column of a partial result or stored tuple: the newest time in it."""
EXPIRY: Final = 1
"""Column: the last moment at which all of it is still inside its windows."""
KEYS: Final = 2
"""First column of key values."""

# Columns of a run's line in the table of runs that a probe gets.
START: Final = 0
HEAD: Final = 1
NEXT: Final = 2
MASK: Final = 3
"""Hash layout: buckets less one, or -1 less the buckets where only some of the probe's attributes are hashed.
Bit-address layout: -1."""
WILD: Final = 4
"""Bit-address layout: the bits of the attributes that the probe does not know."""
FIRST_TIME: Final = 5
LAST_EXPIRY: Final = 6
FALLING: Final = 7
"""1 where expiries only fall along a chain, so that a walk ends at the first candidate that has expired."""
BITS: Final = 8
"""First of the pairs (bits, place) of each attribute that the probe knows; in a hash layout the first is 1 where the
attribute is hashed."""

# Where a probe stands: it stops when its buffer is full and goes on from here.
AT_ROW: Final = 0
AT_RUN: Final = 1
AT_WILD: Final = 2
AT_CANDIDATE: Final = 3
MATCHED: Final = 4
WORK: Final = 5
"""Buckets looked up and candidates examined so far."""
SURVIVORS: Final = 6
"""Rows with at least one match so far."""
TOUCHED: Final = 7
"""Of no meaning; keeps the compiler from leaving out loads that only warm the cache."""
CURSOR: Final = 8
"""Length of that record."""

AHEAD: Final = 64
"""Rows that are looked up together, so that the memory answers for many at once."""

BEGIN: Final = -2
"""AT_CANDIDATE of a bucket not looked up yet."""

FELL: Final = -(1 << 63) + 1
"""What `extend` returns where expiries do not only rise."""

_matrix = int64[:, ::1]
_vector = int64[::1]
_links = int32[::1]
# Buffers that came in a message must not be written to, and NumPy says so of arrays over them.
_read_bytes = types.Array(uint8, 1, "C", readonly=True)
_read_vector = types.Array(int64, 1, "C", readonly=True)


@njit(int64(int64), cache=True, nogil=True, inline="always")
def mix(key: int) -> int:
    """Spread a key over 64 bits; a bijection."""
    h = key * -7046029254386353131
    h ^= (h >> 32) & 0xFFFFFFFF
    h *= -4658895280553007687
    return h ^ ((h >> 29) & 0x7FFFFFFFF)


@njit(int64(_matrix, int64, _matrix, int64), cache=True, nogil=True, inline="always")
def hash_keys(rows: Ints, row: int, pairs: Ints, side: int) -> int:
    """The hash of several keys of one row; `pairs[:, side]` are their columns."""
    h = 0
    for k in range(pairs.shape[0]):
        h = mix(h ^ rows[row, pairs[k, side]])
    return h


@njit(int64(int64, int64, int64), cache=True, nogil=True, inline="always")
def address(key: int, bits: int, place: int) -> int:
    """The bits that one attribute gives to a bucket's number."""
    if bits == 0:
        return 0
    return ((mix(key) >> (64 - bits)) & ((1 << bits) - 1)) << place


@njit(int64(_matrix, int64, _matrix, _matrix, int64, int64), cache=True, nogil=True, inline="always")
def bucket_of(partial: Ints, row: int, pairs: Ints, runs: Ints, s: int, hashed: int) -> int:
    """The bucket of a probe in one run, with zeros for attributes it does not know."""
    if runs[s, MASK] >= 0:
        return int(hashed & runs[s, MASK])
    if runs[s, MASK] < -1:
        h = 0
        for k in range(pairs.shape[0]):
            if runs[s, BITS + 2 * k] != 0:
                h = mix(h ^ partial[row, pairs[k, 0]])
        return int(h & (-2 - runs[s, MASK]))
    bucket = 0
    for k in range(pairs.shape[0]):
        bucket |= address(partial[row, pairs[k, 0]], runs[s, BITS + 2 * k], runs[s, BITS + 2 * k + 1])
    return bucket


@njit(int64(_matrix, int64, int64, _matrix, _links, _matrix, _matrix, _matrix), cache=True, nogil=True)
def look_ahead(
    partial: Ints, first: int, last: int, cells: Ints, links: Links, runs: Ints, pairs: Ints, candidates: Ints
) -> int:
    """The first candidate in each run of rows first..last; touches it, so that it is near when it is needed."""
    touched = 0
    for s in range(runs.shape[0]):
        start, head, chain, mask = runs[s, START], runs[s, HEAD], runs[s, NEXT], runs[s, MASK]
        if mask >= 0:
            for i in range(first, last):
                candidates[i - first, s] = links[head + (hash_keys(partial, i, pairs, 0) & mask)]
        else:
            for i in range(first, last):
                candidates[i - first, s] = links[head + bucket_of(partial, i, pairs, runs, s, 0)]
        for i in range(first, last):
            r = max(candidates[i - first, s], 0)
            touched += cells[start + r, EXPIRY] + links[chain + r]
    return touched


@njit(int64(_matrix, _matrix, _links, _matrix, _matrix, _matrix, int64, _matrix, _vector), cache=True, nogil=True)
def probe(
    partial: Ints, cells: Ints, links: Links, runs: Ints, pairs: Ints, adds: Ints, number: int, out: Ints, cursor: Ints
) -> int:
    """Join partial results with a stem: write them, extended, to `out`, and how far it came to `cursor`.

    `pairs` are the shared keys (column of partial, column of cells), `adds` the keys that become known (column of
    cells, column of partial), `number` the column that takes the row number. Returns the rows written; done once
    `cursor[AT_ROW]` is the number of partial results.
    """
    written, room, width, keys, rows = 0, out.shape[0], out.shape[1], pairs.shape[0], partial.shape[0]
    work, survivors = cursor[WORK], cursor[SURVIVORS]
    s0, wild0, r0, matched = cursor[AT_RUN], cursor[AT_WILD], cursor[AT_CANDIDATE], cursor[MATCHED]
    candidates = np.empty((AHEAD, runs.shape[0]), np.int64)
    first, last = cursor[AT_ROW], cursor[AT_ROW]
    for i in range(cursor[AT_ROW], rows):
        if i == last:
            first, last = i, min(i + AHEAD, rows)
            cursor[TOUCHED] += look_ahead(partial, first, last, cells, links, runs, pairs, candidates)
        newest, expiry = partial[i, NEWEST], partial[i, EXPIRY]
        for s in range(s0, runs.shape[0]):
            if runs[s, LAST_EXPIRY] < newest or runs[s, FIRST_TIME] > expiry:
                continue
            start, head, chain, wild = runs[s, START], runs[s, HEAD], runs[s, NEXT], runs[s, WILD]
            falling = runs[s, FALLING] == 1
            bucket = bucket_of(partial, i, pairs, runs, s, 0) if wild != 0 else 0
            w = wild0
            while True:
                r = r0
                if r == BEGIN:
                    work += 1
                    r = candidates[i - first, s] if w == 0 else int64(links[head + (bucket | w)])
                while r >= 0:
                    row = start + r
                    end = cells[row, EXPIRY]
                    if end < newest and falling:
                        break
                    fits = end >= newest and cells[row, NEWEST] <= expiry
                    for k in range(keys):
                        fits &= cells[row, pairs[k, 1]] == partial[i, pairs[k, 0]]
                        if not fits:
                            break
                    if fits:
                        if written == room:
                            cursor[AT_ROW], cursor[AT_RUN], cursor[AT_WILD], cursor[AT_CANDIDATE] = i, s, w, r
                            cursor[MATCHED], cursor[WORK], cursor[SURVIVORS] = matched, work, survivors
                            return written
                        for c in range(width):
                            out[written, c] = partial[i, c]
                        out[written, NEWEST] = max(newest, cells[row, NEWEST])
                        out[written, EXPIRY] = min(expiry, end)
                        for k in range(adds.shape[0]):
                            out[written, adds[k, 1]] = cells[row, adds[k, 0]]
                        out[written, number] = row
                        written += 1
                        matched = 1
                    work += 1
                    r = int64(links[chain + r])
                r0 = BEGIN
                w = (w - wild) & wild
                if w == 0:
                    break
            wild0 = 0
        survivors += matched
        s0, matched = 0, 0
    cursor[AT_ROW], cursor[AT_RUN], cursor[AT_WILD], cursor[AT_CANDIDATE] = rows, 0, 0, BEGIN
    cursor[MATCHED], cursor[WORK], cursor[SURVIVORS] = 0, work, survivors
    return written


@njit(int64(_matrix, _matrix, _links, _matrix, _matrix, int64, _vector), cache=True, nogil=True)
def count(
    partial: Ints, cells: Ints, links: Links, runs: Ints, pairs: Ints,
    budget: int, matches: Ints,
) -> int:  # fmt: skip
    """Matches of each partial result, nothing written. Stops after the row that brings the work to `budget`.

    Rows not tried get -1. Returns the work done.
    """
    work = 0
    for i in range(partial.shape[0]):
        if work >= budget:
            matches[i] = -1
            continue
        newest, expiry = partial[i, NEWEST], partial[i, EXPIRY]
        hashed = hash_keys(partial, i, pairs, 0)
        found = 0
        for s in range(runs.shape[0]):
            if runs[s, LAST_EXPIRY] < newest or runs[s, FIRST_TIME] > expiry:
                continue
            start, head, chain, wild = runs[s, START], runs[s, HEAD], runs[s, NEXT], runs[s, WILD]
            falling = runs[s, FALLING] == 1
            bucket = bucket_of(partial, i, pairs, runs, s, hashed)
            w = 0
            while True:
                work += 1
                r = links[head + (bucket | w)]
                while r >= 0:
                    row = start + r
                    if cells[row, EXPIRY] < newest and falling:
                        break
                    work += 1
                    equal = max(newest, cells[row, NEWEST]) <= min(expiry, cells[row, EXPIRY])
                    for k in range(pairs.shape[0]):
                        if cells[row, pairs[k, 1]] != partial[i, pairs[k, 0]]:
                            equal = False
                            break
                    if equal:
                        found += 1
                    r = links[chain + r]
                w = (w - wild) & wild
                if w == 0:
                    break
        matches[i] = found
    return work


@njit(int64(_matrix, _links, int64, int64, int64, int64, int64, int64, _matrix, int64), cache=True, nogil=True)
def extend_hash(
    cells: Ints, links: Links, start: int, first: int, last: int, head: int, chain: int, mask: int, pairs: Ints,
    latest: int,
) -> int:  # fmt: skip
    """Enter rows first..last, counted from `start`, in a hash index on the columns `pairs[:, 1]`.

    Returns the latest expiry entered, or FELL if expiries did not only rise from `latest` on.
    """
    for r in range(first, last):
        bucket = hash_keys(cells, start + r, pairs, 1) & mask
        links[chain + r] = links[head + bucket]
        links[head + bucket] = r
        latest = cells[start + r, EXPIRY] if cells[start + r, EXPIRY] >= latest and latest != FELL else FELL
    return latest


@njit(int64(_matrix, _links, int64, int64, int64, int64, int64, _vector, int64), cache=True, nogil=True)
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
        latest = cells[start + r, EXPIRY] if cells[start + r, EXPIRY] >= latest and latest != FELL else FELL
    return latest


@njit((_read_bytes, _read_vector, _vector), cache=True, nogil=True)
def hash_bytes(data: Bytes, offsets: Ints, out: Ints) -> None:
    """A 64-bit hash of each byte string `data[offsets[i]:offsets[i + 1]]`, eight bytes at a time."""
    for i in range(out.shape[0]):
        at, end = offsets[i], offsets[i + 1]
        h = end - at
        while at < end:
            word = 0
            for b in range(min(8, end - at)):
                word |= int64(data[at + b]) << (8 * b)
            h = mix(h ^ word)
            at += 8
        out[i] = h
