"""Casts that give Spark's value or raise where Spark does."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from thalweg.language.scalar.arithmetic import filled
from thalweg.language.scalar.expression import Constant, Datum, Expression, Frame, Unanswerable, answered


@dataclass(frozen=True)
class As(Expression):
    of: Expression

    @cached_property
    def careful(self) -> bool:
        return self.of.careful or not _widens(self.of.type, self.type)

    def evaluate(self, frame: Frame) -> Datum:
        if self.of.type == self.type:
            return self.of.evaluate(frame)
        if pt.is_floating(self.of.type) and pt.is_integer(self.type):
            return _truncated(self.of.array(frame), self.type)
        return self._same if isinstance(self.of, Constant) else self._cast(self.of.evaluate(frame))

    @cached_property
    def _same(self) -> Datum:
        """The value of a constant, whatever the rows."""
        assert isinstance(self.of, Constant)
        return self._cast(pa.scalar(self.of.value, self.of.type))

    def _cast(self, datum: Datum) -> Datum:
        source, target = self.of.type, self.type
        if pt.is_null(source):
            return pa.scalar(None, target)
        if pt.is_boolean(target) and not pt.is_boolean(source):
            return pc.not_equal(datum, pa.scalar(0, source))
        inexact = pt.is_floating(target) or pt.is_date(target)
        return answered(f"a value does not fit into {target}", lambda: pc.cast(datum, target, safe=not inexact))


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_integer(target):
        return bool(pt.is_boolean(source) or (pt.is_integer(source) and source.bit_width <= target.bit_width))
    if pt.is_decimal(target) and pt.is_integer(source):
        return holds_integers(target, source)
    return True


def holds_integers(target: pa.Decimal128Type, source: pa.DataType) -> bool:
    """Whether a decimal has room for every value of an integer type."""
    digits = {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width]
    return bool(target.precision - target.scale >= digits)


def _truncated(array: pa.Array, target: pa.DataType) -> pa.Array:
    valid, values = filled(array, 0)
    kind = target.to_pandas_dtype()
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    if not (valid <= ((np.floor(values) <= float(high)) & (np.ceil(values) >= float(low)))).all():
        raise Unanswerable(f"a value does not fit into {target}")
    saturated = values >= float(high)  # 2^63 itself passes Spark's test and becomes the largest bigint
    whole = np.where(saturated, 0, np.trunc(np.where(valid, values, 0))).astype(kind)
    return pa.array(np.where(saturated, high, whole).astype(kind), target, mask=~valid)


def as_constant(expression: Expression, target: pa.DataType) -> Constant | None:
    """A constant in another type, if that is exact by Spark's rules."""
    if not isinstance(expression, Constant):
        return None
    value = expression.value
    if value is None or expression.type == target:
        return Constant(target, value)
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return None
    if pt.is_floating(target):
        return Constant(target, float(value))
    if pt.is_decimal(target):
        number = decimal.Decimal(value)
        _, digits, exponent = number.as_tuple()
        whole, fraction = len(digits) + int(exponent) if number else 0, -int(exponent)
        fits = fraction <= target.scale and whole <= target.precision - target.scale
        return Constant(target, number) if fits else None
    return None
