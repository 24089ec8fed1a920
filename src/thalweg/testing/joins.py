"""Random join cases: queries of two to six inputs, data that joins get wrong, and arrivals in every order.

One generator serves two sources of chance: a seed, which makes thousands of cases cheap, and Hypothesis, which shrinks
what it drew. Invariant: the seed alone decides a case, on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from thalweg.language.query import Window, WindowKind
from thalweg.testing.joincase import (
    COMPARABLE,
    LONG_AGO,
    POOLS,
    TYPES,
    UNITS,
    WIDE,
    Advance,
    Among,
    Between,
    Call,
    CaseInput,
    CaseSource,
    Compare,
    Constant,
    Family,
    JoinCase,
    Missing,
    Not,
    Or,
    Plus,
    Predicate,
    Push,
    Ref,
    Restart,
    Step,
    Unit,
    can_join,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

# --- chance -----------------------------------------------------------------------------------------------------------


class Chance(Protocol):
    """Where a case's decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """Between both bounds, both included."""
        ...

    def yes(self, probability: float) -> bool: ...

    def choice(self, options: Sequence[T]) -> T: ...


class Seeded:
    """Decisions from a seed: cheap, and the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low + 1))

    def yes(self, probability: float) -> bool:
        return self._random.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]


class Drawn:
    """Decisions that Hypothesis draws, remembers and shrinks; its simplest case answers no to everything."""

    def __init__(self, draw: Callable[[SearchStrategy[Any]], Any]) -> None:
        from hypothesis import strategies

        self._draw = draw
        self._strategies = strategies

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(self._strategies.integers(low, high)))

    def yes(self, probability: float) -> bool:
        return self.integer(0, 99) >= 100 - round(100 * probability)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]


# --- the generator ----------------------------------------------------------------------------------------------------

SHAPES = ("chain", "star", "clique", "cycle", "tree")
POLICIES = ("written", "lottery", "chaos", "auto", "agreedy", "cbr", "mesh")
LAYOUTS = ("hash", "bits", "mixed")
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
SHORT, LONG = 40, 500
"""Most rows of a source, in common cases and in long ones."""


def make_case(
    seed: int, *, policies: Sequence[str] = POLICIES, layouts: Sequence[str] = LAYOUTS, inputs: int | None = None,
    long: bool = False,
) -> JoinCase:  # fmt: skip
    """The case of a seed, with two to six inputs or as many as are asked for, up to ten.

    A long case has hundreds of rows, windows that move on, and values whose number changes with time: policies that
    learn find something to learn.

    >>> make_case(7) == make_case(7)
    True
    >>> len(make_case(7, inputs=10).inputs)
    10
    """
    return _Maker(Seeded(seed), policies, layouts, long=long).case(seed, inputs)


def join_cases(
    *, policies: Sequence[str] = POLICIES, layouts: Sequence[str] = LAYOUTS, inputs: int = 6
) -> SearchStrategy[JoinCase]:
    """Hypothesis strategy of cases with at most so many inputs."""
    from hypothesis import strategies

    @strategies.composite
    def build(draw: Callable[[SearchStrategy[Any]], Any]) -> JoinCase:
        return _Maker(Drawn(draw), policies, layouts, inputs).case(0)

    strategy: SearchStrategy[JoinCase] = build()
    return strategy


Maker = Callable[[int, int | None], Any]
"""Makes a value for a tick, and for an event if the tuple belongs to one."""


@dataclass
class _Column:
    name: str
    family: Family


class _Maker:
    """Draws one case: shape, sources, windows, predicates, rows, history."""

    def __init__(
        self, chance: Chance, policies: Sequence[str], layouts: Sequence[str], most: int = 6, *, long: bool = False
    ) -> None:
        self.chance = chance
        self.policies = policies
        self.layouts = layouts
        self.most = most
        self.long = long

    def case(self, seed: int, inputs: int | None = None) -> JoinCase:
        c = self.chance
        count = inputs or min(c.choice((3, 3, 4) if self.long else (2, 2, 3, 3, 3, 4, 4, 5, 6)), self.most)
        self.names = NAMES[:count]
        self.shape = c.choice(SHAPES)
        self.tick = c.choice((1_000_000, 1_000_000, 1_000, 1))
        self.base = c.choice((0, 0, 1_700_000_000_000_000))
        self.palette: list[Family] = ["int", *(f for f in TYPES if f != "int" and c.yes(0.2))]
        if c.yes(0.3):
            self.palette = [c.choice(self.palette)]
        self.domain = c.integer(1, 5)
        if self.long:
            self.palette, self.domain = c.choice((["int"], ["string"], ["int", "string"])), c.integer(20, 100)
        self.common = c.yes(0.35)
        self._inputs()
        windows = [self._window(name) for name in self.names]
        inherited = self._inherit(windows)
        entries = tuple(
            CaseInput(n, self.of[n], w, h) for n, w, h in zip(self.names, windows, inherited, strict=True)
        )  # fmt: skip
        cross = count == 2 and c.yes(0.05)
        predicates = [] if cross else self._edges()
        predicates += self._further()
        rows = self._size(entries, predicates)
        sources = tuple(self._rows(name, rows) for name in self.columns)
        case = JoinCase(
            seed, "cross" if cross else self.shape, sources, entries, tuple(self._shuffled(predicates)),
            self._select(), self._history(sources), c.choice(self.policies), c.choice(self.layouts),
            c.choice((1, 3, 8, 1024)), c.choice((3, 32, 1 << 14, 1 << 14)), cross=cross,
        )  # fmt: skip
        if count > 4:
            # Partial results three at a time take half a minute where five others match nearly all rows.
            case = replace(case, buffer=max(case.buffer, 32))
        return replace(case, joined=True) if not cross and can_join(case) and c.yes(0.3) else case

    # Inputs and sources.

    def _inputs(self) -> None:
        c = self.chance
        self.of: dict[str, str] = {}
        self.stream: dict[str, bool] = {}
        self.columns: dict[str, list[_Column]] = {}
        tables = c.choice((0.0, 0.2, 0.5))
        for k, name in enumerate(self.names):
            if k and c.yes(0.15):
                self.of[name] = c.choice(list(self.columns))
                continue
            source = f"s{len(self.columns)}"
            self.of[name] = source
            self.stream[source] = not c.yes(tables)
            families = [self.palette[0], *(c.choice(self.palette) for _ in range(c.integer(1, 3)))]
            self.columns[source] = [_Column(f"c{i}", f) for i, f in enumerate(families)]
        if not any(self.stream.values()) and not c.yes(0.1):
            self.stream[next(iter(self.stream))] = True

    def _columns(self, alias: str, family: Family | None = None) -> list[_Column]:
        found = self.columns[self.of[alias]]
        return [x for x in found if family is None or x.family == family]

    # Windows.

    def _window(self, alias: str) -> Window | None:
        c = self.chance
        if not self.stream[self.of[alias]]:
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

    def _partner(self, alias: str, family: Family) -> _Column | None:
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

    def _select(self) -> tuple[Ref, ...]:
        """All ids (then every result is known by name), or only values (then equal results must be counted)."""
        c = self.chance
        ids = [] if c.yes(0.1) else [Ref(n, "id") for n in self.names]
        values = [Ref(n, x.name) for n in self.names for x in self._columns(n) if c.yes(0.25)]
        return tuple(ids + values) or (Ref(self.names[0], "id"),)

    def _shuffled(self, items: Sequence[T]) -> list[T]:
        rest, out = list(items), []
        while rest:
            out.append(rest.pop(self.chance.integer(0, len(rest) - 1)))
        return out

    # Rows.

    def _size(self, inputs: Sequence[CaseInput], predicates: Sequence[Predicate]) -> int:
        """Rows per source, so that some results are expected and not too many."""
        c = self.chance
        self.span = c.integer(400, 1000) if self.long else c.integer(4, 40)
        self.planted = 0.0 if self.long else c.choice((0.0, 0.2, 0.5))
        if len(inputs) > 6:
            # So many tuples meet only by arrangement.
            self.planted = 0.8
        self.events = [c.integer(0, self.span) for _ in range(c.integer(1, 4))]
        share = 1.0
        for i in inputs:
            if i.window is None or i.window.kind == "unbounded":
                continue
            width = {"range": i.window.span / self.tick + 1, "now": 1.0}.get(i.window.kind, 0.3 * self.span)
            share *= min(1.0, width / self.span)
        equalities = sum(isinstance(p, Compare) and p.op == "=" for p in predicates)
        if self.common:
            equalities = min(equalities, len(inputs) - 1)
        share *= math.pow(self.domain, -equalities) * math.pow(0.5, len(predicates) - equalities)
        wanted = 300 if self.long else c.choice((3, 20, 60))
        rows = math.pow(wanted / share, 1 / len(inputs))
        if self.planted:
            # The tuples of one event all join each other.
            alike = math.pow(300 / len(self.events), 1 / len(inputs)) * len(self.events) / self.planted
            rows = min(rows, alike)
        return max(2, min(LONG if self.long else SHORT, round(rows)))

    def _rows(self, name: str, rows: int) -> CaseSource:
        c = self.chance
        fields = [pa.field("id", pa.int64())]
        makers: list[Maker] = []
        for column in self.columns[name]:
            type_ = c.choice(TYPES[column.family])
            fields.append(pa.field(column.name, type_))
            makers.append(self._values(column.family, type_))
        time: str | None = None
        unit: Unit = "us"
        lateness = 0
        moment: Callable[[int], Any] | None = None
        if self.stream[name]:
            time, lateness = "ts", c.choice((0, 0, 2, 5)) * self.tick
            field, unit, moment = self._clock()
            fields.insert(1, field)
        count = rows if c.yes(0.9) else c.integer(0, rows)
        drafts = sorted((self._draft(makers) for _ in range(count)), key=lambda draft: draft[0])
        # In disorder of at most the lateness: each tuple is held up by less than that.
        delay = lateness // self.tick
        held = [tick + c.integer(0, delay) for tick, _ in drafts] if delay else range(count)
        data = []
        for k, (_, (tick, values)) in enumerate(sorted(zip(held, drafts, strict=True), key=lambda pair: pair[0])):
            stamp = [moment(self.base + tick * self.tick)] if moment else []
            data.append((k, *stamp, *values))
        return CaseSource(name, pa.schema(fields), tuple(data), time, unit, lateness)

    def _draft(self, makers: Sequence[Maker]) -> tuple[int, list[Any]]:
        """A tick and values: random, or of an event that leaves tuples alike in every source."""
        c = self.chance
        if c.yes(self.planted):
            event = c.integer(0, len(self.events) - 1)
            spread = 2 if len(self.names) <= 6 else 0
            tick = min(self.span, self.events[event] + c.integer(0, spread))
            return tick, [make(tick, event) for make in makers]
        tick = c.integer(0, self.span)
        return tick, [make(tick, None) for make in makers]

    def _values(self, family: Family, type_: pa.DataType) -> Maker:
        if self.long:
            return self._drifting(family)
        c = self.chance
        pool: tuple[Any, ...] = POOLS[family][: self.domain]
        alike = pool
        if family == "int" and type_ == pa.int64() and c.yes(0.3):
            pool += WIDE[: self.domain]
        if family == "double" and c.yes(0.3):
            pool = POOLS[family]
        nulls = c.choice((0.0, 0.0, 0.1, 0.4))
        skew = c.choice((0.0, 0.5))

        def make(tick: int, event: int | None) -> Any:
            if event is not None:
                return alike[event % len(alike)]
            if c.yes(nulls):
                return None
            return pool[0] if c.yes(skew) else c.choice(pool)

        return make

    def _drifting(self, family: Family) -> Maker:
        """Values of which there are many or few, by turns: a join that was selective stops being so."""
        c = self.chance
        phases = [max(1, self.domain // c.choice((1, 1, 6))) for _ in range(4)]
        nulls = c.choice((0.0, 0.0, 0.05))

        def make(tick: int, event: int | None) -> Any:
            if c.yes(nulls):
                return None
            value = c.integer(0, phases[tick * 4 // (self.span + 1)] - 1)
            return value if family == "int" else f"value {value}"

        return make

    def _clock(self) -> tuple[pa.Field, Unit, Callable[[int], Any]]:
        """A time column: whole numbers of some unit, or timestamps."""
        units: list[Unit] = [u for u in UNITS if self.tick % UNITS[u] == 0]
        unit = self.chance.choice(units)
        kind = self.chance.integer(0, 2)
        if kind == 0 or (kind == 1 and unit == "s"):
            type_ = pa.int32() if self.base == 0 and self.chance.yes(0.3) else pa.int64()
            return pa.field("ts", type_), unit, lambda micros: micros // UNITS[unit]
        zone = UTC if kind == 2 else None
        type_ = pa.timestamp(unit, "UTC" if zone else None)
        start = datetime(1970, 1, 1, tzinfo=zone)
        return pa.field("ts", type_), unit, lambda micros: start + timedelta(microseconds=micros)

    # History.

    def _history(self, sources: Sequence[CaseSource]) -> tuple[Step, ...]:
        c = self.chance
        streams = [s for s in sources if s.time is not None]
        left = {s.name: 0 for s in streams}
        mark = {s.name: LONG_AGO for s in streams}
        own = c.yes(0.2)
        together = c.yes(0.6)
        advances, largest, harsh = c.choice((0.0, 0.2, 0.6)), c.choice((2, 6, 20, 40)), c.yes(0.15)
        restarts = c.choice((0.0, 0.0, 0.1))
        if self.long:
            largest *= 10
        steps: list[Step] = []
        waiting = [s for s in streams if s.rows]
        while waiting:
            source = min(waiting, key=lambda s: s.times[left[s.name]]) if together else c.choice(waiting)
            start = left[source.name]
            stop = min(len(source.rows), start + c.integer(0 if c.yes(0.1) else 1, largest))
            steps.append(Push(source.name, tuple(range(start, stop))))
            left[source.name] = stop
            waiting = [s for s in streams if left[s.name] < len(s.rows)]
            if c.yes(advances):
                steps.append(Advance(None if own else tuple(self._marks(streams, left, mark, harsh=harsh))))
            if c.yes(restarts):
                steps.append(Restart())
        return tuple(steps)

    def _marks(
        self, streams: Sequence[CaseSource], left: Mapping[str, int], mark: dict[str, int], *, harsh: bool
    ) -> Iterator[tuple[str, int]]:
        c = self.chance
        for s in streams:
            seen, rest = s.times[: left[s.name]], s.times[left[s.name] :]
            if not seen or c.yes(0.2):
                continue
            # Up to the oldest tuple to come nothing is late; a harsh watermark makes some tuples late.
            safe = min(rest) if rest else max(seen) + self.tick
            value = safe + (c.integer(1, 3) * self.tick if harsh else -c.choice((0, 0, 1)) * self.tick)
            mark[s.name] = max(mark[s.name], value)
            yield s.name, mark[s.name]
