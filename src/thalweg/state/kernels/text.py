"""Text kernels: pick strings and bytes out of several Arrow arrays at once.

A piece is a line: the first row it holds, the address of its offsets (4 or 8 bytes each), of its bytes, of its validity
bits (0: no NULLs), and the bit of its first value. Measuring comes before copying, so the output is allocated once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import int64, njit, types

from thalweg.state.kernels.layout import MATRIX, READ_VECTOR, VECTOR, Ints
from thalweg.state.kernels.memory import load8, load32, load64, store8, store64

FIRST_ROW: Final = 0
OFFSETS: Final = 1
CONTENT: Final = 2
BITS: Final = 3
FIRST_BIT: Final = 4
PIECE: Final = 5

_valid = types.Array(types.boolean, 1, "C")


@njit(inline="always")
def piece_of(row: int, pieces: Ints, near: int) -> int:
    """The piece that holds a row; neighbours in the output often come from the same one."""
    count = pieces.shape[0]
    if pieces[near, FIRST_ROW] <= row and (near + 1 == count or row < pieces[near + 1, FIRST_ROW]):
        return near
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) >> 1
        if pieces[middle, FIRST_ROW] <= row:
            low = middle
        else:
            high = middle
    return low


@njit(int64(READ_VECTOR, MATRIX, int64, VECTOR, VECTOR, _valid), cache=True, nogil=True)
def measure(rows: Ints, pieces: Ints, width: int, ends: Ints, sources: Ints, valid: np.ndarray) -> int:
    """Where each value ends in the output and where it begins in memory. Returns the number of NULLs."""
    at, near, nulls = 0, 0, 0
    for k in range(rows.shape[0]):
        near = piece_of(rows[k], pieces, near)
        own = rows[k] - pieces[near, FIRST_ROW]
        known = True
        if pieces[near, BITS] != 0:
            bit = pieces[near, FIRST_BIT] + own
            known = load8(pieces[near, BITS] + (bit >> 3)) >> (bit & 7) & 1 == 1
        valid[k] = known
        nulls += not known
        if known:
            place = pieces[near, OFFSETS] + width * own
            first = load32(place) if width == 4 else load64(place)
            last = load32(place + 4) if width == 4 else load64(place + 8)
            sources[k] = pieces[near, CONTENT] + first
            at += last - first
        ends[k + 1] = at
    return nulls


@njit((VECTOR, VECTOR, int64), cache=True, nogil=True)
def copy_out(ends: Ints, sources: Ints, target: int) -> None:
    """Copy the bytes of all values, as `measure` placed them; NULLs have none."""
    for k in range(sources.shape[0]):
        source, at, end = sources[k], target + ends[k], target + ends[k + 1]
        while end - at >= 8:
            store64(at, load64(source))
            at, source = at + 8, source + 8
        while at < end:
            store8(at, load8(source))
            at, source = at + 1, source + 1
