"""UNION, EXCEPT and INTERSECT: both sides in common types, under the names of the left one."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from thalweg.language.algebra import Node, SetOperation
from thalweg.language.bind.columns import fields, projected
from thalweg.language.bind.unsupported import refuse_modifiers
from thalweg.language.bind.views import Views
from thalweg.language.scalar.checked import As
from thalweg.language.scalar.expression import Expression
from thalweg.language.scalar.types import comparable, family, unified

_KINDS = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}


def combined(query: exp.SetOperation, views: Views, outermost: bool = False) -> Node:
    """A set operation of two queries."""
    parsed = views.world.parsed
    refuse_modifiers(parsed, query, outermost)
    if query.args.get("by_name"):
        raise parsed.error(query, "BY NAME is not supported", "list the columns of both sides in the same order")
    left, right = (views.bound(side) for side in (query.this, query.expression))
    if len(left.schema) != len(right.schema):
        raise parsed.error(query.expression, f"{len(right.schema)} columns beside {len(left.schema)}",
                           "both sides have the same number of columns")  # fmt: skip
    types: list[pa.DataType] = []
    for a, b in zip(left.schema, right.schema, strict=True):
        shared = unified(a.type, b.type) if comparable(a.type, b.type) else None
        if shared is None:
            raise parsed.error(query.expression, f"column '{a.name}': a {family(a.type)} beside a {family(b.type)}",
                               f"left is {a.type}, right is {b.type}: CAST one of them")  # fmt: skip
        types.append(shared)
    left, right = _cast(left, types), _cast(right, types)
    kind = next(k for c, k in _KINDS.items() if isinstance(query, c))
    return SetOperation(left.schema, left, right, kind, not query.args.get("distinct"))  # type: ignore[arg-type]


def _cast(node: Node, types: list[pa.DataType]) -> Node:
    if [f.type for f in node.schema] == types:
        return node
    columns: dict[str, Expression] = {}
    for (name, value), type in zip(fields(node).items(), types, strict=True):
        columns[name] = value if value.type == type else As(type, value)
    return projected(node, columns)
