"""A join case: a query, its data, and one history of arrivals, as one plain value small enough for brute force.

Printed, a case is everything needed to run it again; shrinking is making a smaller value. Windows and result times
follow the thesis (2.1) and `language/query.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from thalweg.language.durations import Micros
from thalweg.language.query import Source, Window
from thalweg.testing.joinpredicates import FUNCTIONS, Predicate, Ref, aliases, calls, render

Unit = Literal["s", "ms", "us", "ns"]
Row = tuple[Any, ...]

UNITS: Mapping[Unit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one count of an integer time column."""
LONG_AGO = -(2**62)
"""The watermark of a stream that has not been told any."""


@dataclass(frozen=True)
class CaseSource:
    """A stream or a table, and every row it could send; which of them arrive, and when, is said by the steps."""

    name: str
    schema: pa.Schema
    rows: tuple[Row, ...]
    time: str | None = None
    unit: Unit = "us"
    lateness: int = 0

    @property
    def spec(self) -> Source:
        return Source(self.schema, self.time, self.unit, Micros(self.lateness))

    @cached_property
    def times(self) -> tuple[int | None, ...]:
        """The time of every row in microseconds, None where it is NULL; of a table, none."""
        if self.time is None:
            return ()
        at, unit = self.schema.get_field_index(self.time), UNITS[self.unit]
        stamps = [row[at] for row in self.rows]
        return tuple(micros(v) if v is None or isinstance(v, datetime) else int(v) * unit for v in stamps)

    def micros(self, row: int) -> int:
        """The time in microseconds of a row that has one."""
        found = self.times[row]
        assert found is not None
        return found

    def table(self, rows: Sequence[int] | None = None) -> pa.Table:
        chosen = self.rows if rows is None else [self.rows[r] for r in rows]
        columns = list(zip(*chosen, strict=True)) or [()] * len(self.schema)
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def micros(moment: datetime | None) -> int | None:
    """Microseconds since 1970."""
    if moment is None:
        return None
    return (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@dataclass(frozen=True)
class CaseInput:
    alias: str
    source: str
    window: Window | None
    """None for a table."""
    inherited: bool = False
    """Whether the range comes from the WINDOW clause of the query."""


@dataclass(frozen=True)
class Push:
    """A micro-batch: rows of a source, by position, in their order of arrival."""

    source: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Advance:
    """Watermarks in microseconds: what comes later of a source and is older is late.

    None leaves them to the engine: of each stream the newest time seen, less its lateness.
    """

    watermarks: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True)
class Restart:
    """Snapshot, then continue in a new engine."""


Step = Push | Advance | Restart
Fate = Literal["joins", "late", "timeless"]


class Course:
    """What becomes of the rows of a case: which arrive, when, and how far watermarks are then."""

    sources: tuple[CaseSource, ...]
    steps: tuple[Step, ...]

    def marks(self) -> list[dict[str, int]]:
        """After each step, the watermark of every stream in microseconds."""
        return [marks for marks, _ in self._history]

    def arrivals(self) -> dict[str, list[tuple[int, int]]]:
        """By stream: the rows that take part, as (row, step), in their order of arrival."""
        found: dict[str, list[tuple[int, int]]] = {s.name: [] for s in self.sources if s.time is not None}
        for k, (_, seen) in enumerate(self._history):
            for name, row, fate in seen:
                if fate == "joins":
                    found[name].append((row, k))
        return found

    def late(self) -> dict[str, int]:
        """By stream: how many rows arrive behind the stream's watermark."""
        return self._count("late")

    def timeless(self) -> dict[str, int]:
        """By stream: how many rows arrive whose time is NULL."""
        return self._count("timeless")

    def _count(self, wanted: Fate) -> dict[str, int]:
        counts = {s.name: 0 for s in self.sources if s.time is not None}
        for _, seen in self._history:
            for name, _, fate in seen:
                counts[name] += fate == wanted
        return counts

    @cached_property
    def _history(self) -> list[tuple[dict[str, int], list[tuple[str, int, Fate]]]]:
        """For each step the watermarks after it, and the rows that came with it: source, row, what became of it."""
        streams = {s.name: s for s in self.sources if s.time is not None}
        marks = dict.fromkeys(streams, LONG_AGO)
        newest = dict.fromkeys(streams, LONG_AGO)
        history: list[tuple[dict[str, int], list[tuple[str, int, Fate]]]] = []
        for step in self.steps:
            seen: list[tuple[str, int, Fate]] = []
            if isinstance(step, Push):
                source = streams[step.source]
                for r in step.rows:
                    time = source.times[r]
                    if time is None:
                        seen.append((source.name, r, "timeless"))
                    elif time < marks[source.name]:
                        seen.append((source.name, r, "late"))
                    else:
                        seen.append((source.name, r, "joins"))
                        newest[source.name] = max(newest[source.name], time)
            elif isinstance(step, Advance):
                ready = {n: newest[n] - s.lateness for n, s in streams.items()}
                for name, value in step.watermarks if step.watermarks is not None else ready.items():
                    marks[name] = max(marks[name], value)
            history.append((dict(marks), seen))
        return history


@dataclass(frozen=True)
class JoinCase(Course):
    """A query, its data, and one history of arrivals. The answer depends on the first two and on what was late."""

    seed: int
    shape: str
    sources: tuple[CaseSource, ...]
    inputs: tuple[CaseInput, ...]
    predicates: tuple[Predicate, ...]
    select: tuple[Ref, ...]
    steps: tuple[Step, ...]
    policy: str
    layout: str = "hash"
    """How slices are indexed: "hash", "bits", or "mixed", where each input has its own."""
    slice_rows: int = 1024
    buffer: int = 1 << 14
    joined: bool = False
    """Whether the text says JOIN ... ON."""
    cross: bool = False
    caches: str = "off"
    cache_bytes: int | None = None

    def source(self, name: str) -> CaseSource:
        return next(s for s in self.sources if s.name == name)

    def input(self, alias: str) -> CaseInput:
        return next(i for i in self.inputs if i.alias == alias)

    @property
    def ordered(self) -> bool:
        """Whether results wait for the watermark."""
        return any(i.window is not None and i.window.ordered for i in self.inputs)

    @property
    def text(self) -> str:
        return "\n".join(_text(self))

    @property
    def specs(self) -> dict[str, Source]:
        return {s.name: s.spec for s in self.sources}

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {s.name: s.table() for s in self.sources if s.time is None}

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        names = {f for p in self.predicates for f in calls(p)}
        return {n: FUNCTIONS[n] for n in sorted(names)}


# --- its SQL text -----------------------------------------------------------------------------------------------------


def _text(case: JoinCase) -> Iterator[str]:
    yield "SELECT " + ", ".join(f"{r.alias}.{r.column} AS {r.alias}_{r.column}" for r in case.select)
    where = list(case.predicates)
    entries = [_entry(i, swap=k % 2 == 1) for k, i in enumerate(case.inputs)]
    if case.cross:
        yield "FROM " + " CROSS JOIN ".join(entries)
    elif case.joined:
        yield f"FROM {entries[0]}"
        known = {case.inputs[0].alias}
        for i, entry in zip(case.inputs[1:], entries[1:], strict=True):
            known.add(i.alias)
            on = [p for p in where if i.alias in aliases(p) and len(aliases(p)) > 1 and aliases(p) <= known]
            where = [p for p in where if p not in on]
            yield f"JOIN {entry} ON " + " AND ".join(render(p) for p in on)
    else:
        yield "FROM " + ", ".join(entries)
    if where:
        yield "WHERE " + " AND ".join(render(p) for p in where)
    inherited = [i.window for i in case.inputs if i.inherited and i.window is not None]
    if inherited:
        yield f"WINDOW {_length(inherited[0].span)}"


def can_join(case: JoinCase) -> bool:
    """Whether each input after the first has a predicate with those before it, as JOIN ... ON needs."""
    known = {case.inputs[0].alias}
    for i in case.inputs[1:]:
        known.add(i.alias)
        if not any(i.alias in aliases(p) and len(aliases(p)) > 1 and aliases(p) <= known for p in case.predicates):
            return False
    return True


def _entry(entry: CaseInput, *, swap: bool) -> str:
    if entry.window is None or entry.inherited:
        return f"{entry.source} AS {entry.alias}"
    window = window_text(entry.window)
    return f"{entry.source} {entry.alias} {window}" if swap else f"{entry.source} {window} AS {entry.alias}"


def window_text(window: Window) -> str:
    """
    >>> window_text(Window("partition", rows=2, by=("a", "b")))
    '[PARTITION BY a, b ROWS 2]'
    """
    match window.kind:
        case "range":
            return f"[RANGE {_length(window.span)}]"
        case "rows":
            return f"[ROWS {window.rows}]"
        case "partition":
            return f"[PARTITION BY {', '.join(window.by)} ROWS {window.rows}]"
        case "now":
            return "[NOW]"
        case "unbounded":
            return "[UNBOUNDED]"
        case "custom":
            return f"[{window.name}]"


def _length(span: int) -> str:
    for name, micros in (("SECONDS", 1_000_000), ("MILLISECONDS", 1_000)):
        if span % micros == 0:
            return f"{span // micros} {name}"
    return f"{span} MICROSECONDS"
