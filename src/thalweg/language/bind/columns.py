"""Columns of nodes: an entry's, and computed ones that are put beside those of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from thalweg.language.algebra import Node, Project
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.world import World
from thalweg.language.query import Column
from thalweg.language.scalar.expression import Expression, Field
from thalweg.language.scalar.written import written


def columns_of(entry: Entry) -> list[Column]:
    """The columns of an entry's own rows. A name that stands twice in a source's schema can't be meant by anybody."""
    names = entry.names
    return [Column(entry.alias, n) for n in names if names.count(n) == 1]


def projected(node: Node, columns: Mapping[str, Expression]) -> Project:
    return Project(pa.schema([(name, e.type) for name, e in columns.items()]), node, dict(columns))


def fields(node: Node) -> dict[str, Expression]:
    """A node's columns as they are."""
    return {f.name: Field(f.type, f.name) for f in node.schema}


def renamed(node: Node, names: Sequence[str]) -> Node:
    """A node's columns under other names, in order."""
    if list(node.schema.names) == list(names):
        return node
    return projected(node, dict(zip(names, fields(node).values(), strict=True)))


def appended(node: Node, columns: Mapping[str, Expression]) -> Node:
    """A node with computed columns after its own."""
    return projected(node, {**fields(node), **columns}) if columns else node


def keyed(world: World, node: Node, keys: Sequence[Expression]) -> tuple[Node, list[str]]:
    """A node that has a column for each key; and their names."""
    names: list[str] = []
    added: dict[str, Expression] = {}
    for key in keys:
        plain = isinstance(key, Field) and key.key in node.schema.names and node.schema.field(key.key).type == key.type
        if isinstance(key, Field) and plain:
            names.append(key.key)
            continue
        same = next((n for n, e in added.items() if e == key), None)
        name = same or world.name(written(key))
        added[name] = key
        names.append(name)
    return appended(node, added), names
