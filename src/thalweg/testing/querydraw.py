"""Draws whole queries: nested blocks, views, streams of relations, outer, semi and anti joins, subqueries, groups, time
windows, frames and set operations.

A query reads two to five inputs. Invariant: the chance alone decides what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from thalweg.language.query import Window
from thalweg.testing.queryaggregates import SHOWN, draw_aggregate, draw_frame
from thalweg.testing.querycase import (
    Both,
    From,
    Item,
    Joined,
    JoinKind,
    Said,
    Select,
    Stream,
    Tree,
    names_of,
)  # fmt: skip
from thalweg.testing.queryparts import Kind, Parts, Scope, columns_of

FORMS = ("results", "results", "group", "group", "distinct", "set", "nested", "nested", "block", "view", "stream", "hop",
         "over")  # fmt: skip
SET_KINDS = ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
OUTER: tuple[JoinKind, ...] = ("left", "left", "right", "full", "semi", "anti")


@dataclass
class Drawn:
    """A query and what its run needs."""

    query: Tree
    stream: Stream = ""
    every: int = 0
    slide: bool = False
    timed: bool = False
    limit: tuple[int, int] | None = None
    streams: dict[str, bool] = field(default_factory=dict)


class QueryMaker(Parts):
    """Draws one query."""

    def query(self) -> Drawn:
        c = self.chance
        static = not any(self.streams.values())
        form = c.choice(FORMS)
        if static and form in ("stream", "hop", "over"):
            form = "group"
        stream: Stream = "" if static else c.choice(("", "", "istream", "dstream", "rstream"))
        if form == "block" and not stream and not static:
            stream = c.choice(("istream", "dstream", "rstream"))
        results = form in ("results", "stream", "hop", "over")
        if results:
            stream = ""
        if stream == "rstream" or (not results and not static and c.yes(0.15)):
            self.every = c.integer(1, 5)
            self.slide = c.yes(0.3)
            self.ranges_only = self.slide
        tree = self._tree(form)
        limit = (c.integer(0, 4), c.integer(0, 2)) if static and c.yes(0.4) else None
        limit = None if SHOWN in self._kinds.values() else limit
        timed = results and not static and not self.relation and c.yes(0.7)
        return Drawn(tree, stream, self.every, self.slide, timed, limit, self.streams)

    def _tree(self, form: str) -> Tree:
        match form:
            case "group":
                return self._grouped()
            case "distinct":
                return self._select(distinct=True)
            case "set":
                return self._set()
            case "nested":
                return self._nested()
            case "view":
                return self._viewed()
            case "stream":
                return self._streamed()
            case "hop":
                return self._hopped()
            case "over":
                return self._framed()
            case _:
                return self._select()

    def _entry(self, nest: float, *, stream: bool = False) -> tuple[From, dict[str, Kind]]:
        """An input, or a subquery where one is allowed."""
        if self.left > 1 and self.chance.yes(nest):
            inner = self._select(simple=True)
            columns = {name: self._kinds[name] for _, name in inner.items}
            return From(self._alias(), query=inner), columns
        return self._input(stream=stream)

    def _from(self, nest: float, *, stream: bool = False) -> tuple[From, tuple[Joined, ...], Scope, bool]:
        c = self.chance
        first, columns = self._entry(nest, stream=stream)
        scope: Scope = [(first.alias, columns)]
        joins: list[Joined] = []
        comma = c.yes(0.4)
        while self.left > 0 and len(joins) < 3 and c.yes(0.55):
            entry, columns = self._entry(nest)
            kind: JoinKind = "inner" if comma or c.yes(0.45) else c.choice(OUTER)
            on = self._on(scope, (entry.alias, columns), kind)
            joins.append(Joined(kind, entry, on))
            if kind not in ("semi", "anti"):
                scope.append((entry.alias, columns))
        return first, tuple(joins), scope, comma

    def _select(
        self, *, distinct: bool = False, simple: bool = False, kinds: Sequence[Kind] | None = None, nest: float = 0.15
    ) -> Select:
        first, joins, scope, comma = self._from(0.0 if simple else nest)
        where = self._conditions(scope, deep=not simple)
        items = self._items(scope, kinds, deep=not simple and not distinct)
        return Select(items, first, joins, where, distinct=distinct, comma=comma)

    def _grouped(self, *, simple: bool = False, hop: tuple[int, int] | None = None) -> Select:
        c = self.chance
        first, joins, scope, comma = self._from(0.0 if simple else 0.15, stream=hop is not None)
        where = self._conditions(scope, deep=not simple)
        columns = columns_of(scope)
        drawn = tuple(dict.fromkeys(c.choice(columns) for _ in range(c.choice((0, 1, 1, 1, 2)))))
        groups = [(self._computed(text, kind), kind) for text, kind in drawn]
        plain = not joins and first.window is not None and all(isinstance(part, str) for part in where)
        single = first.alias if plain and hop is None else ""
        aggregates = [draw_aggregate(c, columns, single, last=not simple) for _ in range(c.integer(1, 3))]
        if not self.ranges_only and any(
            isinstance(a, Said) and a.ours.startswith(("first(", "last(")) for a, _ in aggregates
        ):
            # A row that enters as an equal one leaves is no change, so the order of rows would not be the oracle's.
            first = replace(first, window=Window("unbounded"))
        chosen: list[tuple[Item, Kind]] = [*groups, *aggregates]
        if hop is not None:
            edge = c.choice((Said("window.start", f"until_ - {hop[0]}"), Said("window.end", "until_")))
            chosen.append((edge, SHOWN))
        having = ""
        if c.yes(0.3):
            having = c.choice(("count(*) > 1", f"min({c.choice(columns)[0]}) IS NOT NULL", "count(*) <> 2"))
        self._kinds = {f"c{n}": kind for n, (_, kind) in enumerate(chosen)}
        items = tuple((text, f"c{n}") for n, (text, _) in enumerate(chosen))
        keys = tuple(text for text, _ in groups)
        return Select(items, first, joins, where, keys, having, aggregates=True, comma=comma, hop=hop)

    def _computed(self, text: str, kind: Kind) -> str:
        """A key of a group: a column, or made of one."""
        if kind == "int" and self.chance.yes(0.2):
            return self.chance.choice((f"{text} + 1", f"coalesce({text}, 0)"))
        if kind == "str" and self.chance.yes(0.2):
            return f"upper({text})"
        return text

    def _hopped(self) -> Select:
        """Groups by `window(result_time, ...)`."""
        slide = self.chance.integer(1, 5)
        return self._grouped(simple=True, hop=(slide + self.chance.choice((0, 0, 1, slide, 5)), slide))

    def _framed(self) -> Select:
        """Aggregates of what precedes each result."""
        c = self.chance
        first, joins, scope, comma = self._from(0.0, stream=True)
        where = self._conditions(scope, deep=False)
        single = first.alias if not joins and first.window is not None else ""
        items = [item for item, _ in self._items(scope, None)]
        items += [draw_frame(c, columns_of(scope), single)[0] for _ in range(c.integer(1, 2))]
        named = tuple((item, f"c{n}") for n, item in enumerate(items))
        return Select(named, first, joins, where, comma=comma, frames=True)

    def _viewed(self) -> Select:
        """A view that is used twice."""
        c = self.chance
        kept, self.left = self.left, min(self.left, 2)
        first_part = self._grouped(simple=True) if c.yes(0.5) else self._select(simple=True)
        inner: Tree = self._set(first_part) if self.left > 0 and c.yes(0.2) else first_part
        self.left = kept
        columns = {name: self._kinds[name] for name in names_of(inner)}
        first, second = (From(self._alias(), query=inner, view="seen") for _ in range(2))
        scope: Scope = [(first.alias, columns)]
        kind: JoinKind = c.choice(("inner", "inner", *OUTER))
        joins = (Joined(kind, second, self._on(scope, (second.alias, columns), kind)),)
        if kind not in ("semi", "anti"):
            scope.append((second.alias, columns))
        return Select(self._items(scope, None), first, joins, self._conditions(scope, deep=False))

    def _streamed(self) -> Select:
        """A relation that is turned into a stream, read through a window and joined."""
        c = self.chance
        inner = self._select(simple=True, distinct=c.yes(0.5))
        columns = {name: self._kinds[name] for name in names_of(inner)}
        window = c.choice((Window("range", span=c.integer(0, 8)), Window("now"), Window("unbounded")))
        entry = From(self._alias(), window=window, query=inner, stream=c.choice(("istream", "dstream")))
        scope: Scope = [(entry.alias, columns)]
        joins: tuple[Joined, ...] = ()
        if c.yes(0.6):
            other, known = self._input()
            kind: JoinKind = c.choice(("inner", *OUTER))
            joins = (Joined(kind, other, self._on(scope, (other.alias, known), kind)),)
            if kind not in ("semi", "anti"):
                scope.append((other.alias, known))
        return Select(self._items(scope, None), entry, joins, self._conditions(scope, deep=False))

    def _set(self, first: Select | None = None) -> Both:
        c = self.chance
        if first is None:
            first = self._select(simple=c.yes(0.7))
        kinds = [self._kinds[name] for _, name in first.items]
        self.left = max(self.left, 1)
        tree = Both(c.choice(SET_KINDS), first, self._select(simple=True, kinds=kinds))
        if self.left > 0 and c.yes(0.2):
            tree = Both(c.choice(SET_KINDS), tree, self._select(simple=True, kinds=kinds))
        return tree

    def _nested(self) -> Select:
        """A group, DISTINCT or a set operation in FROM, below a block or a further group."""
        c = self.chance
        form = c.choice(("group", "group", "group", "distinct", "set"))
        if form == "set":
            kept, self.left = self.left, 2
            inner: Tree = self._set(self._select(simple=True))
            self.left = kept - 2
        else:
            inner = self._grouped(simple=True) if form == "group" else self._select(distinct=True, simple=True)
        columns = {name: self._kinds[name] for name in names_of(inner)}
        entry = From(self._alias(), query=inner)
        scope: Scope = [(entry.alias, columns)]
        joins: tuple[Joined, ...] = ()
        if self.left > 0 and c.yes(0.6):
            other, known = self._input()
            kind: JoinKind = c.choice(("inner", *OUTER))
            joins = (Joined(kind, other, self._on(scope, (other.alias, known), kind)),)
            if kind not in ("semi", "anti"):
                scope.append((other.alias, known))
        where = self._conditions(scope, deep=True)
        if c.yes(0.3):
            chosen = [draw_aggregate(c, columns_of(scope))]
            return Select(tuple((t, f"c{n}") for n, (t, _) in enumerate(chosen)), entry, joins, where, aggregates=True)
        return Select(self._items(scope, None, deep=True), entry, joins, where)
