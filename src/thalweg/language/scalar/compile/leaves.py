"""Literals and intervals. A literal has the type that Spark gives it."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.durations import unit
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.expression import Constant, Expression
from thalweg.language.scalar.types import BOOL, DOUBLE, INT32, INT64, MICROSECONDS, TEXT, decimal_type, is_decimal


def _literal(to: Compiler, node: exp.Literal) -> Expression:
    return Constant(TEXT, node.this) if node.is_string else numeral(node, str(node.this))


def numeral(node: exp.Expr, digits: str) -> Expression:
    """A written number: int, bigint, a decimal of its own width, or double if it has an exponent."""
    try:
        if "e" in digits.lower():
            return Constant(DOUBLE, float(digits))
        value = decimal.Decimal(digits)
    except (ValueError, decimal.InvalidOperation):
        raise OnlySpark(node) from None
    if "." not in digits and -(2**63) <= value < 2**63:
        return Constant(INT32 if -(2**31) <= value < 2**31 else INT64, int(value))
    type = decimal_of(value)
    if type is None:
        raise OnlySpark(node)
    return Constant(type, value)


def decimal_of(value: decimal.Decimal) -> pa.Decimal128Type | None:
    """The narrowest decimal type that holds a written number."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    return decimal_type(max(len(digits) + max(0, exponent), scale, 1), scale)


def snug(found: Expression, beside: Expression) -> pa.DataType:
    """Beside a decimal, Spark gives a whole literal only as many digits as it has."""
    if (
        isinstance(found, Constant)
        and found.value is not None
        and pt.is_integer(found.type)
        and is_decimal(beside.type)
    ):
        return decimal_of(decimal.Decimal(found.value)) or found.type
    return found.type


def _interval(to: Compiler, node: exp.Interval) -> Expression:
    amount, name = node.this, node.args.get("unit")
    negative = isinstance(amount, exp.Neg)
    if negative:
        amount = amount.this
    if not isinstance(name, exp.Var) or not isinstance(amount, exp.Literal):
        raise OnlySpark(node)
    size = unit(name.name)
    try:
        micros = decimal.Decimal(str(amount.this)) * (size or 0)
    except decimal.InvalidOperation:
        raise OnlySpark(node) from None
    if not size or micros != int(micros) or abs(micros) >= 2**62:
        raise OnlySpark(node)
    return Constant(MICROSECONDS, -int(micros) if negative else int(micros))


RULES: Rules = {
    exp.Literal: _literal,
    exp.RawString: lambda to, node: Constant(TEXT, str(node.this)),
    exp.Boolean: lambda to, node: Constant(BOOL, bool(node.this)),
    exp.Null: lambda to, node: Constant(pa.null(), None),
    exp.Interval: _interval,
}
