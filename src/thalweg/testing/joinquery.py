"""Draws the query of a join case: its shape, sources, windows, predicates and columns.

Shapes are those of the thesis (5.3) and of query graphs at large; predicates make keys of one or two columns,
residuals over two and three inputs, filters and Python functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

from thalweg.language.query import Window, WindowKind
from thalweg.testing.chance import Chance
from thalweg.testing.joincase import CaseInput
from thalweg.testing.joinpredicates import (
    Among,
    Between,
    Call,
    Compare,
    Comparison,
    Constant,
    Missing,
    Not,
    Or,
    Plus,
    Predicate,
    Ref,
)

Family = Literal["int", "string", "decimal", "date", "double", "boolean", "bytes", "moment"]

# Values that joins get wrong: the empty string, prefixes, two encodings of one letter, both zeros, NaN, the days
# around 1970, integers that differ only above bit 32 or only in sign.
POOLS: Mapping[Family, tuple[Any, ...]] = {
    "int": (0, -1, 1, 2, 3, -7, 64, 127),
    "string": ("", "a", "ab", "ä", "a\u0308", "k" * 40, "A", "'"),
    "decimal": tuple(Decimal(v) for v in ("0.00", "0.50", "-0.50", "1.00", "10.00", "99999.99", "3.25", "-7.00")),
    "date": tuple(date(1970, 1, 1) + timedelta(days=d) for d in (0, 1, -1, 365, 18_262, -7_000, 2, 30)),
    "double": (0.0, -0.0, float("nan"), 1.5, -2.25, float("inf"), -1.0, 3.0),
    "boolean": (False, True),
    "bytes": (b"", b"a", b"\x00", b"\xff", b"ab", b"\x00\x00"),
    "moment": tuple(datetime(1970, 1, 1) + timedelta(milliseconds=m) for m in (0, 1, -1, 86_400_000, 1_000, -86_400)),
}
COMPARABLE: Mapping[Family, tuple[Family, ...]] = {"int": ("decimal", "double")}
"""Families that may be compared with another one, as Spark does: in the wider type."""

SHAPES = ("chain", "star", "clique", "cycle", "tree")
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")


@dataclass(frozen=True)
class DrawnColumn:
    name: str
    family: Family


@dataclass(frozen=True)
class DrawnQuery:
    """A query without rows, and the scale of what is to be drawn for it."""

    shape: str
    tick: int
    """Microseconds between two moments."""
    domain: int
    """Values in a column."""
    common: bool
    """Whether all inputs join on one column."""
    long: bool
    streams: Mapping[str, bool]
    """By source: whether it is a stream."""
    columns: Mapping[str, Sequence[DrawnColumn]]
    inputs: tuple[CaseInput, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    select: tuple[Ref, ...] = ()
    cross: bool = False


def draw_query(chance: Chance, inputs: int, *, long: bool = False) -> DrawnQuery:
    """A query over this many inputs."""
    return _QueryMaker(chance, NAMES[:inputs], long).query()


class _QueryMaker:
    def __init__(self, chance: Chance, names: Sequence[str], long: bool) -> None:
        self.chance = chance
        self.names = names
        self.long = long

    def query(self) -> DrawnQuery:
        c = self.chance
        self.shape = c.choice(SHAPES)
        self.tick = c.choice((1_000_000, 1_000_000, 1_000, 1))
        palette: list[Family] = ["int", *(f for f in POOLS if f != "int" and c.yes(0.2))]
        if c.yes(0.3):
            palette = [c.choice(palette)]
        self.domain = c.integer(1, 5)
        if self.long:
            palette, self.domain = c.choice((["int"], ["string"], ["int", "string"])), c.integer(20, 100)
        self.common = c.yes(0.35)
        self._draw_sources(palette)
        windows = [self._window(name) for name in self.names]
        inherited = self._inherit(windows)
        inputs = tuple(
            CaseInput(n, self.of[n], w, h) for n, w, h in zip(self.names, windows, inherited, strict=True)
        )  # fmt: skip
        cross = len(self.names) == 2 and c.yes(0.1)
        predicates = ([] if cross else self._edges()) + self._further()
        return DrawnQuery(
            self.shape, self.tick, self.domain, self.common, self.long, self.streams, self.columns, inputs,
            tuple(predicates), self._select(), cross,
        )  # fmt: skip

    def _draw_sources(self, palette: Sequence[Family]) -> None:
        c = self.chance
        self.of: dict[str, str] = {}
        self.streams: dict[str, bool] = {}
        self.columns: dict[str, list[DrawnColumn]] = {}
        tables = c.choice((0.0, 0.2, 0.5))
        for k, name in enumerate(self.names):
            if k and c.yes(0.15):
                self.of[name] = c.choice(list(self.columns))
                continue
            source = f"s{len(self.columns)}"
            self.of[name] = source
            self.streams[source] = not c.yes(tables)
            families = [palette[0], *(c.choice(palette) for _ in range(c.integer(1, 3)))]
            self.columns[source] = [DrawnColumn(f"c{i}", f) for i, f in enumerate(families)]
        if not any(self.streams.values()) and not c.yes(0.3):
            self.streams[next(iter(self.streams))] = True

    def _columns(self, alias: str, family: Family | None = None) -> list[DrawnColumn]:
        found = self.columns[self.of[alias]]
        return [x for x in found if family is None or x.family == family]

    # Windows.

    def _window(self, alias: str) -> Window | None:
        c = self.chance
        if not self.streams[self.of[alias]]:
            return None
        kinds: tuple[WindowKind, ...] = ("range",) * 6 + ("now", "unbounded", "rows", "partition")
        kind = c.choice(kinds)
        match kind:
            case "range":
                half = self.tick // 2 if c.yes(0.1) else 0
                return Window("range", span=c.integer(0, 80 if self.long else 8) * self.tick + half)
            case "rows":
                return Window("rows", rows=c.integer(1, 60 if self.long else 6))
            case "partition":
                names = [x.name for x in self._columns(alias)]
                by = tuple(dict.fromkeys(c.choice(names) for _ in range(c.integer(1, 2))))
                return Window("partition", rows=c.integer(1, 3), by=by)
            case _:
                return Window(kind)

    def _inherit(self, windows: list[Window | None]) -> list[bool]:
        """Take the range of some streams from one WINDOW clause."""
        ranges = [k for k, w in enumerate(windows) if w is not None and w.kind == "range"]
        flags = [False] * len(windows)
        if ranges and self.chance.yes(0.2):
            for k in ranges:
                if k == ranges[0] or self.chance.yes(0.5):
                    windows[k] = windows[ranges[0]]
                    flags[k] = True
        return flags

    # Predicates.

    def _pairs(self) -> list[tuple[str, str]]:
        c, n = self.chance, self.names
        match self.shape:
            case "chain":
                return list(pairwise(n))
            case "star":
                return [(n[0], x) for x in n[1:]]
            case "clique":
                return [(x, y) for k, x in enumerate(n) for y in n[k + 1 :]]
            case "cycle":
                return [*pairwise(n), *([(n[0], n[-1])] if len(n) > 2 else [])]
            case _:
                return [(n[c.integer(0, k - 1)], n[k]) for k in range(1, len(n))]

    def _edges(self) -> list[Predicate]:
        c = self.chance
        loose = c.choice((0.0, 0.0, 0.25))
        made: list[Predicate] = []
        for left, right in self._pairs():
            if self.common:
                a, b = self._columns(left)[0], self._columns(right)[0]
            else:
                a = c.choice(self._columns(left))
                b = self._partner(right, a.family) or self._columns(right)[0]
                if a.family != b.family and b.family not in COMPARABLE.get(a.family, ()):
                    a = self._columns(left, b.family)[0]
            x, y = Ref(left, a.name), Ref(right, b.name)
            if c.yes(loose) and a.family == b.family:
                made.append(self._between_inputs(x, y, a.family))
            else:
                made.append(Compare(y, "=", x) if c.yes(0.2) else Compare(x, "=", y))
                if c.yes(0.1):
                    # A second equality of the same two inputs makes a composite key.
                    p, q = c.choice(self._columns(left)), c.choice(self._columns(right))
                    if p.family == q.family:
                        made.append(Compare(Ref(left, p.name), "=", Ref(right, q.name)))
        return made

    def _partner(self, alias: str, family: Family) -> DrawnColumn | None:
        """A column of this family, or now and then of one that it may be compared with."""
        c = self.chance
        near = [x for f in COMPARABLE.get(family, ()) for x in self._columns(alias, f)]
        if near and c.yes(0.3):
            return c.choice(near)
        same = self._columns(alias, family)
        return c.choice(same) if same else None

    def _further(self) -> list[Predicate]:
        """Residuals and filters over what the edges already connect."""
        c = self.chance
        made: list[Predicate] = []
        for _ in range(c.choice((0, 0, 1, 2))):
            left = c.choice(self.names)
            right = c.choice([n for n in self.names if n != left])
            a = c.choice(self._columns(left))
            options = self._columns(right, a.family)
            if options:
                made.append(self._between_inputs(Ref(left, a.name), Ref(right, c.choice(options).name), a.family))
        if len(self.names) > 2 and c.yes(0.2):
            made += self._between_three()
        for _ in range(c.choice((0, 0, 1, 2))):
            alias = c.choice(self.names)
            a = c.choice(self._columns(alias))
            made.append(self._filter(Ref(alias, a.name), a.family))
        return made

    def _between_inputs(self, x: Ref, y: Ref, family: Family) -> Predicate:
        c = self.chance
        compare = Compare(x, c.choice(("<", "<=", ">", ">=", "<>", "<=>")), y)
        if family != "int":
            return Or(compare, Missing(x)) if c.yes(0.2) else compare
        match c.integer(0, 5):
            case 0:
                return Between(x, Plus(y, Constant(-c.integer(0, 3))), Plus(y, Constant(c.integer(0, 3))))
            case 1:
                return Compare(Plus(x, Constant(c.integer(-2, 2))), c.choice(("<", "<=", ">", ">=")), y)
            case 2:
                return Or(compare, Compare(x, "=", y))
            case 3:
                return Compare(Plus(x, y), c.choice(("<", ">=")), Constant(c.integer(-1, 3)))
            case 4:
                return Call("near", (x, y))
            case _:
                return compare

    def _filter(self, x: Ref, family: Family) -> Predicate:
        c = self.chance
        values = tuple(v for v in POOLS[family][: self.domain + 1] if family != "double" or math.isfinite(v))
        match 0 if family in ("bytes", "moment") else c.integer(0, 5):
            case 0:
                return Not(Missing(x))
            case 1 if family == "int":
                return Call(c.choice(("odd", "absent_or_small")), (x,))
            case 1 if family == "string":
                return Call("brief", (x,))
            case 2:
                return Among(x, tuple(dict.fromkeys(c.choice(values) for _ in range(2))))
            case 3:
                return Not(Compare(x, "=", Constant(c.choice(values))))
            case 4:
                return Or(Missing(x), Compare(x, ">", Constant(c.choice(values))))
            case _:
                return Compare(x, c.choice(("<=", ">=", "<>")), Constant(c.choice(values)))

    def _between_three(self) -> list[Predicate]:
        """A residual over three inputs, where three have whole numbers."""
        c = self.chance
        able = [n for n in self.names if self._columns(n, "int")]
        if len(able) < 3:
            return []
        first = c.integer(0, len(able) - 3)
        x, y, z = (Ref(n, c.choice(self._columns(n, "int")).name) for n in able[first : first + 3])
        orders: tuple[Comparison, ...] = ("<", "<=", ">", ">=")
        return [Compare(Plus(x, y), c.choice(orders), z)]

    def _select(self) -> tuple[Ref, ...]:
        """All ids, so that every result is known by name, or only values, so that equal results must be counted."""
        c = self.chance
        ids = [] if c.yes(0.1) else [Ref(n, "id") for n in self.names]
        values = [Ref(n, x.name) for n in self.names for x in self._columns(n) if c.yes(0.25)]
        times = [Ref(n, "ts") for n in self.names if self.streams[self.of[n]] and c.yes(0.1)]
        return tuple(ids + values + times) or (Ref(self.names[0], "id"),)
