"""A query case: a whole query as a tree of plain values, its data, and one history of arrivals.

Scalar text is the same in most dialects, and `Said` holds both where it is not; what stands in FROM always differs (a
window here, its content at an instant in an oracle). So a tree holds texts, and nodes where a dialect must look.
Shrinking is making a smaller value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
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
    view: str = ""
    """Of a subquery that stands in WITH under this name."""


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


@dataclass(frozen=True)
class Compared:
    """A value compared with a subquery's."""

    value: str
    query: Select
    """Of one item and one row."""


Condition = str | Exists | In | Either | Compared


@dataclass(frozen=True)
class Said:
    """What dialects spell in two ways."""

    ours: str
    theirs: str


@dataclass(frozen=True)
class Value:
    """A subquery as a value."""

    query: Select


Item = str | Said | Value


@dataclass(frozen=True)
class Select:
    items: tuple[tuple[Item, str], ...]
    """What is selected, and its name."""
    first: From
    joins: tuple[Joined, ...] = ()
    """With `comma`, the ON of inner joins stands in WHERE."""
    where: tuple[Condition, ...] = ()
    group: tuple[str, ...] = ()
    having: str = ""
    distinct: bool = False
    aggregates: bool = False
    comma: bool = False
    hop: tuple[int, int] | None = None
    """Length and slide of `window(result_time, ...)`, a further key of the group."""
    frames: bool = False
    """Whether items have OVER."""

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


@dataclass(frozen=True)
class Dialect:
    """How a query is written; every dialect but our own says what is `theirs`."""

    entry: Callable[[From], str]
    """An entry of FROM."""
    joins: Mapping[JoinKind, str] = field(default_factory=lambda: JOINS)
    counted: Callable[[Select], str] | None = None
    """A block that counts results: time windows and frames. None in our own."""


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
        query = with_time(self.query) if timed else self.query
        body = sql(query, Dialect(self._entry))
        if self.stream:
            body = f"{self.stream.upper()}({body})"
        if self.every and not self.slide:
            body += f" EVERY {self.every} MICROSECONDS"
        if self.limit is not None:
            names = ", ".join(f"{name} NULLS FIRST" for name in names_of(self.query))
            body += f" ORDER BY {names} LIMIT {self.limit[0]} OFFSET {self.limit[1]}"
        views = [f"{name} AS ({sql(view, Dialect(self._entry))})" for name, view in self._views.items()]
        return f"WITH {', '.join(views)} {body}" if views else body

    @property
    def _views(self) -> dict[str, Tree]:
        """Queries by their names in WITH."""
        found: dict[str, Tree] = {}
        for entry in nodes(self.query, From):
            if entry.view:
                found.setdefault(entry.view, entry.query)
        return found

    def _entry(self, entry: From) -> str:
        if entry.view and self._views[entry.view] == entry.query:
            return f"{entry.view} AS {entry.alias}"
        if entry.query is not None:
            inner = sql(entry.query, Dialect(self._entry))
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


def sql(query: Tree, dialect: Dialect) -> str:
    """The text of a query."""
    if isinstance(query, Both):
        left, right = (sql(side, dialect) for side in (query.left, query.right))
        return f"({left}) {query.kind} ({right})"
    if dialect.counted is not None and (query.hop is not None or query.frames):
        return dialect.counted(query)
    where = [condition(c, dialect) for c in query.where]
    text = "SELECT DISTINCT " if query.distinct else "SELECT "
    text += ", ".join(f"{item(part, dialect)} AS {name}" for part, name in query.items)
    text += f" FROM {dialect.entry(query.first)}"
    for join in query.joins:
        if query.comma and join.kind == "inner":
            text += f", {dialect.entry(join.entry)}"
            where = [*join.on, *where]
        else:
            text += f" {dialect.joins[join.kind]} {dialect.entry(join.entry)} ON {' AND '.join(join.on)}"
    if where:
        text += " WHERE " + " AND ".join(where)
    groups = [*query.group]
    if query.hop is not None:
        length, slide = query.hop
        groups.append(f"window(result_time, '{length} microseconds', '{slide} microseconds')")
    if groups:
        text += f" GROUP BY {', '.join(groups)}"
    return f"{text} HAVING {query.having}" if query.having else text


def item(part: Item, dialect: Dialect) -> str:
    if isinstance(part, Value):
        return f"({sql(part.query, dialect)})"
    if isinstance(part, Said):
        return part.ours if dialect.counted is None else part.theirs
    return part


def condition(part: Condition, dialect: Dialect) -> str:
    match part:
        case Exists(query, negated):
            return f"{'NOT ' if negated else ''}EXISTS ({sql(query, dialect)})"
        case In(value, query, negated):
            return f"{value} {'NOT ' if negated else ''}IN ({sql(query, dialect)})"
        case Compared(value, query):
            return f"{value} ({sql(query, dialect)})"
        case Either(one, other):
            return f"({condition(one, dialect)} OR {other})"
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
