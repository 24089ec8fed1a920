"""How the rows of a tree leave: as results, as a relation's changes, or as the stream that was asked for.

CQL's defaults (thesis 2.1): a relation that only grows gives plain rows, as under ISTREAM; one that is looked at in
ticks gives itself at each, as under RSTREAM; any other gives its changes. A tree without a relational operator is a
stream of results.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.language.algebra import (
    Distinct,
    EmitKind,
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
from thalweg.language.bind.times import is_static
from thalweg.language.query import Query, Window
from thalweg.language.text.clauses import StreamKind


def kind_of(node: Node, stream: StreamKind | None, every: int | None) -> EmitKind:
    """What the root of a tree emits, given what the text asks for."""
    if is_static(node):
        return "istream" if _has(node, Group, Distinct, Single, SetOperation) else "results"
    if stream == "istream" and every is None and not is_relation(node) and grows(node):
        return "results"  # nothing ever leaves, so nothing can cancel
    if stream is not None:
        return stream
    if every is not None:
        return "rstream"
    if not is_relation(node):
        return "results"
    return "istream" if grows(node) else "changes"


def _has(node: Node, *kinds: type[Node]) -> bool:
    return any(isinstance(part, kinds) for part in node.walk())


def is_relation(node: Node) -> bool:
    """Whether a tree has to be read as relations. What never changes is as good as a table."""
    if isinstance(node, Leaf | Restream) or is_static(node):
        return False
    if isinstance(node, Group | Distinct | Single):
        return True
    if isinstance(node, SetOperation) and not (node.kind == "union" and node.all):
        return True
    return any(is_relation(child) for child in node.children)


def only_grows(query: Query) -> bool:
    """Whether no row of a block's inputs ever leaves its window."""
    return all(i.window.kind == "unbounded" for i in query.streams)


def grows(node: Node) -> bool:
    """Whether rows never leave the relation."""
    if isinstance(node, Leaf):
        return only_grows(node.query)
    if isinstance(node, Restream):
        return node.window.kind == "unbounded"
    if isinstance(node, Hop | Over) or _rests(node):
        return True
    if isinstance(node, Group):
        return _hops(node.child)
    if isinstance(node, Match):
        if node.kind in ("inner", "semi"):
            return grows(node.left) and grows(node.right)
        return node.kind in ("left", "anti", "mark") and grows(node.left) and _rests(node.right)
    if isinstance(node, SetOperation):
        return grows(node.left) and (_rests(node.right) if node.kind == "except" else grows(node.right))
    return isinstance(node, Project | Keep | Distinct) and grows(node.child)


def _rests(node: Node) -> bool:
    """Whether a tree never changes: it reads tables, and none of them as a stream whose window lets rows go."""
    return is_static(node) and all(n.window.kind == "unbounded" for n in node.walk() if isinstance(n, Restream))


def _hops(node: Node) -> bool:
    """Whether rows enter a group only when their window closes."""
    return isinstance(node, Hop) or (isinstance(node, Project | Keep) and _hops(node.child))


def kept_nothing(node: Node) -> Node:
    """A tree whose results are only passed on: a block of one stream has to keep nothing for it."""
    if isinstance(node, Leaf):
        streams = node.query.streams
        if len(streams) != 1 or streams[0].window.kind != "unbounded":
            return node
        inputs = tuple(replace(i, window=Window("now")) if i.is_stream else i for i in node.query.inputs)
        return replace(node, query=replace(node.query, block=replace(node.query.block, inputs=inputs)))
    if isinstance(node, Project | Keep | Over | Hop):
        return replace(node, child=kept_nothing(node.child))
    if isinstance(node, SetOperation) and node.left is not node.right:
        return replace(node, left=kept_nothing(node.left), right=kept_nothing(node.right))
    if isinstance(node, Group) and _hops(node.child):
        return replace(node, child=kept_nothing(node.child))
    return node
