"""How kernels see rows: the columns of stored rows, partial results and runs.

A partial result is one row of int64: newest time, first expiry, a value per key class, a row number per input. A stored
row is one row of `cells`: time, members (a bit for each alias that may see it), key values. The probe decides when a
stored row expires: its time plus the span of the window, or a column of expiries if the window counts rows.
A run's line says where its index lies and which rows a probe can find there. Invariant: a candidate is accepted iff it
is a member, all shared keys are equal and newest time <= first expiry, so collisions cost time, never correctness.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import int32, int64, njit, types, uint8
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Links = NDArray[np.int32]
Bytes = NDArray[np.uint8]

CUBE = int64[:, :, ::1]
MATRIX = int64[:, ::1]
VECTOR = int64[::1]
LINKS = int32[::1]
# Arrays over buffers from a message are read-only.
READ_BYTES = types.Array(uint8, 1, "C", readonly=True)
READ_VECTOR = types.Array(int64, 1, "C", readonly=True)

FOREVER: Final = (1 << 63) - 1
"""Expiry of a row that never leaves its window, or whose expiry is still unknown; span of an unbounded window."""
ALWAYS: Final = -(1 << 63)
"""Time of a row without one (rows of tables)."""
SHIFT: Final = 32
"""Bits of a position in an id; the slice's number is above them."""
COUNTED: Final = -1
"""Span of a window that counts rows: a separate column has the expiries."""

NEWEST: Final = 0
"""Column of a partial result: the newest time in it."""
EXPIRY: Final = 1
"""Column of a partial result: the last moment at which all of it is still inside its windows."""
TIME: Final = 0
"""Column of a stored row."""
MEMBERS: Final = 1
"""Column of a stored row: a bit for each alias that may see it; 0 once evicted."""
KEYS: Final = 2
"""First column of key values."""

# Columns of a run's line in the table of runs that a probe gets.
START: Final = 0
"""The arena row from which the index counts."""
HEAD: Final = 1
"""Where the bucket heads begin in the links."""
NEXT: Final = 2
"""Where the chains begin."""
KIND: Final = 3
"""HASH, SOME or BITS."""
MASK: Final = 4
"""Buckets less one."""
WILD: Final = 5
"""BITS: the bits of the attributes that the probe does not know."""
FIRST_TIME: Final = 6
LAST_EXPIRY: Final = 7
FALLING: Final = 8
"""1 if times only fall along a chain, so a walk ends at the first expired candidate."""
HASHED: Final = 9
"""Attributes of a probe that are hashed."""
SHARES: Final = 10
"""First of the pairs (bits, place) of each attribute that the probe knows; SOME: the first is 1 where it is hashed."""

HASH: Final = 0
"""Kind of index: a hash of all attributes that the probe knows."""
SOME: Final = 1
"""Kind: a hash of some of them."""
BITS: Final = 2
"""Kind: bit addresses, some bits of each attribute (AMRI, section 4.1)."""


@njit((READ_VECTOR, READ_VECTOR, MATRIX, VECTOR, int64, MATRIX), cache=True, nogil=True)
def lay_out(times: Ints, expiries: Ints, codes: Ints, columns: Ints, number: int, partial: Ints) -> None:
    """Write tuples as partial results of one tuple each: `codes[k]` to `columns[k]`, row numbers to `number`."""
    for row in range(partial.shape[0]):
        partial[row, NEWEST], partial[row, EXPIRY], partial[row, number] = times[row], expiries[row], row
        for k in range(columns.shape[0]):
            partial[row, columns[k]] = codes[k, row]


@njit(MATRIX(MATRIX, VECTOR), cache=True, nogil=True)
def narrowed(rows: Ints, columns: Ints) -> Ints:
    """Some columns."""
    out = np.empty((rows.shape[0], columns.shape[0]), np.int64)
    for row in range(rows.shape[0]):
        for k in range(columns.shape[0]):
            out[row, k] = rows[row, columns[k]]
    return out


@njit(types.UniTuple(int64, 2)(MATRIX), cache=True, nogil=True)  # type: ignore[no-untyped-call]
def time_range(cells: Ints) -> tuple[int, int]:
    """The first and the last time of stored rows."""
    first, last = FOREVER, ALWAYS
    for row in range(cells.shape[0]):
        first, last = min(first, cells[row, TIME]), max(last, cells[row, TIME])
    return first, last


@njit(inline="always")
def end_of(time: int, span: int, expiries: Ints, row: int) -> int:
    """When a stored row leaves a window."""
    if span == FOREVER:
        return FOREVER
    return expiries[row] if span == COUNTED else time + span
