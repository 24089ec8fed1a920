"""Draws the rows of a join case and the history of their arrival.

Rows come in disorder within the lateness of their stream, some tie, some have no time or a NULL key; a share of them is
planted, so that rows of all sources meet. A history cuts them into batches, moves watermarks on and restarts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from thalweg.testing.chance import Chance
from thalweg.testing.joincase import LONG_AGO, UNITS, Advance, CaseSource, Push, Restart, Step, Unit
from thalweg.testing.joinpredicates import Compare
from thalweg.testing.joinquery import POOLS, DrawnQuery, Family

TYPES: Mapping[Family, tuple[pa.DataType, ...]] = {
    "int": (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int16(), pa.int8()),
    "string": (pa.string(), pa.large_string()),
    "decimal": (pa.decimal128(10, 2), pa.decimal128(12, 3), pa.decimal128(25, 2)),
    "date": (pa.date32(),),
    "double": (pa.float64(), pa.float64(), pa.float32()),
    "boolean": (pa.bool_(),),
    "bytes": (pa.binary(),),
    "moment": (pa.timestamp("us"), pa.timestamp("ms")),
}
WIDE = (2**40, -(2**40), 2**40 + 1, 2**32)
"""More values for 64-bit integers: equal to each other or to zero in their low half."""
SHORT, LONG = 40, 500
"""Most rows of a source, in common cases and in long ones."""

Maker = Callable[[int, int | None], Any]
"""Makes a value for a tick, and for an event if the row belongs to one."""


class DataMaker:
    """Draws rows, then their history."""

    def __init__(self, chance: Chance, query: DrawnQuery) -> None:
        self.chance = chance
        self.query = query
        self.long, self.tick, self.domain = query.long, query.tick, query.domain
        self.base = chance.choice((0, 0, 1_700_000_000_000_000))
        self.span = chance.integer(400, 1000) if self.long else chance.integer(4, 40)
        self.planted = 0.0 if self.long else chance.choice((0.0, 0.2, 0.5))
        if len(query.inputs) > 6:
            # So many rows meet only by arrangement.
            self.planted = 0.8
        self.events = [chance.integer(0, self.span) for _ in range(chance.integer(1, 4))]

    def sources(self) -> tuple[CaseSource, ...]:
        rows = self._size()
        return tuple(self._rows(name, rows) for name in self.query.columns)

    def _size(self) -> int:
        """Rows per source, so that some results are expected and not too many."""
        inputs, predicates = self.query.inputs, self.query.predicates
        share = 1.0
        for i in inputs:
            if i.window is None or i.window.kind == "unbounded":
                continue
            width = {"range": i.window.span / self.tick + 1, "now": 1.0}.get(i.window.kind, 0.3 * self.span)
            share *= min(1.0, width / self.span)
        equalities = sum(isinstance(p, Compare) and p.op == "=" for p in predicates)
        if self.query.common:
            equalities = min(equalities, len(inputs) - 1)
        share *= math.pow(self.domain, -equalities) * math.pow(0.5, len(predicates) - equalities)
        wanted = 300 if self.long else self.chance.choice((3, 20, 60))
        rows = math.pow(wanted / share, 1 / len(inputs))
        if self.planted:
            # The rows of one event all join each other.
            alike = math.pow(300 / len(self.events), 1 / len(inputs)) * len(self.events) / self.planted
            rows = min(rows, alike)
        return max(2, min(LONG if self.long else SHORT, round(rows)))

    def _rows(self, name: str, rows: int) -> CaseSource:
        c = self.chance
        fields = [pa.field("id", pa.int64())]
        makers: list[Maker] = []
        for column in self.query.columns[name]:
            type_ = c.choice(TYPES[column.family])
            fields.append(pa.field(column.name, type_))
            makers.append(self._values(column.family, type_))
        time: str | None = None
        unit: Unit = "us"
        lateness = 0
        moment: Callable[[int], Any] | None = None
        if self.query.streams[name]:
            time, lateness = "ts", c.choice((0, 0, 2, 5)) * self.tick
            field, unit, moment = self._clock()
            fields.insert(1, field)
        count = rows if c.yes(0.9) else c.integer(0, rows)
        drafts = sorted((self._draft(makers) for _ in range(count)), key=lambda draft: draft[0])
        # In disorder of at most the lateness: each row is held up by less than that.
        delay = lateness // self.tick
        held = [tick + c.integer(0, delay) for tick, _ in drafts] if delay else range(count)
        timeless = c.choice((0.0, 0.0, 0.0, 0.0, 0.1))
        data = []
        for k, (_, (tick, values)) in enumerate(sorted(zip(held, drafts, strict=True), key=lambda pair: pair[0])):
            stamp = [None if c.yes(timeless) else moment(self.base + tick * self.tick)] if moment else []
            data.append((k, *stamp, *values))
        return CaseSource(name, pa.schema(fields), tuple(data), time, unit, lateness)

    def _draft(self, makers: Sequence[Maker]) -> tuple[int, list[Any]]:
        """A tick and values: random, or of an event that leaves rows alike in every source."""
        c = self.chance
        if c.yes(self.planted):
            event = c.integer(0, len(self.events) - 1)
            spread = 2 if len(self.query.inputs) <= 6 else 0
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

    def history(self, sources: Sequence[CaseSource]) -> tuple[Step, ...]:
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
            source = min(waiting, key=lambda s: _known(s, left[s.name])[:1]) if together else c.choice(waiting)
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
            seen, rest = _known(s, 0, left[s.name]), _known(s, left[s.name])
            if not seen or c.yes(0.2):
                continue
            # Up to the oldest row to come nothing is late; a harsh watermark makes some rows late.
            safe = min(rest) if rest else max(seen) + self.tick
            value = safe + (c.integer(1, 3) * self.tick if harsh else -c.choice((0, 0, 1)) * self.tick)
            mark[s.name] = max(mark[s.name], value)
            yield s.name, mark[s.name]


def _known(source: CaseSource, first: int, last: int | None = None) -> list[int]:
    """The times of some rows, without NULLs."""
    return [t for t in source.times[first:last] if t is not None]
