"""CASE, IF, COALESCE, NULLIF, GREATEST and LEAST: all values of a choice have one type."""

from __future__ import annotations

from typing import Any

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.comparison import Compare, Extreme
from thalweg.language.scalar.compile.comparison import compared, pair
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rule, Rules
from thalweg.language.scalar.expression import Constant, Expression
from thalweg.language.scalar.logic import Case, Coalesce
from thalweg.language.scalar.types import BOOL


def _branches(to: Compiler, node: exp.Expr, branches: list[exp.Expr]) -> list[Expression]:
    return to.alike(node, [to.value(b) for b in branches])


def _case(to: Compiler, node: exp.Case) -> Expression:
    ifs = node.args["ifs"]
    if node.this is None:
        conditions = [to.condition(i.this) for i in ifs]
    else:
        conditions = [compared(to, "=", node, node.this, i.this) for i in ifs]
    values = _branches(to, node, [i.args["true"] for i in ifs] + [node.args.get("default") or exp.Null()])
    return Case(values[0].type, tuple(conditions), tuple(values[:-1]), values[-1])


def _if(to: Compiler, node: exp.If) -> Expression:
    yes, no = _branches(to, node, [node.args["true"], node.args.get("false") or exp.Null()])
    return Case(yes.type, (to.condition(node.this),), (yes,), no)


def _coalesce(to: Compiler, node: exp.Coalesce) -> Expression:
    items = _branches(to, node, [node.this, *node.expressions])
    return Coalesce(items[0].type, tuple(items))


def _nullif(to: Compiler, node: exp.Nullif) -> Expression:
    left, right = pair(to, node, node.this, node.expression)
    value = to.value(node.this)
    if pt.is_null(value.type) or pt.is_null(left.type):
        raise OnlySpark(node)
    return Case(value.type, (Compare(BOOL, "=", left, right),), (Constant(value.type, None),), value)


def _extreme(op: Any) -> Rule:
    def rule(to: Compiler, node: exp.Expr) -> Expression:
        items = _branches(to, node, [node.this, *node.expressions])
        return Extreme(items[0].type, op, tuple(items))

    return rule


RULES: Rules = {
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme(">"),
    exp.Least: _extreme("<"),
}
