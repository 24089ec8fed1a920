"""Key values as 64-bit integers.

Integers, dates, times, booleans, floats and decimals of up to 18 digits are their own code: equal codes are equal
values. Everything else is hashed, and `same` compares the true values where a result is made. NULL has no code: it
never joins. Floats compare as in Spark: -0.0 equals 0.0, and NaN equals NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.state.kernels.hashing import hash_bytes

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]
DIGITS = len(str(np.iinfo(np.int64).max)) - 1
"""Decimals of at most this many digits fit into 64 bits."""


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without chunks and dictionaries."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 1:
            array = array.chunk(0)
        else:
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def plain_type(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def raw(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """The values of a fixed-width array in NumPy; those under a NULL are arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array) + array.offset)[array.offset :]


def validity(array: pa.Array) -> Mask | None:
    """Mask of the non-NULL values; None if there are no NULLs."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True)
class KeyCoder:
    """Turns the columns of one key class into codes.

    >>> coder = KeyCoder(pa.float64())
    >>> codes, valid = coder.code(pa.array([0.0, -0.0, None]))
    >>> bool(codes[0] == codes[1]), valid.tolist()
    (True, [True, True, False])
    """

    type: pa.DataType

    @property
    def exact(self) -> bool:
        """Whether equal codes imply equal values."""
        t = self.type
        if pa.types.is_decimal(t):
            return bool(pa.types.is_decimal128(t) and t.precision <= DIGITS)
        return bool(pa.types.is_primitive(t) or pa.types.is_null(t))

    def typed(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The column, cast to the type in which the class compares."""
        array = plain(array)
        if array.type == self.type:
            return array
        try:
            # As in Spark, an integer compared with a double becomes the nearest double.
            return array.cast(self.type, safe=not pa.types.is_floating(self.type))
        except pa.ArrowInvalid as error:
            raise DefinitionError(
                f"a join key of type {array.type} can't be compared as {self.type}: {error}",
                hint="cast the column in the query to the type you mean",
            ) from error

    def code(self, array: pa.Array | pa.ChunkedArray) -> tuple[Codes, Mask | None]:
        """A code for each value, and which values have one (None: all)."""
        array = self.typed(array)
        return self._codes(array), validity(array)

    def _codes(self, array: pa.Array) -> Codes:
        t = array.type
        if pa.types.is_null(t):
            return np.zeros(len(array), np.int64)
        if pa.types.is_boolean(t):
            return raw(array.cast(pa.uint8()), np.uint8).astype(np.int64)
        if pa.types.is_floating(t):
            values = raw(array.cast(pa.float64()), np.float64) + 0.0  # -0.0 becomes 0.0
            values[np.isnan(values)] = np.nan
            return values.view(np.int64)
        if pa.types.is_decimal128(t) and t.precision <= DIGITS:
            return np.ascontiguousarray(raw(array, np.dtype((np.int64, 2)))[:, 0])
        if pa.types.is_primitive(t) and not pa.types.is_decimal(t):
            sign = "u" if pa.types.is_unsigned_integer(t) else "i"
            values = raw(array, f"{sign}{t.bit_width // 8}")
            return values.view(np.int64) if t.bit_width == 64 else values.astype(np.int64)
        return hash_values(array)

    def same(self, left: pa.Array, right: pa.Array) -> Mask:
        """The pairs whose values are truly equal, for classes with inexact codes."""
        left, right = self.typed(left), self.typed(right)
        if pa.types.is_nested(self.type):
            pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
            return np.array([canonical(a) == canonical(b) for a, b in pairs], np.bool_)
        return np.asarray(pc.equal(left, right).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def hash_values(array: pa.Array) -> Codes:
    """Hashes of strings, bytes, long decimals and nested values."""
    t = array.type
    if pa.types.is_nested(t):
        array = pa.array([repr(canonical(v)) for v in array.to_pylist()], pa.large_string())
        t = array.type
    out = np.empty(len(array), np.int64)
    if not len(array):
        return out
    if pa.types.is_decimal(t) or pa.types.is_fixed_size_binary(t):
        width = t.bit_width // 8
        data = raw(array, np.dtype((np.uint8, width))).reshape(-1)
        offsets = np.arange(len(array) + 1, dtype=np.int64) * width
    else:
        array = array.cast(pa.large_binary())
        offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + array.offset + 1)[array.offset :]
        content = array.buffers()[2]
        data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(0, np.uint8)
    hash_bytes(np.ascontiguousarray(data), np.ascontiguousarray(offsets), out)
    return out


def canonical(value: Any) -> Any:
    """A nested value in a form that is equal, and prints the same, exactly when Spark calls it equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((k, canonical(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(canonical(v) for v in value)
    return value
