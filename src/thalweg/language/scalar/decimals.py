"""Decimals as Spark computes them: the type of a result, rounding half away from zero, and overflow that raises.

Sums and products that keep their scale are Arrow's, in 256 bits where 128 may not do. Whatever is rounded (quotients,
results that need more than 38 digits) is computed on Python's integers, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from thalweg.language.scalar.expression import Expression, Frame, Unanswerable, answered
from thalweg.language.scalar.kernels import Datum
from thalweg.language.scalar.types import MAX_PRECISION

Operator = Literal["+", "-", "*", "/", "%"]
Fixed: TypeAlias = pa.Decimal128Type
_KERNELS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_WIDEST = 76
"""Digits of Arrow's widest decimal."""
_JAVA_DIGITS = MAX_PRECISION + 1
"""Digits of Spark's MathContext."""
_QUOTIENT_SCALE = MAX_PRECISION + 1
"""Spark rounds a quotient to this many digits after the point, and then to the scale of the result."""
_MIN_SCALE = 6
"""Digits after the point that Spark keeps where a result has too many digits."""
_EXACT_DOUBLE = 2**53
_EXACT_POWER = 22
"""Integers up to the first and powers of ten up to the second are exact in a double: so their quotient is rounded once."""


def arithmetic_type(op: Operator, a: Fixed, b: Fixed) -> Fixed:
    """The type of a op b, with spark.sql.decimalOperations.allowPrecisionLoss as it is by default."""
    return _adjusted(*_digits(op, a, b))


def _digits(op: Operator, a: Fixed, b: Fixed) -> tuple[int, int]:
    """Precision and scale that a result may need."""
    scale, whole = max(a.scale, b.scale), (a.precision - a.scale, b.precision - b.scale)
    match op:
        case "*":
            return a.precision + b.precision + 1, a.scale + b.scale
        case "/":
            scale = max(_MIN_SCALE, a.scale + b.precision + 1)
            return whole[0] + b.scale + scale, scale
        case "%":
            return min(whole) + scale, scale
        case _:
            return max(whole) + scale + 1, scale


def _adjusted(precision: int, scale: int) -> Fixed:
    if precision > MAX_PRECISION:
        scale = max(MAX_PRECISION - (precision - scale), min(scale, _MIN_SCALE))
        precision = MAX_PRECISION
    return pa.decimal128(precision, scale)


@dataclass(frozen=True)
class FixedArithmetic(Expression):
    """+, -, *, / and % of two decimals."""

    op: Operator
    left: Expression
    right: Expression

    @cached_property
    def careful(self) -> bool:
        exact = self.op in _KERNELS and _digits(self.op, self.left.type, self.right.type)[0] <= MAX_PRECISION
        return not exact or any(p.careful for p in self.parts)

    def evaluate(self, frame: Frame) -> Datum:
        precision, scale = _digits(self.op, self.left.type, self.right.type)
        if self.op in _KERNELS and scale == self.type.scale and precision <= _WIDEST:
            left, right = self.left.evaluate(frame), self.right.evaluate(frame)
            if precision <= MAX_PRECISION:
                return _KERNELS[self.op](left, right)
            wide = _KERNELS[self.op](_widened(left), _widened(right))
            return answered(f"{self.op} overflows {self.type}", lambda: pc.cast(wide, self.type))
        return self._on_integers(self.left.array(frame), self.right.array(frame))

    def _on_integers(self, left: pa.Array, right: pa.Array) -> pa.Array:
        a, b = left.type.scale, right.type.scale
        compute = _INTEGERS[self.op](a, b, self.type.scale)
        pairs = zip(unscaled(left), unscaled(right), strict=True)
        return from_unscaled((None if x is None or y is None else compute(x, y) for x, y in pairs), self.type)


def _widened(datum: Datum) -> Datum:
    return pc.cast(datum, pa.decimal256(datum.type.precision, datum.type.scale))


def _summed(sign: int, a: int, b: int, scale: int) -> Callable[[int, int], int]:
    shared = max(a, b)
    up, over = 10 ** (shared - a), sign * 10 ** (shared - b)
    return lambda x, y: _rounded(x * up + y * over, 10 ** (shared - scale))


def _product(a: int, b: int, scale: int) -> Callable[[int, int], int]:
    return lambda x, y: _rounded(x * y, 10 ** (a + b - scale))


def _quotient(a: int, b: int, scale: int) -> Callable[[int, int], int]:
    up, over = 10 ** max(0, _QUOTIENT_SCALE - a + b), 10 ** max(0, a - b - _QUOTIENT_SCALE)
    down = 10 ** (_QUOTIENT_SCALE - scale)

    def compute(x: int, y: int) -> int:
        if y == 0:
            raise Unanswerable("division by zero")
        return _rounded(_rounded(x * up, y * over), down)

    return compute


def _remainder(a: int, b: int, scale: int) -> Callable[[int, int], int]:
    up: int = 10 ** (scale - a)
    over: int = 10 ** (scale - b)

    def compute(x: int, y: int) -> int:
        if y == 0:
            raise Unanswerable("division by zero")
        whole, left = divmod(abs(x) * up, abs(y) * over)
        if len(str(whole).rstrip("0")) > _JAVA_DIGITS:
            raise Unanswerable(f"the quotient behind % has more than {_JAVA_DIGITS} digits")
        return left if x >= 0 else -left

    return compute


_INTEGERS: dict[str, Callable[[int, int, int], Callable[[int, int], int]]] = {
    "+": lambda a, b, scale: _summed(1, a, b, scale),
    "-": lambda a, b, scale: _summed(-1, a, b, scale),
    "*": _product,
    "/": _quotient,
    "%": _remainder,
}
"""Scales of both sides and of the result in; a function of the unscaled values out."""


def _rounded(number: int, divisor: int) -> int:
    """A quotient, rounded half away from zero."""
    whole, left = divmod(abs(number), abs(divisor))
    whole += 2 * left >= abs(divisor)
    return whole if (number < 0) == (divisor < 0) else -whole


def unscaled(array: pa.Array) -> list[int | None]:
    """The integers inside a decimal128 array."""
    words = np.frombuffer(array.buffers()[1] or b"", "<u8")[2 * array.offset : 2 * (array.offset + len(array))]
    high = words[1::2].view("<i8").tolist()
    values: list[int | None] = [h * 2**64 + w for h, w in zip(high, words[::2].tolist(), strict=True)]
    if array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)):
            values[row] = None
    return values


def from_unscaled(values: Iterable[int | None], type: Fixed) -> pa.Array:
    """A decimal128 array of integers; raises where one has too many digits."""
    limit, found, valid = 10**type.precision, [], []
    for value in values:
        if value is not None and not -limit < value < limit:
            raise Unanswerable(f"a value overflows {type}")
        found.append((value or 0).to_bytes(16, "little", signed=True))
        valid.append(value is not None)
    bitmap = None if all(valid) else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type, len(found), [bitmap, pa.py_buffer(b"".join(found))])


def rescaled(datum: Datum, target: Fixed, mode: str = "half_towards_infinity") -> Datum:
    """A decimal in another decimal type; raises where it doesn't fit."""
    source = datum.type
    if target.scale < source.scale:
        room = pa.decimal256(source.precision + 1, source.scale)  # rounding may carry
        datum = pc.round(pc.cast(datum, room), target.scale, mode)
    elif target.precision - target.scale < source.precision - source.scale:
        # In 128 bits Arrow would not notice an overflow.
        datum = pc.cast(datum, pa.decimal256(source.precision + target.scale - source.scale, target.scale))
    return answered(f"a value does not fit into {target}", lambda: pc.cast(datum, target))


def to_integer(datum: Datum, target: pa.DataType) -> Datum:
    """Without the digits after the point."""
    whole = pa.decimal128(max(1, datum.type.precision - datum.type.scale), 0)
    whole_part = rescaled(datum, whole, "towards_zero")
    return answered(f"a value does not fit into {target}", lambda: pc.cast(whole_part, target))


def to_double(array: pa.Array) -> pa.Array:
    """The nearest doubles."""
    scale = array.type.scale
    if array.type.precision <= 15 and scale <= _EXACT_POWER:
        integers = np.frombuffer(array.buffers()[1] or b"", "<i8")[
            2 * array.offset : 2 * (array.offset + len(array)) : 2
        ]
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return pa.array(integers / 10.0**scale, pa.float64(), mask=mask)
    power = 10**scale  # Python's true division of integers is correctly rounded
    return pa.array([None if v is None else v / power for v in unscaled(array)], pa.float64())


def to_text(array: pa.Array) -> pa.Array:
    """All digits, and as many after the point as the type has."""
    return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())


def to_decimal(datum: Datum, target: Fixed) -> Datum:
    """Integers and booleans as decimals."""
    if pt.is_boolean(datum.type):
        datum = pc.cast(datum, pa.int8())
    return rescaled(pc.cast(datum, pa.decimal128(19, 0)), target)


def rounded_to(array: pa.Array, places: int, target: Any) -> pa.Array:
    """ROUND: half away from zero, to this many places after the point (or before it, if negative)."""
    down = 10 ** max(0, array.type.scale - places)
    up = 10 ** max(0, -places)
    return from_unscaled((None if v is None else _rounded(v, down) * up for v in unscaled(array)), target)
