"""Arithmetic on numbers, decimals, times and bits, in the result type that Spark chooses."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.durations import UNITS
from thalweg.language.scalar import types
from thalweg.language.scalar.checked import Arithmetic, Divide
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.compile.dates import moved
from thalweg.language.scalar.compile.leaves import numeral, snug
from thalweg.language.scalar.decimals import FixedArithmetic, arithmetic_type
from thalweg.language.scalar.expression import Apply, Constant, Expression
from thalweg.language.scalar.types import common, is_decimal, is_numeric, is_plain_time

_NEGATED_DIGITS = 34
"""Spark rounds a decimal to this many digits when it changes its sign."""
_BITS = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}


def _arithmetic(op: Any, to: Compiler, node: exp.Expr) -> Expression:
    shifted = moved(op, to, node)
    if shifted is not None:
        return shifted
    a, b = to.value(node.this), to.value(node.expression)
    timed = _timed(to, op, node, a, b)
    if timed is not None:
        return timed
    if not (is_numeric(a.type) and is_numeric(b.type)):
        raise OnlySpark(node)
    if _decimal(a, b):
        return _decimals(to, op, node, a, b)
    of = to.alike(node, [a, b])
    return Arithmetic(of[0].type, op, tuple(of))


def _decimal(a: Expression, b: Expression) -> bool:
    """Whether Spark computes with these two in decimals."""
    return (is_decimal(a.type) or is_decimal(b.type)) and not (pt.is_floating(a.type) or pt.is_floating(b.type))


def _decimals(to: Compiler, op: Any, node: exp.Expr, a: Expression, b: Expression) -> Expression:
    p, q = types.as_decimal(snug(a, b)), types.as_decimal(snug(b, a))
    if p is None or q is None:
        raise OnlySpark(node)
    return FixedArithmetic(arithmetic_type(op, p, q), op, to.cast(node, a, p), to.cast(node, b, q))


def _timed(to: Compiler, op: Any, node: exp.Expr, a: Expression, b: Expression) -> Expression | None:
    """Times and intervals. A day has 24 hours only without a time zone, so the other cases are Spark's."""
    if pt.is_duration(a.type) and pt.is_timestamp(b.type) and op == "+":
        a, b = b, a
    if op == "*":
        return None
    if pt.is_timestamp(a.type) and pt.is_duration(b.type):
        short = isinstance(b, Constant) and abs(b.value) < UNITS["day"]
        if a.type.unit != "us" or not (is_plain_time(a.type) or short):
            raise OnlySpark(node)
        return Arithmetic(a.type, op, (a, b))
    if is_plain_time(a.type) and is_plain_time(b.type) and op == "-":
        if a.type.unit != "us" or b.type.unit != "us":
            raise OnlySpark(node)
        return Arithmetic(types.MICROSECONDS, op, (a, b))
    if pt.is_duration(a.type) and pt.is_duration(b.type):
        return Arithmetic(types.MICROSECONDS, op, (a, b))
    if pt.is_date(a.type) and pt.is_integer(b.type) and b.type.bit_width <= 32:
        return Arithmetic(a.type, op, (a, to.cast(node, b, types.INT32)))
    return None


def _division(op: Any, to: Compiler, node: exp.Expr) -> Expression:
    a, b = to.number(node.this), to.number(node.expression)
    whole = pt.is_integer(a.type) and pt.is_integer(b.type)
    shared = {"/": types.DOUBLE, "div": types.INT64, "%": common(a.type, b.type)}[op]
    if _decimal(a, b) and op != "div":
        return _decimals(to, op, node, a, b)
    if (op == "div" and not whole) or shared is None:
        raise OnlySpark(node)
    return Divide(shared, op, to.cast(node, a, shared), to.cast(node, b, shared))


def _bits(op: str, to: Compiler, node: exp.Expr) -> Expression:
    if any(type(side) in _BITS and type(side) is not type(node) for side in (node.this, node.expression)):
        raise OnlySpark(node)  # in Spark & binds tighter than ^ and ^ tighter than |; in sqlglot they are equal
    of = [to.number(node.this), to.number(node.expression)]
    if not all(pt.is_integer(e.type) for e in of):
        raise OnlySpark(node)
    of = to.alike(node, of)
    return Apply(of[0].type, op, tuple(of))


def _sign(op: Any, to: Compiler, node: exp.Expr) -> Expression:
    if op == "minus" and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return numeral(node, "-" + str(node.this.this))
    of = to.number(node.this)
    if is_decimal(of.type) and of.type.precision > _NEGATED_DIGITS:
        raise OnlySpark(node)
    return Arithmetic(of.type, op, (of,))


RULES: Rules = {
    **{kind: partial(_arithmetic, op) for kind, op in {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}.items()},
    **{kind: partial(_division, op) for kind, op in {exp.Div: "/", exp.IntDiv: "div", exp.Mod: "%"}.items()},
    **{kind: partial(_bits, op) for kind, op in _BITS.items()},
    exp.Neg: partial(_sign, "minus"),
    exp.Abs: partial(_sign, "abs"),
}
