"""A hash table of rows of 64-bit words: equal rows have one number, and the number of a removed row is used again.

Open addressing with linear probing; a removal moves later entries back, so there are no tombstones. `table` holds
number + 1, or 0 where it is empty; it must have more places than rows. `free` is a stack of unused numbers.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit

from thalweg.state.kernels.hashing import mix
from thalweg.state.kernels.layout import MATRIX, VECTOR, Ints


@njit(VECTOR(MATRIX), cache=True, nogil=True)
def hash_rows(words: Ints) -> Ints:
    out = np.empty(words.shape[0], np.int64)
    for row in range(words.shape[0]):
        h = 0
        for k in range(words.shape[1]):
            h = mix(h ^ words[row, k])
        out[row] = h
    return out


@njit(int64(MATRIX, VECTOR, MATRIX, VECTOR, VECTOR, VECTOR, int64, VECTOR), cache=True, nogil=True)
def intern_rows(
    words: Ints, hashes: Ints, stored: Ints, stored_hashes: Ints, table: Ints, free: Ints, top: int, numbers: Ints
) -> int:
    """Find or add each row; returns the new top of the stack of free numbers."""
    mask = table.shape[0] - 1
    for row in range(words.shape[0]):
        h = hashes[row]
        at = h & mask
        while True:
            number = table[at] - 1
            if number < 0:
                top -= 1
                number = free[top]
                table[at] = number + 1
                stored_hashes[number] = h
                for k in range(words.shape[1]):
                    stored[number, k] = words[row, k]
                break
            if stored_hashes[number] == h:
                same = True
                for k in range(words.shape[1]):
                    if stored[number, k] != words[row, k]:
                        same = False
                        break
                if same:
                    break
            at = (at + 1) & mask
        numbers[row] = number
    return top


@njit((VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def index_rows(numbers: Ints, hashes: Ints, table: Ints) -> None:
    """Put numbers that differ into an empty table."""
    mask = table.shape[0] - 1
    for k in range(numbers.shape[0]):
        at = hashes[numbers[k]] & mask
        while table[at] != 0:
            at = (at + 1) & mask
        table[at] = numbers[k] + 1


@njit(int64(VECTOR, VECTOR, VECTOR, VECTOR, int64), cache=True, nogil=True)
def remove_rows(numbers: Ints, hashes: Ints, table: Ints, free: Ints, top: int) -> int:
    """Remove numbers that differ; returns the new top of the stack of free numbers."""
    mask = table.shape[0] - 1
    for k in range(numbers.shape[0]):
        hole = hashes[numbers[k]] & mask
        while table[hole] != numbers[k] + 1:
            hole = (hole + 1) & mask
        at = (hole + 1) & mask
        while table[at] != 0:
            home = hashes[table[at] - 1] & mask
            if ((at - home) & mask) >= ((at - hole) & mask):
                table[hole] = table[at]
                hole = at
            at = (at + 1) & mask
        table[hole] = 0
        free[top] = numbers[k]
        top += 1
    return top
