"""Syntax trees to vectorised expressions, by family of functions."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from thalweg.language.scalar.compile import arithmetic, casts, comparison, dates, leaves, logic, strings
from thalweg.language.scalar.compile.compiler import Compiler, Names, OnlySpark, Resolved
from thalweg.language.scalar.expression import Call, Expression, Frame, Unanswerable

__all__ = ["Names", "OnlySpark", "Resolved", "compiled", "compiled_value", "runs"]

_FAMILIES = (leaves, logic, comparison, arithmetic, casts, dates, strings)
_RULES = {kind: rule for family in _FAMILIES for kind, rule in family.RULES.items()}


def compiled(node: exp.Expr, names: Names) -> Expression:
    """A condition as a vectorised expression; raises OnlySpark if that can't be exact."""
    return Compiler(names, _RULES).condition(node)


def compiled_value(node: exp.Expr, names: Names) -> Expression:
    """A value of any type as a vectorised expression: an item of SELECT, a key of GROUP BY, an aggregate's argument.

    Its `type` is the one Spark gives it. Raises OnlySpark if that can't be exact.
    """
    found = Compiler(names, _RULES).value(node)
    if not runs(found, node, names):
        raise OnlySpark(node)
    return found


def runs(expression: Expression, node: exp.Expr, names: Names) -> bool:
    """Whether Arrow has kernels for these types. Only trying tells, so it is tried without rows."""
    if any(isinstance(part, Call) for part in expression.walk()):
        return True  # a user's function is called only with real rows
    columns = [names.columns[id(n)] for n in node.walk() if id(n) in names.columns]
    try:
        expression.array(Frame({names.key(r.column): pa.nulls(0, r.type) for r in columns}, 0))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    except Unanswerable:
        return True  # a constant that raises on every row
    return True
