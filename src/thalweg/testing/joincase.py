"""A join case: a query, its data, and one history of arrivals, as one plain value small enough for brute force.

Printed, a case is everything needed to run it again; shrinking is making a smaller value. Predicates are small trees,
so that each oracle reads them its own way. Windows and result times follow the thesis (2.1) and `query/query.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from thalweg.language.query import Source, Window

Family = Literal["int", "string", "decimal", "date", "double", "boolean", "bytes", "moment"]
Unit = Literal["s", "ms", "us", "ns"]
Row = tuple[Any, ...]

UNITS: Mapping[Unit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one count of an integer time column."""

TYPES: Mapping[Family, tuple[pa.DataType, ...]] = {
    "int": (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int16(), pa.int8()),
    "string": (pa.string(), pa.large_string()),
    "decimal": (pa.decimal128(10, 2), pa.decimal128(12, 3)),
    "date": (pa.date32(),),
    "double": (pa.float64(), pa.float64(), pa.float32()),
    "boolean": (pa.bool_(),),
    "bytes": (pa.binary(),),
    "moment": (pa.timestamp("us"), pa.timestamp("ms")),
}

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
LONG_AGO = -(2**62)
"""The watermark of a stream that has not been told any."""
WIDE = (2**40, -(2**40), 2**40 + 1, 2**32)
"""More values for 64-bit integers: equal to each other or to zero in their low half."""


# --- what a predicate may be ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ref:
    """A column of one input."""

    alias: str
    column: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of one family."""

    value: Any


@dataclass(frozen=True, slots=True)
class Plus:
    """The sum of two whole numbers."""

    left: Term
    right: Term


Term = Ref | Constant | Plus
Comparison = Literal["=", "<>", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True, slots=True)
class Compare:
    left: Term
    op: Comparison
    right: Term


@dataclass(frozen=True, slots=True)
class Between:
    term: Term
    low: Term
    high: Term


@dataclass(frozen=True, slots=True)
class Among:
    """`term IN (...)`."""

    term: Term
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """`term IS NULL`."""

    term: Term


@dataclass(frozen=True, slots=True)
class Call:
    """A Python function of FUNCTIONS over columns."""

    function: str
    arguments: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Not:
    inner: Predicate


@dataclass(frozen=True, slots=True)
class Or:
    left: Predicate
    right: Predicate


Predicate = Compare | Between | Among | Missing | Call | Not | Or


def odd(value: int | None) -> bool | None:
    """NULL for NULL, as most functions are written."""
    return None if value is None else value % 2 != 0


def absent_or_small(value: int | None) -> bool:
    """True for NULL: a function that a careless engine would not even call."""
    return value is None or value < 2


def brief(value: str | None) -> bool:
    return value is not None and len(value) < 2


def near(left: int | None, right: int | None) -> bool | None:
    """Over two columns, of one input or of two."""
    return None if left is None or right is None else abs(left - right) <= 2


FUNCTIONS: Mapping[str, Callable[..., bool | None]] = {
    "odd": odd, "absent_or_small": absent_or_small, "brief": brief, "near": near,
}  # fmt: skip


def terms(part: Predicate | Term) -> Iterator[Term]:
    """The terms without parts: columns and constants."""
    match part:
        case Ref() | Constant():
            yield part
        case Plus(a, b) | Compare(a, _, b) | Or(a, b):
            yield from terms(a)
            yield from terms(b)
        case Between(a, b, c):
            for x in (a, b, c):
                yield from terms(x)
        case Among(a, _) | Missing(a) | Not(a):
            yield from terms(a)
        case Call(_, arguments):
            yield from arguments


def aliases(part: Predicate | Term) -> frozenset[str]:
    return frozenset(t.alias for t in terms(part) if isinstance(t, Ref))


def render(part: Predicate | Term) -> str:
    """As Thalweg's SQL.

    >>> render(Not(Compare(Plus(Ref("a", "x"), Constant(1)), "<=", Ref("b", "y"))))
    'NOT (a.x + 1 <= b.y)'
    """
    match part:
        case Ref(alias, column):
            return f"{alias}.{column}"
        case Constant(value):
            return literal(value)
        case Plus(a, b):
            return f"{render(a)} + {render(b)}"
        case Compare(a, op, b):
            return f"{render(a)} {op} {render(b)}"
        case Between(a, low, high):
            return f"{render(a)} BETWEEN {render(low)} AND {render(high)}"
        case Among(a, values):
            return f"{render(a)} IN ({', '.join(literal(v) for v in values)})"
        case Missing(a):
            return f"{render(a)} IS NULL"
        case Call(name, arguments):
            return f"{name}({', '.join(render(a) for a in arguments)})"
        case Not(a):
            return f"NOT ({render(a)})"
        case Or(a, b):
            return f"({render(a)} OR {render(b)})"


def literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "\\'") + "'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float():
            return f"{value}D"
        case _:
            return str(value)


# --- a case -----------------------------------------------------------------------------------------------------------


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
        return Source(self.schema, self.time, self.unit, self.lateness)

    @cached_property
    def times(self) -> tuple[int, ...]:
        """The time of every row in microseconds; of a table, none."""
        if self.time is None:
            return ()
        at, unit = self.schema.get_field_index(self.time), UNITS[self.unit]
        return tuple(_micros(v) if isinstance(v, datetime) else int(v) * unit for v in (row[at] for row in self.rows))

    def micros(self, row: int) -> int:
        """The time of a row in microseconds."""
        return self.times[row]

    def table(self, rows: Sequence[int] | None = None) -> pa.Table:
        chosen = self.rows if rows is None else [self.rows[r] for r in rows]
        columns = list(zip(*chosen, strict=True)) or [()] * len(self.schema)
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _micros(moment: datetime) -> int:
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


@dataclass(frozen=True)
class JoinCase:
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
        names = {f for p in self.predicates for f in _calls(p)}
        return {n: FUNCTIONS[n] for n in sorted(names)}

    def marks(self) -> list[dict[str, int]]:
        """After each step, the watermark of every stream in microseconds."""
        return [marks for marks, _ in self._history]

    def arrivals(self) -> dict[str, list[tuple[int, int]]]:
        """By stream: the rows that arrive in time, as (row, step), in their order of arrival."""
        found: dict[str, list[tuple[int, int]]] = {s.name: [] for s in self.sources if s.time is not None}
        for k, (_, seen) in enumerate(self._history):
            for name, row, late in seen:
                if not late:
                    found[name].append((row, k))
        return found

    def late(self) -> dict[str, int]:
        """By stream: how many rows arrive behind the stream's watermark."""
        counts = {s.name: 0 for s in self.sources if s.time is not None}
        for _, seen in self._history:
            for name, _, late in seen:
                counts[name] += late
        return counts

    @cached_property
    def _history(self) -> list[tuple[dict[str, int], list[tuple[str, int, bool]]]]:
        """For each step the watermarks after it, and the rows that came with it: source, row, whether it was late."""
        streams = {s.name: s for s in self.sources if s.time is not None}
        marks = dict.fromkeys(streams, LONG_AGO)
        newest = dict.fromkeys(streams, LONG_AGO)
        history: list[tuple[dict[str, int], list[tuple[str, int, bool]]]] = []
        for step in self.steps:
            seen: list[tuple[str, int, bool]] = []
            if isinstance(step, Push):
                source = streams[step.source]
                for r in step.rows:
                    late = source.times[r] < marks[source.name]
                    seen.append((source.name, r, late))
                    if not late:
                        newest[source.name] = max(newest[source.name], source.times[r])
            elif isinstance(step, Advance):
                ready = {n: newest[n] - s.lateness for n, s in streams.items()}
                for name, value in step.watermarks if step.watermarks is not None else ready.items():
                    marks[name] = max(marks[name], value)
            history.append((dict(marks), seen))
        return history


def _calls(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case Call(name, _):
            yield name
        case Not(a):
            yield from _calls(a)
        case Or(a, b):
            yield from _calls(a)
            yield from _calls(b)
        case _:
            pass


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


def _length(span: int) -> str:
    for name, micros in (("SECONDS", 1_000_000), ("MILLISECONDS", 1_000)):
        if span % micros == 0:
            return f"{span // micros} {name}"
    return f"{span} MICROSECONDS"
