"""CAST, and written dates and times. The many other forms of dates that Spark reads are left to it."""

from __future__ import annotations

import datetime
import re

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.checked import As, as_constant
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.expression import Constant, Expression
from thalweg.language.scalar.types import decimal_type, is_decimal, is_numeric, is_plain_time

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?")
_DOUBLE_DIGITS = 15
_TYPES = {
    exp.DType.BOOLEAN: pa.bool_(), exp.DType.TINYINT: pa.int8(), exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(), exp.DType.BIGINT: pa.int64(), exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(), exp.DType.TEXT: pa.string(), exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}  # fmt: skip


def _cast(to: Compiler, node: exp.Cast) -> Expression:
    target = named_type(node.args["to"])
    if target is None or node.args.get("safe") or node.args.get("format") or node.args.get("default"):
        raise OnlySpark(node)
    of = to.value(node.this)
    if isinstance(of, Constant) and pt.is_string(of.type) and (pt.is_date(target) or is_plain_time(target)):
        found: Expression | None = _moment(of.value, target)
    else:
        found = as_constant(of, target) or As(target, of) if _castable(of, target) else None
    if found is None:
        raise OnlySpark(node)
    return found


def _castable(of: Expression, target: pa.DataType) -> bool:
    source = of.type
    if source == target or pt.is_null(source):
        return True
    if pt.is_integer(target):
        # To anything narrower than bigint Spark goes through double, which is exact for `_DOUBLE_DIGITS` digits only.
        exact = is_decimal(source) and (pt.is_int64(target) or source.precision <= _DOUBLE_DIGITS)
        return bool(exact or pt.is_integer(source) or pt.is_boolean(source) or pt.is_floating(source))
    if pt.is_float64(target):
        return is_numeric(source)
    if pt.is_float32(target):
        exact = pt.is_integer(source) or pt.is_floating(source)
        return bool(exact or (isinstance(of, Constant) and is_numeric(source)))
    if pt.is_boolean(target):
        return bool(pt.is_integer(source) or is_decimal(source))
    if is_decimal(target):
        return bool(pt.is_integer(source) or pt.is_boolean(source) or is_decimal(source))
    if pt.is_string(target):
        return bool(pt.is_integer(source) or pt.is_boolean(source) or is_decimal(source))
    if is_plain_time(target):
        return bool(pt.is_date(source))
    return bool(pt.is_date(target) and is_plain_time(source))


def named_type(to: exp.DataType) -> pa.DataType | None:
    """The type that a CAST names, if it is one of those that the engine has."""
    if to.this != exp.DType.DECIMAL:
        return None if to.expressions else _TYPES.get(to.this)
    try:
        digits = [int(str(e.this.this)) for e in to.expressions]
    except (ValueError, AttributeError):
        return None
    return decimal_type(*([*digits, 0][:2] if digits else (10, 0)))


def _moment(text: str, type: pa.DataType) -> Constant | None:
    """A date or time written in its plainest form."""
    try:
        if pt.is_date(type) and _DATE.fullmatch(text):
            return Constant(type, datetime.date.fromisoformat(text))
        if is_plain_time(type) and type.unit == "us" and (_DATE.fullmatch(text) or _TIME.fullmatch(text)):
            return Constant(type, datetime.datetime.fromisoformat(text))
    except ValueError:
        return None
    return None


def dated(found: Expression, beside: Expression) -> Expression:
    """A text written beside a date or a time means a date or a time."""
    if isinstance(found, Constant) and pt.is_string(found.type) and isinstance(found.value, str):
        return _moment(found.value, beside.type) or found
    return found


RULES: Rules = {exp.Cast: _cast, exp.TryCast: _cast}
"""sqlglot reads Spark's CAST as TryCast; a real TRY_CAST is marked safe."""
