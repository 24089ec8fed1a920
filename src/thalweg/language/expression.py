"""Vectorised expressions: a tree of plain values that evaluates itself over Arrow arrays.

Invariant: where a tree gives an answer it is Spark's (ANSI mode), three-valued logic and NaN (equal to itself, above
all else) included; where Spark would raise on a row (overflow, division by zero) it raises. The right side of AND,
OR, CASE and COALESCE is evaluated only for rows that reach it, if it calls functions or can raise.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from thalweg.errors import PredicateError
from thalweg.language.calls import Kind
from thalweg.language.functions import call

Datum = Any
"""A pa.Array, or a pa.Scalar that stands for all rows."""


class Unanswerable(Exception):
    """Spark would raise on one of these rows."""


class Frame:
    """Arrays by column, and a selection of their rows; columns are gathered when first asked for."""

    def __init__(self, arrays: Mapping[Any, pa.Array], rows: int, chosen: pa.Array | None = None) -> None:
        self._arrays = arrays
        self._chosen = chosen
        self._gathered: dict[Any, pa.Array] = {}
        self.rows = rows

    def column(self, key: Any) -> pa.Array:
        if key not in self._gathered:
            array = self._arrays[key]
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            self._gathered[key] = array if self._chosen is None else array.take(self._chosen)
        return self._gathered[key]

    def where(self, mask: NDArray[np.bool_]) -> Frame:
        rows = pa.array(np.flatnonzero(mask))
        chosen = rows if self._chosen is None else self._chosen.take(rows)
        return Frame(self._arrays, len(rows), chosen)

    def full(self, datum: Datum) -> pa.Array:
        """A scalar repeated for each row."""
        if isinstance(datum, pa.Scalar):
            return pa.repeat(datum, self.rows)
        return datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum


@dataclass(frozen=True)
class Expression:
    type: pa.DataType

    @cached_property
    def parts(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        for f in fields(self):
            value = getattr(self, f.name)
            found += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Expression)]
        return tuple(found)

    @cached_property
    def careful(self) -> bool:
        """Whether it calls functions or can raise, so that only rows that reach it may be evaluated."""
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
class As(Expression):
    """A cast that can't fail or lose anything, or fails where Spark's does."""

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
        """What a constant becomes, whatever the rows."""
        assert isinstance(self.of, Constant)
        return self._cast(pa.scalar(self.of.value, self.of.type))

    def _cast(self, datum: Datum) -> Datum:
        source, target = self.of.type, self.type
        if pt.is_null(source):
            return pa.scalar(None, target)
        if pt.is_boolean(target) and not pt.is_boolean(source):
            return pc.not_equal(datum, pa.scalar(0, source))
        inexact = pt.is_floating(target) or pt.is_date(target)
        return _answer(f"a value does not fit into {target}", lambda: pc.cast(datum, target, safe=not inexact))


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_integer(target):
        return bool(pt.is_boolean(source) or (pt.is_integer(source) and source.bit_width <= target.bit_width))
    if pt.is_decimal(target) and pt.is_integer(source):
        digits = {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width]
        return bool(target.precision - target.scale >= digits)
    return True


def _truncated(array: pa.Array, target: pa.DataType) -> pa.Array:
    valid, values = _numpy(array, 0)
    low, high = _limits(target)
    if not (valid <= ((np.floor(values) <= float(high)) & (np.ceil(values) >= float(low)))).all():
        raise Unanswerable(f"a value does not fit into {target}")
    saturated = values >= float(high)  # 2^63 itself passes Spark's test and becomes the largest bigint
    whole = np.where(saturated, 0, np.trunc(np.where(valid, values, 0))).astype(target.to_pandas_dtype())
    return _masked(np.where(saturated, high, whole).astype(target.to_pandas_dtype()), valid, target)


@dataclass(frozen=True)
class Compare(Expression):
    """A comparison of two values of one type; NaN equals itself and is above all other numbers."""

    op: Literal["=", "<>", "<", "<=", ">", ">="]
    left: Expression
    right: Expression

    def evaluate(self, frame: Frame) -> Datum:
        return _compare(self.op, self.left.evaluate(frame), self.right.evaluate(frame))


_COMPARE: dict[str, Callable[..., Datum]] = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


def _compare(op: str, left: Datum, right: Datum) -> Datum:
    if pt.is_boolean(left.type):
        left, right = pc.cast(left, pa.int8()), pc.cast(right, pa.int8())
    plain = _COMPARE[op](left, right)
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
    if isinstance(datum, pa.Scalar):
        return bool(datum.as_py())
    return bool(pc.any(datum).as_py())


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


def _truth(array: pa.Array, null: bool) -> NDArray[np.bool_]:
    """Booleans with NULL taken as given."""
    filled: NDArray[np.bool_] = pc.fill_null(array, null).to_numpy(zero_copy_only=False)
    return filled


def _where(frame: Frame, mask: NDArray[np.bool_], expression: Expression, otherwise: Any) -> pa.Array:
    """Evaluate only the masked rows; the others get `otherwise`."""
    if mask.all():
        return expression.array(frame)
    base = pa.repeat(pa.scalar(otherwise, expression.type), frame.rows)
    if not mask.any():
        return base
    return pc.replace_with_mask(base, pa.array(mask), expression.array(frame.where(mask)))


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
class IsNan(Expression):
    of: Expression

    def evaluate(self, frame: Frame) -> Datum:
        return pc.fill_null(pc.is_nan(self.of.evaluate(frame)), False)


@dataclass(frozen=True)
class In(Expression):
    """Among constants of its own type. A NULL among them makes NULL of what matches none."""

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
class Matches(Expression):
    """LIKE, as an anchored RE2 pattern."""

    of: Expression
    pattern: str

    def evaluate(self, frame: Frame) -> Datum:
        return pc.match_substring_regex(self.of.evaluate(frame), self.pattern)


@dataclass(frozen=True)
class Arithmetic(Expression):
    """+, -, * in one type. Integers raise on overflow; floating point follows IEEE 754, as on the JVM."""

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
        answer = _answer(f"{self.op} overflows {self.type}", lambda: kernel(left, right))
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
        valid, left = _numpy(self.left.array(frame), 0)
        valid_right, right = _numpy(self.right.array(frame), 1)
        valid = valid & valid_right
        if (valid & (right == 0)).any():
            raise Unanswerable("division by zero")
        right = np.where(right == 0, 1, right)
        with np.errstate(all="ignore"):
            if self.op == "/":
                return _masked(left / right, valid, self.type)
            if self.op == "%":
                return _masked(np.fmod(left, right).astype(left.dtype), valid, self.type)
            if (valid & (right == -1) & (left == np.iinfo(np.int64).min)).any():
                raise Unanswerable("DIV overflows bigint")
            quotient = left // right
            return _masked(quotient + ((quotient < 0) & (quotient * right != left)), valid, self.type)


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
        answer = _answer(f"{self.op} overflows {self.type}", lambda: kernel(datum))
        return answer if answer.type == self.type else pc.cast(answer, self.type)


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
    """The first of the values that is not NULL."""

    items: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Datum:
        result = pa.nulls(frame.rows, self.type)
        for item in self.items:
            open_rows = result.is_null().to_numpy(zero_copy_only=False)
            if not open_rows.any():
                break
            result = _placed(result, frame, open_rows, item)
        return result


def _placed(result: pa.Array, frame: Frame, mask: NDArray[np.bool_], value: Expression) -> pa.Array:
    if mask.all() and frame.rows:
        return value.array(frame)
    if not mask.any():
        return result
    return pc.replace_with_mask(result, pa.array(mask), value.array(frame.where(mask)))


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


@dataclass(frozen=True)
class Text(Expression):
    """A function of one text with fixed options."""

    op: str
    of: Expression
    options: tuple[Any, ...] = ()

    def evaluate(self, frame: Frame) -> Datum:
        array = self.of.array(frame)
        match self.op:
            case "upper" | "lower":
                if pc.all(pc.string_is_ascii(array)).as_py() is not False:
                    return pc.ascii_upper(array) if self.op == "upper" else pc.ascii_lower(array)
                # Arrow maps character by character; Java and Python also know ß → SS and the final sigma.
                change = str.upper if self.op == "upper" else str.lower
                return pa.array([None if v is None else change(v) for v in array.to_pylist()], pa.string())
            case "trim" | "ltrim" | "rtrim":
                kernel = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[self.op]
                return kernel(array, characters=" ")
            case "length":
                count = pc.binary_length(array) if pt.is_binary(array.type) else pc.utf8_length(array)
                return pc.cast(count, pa.int32())
            case "substring":
                return pc.utf8_slice_codeunits(array, start=self.options[0], stop=self.options[1])
            case "startswith":
                return pc.starts_with(array, pattern=self.options[0])
            case "endswith":
                return pc.ends_with(array, pattern=self.options[0])
            case _:
                return pc.match_substring(array, pattern=self.options[0])


@dataclass(frozen=True)
class Concat(Expression):
    """Texts one after the other; NULL if one of them is."""

    items: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Datum:
        return pc.binary_join_element_wise(*[i.array(frame) for i in self.items], "", null_handling="emit_null")


@dataclass(frozen=True)
class Call(Expression):
    """A Python function of the user."""

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
class Condition:
    """A condition as the engine calls it: arrays by column in, booleans or nulls out."""

    text: str
    condition: Expression

    def __call__(self, arrays: Mapping[Any, pa.Array]) -> pa.Array:
        rows = len(next(iter(arrays.values())))
        try:
            return self.condition.array(Frame(arrays, rows))
        except Unanswerable as error:
            raise PredicateError(f"{self.text}: {error}", hint="Spark raises here too; guard it with CASE") from None

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"


def _answer(what: str, kernel: Callable[[], Datum]) -> Datum:
    try:
        return kernel()
    except pa.ArrowInvalid:
        raise Unanswerable(what) from None


def _numpy(array: pa.Array, null: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which rows are valid, and the values with something harmless where they are not."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    filled = pc.fill_null(array, pa.scalar(null, array.type)) if array.null_count else array
    return valid, filled.to_numpy(zero_copy_only=False)


def _masked(values: NDArray[Any], valid: NDArray[np.bool_], type: pa.DataType) -> pa.Array:
    return pa.array(values, type, mask=~valid)


def _limits(type: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(type.to_pandas_dtype())
    return int(info.min), int(info.max)


def as_constant(expression: Expression, target: pa.DataType) -> Constant | None:
    """A constant in another type, where that is exact by Spark's rules."""
    if not isinstance(expression, Constant):
        return None
    value = expression.value
    if value is None or expression.type == target:
        return Constant(target, value)
    if pt.is_floating(target) and isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        return Constant(target, float(value))
    if pt.is_decimal(target) and isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        number = decimal.Decimal(value)
        _, digits, exponent = number.as_tuple()
        whole, fraction = len(digits) + int(exponent) if number else 0, -int(exponent)
        fits = fraction <= target.scale and whole <= target.precision - target.scale
        return Constant(target, number) if fits else None
    return None
