"""Which streams a tree reads, and in which type it tells a time."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from thalweg.language.algebra import Leaf, Node
from thalweg.language.query import Input
from thalweg.language.scalar.types import logical


def streams(node: Node) -> list[Input]:
    """The streams that a tree reads."""
    found: dict[str, Input] = {}
    for part in node.walk():
        if isinstance(part, Leaf):
            found.update({i.alias: i for i in part.query.inputs if i.is_stream})
    return list(found.values())


def is_static(node: Node) -> bool:
    """Whether a tree reads only tables: then it never changes."""
    return not streams(node)


def time_type(node: Node) -> pa.DataType:
    """The type of the time of a tree's rows."""
    return time_type_of(streams(node))


def time_type_of(inputs: Iterable[Input]) -> pa.DataType:
    """The streams' own time type where they agree, else a timestamp."""
    inputs = list(inputs)
    types = {logical(i.spec.schema.field(str(i.spec.time)).type) for i in inputs}
    units = {i.spec.unit if pa.types.is_integer(t) else "" for i in inputs for t in types}
    if len(types) == 1 and len(units) == 1:
        return types.pop()
    fine = any(t == pa.timestamp("ns") or t == pa.timestamp("ns", "UTC") for t in types) or "ns" in units
    return pa.timestamp("ns" if fine else "us", "UTC")
