"""Hashing: keys to 64 bits, keys to buckets, bytes to keys. Each has a plain twin in the tests."""

from __future__ import annotations

from numba import int64, njit

from thalweg.state.kernels.layout import BITS, HASH, KIND, MASK, READ_BYTES, READ_VECTOR, SHARES, VECTOR, Bytes, Ints


@njit(inline="always")
def mix(key: int) -> int:
    """Spread a key over 64 bits; a bijection."""
    h = key * -7046029254386353131
    h ^= (h >> 32) & 0xFFFFFFFF
    h *= -4658895280553007687
    return h ^ ((h >> 29) & 0x7FFFFFFFF)


@njit(inline="always")
def hash_keys(rows: Ints, row: int, pairs: Ints, side: int) -> int:
    """The hash of several keys of one row; `pairs[:, side]` are their columns."""
    h = 0
    for k in range(pairs.shape[0]):
        h = mix(h ^ rows[row, pairs[k, side]])
    return h


@njit(inline="always")
def address(key: int, bits: int, place: int) -> int:
    """The bits that one attribute gives to a bucket's number."""
    if bits == 0:
        return 0
    return ((mix(key) >> (64 - bits)) & ((1 << bits) - 1)) << place


@njit(inline="always")
def hash_bucket(rows: Ints, row: int, pairs: Ints, pair: int, pair_end: int, mask: int) -> int:
    """The bucket of a row's keys in a hash index of all of them; `pairs[pair:pair_end, 0]` are their columns."""
    h = 0
    for k in range(pair, pair_end):
        h = mix(h ^ rows[row, pairs[k, 0]])
    return h & mask


@njit(inline="always")
def bucket_of(rows: Ints, row: int, pairs: Ints, pair: int, pair_end: int, runs: Ints, s: int) -> int:
    """The bucket of a row's keys in any index; with zeros for the bits of attributes that it does not know."""
    if runs[s, KIND] == HASH:
        return hash_bucket(rows, row, pairs, pair, pair_end, runs[s, MASK])
    bucket = 0
    if runs[s, KIND] == BITS:
        for k in range(pair, pair_end):
            at = SHARES + 2 * (k - pair)
            bucket |= address(rows[row, pairs[k, 0]], runs[s, at], runs[s, at + 1])
        return bucket
    for k in range(pair, pair_end):
        if runs[s, SHARES + 2 * (k - pair)] != 0:
            bucket = mix(bucket ^ rows[row, pairs[k, 0]])
    return int(bucket & runs[s, MASK])


@njit((READ_BYTES, READ_VECTOR, VECTOR), cache=True, nogil=True)
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
