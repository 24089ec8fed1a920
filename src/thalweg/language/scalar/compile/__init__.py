"""Syntax trees to vectorised expressions, by family of functions."""

from __future__ import annotations

from sqlglot import exp

from thalweg.language.scalar.compile import arithmetic, casts, comparison, leaves, logic, strings
from thalweg.language.scalar.compile.compiler import Compiler, Names, OnlySpark, Resolved
from thalweg.language.scalar.expression import Expression

__all__ = ["Names", "OnlySpark", "Resolved", "compiled"]

_FAMILIES = (leaves, logic, comparison, arithmetic, casts, strings)
_RULES = {kind: rule for family in _FAMILIES for kind, rule in family.RULES.items()}


def compiled(node: exp.Expr, names: Names) -> Expression:
    """A condition as a vectorised expression; raises OnlySpark if that can't be exact."""
    return Compiler(names, _RULES).condition(node)
