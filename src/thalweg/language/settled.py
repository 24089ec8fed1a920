"""Columns that settle: each value enters at one instant only, and never leaves. A time window is such a column.

A group by one changes once. So its state can go then, and groups of several cells are cheap to bring together.
"""

from __future__ import annotations

from thalweg.language.algebra import Group, Hop, Keep, Node, Project, Sent
from thalweg.language.scalar.expression import Field, Member


def settled(node: Node) -> set[str]:
    """Columns of which each value enters at one instant only, and never leaves."""
    match node:
        case Hop():
            return {node.name}
        case Sent():
            return set(node.settled)
        case Keep():
            return settled(node.child)
        case Group():
            return settled(node.child) & set(node.keys)
        case Project():
            known = settled(node.child)
            return {name for name, e in node.columns.items() if _names(e, known)}
    return set()


def _names(expression: object, known: set[str]) -> bool:
    """Whether an expression is such a column, or the start or end of such a window."""
    if isinstance(expression, Member):
        return isinstance(expression.of, Field) and expression.of.key in known
    return isinstance(expression, Field) and expression.key in known
