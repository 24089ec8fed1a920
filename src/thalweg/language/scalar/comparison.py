"""Comparisons of values of one type. NaN equals itself and is above all other numbers, as in Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from thalweg.language.scalar.expression import Datum, Expression, Frame

_KERNELS: dict[str, Callable[..., Datum]] = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Compare(Expression):
    op: Literal["=", "<>", "<", "<=", ">", ">="]
    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        return _compare(self.op, self.left.evaluate(frame), self.right.evaluate(frame))


@dataclass(frozen=True)
class NullSafeEqual(Expression):
    """`<=>`: like =, but NULL equals NULL and nothing else."""

    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        left, right = self.left.array(frame), self.right.array(frame)
        same = pc.fill_null(_compare("=", left, right), False)
        return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


@dataclass(frozen=True)
class In(Expression):
    """Membership in constants of its own type. If one of them is NULL, a value that matches none gives NULL."""

    of: Expression
    values: tuple[Any, ...]

    def evaluate(self, frame: Frame) -> Datum:
        array = self.of.array(frame)
        wanted = pa.array([v for v in self.values if v is not None], self.of.type)
        found = pc.is_in(array, value_set=wanted)
        unknown = pc.is_null(array)
        if None in self.values:
            unknown = pc.or_(unknown, pc.invert(found))
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


@dataclass(frozen=True)
class IsNan(Expression):
    of: Expression

    def evaluate(self, frame: Frame) -> Datum:
        return pc.fill_null(pc.is_nan(self.of.evaluate(frame)), False)


@dataclass(frozen=True)
class Extreme(Expression):
    """GREATEST and LEAST: NULLs are skipped."""

    op: Literal["<", ">"]
    items: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Datum:
        best = self.items[0].array(frame)
        for item in self.items[1:]:
            other = item.array(frame)
            better = pc.or_(pc.is_null(best), pc.fill_null(_compare(self.op, other, best), False))
            best = pc.if_else(pc.and_(better, pc.is_valid(other)), other, best)
        return best


def _compare(op: str, left: Datum, right: Datum) -> Datum:
    if pt.is_boolean(left.type):
        left, right = pc.cast(left, pa.int8()), pc.cast(right, pa.int8())
    plain = _KERNELS[op](left, right)
    if not pt.is_floating(left.type):
        return plain
    a, b = pc.is_nan(left), pc.is_nan(right)
    if not (_any(a) or _any(b)):
        return plain
    match op:
        case "=":
            return pc.or_(plain, pc.and_(a, b))
        case "<>":
            return pc.and_(plain, pc.invert(pc.and_(a, b)))
        case "<":
            return pc.or_(plain, pc.and_(b, pc.invert(a)))
        case "<=":
            return pc.or_(plain, b)
        case ">":
            return pc.or_(plain, pc.and_(a, pc.invert(b)))
        case _:
            return pc.or_(plain, a)


def _any(datum: Datum) -> bool:
    return bool(datum.as_py() if isinstance(datum, pa.Scalar) else pc.any(datum).as_py())
