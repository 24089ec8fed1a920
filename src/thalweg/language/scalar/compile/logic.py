"""AND, OR, NOT and IS; and choices between values of one type: CASE, IF, COALESCE, NULLIF, GREATEST and LEAST."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.compile.comparison import compared, pair
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.expression import Apply, Constant, Expression
from thalweg.language.scalar.logic import Case, Coalesce, connected
from thalweg.language.scalar.types import BOOL


def _connector(op: Any, to: Compiler, node: exp.Connector) -> Expression:
    """A chain of one connector; walked without recursion, because chains get long."""
    found: list[exp.Expr] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return connected(op, [to.condition(n) for n in found])


def _is(to: Compiler, node: exp.Is) -> Expression:
    if isinstance(node.expression, exp.Null):
        return Apply(BOOL, "is null", (to.value(node.this),))
    if isinstance(node.expression, exp.Boolean):
        return Apply(BOOL, "is true" if node.expression.this else "is false", (to.condition(node.this),))
    raise OnlySpark(node)


def _branches(to: Compiler, node: exp.Expr, *branches: exp.Expr | None) -> list[Expression]:
    return to.alike(node, [to.value(b or exp.Null()) for b in branches])


def _case(to: Compiler, node: exp.Case) -> Expression:
    ifs = node.args["ifs"]
    if node.this is None:
        conditions = [to.condition(i.this) for i in ifs]
    else:
        conditions = [compared(to, "=", node, node.this, i.this) for i in ifs]
    *values, otherwise = _branches(to, node, *(i.args["true"] for i in ifs), node.args.get("default"))
    return Case(otherwise.type, tuple(conditions), tuple(values), otherwise)


def _if(to: Compiler, node: exp.If) -> Expression:
    yes, no = _branches(to, node, node.args["true"], node.args.get("false"))
    return Case(yes.type, (to.condition(node.this),), (yes,), no)


def _coalesce(to: Compiler, node: exp.Coalesce) -> Expression:
    items = _branches(to, node, node.this, *node.expressions)
    return Coalesce(items[0].type, tuple(items))


def _nullif(to: Compiler, node: exp.Nullif) -> Expression:
    left, right = pair(to, node, node.this, node.expression)
    value = to.value(node.this)
    if pt.is_null(value.type) or pt.is_null(left.type):
        raise OnlySpark(node)
    return Case(value.type, (Apply(BOOL, "=", (left, right)),), (Constant(value.type, None),), value)


def _extreme(op: str, to: Compiler, node: exp.Expr) -> Expression:
    items = _branches(to, node, node.this, *node.expressions)
    return Apply(items[0].type, op, tuple(items))


RULES: Rules = {
    exp.And: partial(_connector, "and"),
    exp.Or: partial(_connector, "or"),
    exp.Not: lambda to, node: Apply(BOOL, "not", (to.condition(node.this),)),
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: partial(_extreme, "greatest"),
    exp.Least: partial(_extreme, "least"),
}
