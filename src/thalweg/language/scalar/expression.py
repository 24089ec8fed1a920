"""Vectorised expressions: trees of plain values that evaluate themselves over Arrow arrays. Here are their leaves.

Invariant: where a tree gives an answer, it is Spark's answer in ANSI mode, including three-valued logic and NaN (equal
to itself and above all other numbers); where Spark would raise on a row (overflow, division by zero), it raises. AND,
OR, CASE and COALESCE evaluate an operand that calls functions or can raise only on the rows that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.errors import PredicateError
from thalweg.language.functions import Kind, call
from thalweg.language.scalar.kernels import PLAIN, WHOLE, Datum


class Unanswerable(Exception):
    """Spark would raise on one of these rows."""


class Frame:
    """Arrays by column and a selection of their rows; a column is gathered when it is first needed."""

    def __init__(self, arrays: Mapping[Any, pa.Array], rows: int, chosen: pa.Array | None = None) -> None:
        self._arrays = arrays
        self._chosen = chosen
        self._gathered: dict[Any, pa.Array] = {}
        self.rows = rows

    def column(self, key: Any) -> pa.Array:
        if key not in self._gathered:
            array = _whole(self._arrays[key])
            self._gathered[key] = array if self._chosen is None else array.take(self._chosen)
        return self._gathered[key]

    def where(self, mask: NDArray[np.bool_]) -> Frame:
        rows = pa.array(np.flatnonzero(mask))
        chosen = rows if self._chosen is None else self._chosen.take(rows)
        return Frame(self._arrays, len(rows), chosen)

    def full(self, datum: Datum) -> pa.Array:
        """An array with one value for each row."""
        return pa.repeat(datum, self.rows) if isinstance(datum, pa.Scalar) else _whole(datum)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


@dataclass(frozen=True)
class Expression:
    """A node of a tree; `type` is the type of its values."""

    type: pa.DataType

    @cached_property
    def parts(self) -> tuple[Expression, ...]:
        values = [getattr(self, f.name) for f in fields(self)]
        flat = (v for value in values for v in (value if isinstance(value, tuple) else (value,)))
        return tuple(v for v in flat if isinstance(v, Expression))

    def walk(self) -> Iterator[Expression]:
        """This node, and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @cached_property
    def careful(self) -> bool:
        """Whether it calls functions or can raise, so that it may see only the rows that reach it."""
        return any(p.careful for p in self.parts)

    def evaluate(self, frame: Frame) -> Datum:
        raise NotImplementedError

    def array(self, frame: Frame) -> pa.Array:
        return frame.full(self.evaluate(frame))


@dataclass(frozen=True)
class Field(Expression):
    """A column, in the type that Spark would see."""

    key: Any

    def evaluate(self, frame: Frame) -> Datum:
        array = frame.column(self.key)
        return array if array.type == self.type else array.cast(self.type)


@dataclass(frozen=True)
class Member(Expression):
    """A field of a struct."""

    of: Expression
    index: int

    def evaluate(self, frame: Frame) -> Datum:
        array = pc.struct_field(self.of.array(frame), self.index)
        return array if array.type == self.type else array.cast(self.type)


@dataclass(frozen=True)
class Constant(Expression):
    value: Any

    @cached_property
    def _scalar(self) -> pa.Scalar:
        return pa.scalar(self.value, self.type)

    def evaluate(self, frame: Frame) -> Datum:
        return self._scalar


@dataclass(frozen=True)
class Apply(Expression):
    """A plain kernel of its operands; `op` is its name in kernels.py."""

    op: str
    of: tuple[Expression, ...]
    options: tuple[Any, ...] = ()

    def evaluate(self, frame: Frame) -> Datum:
        if self.op in PLAIN:
            return PLAIN[self.op](*(e.evaluate(frame) for e in self.of), *self.options)
        return WHOLE[self.op](*(e.array(frame) for e in self.of), *self.options)


@dataclass(frozen=True)
class Call(Expression):
    """A call of a user's Python function."""

    name: str
    kind: Kind
    function: Callable[..., Any]
    arguments: tuple[Expression, ...]

    @cached_property
    def careful(self) -> bool:
        return True

    def evaluate(self, frame: Frame) -> Datum:
        arguments = [a.array(frame) for a in self.arguments]
        return call(self.name, self.kind, self.function, arguments, frame.rows, self.type)


@dataclass(frozen=True)
class Value:
    """An expression as the engine calls it: arrays by column in, one array out. `rows` is needed without columns."""

    text: str
    expression: Expression

    @property
    def type(self) -> pa.DataType:
        return self.expression.type

    def __call__(self, arrays: Mapping[Any, pa.Array], rows: int | None = None) -> pa.Array:
        rows = len(next(iter(arrays.values()))) if rows is None else rows
        try:
            return self.expression.array(Frame(arrays, rows))
        except Unanswerable as error:
            raise PredicateError(f"{self.text}: {error}", hint="Spark raises here too; guard it with CASE") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class Condition(Value):
    """A value that is true, false or NULL."""


def answered(what: str, kernel: Callable[[], Datum]) -> Datum:
    """What an Arrow kernel answers; Unanswerable where it refuses a value."""
    try:
        return kernel()
    except pa.ArrowInvalid:
        raise Unanswerable(what) from None
