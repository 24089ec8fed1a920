"""Chooses how the rows of a whole query are cut into cells, so that rows that must meet share a cell.

A join block alone is cut by shares (`shares.py`). Above it, rows meet in groups, matches and set operations too. Here we
look for one value that all of them agree on: a column of each group's keys, a key of each match, and so on, followed
down to the inputs of the blocks. An input that has no such column is copied to every cell: tables always may be, a
stream only inside a block where another input is cut. Every row of the answer then comes out of exactly one cell.

Equal rows of the answer that enter and leave at one instant cancel. So they have to come out of one cell too, unless no
row ever leaves: the value must be one of the answer's columns. Two constructs look at all rows at once. NOT IN is
unknown for every row if one value is NULL, so its comparison cuts nothing. RSTREAM shows a whole relation whenever any
of it changes; with EVERY the instants are fixed, and cells agree on them, but for the last: on finite input that is the
instant of the last change anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pyarrow as pa

from thalweg.language.algebra import (
    Bound,
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
)
from thalweg.language.bind.kinds import grows
from thalweg.language.query import Input
from thalweg.language.scalar.expression import Field

Place = tuple[int, str]
"""An input: the number of its block among `Bound.leaves`, and its alias."""


@dataclass(frozen=True)
class Placement:
    """By input, the column whose value decides about the cell; None: every cell gets a copy.

    A query that can't be cut has no placement at all.
    """

    columns: Mapping[Place, str | None]
    type: pa.DataType
    """The type in which the values are compared."""
    kept: frozenset[Place] = field(default_factory=frozenset)
    """Inputs whose rows matter even if the value is NULL: they go to the first cell."""
    copied: int = 0
    """Streams of which every cell gets a copy."""


def choose(bound: Bound, *, finite: bool) -> tuple[Placement | None, str]:
    """The placement that copies the fewest streams, or None; and the reason. `finite`: whether the input ends."""
    if shows_all(bound.root, finite=finite):
        return None, "RSTREAM shows all rows at once: one cell"
    return choose_below(bound, bound.root.child, netted(bound), finite=finite)


def netted(bound: Bound) -> Sequence[str | None]:
    """Columns below the root such that rows of the answer that may cancel are equal in them; None: no row cancels."""
    root = bound.root
    lasting = not any(leaf.query.streams for leaf in bound.leaves) or grows(root.child)
    if root.kind in ("results", "rstream") or lasting:
        return [None]
    return [source for _, source in root.columns if source in root.child.schema.names]


def shows_all(node: Emit | Restream, *, finite: bool) -> bool:
    """Whether rows of a node depend on when any other row changes."""
    return node.kind == "rstream" and (node.every is None or finite)


def choose_below(
    bound: Bound, node: Node, columns: Sequence[str | None] = (None,), *, finite: bool
) -> tuple[Placement | None, str]:
    """The same for a part of a query: of the inputs below one node, by one of its columns if there are some."""
    finder = _Finder(bound, finite=finite)
    ways = (places for column in columns for places in finder.places(node, column))
    found = [places for places in ways if finder.type(places) is not None]
    if not found:
        return None, "no value that all groups and matches agree on: one cell"
    best = min(found, key=finder.copied_streams)
    leaf, alias = next(place for place, column in best.items() if column is not None)
    copied = ", ".join(a for (_, a), c in best.items() if c is None)
    why = f"cut by {alias}.{best[leaf, alias]}" + (f"; every cell has a copy of {copied}" if copied else "")
    return Placement(best, finder.type(best) or pa.null(), finder.kept(best), finder.copied_streams(best)), why


class _Finder:
    def __init__(self, bound: Bound, *, finite: bool) -> None:
        self.finite = finite
        self.leaves = bound.leaves
        self.number = {id(leaf): n for n, leaf in enumerate(bound.leaves)}

    # Where the rows of a node have to be, if those with equal values in a column must share a cell

    def places(self, node: Node, column: str | None) -> Iterator[dict[Place, str | None]]:
        """All ways to place the inputs below a node. Without a column, any way that gives the node's rows will do."""
        match node:
            case Leaf():
                yield from self._leaf(node, column)
            case Project():
                if column is None:
                    yield from self.places(node.child, None)
                elif isinstance(of := node.columns[column], Field):
                    yield from self.places(node.child, str(of.key))
            case Keep() | Distinct() | Hop():
                wanted = [column] if column is not None or isinstance(node, Keep | Hop) else list(node.schema.names)
                for name in wanted:
                    if not (isinstance(node, Hop) and name == node.name):
                        yield from self.places(node.child, name)
            case Group():
                for name in node.keys if column is None else [column]:
                    if name in node.keys:
                        yield from self.places(node.child, name)
            case Over():
                for name in node.partition if column is None else [column]:
                    if name in node.partition:
                        yield from self.places(node.child, name)
            case SetOperation():
                yield from self._set(node, column)
            case Match():
                yield from self._match(node, column)
            case Restream():
                if not node.window.ordered and not shows_all(node, finite=self.finite):
                    for name in self._restreamed(node, column):
                        yield from self.places(node.child, name)

    @staticmethod
    def _restreamed(node: Restream, column: str | None) -> Sequence[str | None]:
        """Columns of a stream's relation: any of them, if rows that may cancel must meet. Its last may be the time."""
        names: list[str] = node.child.schema.names
        if column is not None:
            at = node.schema.get_field_index(column)
            return names[at : at + 1]
        return [None] if node.kind == "rstream" or grows(node.child) else names

    def _leaf(self, leaf: Leaf, column: str | None) -> Iterator[dict[Place, str | None]]:
        """A block: the inputs that hold the value are cut by it, the others copied."""
        query, number = leaf.query, self.number[id(leaf)]
        classes = [{c.input: c.name for c in k.columns} for k in query.block.keys]
        if column is None:
            wanted = classes or ([{query.inputs[0].alias: n} for n in query.inputs[0].spec.schema.names])
        else:
            alias = next((i.alias for i in query.inputs if column.startswith(f"{i.alias}.")), "")
            name = column.removeprefix(f"{alias}.")
            wanted = [c for c in classes if c.get(alias) == name] or [{alias: name}]
            if not alias:
                return
        for own in wanted:
            if all(_may_be_cut(i, own.get(i.alias)) for i in query.inputs):
                yield {(number, i.alias): own.get(i.alias) for i in query.inputs}

    def _set(self, node: SetOperation, column: str | None) -> Iterator[dict[Place, str | None]]:
        if column is None and node.kind == "union" and node.all:
            yield from self._both(self.places(node.left, None), self.places(node.right, None))
            return
        names = node.schema.names if column is None else [column]
        for name in names:
            at = node.schema.get_field_index(name)
            left, right = node.left.schema.names[at], node.right.schema.names[at]
            yield from self._both(self.places(node.left, left), self.places(node.right, right))

    def _match(self, node: Match, column: str | None) -> Iterator[dict[Place, str | None]]:
        left = set(node.left.schema.names)
        if column is not None and column in left and node.kind in ("right", "full"):
            return  # the unmatched rows of the other side have no value there
        if column is not None and column not in left and node.kind not in ("inner", "right"):
            return
        for of_left, of_right in node.keys[:-1] if node.null_aware else node.keys:
            sides = self._both(self.places(node.left, of_left), self.places(node.right, of_right))
            if column is None or column in (of_left, of_right):
                yield from sides
                continue
            own = self.places(node.left if column in left else node.right, column)
            same = [dict(places) for places in own]
            yield from (both for both in sides if any(both.items() >= one.items() for one in same))
        if node.kind in ("inner", "left", "semi", "anti", "mark") and (column is None or column in left):
            copied = self._copied(node.right)
            if copied is not None:
                yield from self._both(self.places(node.left, column), [copied])

    def _copied(self, node: Node) -> dict[Place, str | None] | None:
        """Every input below a node as a copy in every cell; None if one of them is a stream."""
        below = [n for n in node.walk() if isinstance(n, Leaf)]
        if any(leaf.query.streams for leaf in below):
            return None
        return {(self.number[id(leaf)], i.alias): None for leaf in below for i in leaf.query.inputs}

    @staticmethod
    def _both(
        lefts: Iterable[dict[Place, str | None]], rights: Iterable[dict[Place, str | None]]
    ) -> Iterator[dict[Place, str | None]]:
        """Pairs that agree on the blocks that both sides read."""
        for left, right in product(lefts, list(rights)):
            if all(left.get(place, column) == column for place, column in right.items()):
                yield left | right

    # What follows from a way

    def copied_streams(self, places: Mapping[Place, str | None]) -> int:
        return sum(
            (n, i.alias) in places and places[n, i.alias] is None
            for n, leaf in enumerate(self.leaves)
            for i in leaf.query.streams
        )

    def type(self, places: Mapping[Place, str | None]) -> pa.DataType | None:
        """The type in which all blocks can compare the value: their own, or the widest of several integers."""
        types = {self._type(place, column) for place, column in places.items() if column is not None}
        if len(types) > 1 and not all(pa.types.is_integer(t) for t in types):
            return None
        return max(types, key=lambda t: t.bit_width) if len(types) > 1 else next(iter(types), None)

    def _type(self, place: Place, column: str) -> pa.DataType:
        query = self.leaves[place[0]].query
        for key in query.block.keys:
            if any(c.input == place[1] and c.name == column for c in key.columns):
                return key.type
        return query.input(place[1]).spec.schema.field(column).type

    def kept(self, places: Mapping[Place, str | None]) -> frozenset[Place]:
        """Rows with a NULL never join inside their block, but a block of one input gives them to what stands above."""
        return frozenset(
            (n, i.alias) for n, leaf in enumerate(self.leaves) for i in leaf.query.inputs
            if i.window.ordered or not any(
                c.input == i.alias and c.name == places.get((n, i.alias)) for k in leaf.query.block.keys for c in k.columns
            )
        )  # fmt: skip


def _may_be_cut(entry: Input, column: str | None) -> bool:
    """A window that counts rows needs all rows of its input, or all of its partition."""
    if column is None or not (entry.is_stream and entry.window.ordered):
        return True
    return entry.window.kind == "partition" and column in entry.window.by
