"""Reports: what one task says about one batch, as plain values.

The engine fills them, `spark/` carries them as JSON, the board adds them up and `watch/` shows them. Routes are tuples
of operator names. A count says what the task added, unless the report says `since_start`; the fields marked `latest`
describe the present and are never added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from operator import add
from typing import Any, Literal, TypeVar

from thalweg.plan import Event, Reason

Stage = Literal["filter", "pack", "cell", "above", "unpack"]
"""Who reports: a task of `tw.where`, or one of `tw.sql` that packs an input, joins, goes on behind a second shuffle, or
turns results into rows."""
CELLS: tuple[Stage, ...] = ("cell", "above")
"""Stages with state. Their reports count from the start."""


R = TypeVar("R", "InputReport", "OperatorReport")


def latest(default: Any) -> Any:
    return field(default=default, metadata={"latest": True})


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What the rows of one input met at one operator."""

    name: str
    rows_in: int = 0
    """Rows that came on their way."""
    rows_out: int = 0
    extra: int = 0
    """Further rows, already dropped, tried only to profile."""
    seconds: float = 0.0
    work: float = 0.0
    buckets: int = 0
    """Stems: buckets looked up; the rest of the work is candidates."""
    tried: int = 0
    """Of the sampled rows, those that the operator judged."""
    held: int = 0
    """Of those, the rows that passed."""
    written: int = 0
    """Sampled rows that would have come here in the written order."""

    @property
    def calls(self) -> int:
        return self.rows_in + self.extra


@dataclass(frozen=True, slots=True)
class ClassReport:
    """One class of rows with a route of its own; `came` and `left` follow the input's list of operators."""

    label: str
    share: float
    route: tuple[str, ...]
    estimate: float | None
    rows: int
    came: tuple[int, ...]
    left: tuple[int, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ClassReport:
        tuples = {k: tuple(record[k]) for k in ("route", "came", "left")}
        return cls(**{**record, **tuples})


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """The route in force for an input's rows, and why."""

    route: tuple[str, ...]
    why: Reason
    to_change: Reason | None = None
    """What it would take to change the route."""
    version: int = 0
    frozen: bool = False
    classes: tuple[ClassReport, ...] = ()
    """Empty where all rows take one route."""
    tree: str = ""
    """How rows are classified, as text."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> RoutingReport:
        classes, change = tuple(map(ClassReport.of, record["classes"])), record["to_change"]
        reasons = {"why": Reason(**record["why"]), "to_change": None if change is None else Reason(**change)}
        return cls(**{**record, **reasons, "route": tuple(record["route"]), "classes": classes})


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The index of one stem: its layout, how it is probed, what other layouts would cost."""

    layout: str
    patterns: tuple[tuple[str, float], ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()
    why: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> IndexReport:
        pairs = {k: tuple((n, x) for n, x in record[k]) for k in ("patterns", "alternatives")}
        return cls(**{**record, **pairs})


@dataclass(frozen=True, slots=True)
class InputReport:
    """One input of a query in one task.

    >>> one = InputReport("s", rows_in=3, stored=3, operators=(OperatorReport("p", 3, 1),))
    >>> two = one.plus(InputReport("s", rows_in=2, stored=2, operators=(OperatorReport("p", 2, 2),)))
    >>> two.rows_in, two.stored, two.operators[0].rows_out
    (5, 2, 3)
    >>> two.minus(one).rows_in
    2
    """

    alias: str
    rows_in: int = 0
    rows_out: int = 0
    """Rows that passed the filters; when packing, rows sent to cells, counting every copy."""
    late: int = 0
    work: float = 0.0
    """Buckets looked up and candidates examined by its rows."""
    profiling_work: float = 0.0
    sampled: int = 0
    """Rows tried on every filter, to estimate what the written order would have cost."""
    stored: int = latest(0)
    needed: int = latest(0)
    """Of the stored rows, those that the window still needs."""
    row_bytes: int = latest(0)
    index_bytes: int = latest(0)
    waiting: int = latest(0)
    watermark: int | None = latest(None)
    """As the time column counts."""
    operators: tuple[OperatorReport, ...] = ()
    """All that its rows can visit, in the written order."""
    routing: RoutingReport | None = None
    index: IndexReport | None = None
    timeless: int = 0
    """Rows without a time, or with one that can't be."""
    ahead: int = 0
    """Rows whose time lies too far after the clock of their batch."""
    failed: int = 0
    """Rows or combinations left out because a predicate raised."""

    @property
    def probe_work(self) -> float:
        return self.work + self.profiling_work

    def operator(self, name: str) -> OperatorReport:
        return next((o for o in self.operators if o.name == name), OperatorReport(name))

    def plus(self, later: InputReport) -> InputReport:
        """Counts of both; everything else as the later report has it."""
        earlier = {o.name: o for o in self.operators}
        operators = (_counted(add, earlier.get(o.name), o) for o in later.operators)
        return replace(_counted(add, self, later), operators=tuple(operators))

    def minus(self, earlier: InputReport) -> InputReport:
        """What was added since the earlier report."""
        before = {o.name: o for o in earlier.operators}
        operators = (_counted(_less, before.get(o.name), o) for o in self.operators)
        return replace(_counted(_less, earlier, self), operators=tuple(operators))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> InputReport:
        routing, index = record["routing"], record["index"]
        return cls(
            **{
                **record,
                "operators": tuple(OperatorReport(**o) for o in record["operators"]),
                "routing": None if routing is None else RoutingReport.of(routing),
                "index": None if index is None else IndexReport.of(index),
            }
        )


def _less(earlier: float, later: float) -> float:
    return later - earlier


def _counted(how: Callable[[Any, Any], Any], earlier: R | None, later: R) -> R:
    if earlier is None:
        return later
    counts = [f.name for f in fields(later) if f.type in ("int", "float") and not f.metadata.get("latest")]
    return replace(later, **{n: how(getattr(earlier, n), getattr(later, n)) for n in counts})


@dataclass(frozen=True, slots=True)
class Timing:
    """When a task began and ended, and the seconds of wall clock and of processor time that each of its steps took."""

    began: float = 0.0
    ended: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    processor: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeavyReport:
    """The most frequent values of a join key that is cut into `share` parts, among the sampled rows."""

    column: str
    share: int
    sampled: int
    values: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> HeavyReport:
        return cls(**{**record, "values": tuple((v, n) for v, n in record["values"])})


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task says about one batch."""

    stage: Stage
    batch: int | None
    """The micro-batch; None in a batch job."""
    task: int
    """The cell's key, or the number of the task's partition."""
    inputs: tuple[InputReport, ...]
    since_start: bool = False
    """Whether counts of inputs, and `made`, go back to the first batch: they are part of the cell's state."""
    results: int = 0
    """Results of this task."""
    made: int = 0
    """Results of the cell, counted like its inputs."""
    events: tuple[Event, ...] = ()
    timing: Timing = Timing()
    loaded: str = ""
    """Where a cell's engine came from: "new", "warm" (this worker had it) or "state"."""
    written: int = 0
    """Bytes written to the state store."""
    state: int = 0
    """Bytes that the state store holds."""
    silent: tuple[str, ...] = ()
    """Streams whose watermark the idle time-out moves."""
    sent: tuple[int, ...] = ()
    """Rows sent to each cell."""
    heavy: tuple[HeavyReport, ...] = ()
    learned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the policies of its inputs learned, for workers that know less."""
    heard: int = 0
    """Which report of its query this is, in the order in which the board heard them."""

    def input(self, alias: str) -> InputReport:
        return next(i for i in self.inputs if i.alias == alias)

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(replace(self, events=())) | {"events": [e.record() for e in self.events]}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> TaskReport:
        return cls(
            **{
                **record,
                "inputs": tuple(map(InputReport.of, record["inputs"])),
                "events": tuple(map(Event.of, record["events"])),
                "timing": Timing(**record["timing"]),
                "silent": tuple(record["silent"]),
                "sent": tuple(record["sent"]),
                "heavy": tuple(map(HeavyReport.of, record["heavy"])),
            }
        )
