"""Comparisons, BETWEEN, IN and isnan: both sides are taken to their common type first."""

from __future__ import annotations

from functools import partial

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.compile.casts import dated
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.compile.leaves import snug
from thalweg.language.scalar.expression import Apply, Constant, Expression
from thalweg.language.scalar.logic import connected
from thalweg.language.scalar.types import BOOL, comparable, family, is_decimal, only_spark, unified

_PREDICATES = (exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike, exp.Not)


def pair(to: Compiler, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> tuple[Expression, Expression]:
    """Both sides of a comparison in their common type."""
    if isinstance(left, _PREDICATES) or isinstance(right, _PREDICATES):
        raise OnlySpark(node)  # without parentheses, Spark reads a = b IN (c) as (a = b) IN (c); sqlglot does not
    if to.calls(left) and not to.calls(right):
        b = to.value(right)
        a = to.value(left, BOOL if pt.is_boolean(b.type) else None)
    else:
        a = to.value(left)
        b = to.value(right, BOOL if pt.is_boolean(a.type) else None)
    a, b = dated(a, b), dated(b, a)
    if not comparable(a.type, b.type) and to.inputs(left) and to.inputs(right):
        if len(to.inputs(node)) > 1:
            raise to.names.error(
                node, f"a {family(a.type)} can't be compared with a {family(b.type)}",
                f"left is {a.type}, right is {b.type}: CAST one of them",
            )  # fmt: skip
        raise OnlySpark(node)
    shared = unified(snug(a, b), snug(b, a))
    if shared is None or only_spark(shared):
        raise OnlySpark(node)
    return to.cast(left, a, shared), to.cast(right, b, shared)


def compared(to: Compiler, op: str, node: exp.Expr, this: exp.Expr, other: exp.Expr) -> Expression:
    left, right = pair(to, node, this, other)
    if pt.is_null(left.type):
        return Constant(BOOL, None)  # both sides are NULL: there is no type to compare in
    return Apply(BOOL, op, (left, right))


def _compare(op: str, to: Compiler, node: exp.Expr) -> Expression:
    if op not in ("=", "<>"):
        _within_bigint(to, node, node.this, node.expression)
    return compared(to, op, node, node.this, node.expression)


def _within_bigint(to: Compiler, node: exp.Expr, *sides: exp.Expr) -> None:
    """Beside a literal out of bigint's range, Spark gives true or false even for NULL: leave that to it."""
    for side in sides:
        side = side.unnest()
        if isinstance(side, exp.Literal | exp.Neg) and side.find(exp.Column) is None:
            found = to.value(side)
            if isinstance(found, Constant) and is_decimal(found.type) and not -(2**63) <= found.value < 2**63:
                raise OnlySpark(node)


def _null_safe(to: Compiler, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expression:
    left, right = pair(to, node, node.this, node.expression)
    return Constant(BOOL, True) if pt.is_null(left.type) else Apply(BOOL, "<=>", (left, right))


def _between(to: Compiler, node: exp.Between) -> Expression:
    if node.args.get("symmetric"):
        raise OnlySpark(node)
    low, high = node.args["low"], node.args["high"]
    _within_bigint(to, node, node.this, low, high)
    return connected("and", [compared(to, ">=", node, node.this, low), compared(to, "<=", node, node.this, high)])


def _in(to: Compiler, node: exp.In) -> Expression:
    if not node.expressions or node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise OnlySpark(node)
    of = to.value(node.this)
    of, *options = to.alike(node, [of, *(dated(to.value(e), of) for e in node.expressions)])
    constants = tuple(o.value for o in options if isinstance(o, Constant))
    exact = pt.is_integer(of.type) or pt.is_string(of.type) or pt.is_date(of.type)
    if exact and len(constants) == len(options):
        return Apply(BOOL, "in", (of,), constants)
    return connected("or", [Apply(BOOL, "=", (of, option)) for option in options])


def _isnan(to: Compiler, node: exp.IsNan) -> Expression:
    of = to.number(node.this)
    if not pt.is_floating(of.type):
        raise OnlySpark(node)
    return Apply(BOOL, "isnan", (of,))


_OPERATORS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
RULES: Rules = {
    **{kind: partial(_compare, op) for kind, op in _OPERATORS.items()},
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: lambda to, node: Apply(BOOL, "not", (_null_safe(to, node),)),
    exp.Between: _between,
    exp.In: _in,
    exp.IsNan: _isnan,
}
