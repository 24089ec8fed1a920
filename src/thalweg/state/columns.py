"""Columns carried along for residuals and results.

Fixed-width values live in NumPy arrays, where picking a few rows out of a window costs a few rows; everything else
(strings, lists, structs) stays in Arrow. Invariant: values come out as they went in, NULLs and types included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.keys import Mask, raw, validity
from thalweg.state.texts import Texts, width_of


def fixed_dtype(dtype: pa.DataType) -> np.dtype[Any] | None:
    """The NumPy type that holds one value, or None for types that stay in Arrow."""
    if pa.types.is_boolean(dtype):
        return np.dtype(np.bool_)
    if pa.types.is_primitive(dtype) or pa.types.is_decimal(dtype) or pa.types.is_fixed_size_binary(dtype):
        width = dtype.bit_width // 8
        if width in (1, 2, 4, 8):
            return np.dtype(f"u{width}")
        return np.dtype(f"V{width}") if width else None
    return None


@dataclass(frozen=True, slots=True)
class FixedValues:
    """A column of fixed-width values; `valid` is None if there are no NULLs."""

    type: pa.DataType
    values: NDArray[Any]
    valid: Mask | None

    def take(self, rows: NDArray[np.int64]) -> pa.Array:
        return to_arrow(self.type, self.values[rows], None if self.valid is None else self.valid[rows])


def read(array: pa.Array) -> FixedValues | pa.Array:
    """An Arrow array as the engine carries it."""
    dtype = fixed_dtype(array.type)
    if dtype is None:
        return array
    if dtype == np.bool_:
        return FixedValues(array.type, raw(array.cast(pa.uint8()), np.uint8).view(np.bool_), validity(array))
    return FixedValues(array.type, raw(array, dtype), validity(array))


def address(array: NDArray[Any]) -> int:
    """Where an array begins, for kernels."""
    return int(array.__array_interface__["data"][0])


def to_arrow(dtype: pa.DataType, values: NDArray[Any], valid: Mask | None) -> pa.Array:
    if valid is not None and valid.all():
        valid = None
    if values.dtype == np.bool_:
        return pa.array(values, mask=None if valid is None else ~valid)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(dtype, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])


def take(column: FixedValues | pa.Array, rows: NDArray[np.int64], most: float = math.inf) -> pa.Array:
    """Some values of a column; ArrowInvalid if they are more bytes of text than `most`."""
    if isinstance(column, FixedValues):
        return column.take(rows)
    return Texts(column.type, [0], [column]).take(rows, most) if width_of(column.type) else column.take(pa.array(rows))
