"""Which types can be compared, and in which type: Spark's ANSI rules over Arrow types.

Invariant: if `common` gives a type, comparing in that type gives Spark's answer. If Spark's answer depends on the
session (time zone) or can lose digits, `common` gives None and the comparison is left to Spark.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

BOOL, INT32, INT64, DOUBLE, TEXT = pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()
MICROSECONDS = pa.duration("us")
MAX_PRECISION = 38
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""Decimal digits that Spark reserves for each integer."""
_UNITS = ("s", "ms", "us", "ns")


def logical(type: pa.DataType) -> pa.DataType:
    """The type as Spark would see it, without encodings and widths that Spark does not have.

    >>> logical(pa.dictionary(pa.int32(), pa.large_string()))
    DataType(string)
    >>> logical(pa.uint32())
    DataType(int64)
    """
    if pt.is_dictionary(type) or pt.is_run_end_encoded(type):
        return logical(type.value_type)
    if pt.is_string(type) or pt.is_large_string(type) or pt.is_string_view(type):
        return pa.string()
    if pt.is_binary(type) or pt.is_large_binary(type) or pt.is_fixed_size_binary(type) or pt.is_binary_view(type):
        return pa.binary()
    if pt.is_unsigned_integer(type):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(type.bit_width, pa.decimal128(20, 0))
    if pt.is_float16(type):
        return pa.float32()
    if pt.is_decimal(type) and type.precision <= MAX_PRECISION and type.scale >= 0:
        return pa.decimal128(type.precision, type.scale)
    if pt.is_date(type):
        return pa.date32()
    if pt.is_timestamp(type) and type.tz is not None:
        return pa.timestamp(type.unit, "UTC")
    return type


def is_numeric(type: pa.DataType) -> bool:
    return bool(pt.is_integer(type) or pt.is_floating(type) or pt.is_decimal(type))


def is_decimal(type: pa.DataType) -> bool:
    return bool(pt.is_decimal128(type))


def is_plain_time(type: pa.DataType) -> bool:
    """A timestamp without time zone."""
    return bool(pt.is_timestamp(type) and type.tz is None)


def only_spark(type: pa.DataType) -> bool:
    """Whether values of this type are left to Spark."""
    return bool(pt.is_nested(type) or pt.is_time(type) or pt.is_decimal256(type) or pt.is_interval(type))


def family(type: pa.DataType) -> str:
    """The kind of values in words, for an error. Types of one family can be compared."""
    return next((name for name, test in _FAMILIES if test(type)), str(type))


_FAMILIES = (
    ("null", pt.is_null), ("number", is_numeric), ("time", pt.is_date), ("time", pt.is_timestamp),
    ("text", pt.is_string), ("bytes", pt.is_binary), ("boolean", pt.is_boolean), ("interval", pt.is_duration),
)  # fmt: skip


def comparable(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether values of the two types can be compared without a cast."""
    return len({family(a), family(b)} - {"null"}) < 2


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which Spark compares two types, if the values alone decide; else None.

    >>> common(pa.int32(), pa.int64())
    DataType(int64)
    >>> common(pa.decimal128(5, 2), pa.int32())
    Decimal128Type(decimal128(12, 2))
    >>> common(pa.int32(), pa.float32())
    DataType(double)
    """
    if a == b:
        return a
    if pt.is_null(a) or pt.is_null(b):
        return b if pt.is_null(a) else a
    if is_numeric(a) and is_numeric(b):
        return _numeric(a, b)
    if (pt.is_timestamp(a) and pt.is_timestamp(b) and a.tz == b.tz) or (pt.is_duration(a) and pt.is_duration(b)):
        return a if _UNITS.index(a.unit) > _UNITS.index(b.unit) else b
    if pt.is_date(a) and is_plain_time(b):
        return b
    return a if pt.is_date(b) and is_plain_time(a) else None


def unified(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which Spark computes with both. Unlike `common` it may round: decimals have at most 38 digits.

    >>> unified(pa.decimal128(36, 2), pa.decimal128(38, 6))
    Decimal128Type(decimal128(38, 4))
    """
    shared = common(a, b)
    x, y = as_decimal(a), as_decimal(b)
    if shared is not None or x is None or y is None:
        return shared
    whole = max(x.precision - x.scale, y.precision - y.scale)
    return pa.decimal128(MAX_PRECISION, max(0, MAX_PRECISION - whole))


def _numeric(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pt.is_integer(a) and pt.is_integer(b):
        return a if a.bit_width > b.bit_width else b
    if pt.is_floating(a) or pt.is_floating(b):
        return pa.float64()
    x, y = as_decimal(a), as_decimal(b)
    if x is None or y is None:
        return None
    scale = max(x.scale, y.scale)
    return decimal_type(max(x.precision - x.scale, y.precision - y.scale) + scale, scale)


def decimal_type(precision: int, scale: int) -> pa.Decimal128Type | None:
    """A decimal, if Spark has it."""
    return pa.decimal128(precision, scale) if max(scale, 1) <= precision <= MAX_PRECISION else None


def as_decimal(type: pa.DataType) -> pa.Decimal128Type | None:
    if is_decimal(type):
        return type
    digits = _DIGITS.get(type)
    return pa.decimal128(digits, 0) if digits else None


def lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether different values stay different in the target type, so that equality is transitive there."""
    if source == target or pt.is_null(source):
        return True
    if pt.is_floating(target):
        return bool(pt.is_floating(source) or (pt.is_integer(source) and source.bit_width <= 32))
    if pt.is_timestamp(target) and pt.is_timestamp(source):
        return "ns" not in (source.unit, target.unit)
    return True
