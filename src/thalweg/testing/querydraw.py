"""Draws whole queries: nested blocks, outer, semi and anti joins, subqueries in WHERE, groups and set operations.

Every source has the same columns, small integers, texts and doubles with NULLs, so any two can meet. A query reads two
to five inputs. Invariant: the chance alone decides what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from thalweg.language.query import Window
from thalweg.testing.chance import Chance
from thalweg.testing.querycase import (
    Both,
    Condition,
    Either,
    Exists,
    From,
    In,
    Joined,
    JoinKind,
    Select,
    Stream,
    Tree,
)  # fmt: skip

Kind = str
"""Of a column: int, str or float."""
COLUMNS: dict[str, Kind] = {"k": "int", "g": "str", "v": "int", "w": "float"}
SOURCES = ("a", "b", "c", "d")
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


Scope = list[tuple[str, dict[str, Kind]]]


class QueryMaker:
    """Draws one query."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        tables = chance.choice((0.0, 0.0, 0.2, 0.4, 1.0))
        self.streams = {name: not chance.yes(tables) for name in SOURCES}
        self.left = chance.integer(2, 5)
        """Inputs that may still be read."""
        self.aliases = 0
        self.every = 0
        self.slide = False
        self.ranges_only = False

    def query(self) -> Drawn:
        c = self.chance
        static = not any(self.streams.values())
        form = c.choice(("results", "results", "group", "group", "distinct", "set", "nested", "block"))
        stream: Stream = "" if static else c.choice(("", "", "istream", "dstream", "rstream"))
        if form == "block" and not stream and not static:
            stream = c.choice(("istream", "dstream", "rstream"))
        if form == "results":
            stream = ""
        if stream == "rstream" or (form != "results" and not static and c.yes(0.15)):
            self.every = c.integer(1, 5)
            self.slide = c.yes(0.3)
            self.ranges_only = self.slide
        tree = self._tree(form)
        limit = (c.integer(0, 4), c.integer(0, 2)) if static and c.yes(0.4) else None
        timed = form == "results" and not static and c.yes(0.7)
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
            case _:
                return self._select()

    # FROM

    def _alias(self) -> str:
        self.aliases += 1
        return "xyzupqrs"[self.aliases - 1]

    def _input(self) -> tuple[From, dict[str, Kind]]:
        self.left -= 1
        source = self.chance.choice(SOURCES)
        return From(self._alias(), source, self._window() if self.streams[source] else None), dict(COLUMNS)

    def _window(self) -> Window:
        c = self.chance
        if self.ranges_only:
            return Window("range", span=c.integer(1, 8))
        kind = c.choice(("range", "range", "range", "rows", "partition", "now", "unbounded"))
        match kind:
            case "range":
                return Window("range", span=c.integer(0, 8))
            case "rows":
                return Window("rows", rows=c.integer(1, 3))
            case "partition":
                return Window("partition", rows=c.integer(1, 2), by=c.choice((("k",), ("g",), ("k", "g"))))
            case "now":
                return Window("now")
            case _:
                return Window("unbounded")

    def _entry(self, nest: float) -> tuple[From, dict[str, Kind]]:
        """An input, or a subquery where one is allowed."""
        if self.left > 1 and self.chance.yes(nest):
            inner = self._select(simple=True)
            columns = {name: self._kinds[name] for _, name in inner.items}
            return From(self._alias(), query=inner), columns
        return self._input()

    def _from(self, nest: float) -> tuple[From, tuple[Joined, ...], Scope, bool]:
        c = self.chance
        first, columns = self._entry(nest)
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

    def _on(self, scope: Scope, new: tuple[str, dict[str, Kind]], kind: JoinKind) -> tuple[str, ...]:
        c = self.chance
        alias, columns = c.choice(scope)
        pairs = [(a, b) for a in columns for b in new[1] if columns[a] == new[1][b]]
        if not pairs:
            return (f"({alias}.{next(iter(columns))} IS NOT NULL OR {new[0]}.{next(iter(new[1]))} IS NULL)",)
        a, b = c.choice(pairs)
        same = [(p, q) for p, q in pairs if p == q]
        if same and c.yes(0.7):
            a, b = c.choice(same)
        on = [f"{alias}.{a} = {new[0]}.{b}"]
        if kind == "inner" and c.yes(0.1):
            on = [f"{alias}.{a} <= {new[0]}.{b}"]
        if c.yes(0.25):
            a, b = c.choice(pairs)
            on.append(f"{alias}.{a} {c.choice(('<', '>=', '<>'))} {new[0]}.{b}")
        if c.yes(0.15):
            on.append(self._filter([new]))
        if kind != "inner" and c.yes(0.1):
            on.append(self._filter([(alias, columns)]))
        return tuple(on)

    # WHERE

    def _filter(self, scope: Scope) -> str:
        c = self.chance
        alias, columns = c.choice(scope)
        name = c.choice(list(columns))
        column = f"{alias}.{name}"
        if c.yes(0.15):
            return f"{column} IS {c.choice(('', 'NOT '))}NULL"
        constant = {"int": str(c.integer(-1, 3)), "str": c.choice(("'x'", "'y'", "''")), "float": "0.5"}[columns[name]]
        return f"{column} {c.choice(('=', '<>', '<', '>='))} {constant}"

    def _conditions(self, scope: Scope, deep: bool) -> tuple[Condition, ...]:
        c = self.chance
        found: list[Condition] = [self._filter(scope) for _ in range(c.choice((0, 0, 1, 1, 2)))]
        while deep and self.left > 0 and c.yes(0.4):
            part = self._subquery(scope)
            found.append(Either(part, self._filter(scope)) if c.yes(0.2) else part)
        return tuple(found)

    def _subquery(self, scope: Scope) -> Exists | In:
        c = self.chance
        entry, columns = self._input()
        negated = c.yes(0.5)
        where: list[Condition] = [self._filter([(entry.alias, columns)])] if c.yes(0.3) else []
        if c.yes(0.5):
            on = self._on(scope, (entry.alias, columns), "inner")
            return Exists(Select((("1", "one"),), entry, where=(*on, *where)), negated)
        if c.yes(0.4):
            where += self._on(scope, (entry.alias, columns), "inner")
        alias, outer = c.choice(scope)
        pairs = [(a, b) for a in outer for b in columns if outer[a] == columns[b]]
        if not pairs:
            return Exists(Select((("1", "one"),), entry, where=tuple(where)), negated)
        a, b = c.choice(pairs)
        inner = Select(((f"{entry.alias}.{b}", b),), entry, where=tuple(where))
        return In(f"{alias}.{a}", inner, negated)

    # SELECT

    _kinds: dict[str, Kind]

    def _items(self, scope: Scope, kinds: Sequence[Kind] | None) -> tuple[tuple[str, str], ...]:
        c = self.chance
        columns = [(f"{alias}.{name}", kind) for alias, known in scope for name, kind in known.items()]
        chosen: list[tuple[str, Kind]] = []
        for kind in kinds if kinds is not None else [None] * c.integer(1, 3):
            fitting = [col for col in columns if kind is None or col[1] == kind]
            if not fitting:
                constant = {"int": "1", "str": "'x'", "float": "0.5D"}[str(kind)]
                chosen.append((constant, str(kind)))
                continue
            text, found = c.choice(fitting)
            if found == "int" and c.yes(0.15):
                text = c.choice((f"{text} + 1", f"coalesce({text}, -1)", f"CASE WHEN {text} > 0 THEN {text} END"))
            chosen.append((text, found))
        self._kinds = {f"c{n}": kind for n, (_, kind) in enumerate(chosen)}
        return tuple((text, f"c{n}") for n, (text, _) in enumerate(chosen))

    def _select(
        self, *, distinct: bool = False, simple: bool = False, kinds: Sequence[Kind] | None = None, nest: float = 0.15
    ) -> Select:
        first, joins, scope, comma = self._from(0.0 if simple else nest)
        where = self._conditions(scope, deep=not simple)
        return Select(self._items(scope, kinds), first, joins, where, distinct=distinct, comma=comma)

    def _grouped(self, *, simple: bool = False) -> Select:
        c = self.chance
        first, joins, scope, comma = self._from(0.0 if simple else 0.15)
        where = self._conditions(scope, deep=not simple)
        columns = [(f"{alias}.{name}", kind) for alias, known in scope for name, kind in known.items()]
        groups = tuple(dict.fromkeys(c.choice(columns) for _ in range(c.choice((0, 1, 1, 1, 2)))))
        aggregates = [self._aggregate(columns) for _ in range(c.integer(1, 3))]
        chosen = [*groups, *aggregates]
        having = ""
        if c.yes(0.3):
            having = c.choice(("count(*) > 1", f"min({c.choice(columns)[0]}) IS NOT NULL", "count(*) <> 2"))
        self._kinds = {f"c{n}": kind for n, (_, kind) in enumerate(chosen)}
        items = tuple((text, f"c{n}") for n, (text, _) in enumerate(chosen))
        return Select(
            items, first, joins, where, tuple(text for text, _ in groups), having, aggregates=True, comma=comma
        )  # fmt: skip

    def _aggregate(self, columns: Sequence[tuple[str, Kind]]) -> tuple[str, Kind]:
        c = self.chance
        text, kind = c.choice(columns)
        function = c.choice(("count(*)", "count", "sum", "min", "max", "avg", "distinct", "sumdistinct", "var"))
        if function == "count(*)":
            return "count(*)", "int"
        if function == "count":
            return f"count({text})", "int"
        if function == "distinct":
            return f"count(DISTINCT {text})", "int"
        if function in ("min", "max"):
            return f"{function}({text})", kind
        numbers = [t for t, k in columns if k == "int"]
        if not numbers:
            return "count(*)", "int"
        text = c.choice(numbers)
        if function == "avg":
            return f"avg({text})", "float"
        if function == "var":
            return f"{c.choice(('var_samp', 'stddev_pop'))}({text})", "float"
        return f"sum({'DISTINCT ' if function == 'sumdistinct' else ''}{text})", "int"

    def _set(self) -> Both:
        c = self.chance
        first = self._select(simple=c.yes(0.7))
        kinds = [self._kinds[name] for _, name in first.items]
        self.left = max(self.left, 1)
        tree = Both(c.choice(SET_KINDS), first, self._select(simple=True, kinds=kinds))
        if self.left > 0 and c.yes(0.2):
            tree = Both(c.choice(SET_KINDS), tree, self._select(simple=True, kinds=kinds))
        return tree

    def _nested(self) -> Select:
        """A group or DISTINCT in FROM, below a block or a further group."""
        c = self.chance
        inner = self._grouped(simple=True) if c.yes(0.7) else self._select(distinct=True, simple=True)
        columns = {name: self._kinds[name] for _, name in inner.items}
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
            columns_ = [(f"{alias}.{name}", kind_) for alias, all_ in scope for name, kind_ in all_.items()]
            chosen = [self._aggregate(columns_)]
            return Select(tuple((t, f"c{n}") for n, (t, _) in enumerate(chosen)), entry, joins, where, aggregates=True)
        return Select(self._items(scope, None), entry, joins, where)
