"""The keys of a match: numbers for equal keys of both sides. A key with a NULL has none; -1 stands for it.

For IN and NOT IN the last key is the comparison. A *pool* is then the rows that agree in the keys before it; a row
whose comparison is NULL belongs to a pool but has no key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.language.algebra import Match
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.state.keys import plain, plain_type, validity

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Keys:
    """One side's key columns to numbers in a dictionary that both sides share."""

    def __init__(self, node: Match, pairs: Sequence[tuple[str, str]]) -> None:
        self.names = ([a for a, _ in pairs], [b for _, b in pairs])
        schemas = (node.left.schema, node.right.schema)
        types = [common_type(schemas[0].field(a).type, schemas[1].field(b).type) for a, b in pairs]
        self.found = Dictionary(pa.schema([pa.field(str(k), t) for k, t in enumerate(types)]))

    def number(self, rows: pa.Table, side: int) -> Ints:
        columns: list[Any] = [plain(rows[name]) for name in self.names[side]]
        cast = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self.found.schema, strict=True)]
        known = np.ones(rows.num_rows, np.bool_)
        for column in cast:
            valid = validity(column)
            known &= True if valid is None else valid
        out = np.full(rows.num_rows, -1, np.int64)
        if known.all():
            return self.found.encode_columns(cast, rows.num_rows)
        which = pa.array(np.flatnonzero(known))
        out[known] = self.found.encode_columns([c.take(which) for c in cast], len(which))
        return out


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which keys of two types are compared."""
    left, right = plain_type(left), plain_type(right)
    t = pa.types
    if left == right:
        return left
    if t.is_integer(left) and t.is_integer(right):
        return pa.int64()
    numeric = [t.is_integer(x) or t.is_floating(x) for x in (left, right)]
    if all(numeric):
        return pa.float64()
    if t.is_decimal(left) and t.is_decimal(right):
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale)
        if digits + scale <= 38:
            return pa.decimal128(digits + scale, scale)
    texts = {pa.string(), pa.large_string(), pa.string_view()}
    if left in texts and right in texts:
        return pa.large_string()
    raise DefinitionError(
        f"keys of types {left} and {right} can't be compared", hint="cast one of them in the query to the other's type"
    )


def compared(left: pa.Array, right: pa.Array) -> tuple[Mask, Mask]:
    """The pairs of equal values, as Spark compares them, and those of which one is NULL."""
    dtype = common_type(left.type, right.type)
    both = [plain(a) if a.type == dtype else plain(a).cast(dtype) for a in (left, right)]
    found = Dictionary(pa.schema([("", dtype)]))
    numbers = [found.encode_columns([a], len(a)) for a in both]
    known = np.ones(len(left), np.bool_)
    for array in both:
        valid = validity(array)
        known &= True if valid is None else valid
    return (numbers[0] == numbers[1]) & known, ~known
