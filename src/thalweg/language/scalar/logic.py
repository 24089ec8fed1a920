"""AND, OR, NOT, IS, CASE and COALESCE: three-valued logic, and choices between values.

Invariant: an operand that is `careful` is evaluated only on the rows that Spark would evaluate it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.language.scalar.expression import Datum, Expression, Frame

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class And(Expression):
    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        if not self.right.careful:
            return pc.and_kleene(self.left.evaluate(frame), self.right.evaluate(frame))
        left = self.left.array(frame)
        return pc.and_kleene(left, _where(frame, _truth(left, null=True), self.right, False))


@dataclass(frozen=True)
class Or(Expression):
    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        if not self.right.careful:
            return pc.or_kleene(self.left.evaluate(frame), self.right.evaluate(frame))
        left = self.left.array(frame)
        return pc.or_kleene(left, _where(frame, ~_truth(left, null=False), self.right, True))


@dataclass(frozen=True)
class Not(Expression):
    of: Expression

    def evaluate(self, frame: Frame) -> Datum:
        return pc.invert(self.of.evaluate(frame))


@dataclass(frozen=True)
class IsNull(Expression):
    of: Expression

    def evaluate(self, frame: Frame) -> Datum:
        return pc.is_null(self.of.evaluate(frame))


@dataclass(frozen=True)
class Is(Expression):
    """IS TRUE, IS FALSE: never NULL."""

    of: Expression
    value: bool

    def evaluate(self, frame: Frame) -> Datum:
        datum = self.of.evaluate(frame)
        return pc.fill_null(datum if self.value else pc.invert(datum), False)


@dataclass(frozen=True)
class Case(Expression):
    """The value of the first branch whose condition is true. All values have the type of the whole."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]
    otherwise: Expression

    def evaluate(self, frame: Frame) -> Datum:
        result = pa.nulls(frame.rows, self.type)
        open_rows = np.ones(frame.rows, np.bool_)
        for condition, value in zip(self.conditions, self.values, strict=True):
            here = open_rows & _truth(_where(frame, open_rows, condition, None), null=False)
            result = _placed(result, frame, here, value)
            open_rows &= ~here
        return _placed(result, frame, open_rows, self.otherwise)


@dataclass(frozen=True)
class Coalesce(Expression):
    """The first value that is not NULL."""

    items: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Datum:
        result = pa.nulls(frame.rows, self.type)
        for item in self.items:
            open_rows = result.is_null().to_numpy(zero_copy_only=False)
            if not open_rows.any():
                break
            result = _placed(result, frame, open_rows, item)
        return result


def _truth(array: pa.Array, null: bool) -> Mask:
    """Booleans, with NULL read as given."""
    filled: Mask = pc.fill_null(array, null).to_numpy(zero_copy_only=False)
    return filled


def _where(frame: Frame, mask: Mask, expression: Expression, otherwise: Any) -> pa.Array:
    """Evaluate only the masked rows; the others get `otherwise`."""
    if mask.all():
        return expression.array(frame)
    return _placed(pa.repeat(pa.scalar(otherwise, expression.type), frame.rows), frame, mask, expression)


def _placed(result: pa.Array, frame: Frame, mask: Mask, value: Expression) -> pa.Array:
    """The result with the masked rows replaced by the value there."""
    if mask.all() and frame.rows:
        return value.array(frame)
    if not mask.any():
        return result
    return pc.replace_with_mask(result, pa.array(mask), value.array(frame.where(mask)))
