"""Plain kernels over Arrow arrays: comparisons, tests for NULL and NaN, bits and functions of texts.

They never raise. NaN equals itself and is above all other numbers, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Datum = Any
"""A pa.Array, or a pa.Scalar that stands for all rows."""

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
    return bool(datum.as_py() if isinstance(datum, pa.Scalar) else pc.any(datum).as_py())


def _null_safe_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    same = pc.fill_null(_compare("=", left, right), False)
    return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


def _in(array: pa.Array, *values: Any) -> pa.Array:
    """Membership in constants of the same type. If one of them is NULL, a value that matches none gives NULL."""
    found = pc.is_in(array, value_set=pa.array([v for v in values if v is not None], array.type))
    unknown = pc.is_null(array)
    if None in values:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _extreme(op: str, *arrays: pa.Array) -> pa.Array:
    """GREATEST and LEAST: NULLs are skipped."""
    best = arrays[0]
    for other in arrays[1:]:
        better = pc.or_(pc.is_null(best), pc.fill_null(_compare(op, other, best), False))
        best = pc.if_else(pc.and_(better, pc.is_valid(other)), other, best)
    return best


def _cased(ascii: Callable[..., pa.Array], change: Callable[[str], str], array: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        return ascii(array)
    # Arrow maps character by character; Java and Python also know ß → SS and the final sigma.
    return pa.array([None if v is None else change(v) for v in array.to_pylist()], pa.string())


def _calendar(part: str, datum: Datum) -> Datum:
    """A part of a date or of a time without zone."""
    return pc.cast(getattr(pc, part)(datum), pa.int32())


PLAIN: dict[str, Callable[..., Datum]] = {
    **{op: partial(_compare, op) for op in _COMPARE},
    "not": pc.invert,
    "is null": pc.is_null,
    "is true": lambda datum: pc.fill_null(datum, False),
    "is false": lambda datum: pc.fill_null(pc.invert(datum), False),
    "isnan": lambda datum: pc.fill_null(pc.is_nan(datum), False),
    "&": pc.bit_wise_and,
    "|": pc.bit_wise_or,
    "^": pc.bit_wise_xor,
    "like": pc.match_substring_regex,
    **{part: partial(_calendar, part) for part in ("year", "quarter", "month", "day", "hour", "minute")},
}
"""Kernels of arrays and scalars."""
WHOLE: dict[str, Callable[..., pa.Array]] = {
    "<=>": _null_safe_equal,
    "in": _in,
    "greatest": partial(_extreme, ">"),
    "least": partial(_extreme, "<"),
    "upper": partial(_cased, pc.ascii_upper, str.upper),
    "lower": partial(_cased, pc.ascii_lower, str.lower),
    "trim": partial(pc.utf8_trim, characters=" "),
    "ltrim": partial(pc.utf8_ltrim, characters=" "),
    "rtrim": partial(pc.utf8_rtrim, characters=" "),
    "length": lambda a: pc.cast(pc.binary_length(a) if pt.is_binary(a.type) else pc.utf8_length(a), pa.int32()),
    "substring": pc.utf8_slice_codeunits,
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "contains": pc.match_substring,
    "concat": lambda *arrays: pc.binary_join_element_wise(*arrays, "", null_handling="emit_null"),
}
"""Kernels of arrays alone."""
