"""Rows as 64-bit words: a layout turns columns into a matrix of words and back. Equal words are equal rows.

Values of fixed width are their own bits; texts, and lists and maps (pickled), are numbers in `Texts`; structs are their
fields. The last words have a bit for each value that is NULL; a NULL is zero elsewhere. With `grouping`, floats are
equal as Spark groups them: -0.0 becomes 0.0 and all NaN are one. Without it, every bit is kept.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.rows.texts import Texts
from thalweg.state.columns import to_arrow
from thalweg.state.keys import DIGITS, plain, plain_type, raw, validity

Ints = NDArray[np.int64]
Kind = Literal["null", "flag", "fixed", "float", "short", "wide", "text", "packed", "struct"]
BITS = 63
"""NULL bits in a word: all but the sign."""


@dataclass(frozen=True)
class Part:
    """A column, or a field of a struct: where its words begin and which bit says that it is NULL."""

    type: pa.DataType
    kind: Kind
    word: int
    bit: int
    fields: tuple[Part, ...] = ()


@dataclass
class Layout:
    """How the rows of a schema lie in words."""

    schema: pa.Schema
    grouping: bool
    parts: tuple[Part, ...] = field(init=False)
    texts: Ints = field(init=False)
    """The words that number texts: zero for none, else number + 1."""
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self._words = self._bits = 0
        self.parts = tuple(self._part(plain_type(f.type)) for f in self.schema)
        self._nulls = self._words
        self.width = self._words + -(-self._bits // BITS)
        self.texts = np.array([p.word for p in _leaves(self.parts) if p.kind in ("text", "packed")], np.int64)

    def _part(self, dtype: pa.DataType) -> Part:
        kind, words, bit = _kind(dtype), 1, self._bits
        self._bits += 1
        if kind == "struct":
            return Part(dtype, kind, -1, bit, tuple(self._part(plain_type(f.type)) for f in dtype))
        words = {"null": 0, "wide": dtype.bit_width // 64 if kind == "wide" else 0}.get(kind, 1)
        self._words += words
        return Part(dtype, kind, self._words - words, bit)

    # Columns to words

    def encode(self, columns: list[pa.Array], rows: int, texts: Texts) -> Ints:
        words = np.zeros((rows, self.width), np.int64)
        for part, column in zip(self.parts, columns, strict=True):
            self._write(part, plain(column), words, texts)
        return words

    def _write(self, part: Part, array: pa.Array, words: Ints, texts: Texts) -> None:
        valid = validity(array)
        if valid is not None:
            words[~valid, self._nulls + part.bit // BITS] |= np.int64(1 << part.bit % BITS)
        if part.kind == "struct":
            for inner, column in zip(part.fields, array.flatten(), strict=True):
                self._write(inner, plain(column), words, texts)
        elif part.kind == "wide":
            count = part.type.bit_width // 64
            cells = raw(array, np.dtype((np.int64, count)))
            words[:, part.word : part.word + count] = cells if valid is None else np.where(valid[:, None], cells, 0)
        elif part.kind != "null":
            cells = self._cells(part, array, texts)
            words[:, part.word] = cells if valid is None else np.where(valid, cells, 0)

    def _cells(self, part: Part, array: pa.Array, texts: Texts) -> NDArray[Any]:
        match part.kind:
            case "flag":
                return raw(array.cast(pa.uint8()), np.uint8)
            case "short":
                return raw(array, np.dtype((np.int64, 2)))[:, 0]
            case "text":
                return texts.numbers(_bytes(array)) + 1
            case "packed":
                return texts.numbers(pa.array([_packed(v) for v in array.to_pylist()], pa.large_binary())) + 1
            case "float" if self.grouping:
                values = raw(array, f"f{part.type.bit_width // 8}") + np.zeros(1, f"f{part.type.bit_width // 8}")
                values[np.isnan(values)] = np.nan
                return values.view(f"i{part.type.bit_width // 8}")
            case _:
                return raw(array, f"i{part.type.bit_width // 8}")

    # Words to columns

    def decode(self, words: Ints, texts: Texts) -> pa.Table:
        arrays = [self._read(part, words, texts) for part in self.parts]
        if not arrays:
            return pa.table({"": pa.nulls(len(words))}).select([])
        cast = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, self.schema, strict=True)]
        return pa.Table.from_arrays(cast, schema=self.schema)

    def _read(self, part: Part, words: Ints, texts: Texts) -> pa.Array:
        if part.kind == "null":
            return pa.nulls(len(words))
        valid = words[:, self._nulls + part.bit // BITS] & np.int64(1 << part.bit % BITS) == 0
        if part.kind == "struct":
            inner = [self._read(p, words, texts) for p in part.fields]
            if not inner:
                return pa.array([{} if v else None for v in valid.tolist()], part.type)
            return pa.StructArray.from_arrays(inner, fields=list(part.type), mask=pa.array(~valid))
        if part.kind in ("text", "packed"):
            offsets, data = texts.take(words[:, part.word] - 1)
            bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
            buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
            if part.kind == "text":
                return _from_bytes(len(words), buffers, part.type)
            packed = pa.Array.from_buffers(pa.large_binary(), len(words), buffers)
            return pa.array([None if v is None else pickle.loads(v) for v in packed.to_pylist()], part.type)
        if part.kind == "wide":
            count = part.type.bit_width // 64
            cells = np.ascontiguousarray(words[:, part.word : part.word + count]).view(f"V{8 * count}").reshape(-1)
            return to_arrow(part.type, cells, valid)
        cells = words[:, part.word]
        if part.kind == "short":
            return to_arrow(part.type, np.stack([cells, cells >> 63], axis=1).view("V16").reshape(-1), valid)
        dtype = np.bool_ if part.kind == "flag" else np.dtype(f"i{part.type.bit_width // 8}")
        return to_arrow(part.type, cells.astype(dtype), valid)


def _kind(t: pa.DataType) -> Kind:
    if pa.types.is_null(t):
        return "null"
    if pa.types.is_boolean(t):
        return "flag"
    if pa.types.is_floating(t):
        return "float"
    if pa.types.is_decimal128(t) and t.precision <= DIGITS:
        return "short"
    if pa.types.is_struct(t):
        return "struct"
    if _textual(t):
        return "text"
    if pa.types.is_primitive(t) or pa.types.is_decimal(t):
        return "fixed" if t.bit_width <= 64 else "wide"
    return "packed"


def _textual(t: pa.DataType) -> bool:
    kinds: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary,
        pa.types.is_fixed_size_binary, pa.types.is_string_view, pa.types.is_binary_view,
    )  # fmt: skip
    return any(kind(t) for kind in kinds) and not pa.types.is_decimal(t)


def _bytes(array: pa.Array) -> pa.Array:
    """As large_binary, whose NULLs are empty."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    array = array.cast(pa.large_binary())
    return array.fill_null(b"") if array.null_count else array


def _from_bytes(rows: int, buffers: list[Any], dtype: pa.DataType) -> pa.Array:
    text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)
    array = pa.Array.from_buffers(pa.large_string() if text else pa.large_binary(), rows, buffers)
    if array.type == dtype:
        return array
    if pa.types.is_fixed_size_binary(dtype):
        return pa.array(array.to_pylist(), dtype)
    return array.cast(dtype)


def _packed(value: Any) -> bytes | None:
    """Equal values give equal bytes: without `fast`, pickle refers back to objects that happen to be the same."""
    if value is None:
        return None
    sink = io.BytesIO()
    pickler = pickle.Pickler(sink, 5)
    pickler.fast = True
    pickler.dump(_normal(value))
    return sink.getvalue()


def _normal(value: Any) -> Any:
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {k: _normal(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_normal(v) for v in value)
    return value


def _leaves(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield from _leaves(part.fields) if part.kind == "struct" else (part,)
