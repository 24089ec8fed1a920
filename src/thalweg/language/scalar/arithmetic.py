"""Arithmetic in one type. Integers raise on overflow; floating point follows IEEE 754, as on the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from thalweg.language.scalar.expression import Datum, Expression, Frame, Unanswerable, answered


@dataclass(frozen=True)
class Arithmetic(Expression):
    op: Literal["+", "-", "*"]
    left: Expression
    right: Expression

    @cached_property
    def careful(self) -> bool:
        return not pt.is_floating(self.type) or any(p.careful for p in self.parts)

    def evaluate(self, frame: Frame) -> Datum:
        left, right = self.left.evaluate(frame), self.right.evaluate(frame)
        kernel = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}[self.op]
        if pt.is_date(self.type):
            days = kernel(pc.cast(left, pa.int32()), pc.cast(right, pa.int32()))
            return pc.cast(days, pa.date32())
        answer = answered(f"{self.op} overflows {self.type}", lambda: kernel(left, right))
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
        valid, left = filled(self.left.array(frame), 0)
        valid_right, right = filled(self.right.array(frame), 1)
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


@dataclass(frozen=True)
class Bits(Expression):
    op: Literal["&", "|", "^"]
    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        kernel = {"&": pc.bit_wise_and, "|": pc.bit_wise_or, "^": pc.bit_wise_xor}[self.op]
        return kernel(self.left.evaluate(frame), self.right.evaluate(frame))


@dataclass(frozen=True)
class Sign(Expression):
    """Unary minus and abs; the smallest integer raises."""

    op: Literal["-", "abs"]
    of: Expression

    @cached_property
    def careful(self) -> bool:
        return not pt.is_floating(self.type) or any(p.careful for p in self.parts)

    def evaluate(self, frame: Frame) -> Datum:
        kernel = pc.negate_checked if self.op == "-" else pc.abs_checked
        datum = self.of.evaluate(frame)
        answer = answered(f"{self.op} overflows {self.type}", lambda: kernel(datum))
        return answer if answer.type == self.type else pc.cast(answer, self.type)


def filled(array: pa.Array, null: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which rows are valid, and the values, with something harmless where they are NULL."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(array, pa.scalar(null, array.type)) if array.null_count else array
    return valid, values.to_numpy(zero_copy_only=False)
