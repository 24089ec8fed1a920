"""A query case: a whole query as a tree of plain values, its data, and one history of arrivals.

Scalar text is the same in every dialect; only what stands in FROM differs (a window here, its content at an instant in
an oracle), so a tree holds texts, and nodes where a dialect must look. Shrinking is making a smaller value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from thalweg.language.query import Source, Window
from thalweg.testing.joincase import CaseSource, Course, Step, window_text

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
Stream = Literal["", "istream", "dstream", "rstream"]
JOINS: Mapping[JoinKind, str] = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL OUTER JOIN", "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}  # fmt: skip


@dataclass(frozen=True)
class From:
    """An entry of FROM: a source with its window (None for a table), or a subquery."""

    alias: str
    source: str = ""
    window: Window | None = None
    query: Select | Both | None = None
    stream: Stream = ""
    """Of a subquery that is turned into a stream; it is read through `window`."""


@dataclass(frozen=True)
class Joined:
    kind: JoinKind
    entry: From
    on: tuple[str, ...]


@dataclass(frozen=True)
class Exists:
    query: Select
    negated: bool = False


@dataclass(frozen=True)
class In:
    value: str
    query: Select
    """Of one item."""
    negated: bool = False


@dataclass(frozen=True)
class Either:
    """A subquery inside OR."""

    one: Exists | In
    other: str


Condition = str | Exists | In | Either


@dataclass(frozen=True)
class Select:
    items: tuple[tuple[str, str], ...]
    """Text and name."""
    first: From
    joins: tuple[Joined, ...] = ()
    """With `comma`, the ON of inner joins stands in WHERE."""
    where: tuple[Condition, ...] = ()
    group: tuple[str, ...] = ()
    having: str = ""
    distinct: bool = False
    aggregates: bool = False
    comma: bool = False

    @property
    def entries(self) -> tuple[From, ...]:
        return (self.first, *(j.entry for j in self.joins))


@dataclass(frozen=True)
class Both:
    """UNION, EXCEPT or INTERSECT."""

    kind: str
    left: Select | Both
    right: Select | Both


Tree = Select | Both
Entry = Callable[[From], str]
"""How a dialect writes an entry of FROM."""


@dataclass(frozen=True)
class QueryCase(Course):
    """A query, its data and a history."""

    seed: int
    sources: tuple[CaseSource, ...]
    query: Tree
    steps: tuple[Step, ...]
    policy: str
    stream: Stream = ""
    every: int = 0
    """Microseconds; 0 for all instants."""
    slide: bool = False
    """Whether windows say SLIDE instead of EVERY after the query."""
    timed: bool = False
    """Whether a stream of results says its times."""
    limit: tuple[int, int] | None = None
    """LIMIT and OFFSET, of a query over tables only, sorted by all columns."""
    slice_rows: int = 1024
    buffer: int = 1 << 14

    def source(self, name: str) -> CaseSource:
        return next(s for s in self.sources if s.name == name)

    @property
    def static(self) -> bool:
        """Whether only tables are read."""
        return all(f.window is None for f in nodes(self.query, From) if f.source)

    @property
    def specs(self) -> dict[str, Source]:
        return {s.name: s.spec for s in self.sources}

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {s.name: s.table() for s in self.sources if s.time is None}

    @property
    def text(self) -> str:
        timed = bool(self.stream or self.every) or self.timed
        body = sql(with_time(self.query) if timed else self.query, self._entry)
        if self.stream:
            body = f"{self.stream.upper()}({body})"
        if self.every and not self.slide:
            body += f" EVERY {self.every} MICROSECONDS"
        if self.limit is not None:
            names = ", ".join(f"{name} NULLS FIRST" for name in names_of(self.query))
            body += f" ORDER BY {names} LIMIT {self.limit[0]} OFFSET {self.limit[1]}"
        return body

    def _entry(self, entry: From) -> str:
        if entry.query is not None:
            inner = sql(entry.query, self._entry)
            if not entry.stream:
                return f"({inner}) AS {entry.alias}"
            return f"{entry.stream.upper()}({inner}) {_window(entry.window, 0)} AS {entry.alias}"
        if entry.window is None:
            return f"{entry.source} AS {entry.alias}"
        return f"{entry.source} {_window(entry.window, self.every if self.slide else 0)} AS {entry.alias}"


def _window(window: Window | None, slide: int) -> str:
    if window is None:
        return ""
    text = window_text(window)
    return text if not slide or window.kind != "range" else f"{text[:-1]} SLIDE {slide} MICROSECONDS]"


def with_time(query: Tree) -> Tree:
    """The query with its time as the last column; a set operation is put into a block, which can name it."""
    if isinstance(query, Both):
        items = tuple((f"whole.{name}", name) for name in names_of(query))
        return with_time(Select(items, From("whole", query=query)))
    return replace(query, items=(*query.items, ("result_time", "t")))


def names_of(query: Tree) -> list[str]:
    return [name for _, name in query.items] if isinstance(query, Select) else names_of(query.left)


def sql(query: Tree, entry: Entry, joins: Mapping[JoinKind, str] = JOINS) -> str:
    """The text of a query; `entry` writes what stands in FROM."""
    if isinstance(query, Both):
        left, right = (sql(side, entry, joins) for side in (query.left, query.right))
        return f"({left}) {query.kind} ({right})"
    where = [condition(c, entry, joins) for c in query.where]
    text = "SELECT DISTINCT " if query.distinct else "SELECT "
    text += ", ".join(f"{item} AS {name}" for item, name in query.items)
    text += f" FROM {entry(query.first)}"
    for join in query.joins:
        if query.comma and join.kind == "inner":
            text += f", {entry(join.entry)}"
            where = [*join.on, *where]
        else:
            text += f" {joins[join.kind]} {entry(join.entry)} ON {' AND '.join(join.on)}"
    if where:
        text += " WHERE " + " AND ".join(where)
    if query.group:
        text += f" GROUP BY {', '.join(query.group)}"
    return f"{text} HAVING {query.having}" if query.having else text


def condition(part: Condition, entry: Entry, joins: Mapping[JoinKind, str] = JOINS) -> str:
    match part:
        case Exists(query, negated):
            return f"{'NOT ' if negated else ''}EXISTS ({sql(query, entry, joins)})"
        case In(value, query, negated):
            return f"{value} {'NOT ' if negated else ''}IN ({sql(query, entry, joins)})"
        case Either(one, other):
            return f"({condition(one, entry, joins)} OR {other})"
        case _:
            return part


def nodes(value: Any, kind: type[Any]) -> Iterator[Any]:
    """All parts of a tree that are of a kind."""
    if isinstance(value, kind):
        yield value
    if isinstance(value, tuple):
        for part in value:
            yield from nodes(part, kind)
    elif is_dataclass(value) and not isinstance(value, Window | type):
        for f in fields(value):
            yield from nodes(getattr(value, f.name), kind)
