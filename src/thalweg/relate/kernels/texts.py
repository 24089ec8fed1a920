"""Byte strings under numbers: equal strings have one number, and the bytes of all lie in one array.

Text k is `data[start[k] : start[k] + length[k]]`. The table is that of kernels/table.py, and so is removal.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, types, uint8

from thalweg.state.kernels.layout import READ_BYTES, READ_VECTOR, VECTOR, Bytes, Ints

BYTES = uint8[::1]


PAIR = types.UniTuple(int64, 2)  # type: ignore[no-untyped-call]


@njit(
    PAIR(READ_BYTES, READ_VECTOR, VECTOR, BYTES, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, int64, int64, VECTOR),
    cache=True,
    nogil=True,
)
def intern_texts(
    given: Bytes,
    offsets: Ints,
    hashes: Ints,
    data: Bytes,
    start: Ints,
    length: Ints,
    stored_hashes: Ints,
    table: Ints,
    free: Ints,
    top: int,
    used: int,
    numbers: Ints,
) -> tuple[int, int]:
    """Find or add each text; returns the new top of the free numbers and how many bytes are in use."""
    mask = table.shape[0] - 1
    for row in range(numbers.shape[0]):
        begin, size, h = offsets[row], offsets[row + 1] - offsets[row], hashes[row]
        at = h & mask
        while True:
            number = table[at] - 1
            if number < 0:
                top -= 1
                number = free[top]
                table[at] = number + 1
                start[number], length[number], stored_hashes[number] = used, size, h
                for b in range(size):
                    data[used + b] = given[begin + b]
                used += size
                break
            if stored_hashes[number] == h and length[number] == size:
                same, other = True, start[number]
                for b in range(size):
                    if data[other + b] != given[begin + b]:
                        same = False
                        break
                if same:
                    break
            at = (at + 1) & mask
        numbers[row] = number
    return top, used


@njit(BYTES(BYTES, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def gather_texts(data: Bytes, start: Ints, length: Ints, numbers: Ints, offsets: Ints) -> Bytes:
    """The bytes of texts one after another; a number below zero is an empty text. Writes where each begins."""
    offsets[0] = 0
    for row in range(numbers.shape[0]):
        offsets[row + 1] = offsets[row] + (length[numbers[row]] if numbers[row] >= 0 else 0)
    out = np.empty(offsets[numbers.shape[0]], np.uint8)
    for row in range(numbers.shape[0]):
        if numbers[row] >= 0:
            at, to = start[numbers[row]], offsets[row]
            for b in range(length[numbers[row]]):
                out[to + b] = data[at + b]
    return out


@njit(int64(VECTOR, VECTOR, int64, VECTOR), cache=True, nogil=True)
def count_holders(numbers: Ints, holders: Ints, change: int, gone: Ints) -> int:
    """Add to the holders of texts; writes those that no one holds any more, each once. Below zero is no text."""
    count = 0
    for row in range(numbers.shape[0]):
        if numbers[row] >= 0:
            holders[numbers[row]] += change
    for row in range(numbers.shape[0]):
        number = numbers[row]
        if number >= 0 and holders[number] == 0:
            holders[number] = -1  # marks it as written
            gone[count] = number
            count += 1
    for row in range(count):
        holders[gone[row]] = 0
    return count
