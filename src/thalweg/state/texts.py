"""Columns that stay in Arrow: values for many rows at once, out of the pieces in which a column is stored.

Strings and bytes are copied by one kernel; lists and structs are taken by Arrow, piece by piece. Invariant: the same
array as Arrow's `take` on the concatenated pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.kernels import text as kernels

Ints = NDArray[np.int64]
ADDRESSED = (1 << 31) - 1
"""Size: bytes that offsets of 32 bits can address."""


def width_of(dtype: pa.DataType) -> int:
    """Bytes of an offset; 0 for types that are no text."""
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return 4
    return 8 if pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype) else 0


class Texts:
    """The pieces of one column, ready for the kernel: piece k holds the rows from `firsts[k]` on."""

    def __init__(self, dtype: pa.DataType, firsts: Sequence[int], pieces: Sequence[pa.Array]) -> None:
        self.type = dtype
        self.pieces = pieces
        """Kept, because the kernel reads them by address."""
        self._width = width_of(dtype)
        self._lines = np.array([self._line(f, p) for f, p in zip(firsts, pieces, strict=True)], np.int64)

    def _line(self, first: int, piece: pa.Array) -> tuple[int, ...]:
        bits, offsets, content = piece.buffers()
        return (
            first,
            0 if offsets is None else offsets.address + self._width * piece.offset,
            0 if content is None else content.address,
            0 if bits is None or not piece.null_count else bits.address,
            piece.offset,
        )

    def take(self, rows: Ints, most: float = math.inf) -> pa.Array:
        """Raises ArrowInvalid, before it copies anything, if the rows have more bytes of text than `most`."""
        if not len(rows) or not len(self._lines):
            return pa.nulls(0, self.type)
        ends, sources, valid = (
            np.zeros(len(rows) + 1, np.int64),
            np.empty(len(rows), np.int64),
            np.empty(len(rows), np.bool_),
        )
        nulls = kernels.measure(np.ascontiguousarray(rows), self._lines, self._width, ends, sources, valid)
        if nulls:
            sources[~valid] = 0
        total = int(ends[-1])
        if total > most or (self._width == 4 and total > ADDRESSED):
            raise pa.ArrowInvalid(f"{total} bytes of text do not fit into one array of {self.type}")
        content = np.empty(total, np.uint8)
        kernels.copy_out(ends, sources, content.__array_interface__["data"][0])
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        offsets = pa.py_buffer(ends.astype(np.int32) if self._width == 4 else ends)
        return pa.Array.from_buffers(self.type, len(rows), [bitmap, offsets, pa.py_buffer(content)], null_count=nulls)


class Pieces:
    """The pieces of a column of any other type."""

    def __init__(self, firsts: Sequence[int], pieces: Sequence[pa.Array]) -> None:
        self.pieces = pieces
        self._firsts = np.array(firsts, np.int64)

    def take(self, rows: Ints) -> pa.Array:
        piece = np.searchsorted(self._firsts, rows, side="right") - 1
        within = rows - self._firsts[piece]
        if (piece == piece[0]).all():
            return self.pieces[piece[0]].take(pa.array(within))
        by_piece = np.argsort(piece, kind="stable")
        cuts = np.flatnonzero(np.diff(piece[by_piece])) + 1
        parts = [self.pieces[piece[group[0]]].take(pa.array(within[group])) for group in np.split(by_piece, cuts)]
        back = np.empty(len(rows), np.int64)
        back[by_piece] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(back))
