"""AND, OR, NOT and IS."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.expression import Expression
from thalweg.language.scalar.logic import And, Is, IsNull, Not, Or
from thalweg.language.scalar.types import BOOL


def _is(to: Compiler, node: exp.Is) -> Expression:
    if isinstance(node.expression, exp.Null):
        return IsNull(BOOL, to.value(node.this))
    if isinstance(node.expression, exp.Boolean):
        return Is(BOOL, to.condition(node.this), bool(node.expression.this))
    raise OnlySpark(node)


def operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of one connector, in written order; without recursion, because chains get long."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def balanced(kind: type[And] | type[Or], parts: Sequence[Expression]) -> Expression:
    """The parts connected from left to right, in a tree as flat as possible."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return kind(BOOL, balanced(kind, parts[:half]), balanced(kind, parts[half:]))


RULES: Rules = {
    exp.And: lambda to, node: balanced(And, [to.condition(n) for n in operands(node, exp.And)]),
    exp.Or: lambda to, node: balanced(Or, [to.condition(n) for n in operands(node, exp.Or)]),
    exp.Not: lambda to, node: Not(BOOL, to.condition(node.this)),
    exp.Is: _is,
}
