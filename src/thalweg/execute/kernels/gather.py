"""The gathering kernel: all columns of some results at once, straight into the buffers that Arrow gets.

A line says what one column of a sheet takes: the column of a partial result that holds a row number, the address at
which the values of these rows begin, their width in bytes, and the address to write to. Without an address to read from
the number itself is written. Results come in blocks that fit the nearest cache, so each is read there once a column.
"""

from __future__ import annotations

from typing import Final

from numba import int64, njit, void

from thalweg.state.kernels.layout import MATRIX, Ints
from thalweg.state.kernels.memory import load8, load16, load32, load64, store8, store16, store32, store64

NUMBER: Final = 0
SOURCE: Final = 1
SIZE: Final = 2
TARGET: Final = 3
LINE: Final = 4
WIDTHS: Final = (1, 2, 4, 8, 16)
"""Widths of values that this kernel copies."""


@njit(void(MATRIX, MATRIX, int64), cache=True, nogil=True)
def gather(rows: Ints, lines: Ints, at: int) -> None:
    """Write the columns of partial results, the first one to place `at`."""
    count = rows.shape[0]
    for k in range(lines.shape[0]):
        number, source, width = lines[k, NUMBER], lines[k, SOURCE], lines[k, SIZE]
        target = lines[k, TARGET] + width * at
        if source == 0:
            for r in range(count):
                store64(target + 8 * r, rows[r, number])
        elif width == 8:
            for r in range(count):
                store64(target + 8 * r, load64(source + 8 * rows[r, number]))
        elif width == 4:
            for r in range(count):
                store32(target + 4 * r, load32(source + 4 * rows[r, number]))
        elif width == 1:
            for r in range(count):
                store8(target + r, load8(source + rows[r, number]))
        elif width == 2:
            for r in range(count):
                store16(target + 2 * r, load16(source + 2 * rows[r, number]))
        else:
            for r in range(count):
                value = source + 16 * rows[r, number]
                store64(target + 16 * r, load64(value))
                store64(target + 16 * r + 8, load64(value + 8))
