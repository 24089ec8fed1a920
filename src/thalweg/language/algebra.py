"""The algebra of a query: what is made of its join blocks, as a tree of plain values. It holds no data and no decision.

A leaf is a join block over windows. What stands above it is read in one of two ways, which the root, `Emit`, chooses
(docs/relations.md):

- As a stream of results: every combination appears once. `Match` with a kind other than "inner" compares whole
  histories: a row is unmatched if none of its partners ever shares an instant with it.
- As relations: the tree has a value at every instant. `Match` compares what lives at that instant.

Each node names its columns, and no name stands twice in a node's schema. Expressions find a column under its name in
the child's schema. CQL: Arasu, Babu and Widom; thesis 2.1 and 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from thalweg.errors import QueryError
from thalweg.language.query import Query, Window
from thalweg.language.scalar.expression import Expression

MatchKind = Literal["inner", "left", "right", "full", "semi", "anti", "mark"]
EmitKind = Literal["results", "changes", "istream", "dstream", "rstream", "sent"]
RESULT_TIME = "result_time"
CHANGE_TYPE, CHANGE_TIME = "_change_type", "_change_time"
SIGN, TIME = ":sign", ":time"


@dataclass(frozen=True, eq=False)
class Node:
    """A part of a query that has rows."""

    schema: pa.Schema

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def walk(self) -> Iterator[Node]:
        """This node and all below it, children first. A view that is used twice comes twice."""
        for child in self.children:
            yield from child.walk()
        yield self


@dataclass(frozen=True, eq=False)
class _Above(Node):
    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


@dataclass(frozen=True, eq=False)
class Leaf(Node):
    """A join block. Its output columns are plain columns of its inputs; the schema names them `alias.column`.

    Only the block of a plain query (`Bound.plain`) has expressions in its output: they are left to Spark, or to whoever
    reads the results. Its schema then names the columns that they need.
    """

    query: Query


@dataclass(frozen=True, eq=False)
class Sent(Node):
    """A relation that other cells make and send as changes: what lies below a second shuffle (`optimize/split.py`)."""

    ticks: Literal["us", "ns"]
    """What its times count."""
    per: int
    """Ticks in a time that is a number or a date."""
    settled: frozenset[str]
    """Columns of which each value enters at one instant only, and never leaves."""
    senders: int
    """How many cells send."""


@dataclass(frozen=True, eq=False)
class Project(_Above):
    """Columns computed row by row, by name in the schema."""

    columns: Mapping[str, Expression]


@dataclass(frozen=True, eq=False)
class Keep(_Above):
    """The rows for which a condition is true."""

    condition: Expression


@dataclass(frozen=True, eq=False)
class Match(Node):
    """A join of two relations.

    Columns: of both sides for "inner", "left", "right" and "full"; of the left side for "semi" and "anti"; of the left
    side and one boolean, the last column, for "mark" (EXISTS and IN inside other conditions).
    """

    left: Node
    right: Node
    kind: MatchKind
    keys: tuple[tuple[str, str], ...] = ()
    """Columns of the left and the right side that are equal, each pair of one type. NULL equals nothing; NaN equals
    itself, and the two zeros are equal, as in Spark."""
    condition: Expression | None = None
    """Holds over the columns of both sides, besides the keys."""
    null_aware: bool = False
    """For NOT IN (anti) and for IN inside other conditions (mark): the last key pair is the comparison; it is unknown
    where a side is NULL, and so is the row."""

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a group: a function over columns of the child."""

    function: str
    """In lower case: count, sum, avg, min, max, stddev_samp, stddev_pop, var_samp, var_pop, collect_list, first, last,
    approx_count_distinct, or the name of a user's own."""
    arguments: tuple[str, ...] = ()
    """None for count(*)."""
    distinct: bool = False
    make: Callable[[], Any] | None = None
    """Of a user's own aggregate: makes an object with add, remove, value and merge."""


@dataclass(frozen=True, eq=False)
class Group(_Above):
    """GROUP BY: columns of the child as keys, then aggregates. Without keys there is always exactly one row."""

    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    """By name in the schema, after the keys."""


@dataclass(frozen=True, eq=False)
class Distinct(_Above):
    """Every row once."""


@dataclass(frozen=True, eq=False)
class SetOperation(Node):
    """UNION, EXCEPT or INTERSECT of two relations with equal types; the names are the left side's."""

    left: Node
    right: Node
    kind: Literal["union", "except", "intersect"]
    all: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Single(_Above):
    """A scalar subquery: one row, all NULL where the child is empty, an error where it has more than one."""


@dataclass(frozen=True, eq=False)
class Hop(_Above):
    """`window(result_time, size, slide)`: every result once in each of its time windows, in a struct column `name`.

    A result enters when its window closes and never leaves, so a group of a window changes once, at the window's end.
    """

    name: str
    size: int
    """Microseconds, as `slide`."""
    slide: int


@dataclass(frozen=True, eq=False)
class Over(_Above):
    """Aggregates of the rows that precede each row, in time, within its partition. Every row appears once.

    `preceding` counts microseconds for a range and rows otherwise; None is UNBOUNDED. Rows of the same time as the
    current one belong to a range, and not to a frame of rows unless they came before it.
    """

    partition: tuple[str, ...]
    frame: Literal["range", "rows"]
    preceding: int | None
    aggregates: Mapping[str, Aggregate]


@dataclass(frozen=True, eq=False)
class Restream(_Above):
    """A relation turned into a stream, read through a window: ISTREAM(...), DSTREAM(...) or RSTREAM(...) in FROM.

    Columns: of the child, and RESULT_TIME as the last one: when the row was emitted. It stays also where nobody asks for
    it: an element that leaves its window as an equal one enters is another one.
    """

    kind: Literal["istream", "dstream", "rstream"]
    every: int | None
    """Microseconds between the instants that are looked at; None for all instants."""
    window: Window


@dataclass(frozen=True, eq=False)
class Emit(_Above):
    """The root: how the rows of the child leave, and under which names.

    `columns` pairs each output name with a column of the child or RESULT_TIME. "changes" add CHANGE_TYPE and CHANGE_TIME.
    The schema is that of the rows that leave; of a plain query, whose SELECT others compute, the leaf's. A query over
    tables only has the kind "results", or "istream" if it has a relational operator: its answer comes once. "sent" are
    changes on their way to other cells, as counts and ticks (SIGN, TIME).
    """

    kind: EmitKind
    columns: tuple[tuple[str, str], ...]
    every: int | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()
    """Over tables only: columns of the child to sort by; whether descending, whether NULLs come first."""
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Bound:
    """A query, ready to run: its text, its tree, and the functions it calls."""

    text: str
    root: Emit
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The join blocks, each once."""
        found = {id(n): n for n in self.root.walk() if isinstance(n, Leaf)}
        return tuple(found.values())

    @cached_property
    def sent(self) -> Sent | None:
        """What other cells send, if this is the part of a query above a second shuffle."""
        return next((n for n in self.root.walk() if isinstance(n, Sent)), None)

    def with_nodes(self, nodes: Mapping[int, Node]) -> Bound:
        """The same query with other nodes, by the identity of those they replace. What is shared stays shared."""
        made: dict[int, Node] = dict(nodes)

        def rebuilt(node: Node) -> Node:
            if id(node) not in made:
                parts = {name: rebuilt(child) for name in ("child", "left", "right")
                         if isinstance(child := getattr(node, name, None), Node)}  # fmt: skip
                made[id(node)] = replace(node, **parts)
            return made[id(node)]

        root = rebuilt(self.root)
        assert isinstance(root, Emit)
        return replace(self, root=root)

    @cached_property
    def plain(self) -> Query | None:
        """The block of a query that is nothing but a block, and None for all others."""
        root = self.root
        cut = root.order or root.limit is not None or root.offset
        lone = root.kind == "results" and isinstance(root.child, Leaf) and not cut
        return self.leaves[0].query if lone else None

    @property
    def query(self) -> Query:
        """`plain`, for callers that can take nothing else."""
        if self.plain is None:
            raise QueryError("this query is more than a join of windows", hint="leave it to tw.sql or tw.Engine")
        return self.plain
