"""Leaves out the columns that nobody above needs, so that they are neither packed nor stored.

Names don't change. Every node keeps at least one column, because rows without columns can't be counted. A node that is
used twice keeps what either use needs, and stays one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from thalweg.language.algebra import (
    RESULT_TIME,
    Aggregate,
    Distinct,
    Emit,
    Group,
    Hop,
    Keep,
    Leaf,
    Match,
    Node,
    Over,
    Project,
    Restream,
    SetOperation,
    Single,
)  # fmt: skip
from thalweg.language.bind.assemble import fields_of
from thalweg.language.bind.columns import projected
from thalweg.language.scalar.expression import Field


def pruned(root: Emit) -> Emit:
    """The same tree without unneeded columns and without projections that change nothing."""
    order = _parents_first(root)
    needs: dict[int, set[str]] = {id(n): set() for n in order}
    needs[id(root)] = {c for _, c in root.columns if c != RESULT_TIME} | {c for c, _, _ in root.order}
    for node in order:
        if len(node.schema) and not needs[id(node)] and not isinstance(node, Emit):
            needs[id(node)] = {node.schema.names[0]}
        for child, wanted in _wanted(node, needs[id(node)]):
            needs[id(child)] |= wanted
    uses = Counter(id(child) for node in order for child in node.children)
    done: dict[int, Node] = {}
    for node in reversed(order):
        made = _rebuilt(node, needs[id(node)], lambda n: done[id(n)])
        done[id(node)] = _composed(made) if isinstance(made, Project) and uses[id(made.child)] < 2 else made
    found = done[id(root)]
    assert isinstance(found, Emit)
    return found


def _composed(node: Project) -> Node:
    """Without a projection that only picks and renames columns of another one, or that changes nothing at all."""
    child = node.child
    if isinstance(child, Project) and all(isinstance(e, Field) for e in node.columns.values()):
        columns = {n: child.columns[e.key] for n, e in node.columns.items() if isinstance(e, Field)}
        node = replace(node, child=child.child, columns=columns)
    same = all(isinstance(e, Field) and e.key == n for n, e in node.columns.items())
    return node.child if same and list(node.columns) == node.child.schema.names else node


def _parents_first(root: Node) -> list[Node]:
    found: list[Node] = []
    seen: set[int] = set()

    def visit(node: Node) -> None:
        if id(node) not in seen:
            seen.add(id(node))
            for child in node.children:
                visit(child)
            found.append(node)

    visit(root)
    return found[::-1]


def _wanted(node: Node, needs: set[str]) -> Iterable[tuple[Node, set[str]]]:
    """What a node needs of its children, given what is needed of it."""
    match node:
        case Emit() | Single():
            yield node.child, needs
        case Project():
            yield node.child, {f for n in needs for f in fields_of(node.columns[n])}
        case Keep():
            yield node.child, needs | fields_of(node.condition)
        case Match():
            used = needs | (fields_of(node.condition) if node.condition is not None else set())
            for side, keys in ((node.left, {a for a, _ in node.keys}), (node.right, {b for _, b in node.keys})):
                yield side, (used & set(side.schema.names)) | keys
        case Group():
            yield node.child, {*node.keys, *_arguments(node.aggregates, needs)}
        case Hop():
            yield node.child, needs - {node.name}
        case Over():
            arguments = _arguments(node.aggregates, needs)
            yield node.child, (needs - set(node.aggregates)) | {*node.partition, *arguments}
        case Distinct() | SetOperation() | Restream():
            yield from ((child, set(child.schema.names)) for child in node.children)
        case _:
            return


def _arguments(aggregates: Mapping[str, Aggregate], needs: set[str]) -> set[str]:
    return {a for name, aggregate in aggregates.items() if name in needs for a in aggregate.arguments}


def _rebuilt(node: Node, needs: set[str], done: Callable[[Node], Node]) -> Node:
    schema = pa.schema([f for f in node.schema if f.name in needs])
    match node:
        case Leaf():
            kept = tuple(o for o in node.query.output if o.name in needs)
            return replace(node, schema=schema, query=replace(node.query, block=replace(node.query.block, output=kept)))
        case Emit():
            return replace(node, child=done(node.child))
        case Project():
            columns = {n: e for n, e in node.columns.items() if n in needs}
            return replace(node, schema=schema, child=done(node.child), columns=columns)
        case Match():
            left, right = done(node.left), done(node.right)
            fields = list(left.schema)
            if node.kind == "mark":
                fields.append(node.schema.field(len(node.schema) - 1))
            elif node.kind not in ("semi", "anti"):
                fields += list(right.schema)
            return replace(node, schema=pa.schema(fields), left=left, right=right)
        case Group():
            kept_aggregates = {n: a for n, a in node.aggregates.items() if n in needs}
            fields = [f for f in node.schema if f.name in node.keys or f.name in needs]
            if not kept_aggregates and node.keys:
                keys = {n: Field(node.schema.field(n).type, n) for n in node.keys}
                return Distinct(pa.schema(fields), projected(done(node.child), keys))
            return replace(node, schema=pa.schema(fields), child=done(node.child), aggregates=kept_aggregates)
        case Hop():
            child = done(node.child)
            return replace(node, schema=pa.schema([*child.schema, node.schema.field(node.name)]), child=child)
        case Over():
            child = done(node.child)
            kept_aggregates = {n: a for n, a in node.aggregates.items() if n in needs}
            if not kept_aggregates:
                return child
            fields = [*child.schema, *(node.schema.field(n) for n in kept_aggregates)]
            return replace(node, schema=pa.schema(fields), child=child, aggregates=kept_aggregates)
        case Restream():
            child = done(node.child)
            return replace(node, schema=pa.schema([*child.schema, node.schema.field(RESULT_TIME)]), child=child)
        case SetOperation():
            return replace(node, left=done(node.left), right=done(node.right))
        case Keep() | Single() | Distinct():
            child = done(node.child)
            return replace(node, schema=child.schema, child=child)
    return node
