"""Draws the parts of a query: inputs with their windows, conditions, subqueries and select lists.

Every source has the same columns, small integers, texts, doubles and decimals with NULLs, so any two can meet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from thalweg.language.query import Window
from thalweg.testing.chance import Chance
from thalweg.testing.querycase import (
    Compared,
    Condition,
    Either,
    Exists,
    From,
    In,
    Item,
    JoinKind,
    Select,
    Value,
)  # fmt: skip

Kind = str
"""Of a column: int, str, float or dec; "shown" where nothing may compare it."""
COLUMNS: dict[str, Kind] = {"k": "int", "g": "str", "v": "int", "w": "float", "d": "dec"}
CONSTANTS = {"int": "1", "str": "'x'", "float": "0.5D", "dec": "CAST(0.5 AS DECIMAL(9,2))"}
SOURCES = ("a", "b", "c", "d")
Scope = list[tuple[str, dict[str, Kind]]]


class Parts:
    """What the forms of a query are made of."""

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
        self.relation = False
        """Whether a part was drawn that makes a relation of a join."""

    # FROM

    def _alias(self) -> str:
        self.aliases += 1
        return "xyzupqrs"[self.aliases - 1]

    def _input(self, *, stream: bool = False) -> tuple[From, dict[str, Kind]]:
        self.left -= 1
        source = self.chance.choice([name for name in SOURCES if self.streams[name] or not stream])
        return From(self._alias(), source, self._window() if self.streams[source] else None), dict(COLUMNS)

    def _window(self) -> Window:
        c = self.chance
        if self.ranges_only:
            return Window("range", span=c.integer(1, 8))
        kind = c.choice(("range", "range", "range", "rows", "partition", "now", "unbounded", "custom"))
        match kind:
            case "range":
                return Window("range", span=c.integer(0, 8))
            case "rows":
                return Window("rows", rows=c.integer(1, 3))
            case "partition":
                return Window("partition", rows=c.integer(1, 2), by=c.choice((("k",), ("g",), ("k", "g"))))
            case "now":
                return Window("now")
            case "custom":
                return Window("custom", name="stay")
            case _:
                return Window("unbounded")

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
        numbers = {"int": str(c.integer(-1, 3)), "float": "0.5", "dec": c.choice(("0.5", "-1.0"))}
        constant = numbers.get(columns[name]) or c.choice(("'x'", "'y'", "''"))
        return f"{column} {c.choice(('=', '<>', '<', '>='))} {constant}"

    def _conditions(self, scope: Scope, deep: bool) -> tuple[Condition, ...]:
        c = self.chance
        found: list[Condition] = [self._filter(scope) for _ in range(c.choice((0, 0, 1, 1, 2)))]
        while deep and self.left > 0 and c.yes(0.4):
            if c.yes(0.2):
                found.append(Compared(self._number(scope, " " + c.choice(("<", ">=", "="))), self._scalar(scope)))
                continue
            part = self._subquery(scope)
            found.append(Either(part, self._filter(scope)) if c.yes(0.2) else part)
        return tuple(found)

    def _number(self, scope: Scope, after: str = "") -> str:
        """A number of the scope, or a constant."""
        numbers = [f"{alias}.{name}" for alias, known in scope for name, kind in known.items() if kind == "int"]
        return (self.chance.choice(numbers) if numbers else "1") + after

    def _scalar(self, scope: Scope) -> Select:
        """An aggregate of one input, correlated by one column or not at all."""
        c = self.chance
        entry, columns = self._input()
        self.relation |= entry.window is not None
        where = []
        alias, outer = c.choice(scope)
        pairs = [(a, b) for a in outer for b in columns if outer[a] == columns[b]]
        if pairs and c.yes(0.6):
            a, b = c.choice(pairs)
            where.append(f"{entry.alias}.{b} = {alias}.{a}")
        call = c.choice(("count(*)", *(f"{f}({entry.alias}.{x})" for f in ("min", "max", "sum") for x in "kv")))
        return Select(((call, "one"),), entry, where=tuple(where), aggregates=True)

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
        item = f"{entry.alias}.{b}"
        inner = Select(((item, b),), entry, where=tuple(where))
        if c.yes(0.15) and not self._correlated(inner):
            self.relation |= entry.window is not None
            inner = replace(inner, group=(item,), having="count(*) > 1", aggregates=True)
        return In(f"{alias}.{a}", inner, negated)

    def _correlated(self, query: Select) -> bool:
        """Whether a subquery reads what stands around it."""
        words = " ".join(part for part in query.where if isinstance(part, str))
        return any(name != query.first.alias for name in re.findall(r"(\w+)\.", words))

    # SELECT

    _kinds: dict[str, Kind]
    """Of the columns of the SELECT that was drawn last."""

    def _items(self, scope: Scope, kinds: Sequence[Kind] | None, *, deep: bool = False) -> tuple[tuple[Item, str], ...]:
        c = self.chance
        columns = columns_of(scope)
        chosen: list[tuple[Item, Kind]] = []
        for kind in kinds if kinds is not None else [None] * c.integer(1, 3):
            fitting = [col for col in columns if kind is None or col[1] == kind]
            if not fitting:
                chosen.append((CONSTANTS[str(kind)], str(kind)))
                continue
            if deep and kind in (None, "int") and self.left > 0 and c.yes(0.1):
                chosen.append((Value(self._scalar(scope)), "int"))
                continue
            text, found = c.choice(fitting)
            if found == "int" and c.yes(0.15):
                text = c.choice((f"{text} + 1", f"coalesce({text}, -1)", f"CASE WHEN {text} > 0 THEN {text} END"))
            chosen.append((text, found))
        self._kinds = {f"c{n}": kind for n, (_, kind) in enumerate(chosen)}
        return tuple((text, f"c{n}") for n, (text, _) in enumerate(chosen))


def columns_of(scope: Scope) -> list[tuple[str, Kind]]:
    return [(f"{alias}.{name}", kind) for alias, known in scope for name, kind in known.items()]
