"""AND, OR, CASE and COALESCE. An operand that is `careful` is evaluated only on the rows that reach it in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.language.scalar.expression import Expression, Frame
from thalweg.language.scalar.kernels import Datum
from thalweg.language.scalar.types import BOOL

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Connect(Expression):
    op: Literal["and", "or"]
    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        kernel = pc.and_kleene if self.op == "and" else pc.or_kleene
        if not self.right.careful:
            return kernel(self.left.evaluate(frame), self.right.evaluate(frame))
        left = self.left.array(frame)
        decisive = self.op == "or"  # the left value that makes the right one irrelevant
        return kernel(left, _where(frame, _truth(left, null=not decisive) != decisive, self.right, decisive))


def connected(op: Literal["and", "or"], parts: Sequence[Expression]) -> Expression:
    """The parts connected from left to right, in a tree as flat as possible."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return Connect(BOOL, op, connected(op, parts[:half]), connected(op, parts[half:]))


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
