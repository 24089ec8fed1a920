"""Expressions that raise where Spark does: arithmetic, and casts.

Integers and decimals raise on overflow; floating point follows IEEE 754, as on the JVM.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from thalweg.language.scalar import decimals
from thalweg.language.scalar.expression import Constant, Expression, Frame, Unanswerable, answered
from thalweg.language.scalar.kernels import Datum

_KERNELS = {
    "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "minus": pc.negate_checked,
    "abs": pc.abs_checked,
}  # fmt: skip


@dataclass(frozen=True)
class Arithmetic(Expression):
    """+, - and *; unary minus and abs."""

    op: Literal["+", "-", "*", "minus", "abs"]
    of: tuple[Expression, ...]

    @cached_property
    def careful(self) -> bool:
        return not pt.is_floating(self.type) or any(p.careful for p in self.parts)

    def evaluate(self, frame: Frame) -> Datum:
        operands = [e.evaluate(frame) for e in self.of]
        if pt.is_date(self.type):
            operands = [pc.cast(o, pa.int32()) for o in operands]
        answer = answered(f"{self.op} overflows {self.type}", lambda: _KERNELS[self.op](*operands))
        return answer if answer.type == self.type else pc.cast(answer, self.type)


@dataclass(frozen=True)
class Divide(Expression):
    """/ in double, DIV in bigint, % in the common type; a zero divisor raises."""

    op: Literal["/", "div", "%"]
    left: Expression
    right: Expression

    @cached_property
    def careful(self) -> bool:
        return True

    def evaluate(self, frame: Frame) -> Datum:
        valid, left = _filled(self.left.array(frame), 0)
        valid_right, right = _filled(self.right.array(frame), 1)
        valid = valid & valid_right
        if (valid & (right == 0)).any():
            raise Unanswerable("division by zero")
        right = np.where(right == 0, 1, right)
        with np.errstate(all="ignore"):
            if self.op == "/":
                answer = left / right
            elif self.op == "%":
                answer = np.fmod(left, right).astype(left.dtype)
            elif (valid & (right == -1) & (left == np.iinfo(np.int64).min)).any():
                raise Unanswerable("DIV overflows bigint")
            else:
                quotient = left // right
                answer = quotient + ((quotient < 0) & (quotient * right != left))
        return pa.array(answer, self.type, mask=~valid)


def _filled(array: pa.Array, null: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which rows are valid, and the values, with something harmless where they are NULL."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(array, pa.scalar(null, array.type)) if array.null_count else array
    return valid, values.to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class As(Expression):
    """A cast."""

    of: Expression

    @cached_property
    def careful(self) -> bool:
        return self.of.careful or not _widens(self.of.type, self.type)

    def evaluate(self, frame: Frame) -> Datum:
        if self.of.type == self.type:
            return self.of.evaluate(frame)
        if pt.is_floating(self.of.type) and pt.is_integer(self.type):
            return _truncated(self.of.array(frame), self.type)
        datum, source, target = self.of.evaluate(frame), self.of.type, self.type
        if pt.is_null(source):
            return pa.scalar(None, target)
        if pt.is_boolean(target) and not pt.is_boolean(source):
            return pc.not_equal(datum, pa.scalar(0, source))
        if pt.is_decimal(source) or pt.is_decimal(target):
            return _of_decimals(frame.full(datum), target)
        inexact = pt.is_floating(target) or pt.is_date(target)
        return answered(f"a value does not fit into {target}", lambda: pc.cast(datum, target, safe=not inexact))


def _of_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A cast from or to a decimal."""
    if not pt.is_decimal(array.type):
        return decimals.to_decimal(array, target)
    if pt.is_decimal(target):
        return decimals.rescaled(array, target)
    if pt.is_integer(target):
        return decimals.to_integer(array, target)
    return decimals.to_double(array) if pt.is_floating(target) else decimals.to_text(array)


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_integer(target):
        return bool(pt.is_boolean(source) or (pt.is_integer(source) and source.bit_width <= target.bit_width))
    room = target.precision - target.scale if pt.is_decimal(target) else 0
    if pt.is_decimal(target) and pt.is_integer(source):
        return bool(room >= {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width])
    if pt.is_decimal(target) and pt.is_decimal(source):
        carry = target.scale < source.scale  # 9.9 becomes 10
        return bool(room >= source.precision - source.scale + carry)
    return not pt.is_decimal(target)


def _truncated(array: pa.Array, target: pa.DataType) -> pa.Array:
    valid, values = _filled(array, 0)
    kind = target.to_pandas_dtype()
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    values = values.astype(np.float64)  # in single precision the largest int is 2^31, which does not fit
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
    if pt.is_integer(target) and isinstance(value, int):
        return Constant(target, value) if -(limit := 2 ** (target.bit_width - 1)) <= value < limit else None
    if pt.is_decimal(target):
        number = decimal.Decimal(value)
        _, digits, exponent = number.as_tuple()
        whole, fraction = len(digits) + int(exponent) if number else 0, -int(exponent)
        fits = fraction <= target.scale and whole <= target.precision - target.scale
        return Constant(target, number) if fits else None
    return None
