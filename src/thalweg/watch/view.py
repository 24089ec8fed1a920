"""The view of a query: everything a person can see of it, as plain values that become JSON.

`handle.view()` makes one. Text, HTML, the panel, the metrics and the report draw from it alone, so they all agree. The
view is the same for filters and for joins: a filter is a query of one input without a name. `view(since=cursor)` gives
only the batches and events that came after an earlier view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from thalweg.contract.report import ClassReport, InputReport


@dataclass(frozen=True, slots=True)
class OperatorView:
    """A filter or a probe, over the whole life of the query."""

    name: str
    place: str
    """Where it runs."""
    rows_in: int
    rows_out: int
    calls: int
    rate: float | None
    """Rows out per row in: the pass rate of a filter, the fan-out of a probe."""
    cost: float | None
    """Seconds per call."""
    work: float
    """Probes: buckets looked up and candidates examined."""
    written_calls: float | None
    """Calls that the written order would have made, estimated from sampled rows."""
    spark_calls: int
    """Calls that Spark makes: one for every row, whatever other predicates say."""


@dataclass(frozen=True, slots=True)
class RouteView:
    """A route in force."""

    order: tuple[str, ...]
    share: float
    """Of the rows that take it."""
    flow: tuple[tuple[int, int], ...] = ()
    """Rows in and out of each operator in the newest batch; empty where classes of rows have routes of their own."""

    def __str__(self) -> str:
        return " → ".join(self.order)


@dataclass(frozen=True, slots=True)
class PathView:
    """The operators that an input's rows visit: its filters, or its probes of the other inputs."""

    kind: Literal["filters", "probes"]
    operators: tuple[OperatorView, ...]
    """In the written order."""
    routes: tuple[RouteView, ...] = ()
    """The routes in force; the one that most rows take comes first."""
    why: str = "not run yet"
    to_change: str = ""
    """What it would take to change the route."""
    version: int = 0
    frozen: bool = False
    sampled: int = 0
    """Rows tried on every filter, to estimate what the written order would have cost."""
    classes: tuple[ClassReport, ...] = ()
    """Classes of rows with routes of their own, in the busiest task of the newest batch."""
    tree: str = ""
    """How rows are classified, as text."""

    @property
    def names(self) -> list[str]:
        return [o.name for o in self.operators]

    @property
    def order(self) -> tuple[str, ...]:
        """The route that most rows take; the written one before the first batch."""
        return self.routes[0].order if self.routes else tuple(self.names)

    def operator(self, name: str) -> OperatorView:
        return next(o for o in self.operators if o.name == name)


@dataclass(frozen=True, slots=True)
class IndexView:
    """How one input's stored rows are indexed, in the cell with the most work."""

    layout: str
    candidates: float
    buckets: float
    """Per match."""
    size: int
    """In bytes."""
    patterns: tuple[tuple[str, float], ...] = ()
    """What probes ask for, with the share of the probes."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Other layouts, with their cost relative to this one."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class InputView:
    """One input: what came, what is kept, where its rows go."""

    alias: str
    """Empty for `tw.where`."""
    window: str
    is_stream: bool
    rows_in: int
    """Rows read, before its filters."""
    late: int
    timeless: int
    """Rows without a usable time."""
    ahead: int
    """Rows too far ahead of the clock of their batch."""
    failed: int
    """Rows or combinations left out because a predicate raised."""
    stored: int
    needed: int
    """Of the stored rows, those that the window still needs; copies in several cells count once."""
    row_bytes: int
    work: float
    silent: bool
    """Whether nothing came for longer than `idle=`."""
    filters: PathView | None
    probes: PathView | None
    index: IndexView | None

    @property
    def paths(self) -> tuple[PathView, ...]:
        return tuple(p for p in (self.filters, self.probes) if p is not None)


@dataclass(frozen=True, slots=True)
class CutView:
    """How the rows of a join are spread over cells."""

    cells: int
    keys: tuple[tuple[str, int], ...]
    """Join keys that are cut, each with its number of parts."""
    why: str
    rows: int
    sent: int
    """Rows sent to cells for the rows read, counting every copy."""
    busiest: float | None
    """Load of the busiest cell, relative to the mean."""
    heavy: tuple[tuple[str, str, float, float], ...]
    """Too frequent values: column, value, its share of the rows, the share that a part should get."""
    better: float | None
    """Rows that the best cut for the measured rates would send, relative to this one; None where this one is as good."""
    tasks: int
    partitions: int
    """Of the shuffle, and how many of them have a cell."""
    state_bytes: int

    @property
    def fits(self) -> bool:
        """Whether every cell has a task of its own and no task is idle."""
        return self.tasks == self.cells == self.partitions


@dataclass(frozen=True, slots=True)
class EventView:
    """One decision, as `events()` lists it."""

    batch: int | None
    partition: int | None
    """The cell or task; the driver's own decisions have neither batch nor task."""
    by: str
    kind: str
    version: int
    rows: int
    """Rows that the decider had seen."""
    where: str
    before: str
    after: str
    why: str
    cost_before: float | None
    cost_after: float | None

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class BatchView:
    """What one batch added; for filters in a batch job, what one task did. `stored` and `needed` are as the batch left them."""

    number: int
    filters: tuple[InputReport, ...]
    cells: tuple[InputReport, ...]
    results: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall-clock time per stage, where Spark reported it (`stages.py`)."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """Processor time of all tasks together, by stage."""

    def filtered(self, alias: str) -> InputReport | None:
        return next((i for i in self.filters if i.alias == alias), None)

    def joined(self, alias: str) -> InputReport | None:
        return next((i for i in self.cells if i.alias == alias), None)


@dataclass(frozen=True, slots=True)
class SpentView:
    """Where the time of a batch goes, on average over the newest ones."""

    batches: int
    rows: float
    trigger: float
    """Seconds."""
    stages: Mapping[str, float]
    """Seconds of wall clock (`stages.py`)."""
    culprits: tuple[tuple[str, str, float], ...] = ()
    """Stage, and the operator that takes most of its time, with its share."""


@dataclass(frozen=True)
class QueryView:
    """Everything that is known of a query."""

    name: str
    policy: str
    kind: Literal["filter", "join"]
    streaming: bool
    batches: int
    rows_in: int
    """Rows read: of the streams, or of all inputs where none is a stream."""
    rows_out: int
    """Rows that passed all filters, or results of the join."""
    cells: int
    frozen: bool
    """Whether `freeze` is in force, or will be from the next batch on."""
    inputs: tuple[InputView, ...]
    elsewhere: tuple[tuple[str, str], ...]
    """Predicates that no route visits, and where they run."""
    cut: CutView | None
    """None where each task works on its own rows."""
    recent: tuple[BatchView, ...]
    events: tuple[EventView, ...]
    """Batches and events after `since`, as far as they are still kept."""
    since: int
    cursor: int
    """Pass it as `since` to get only what comes next."""
    floods: tuple[str, ...] = ()
    """Inputs of whose newest batch most rows were left out, as sentences."""
    spent: SpentView | None = None
    """None while no batch has told its times."""

    def record(self) -> dict[str, Any]:
        """As plain JSON values, with the totals that are derived from others."""
        totals = ("calls", "spark_calls", "written_calls", "saved_against_spark", "saved_against_written", "stored")
        return asdict(self) | {t: getattr(self, t) for t in (*totals, "needed", "work")}

    def input(self, alias: str = "") -> InputView:
        return next(i for i in self.inputs if i.alias == alias)

    @property
    def streams(self) -> tuple[InputView, ...]:
        return tuple(i for i in self.inputs if i.is_stream)

    @property
    def filters(self) -> tuple[PathView, ...]:
        return tuple(i.filters for i in self.inputs if i.filters is not None)

    @property
    def judged(self) -> Iterator[OperatorView]:
        """All adaptive predicates."""
        return (o for f in self.filters for o in f.operators)

    @property
    def calls(self) -> int:
        return sum(o.calls for o in self.judged)

    @property
    def spark_calls(self) -> int:
        return sum(o.spark_calls for o in self.judged)

    @property
    def written_calls(self) -> float | None:
        known = [o.written_calls for o in self.judged]
        return None if None in known else sum(k for k in known if k is not None)

    @property
    def saved_against_spark(self) -> float | None:
        return 1 - self.calls / self.spark_calls if self.spark_calls else None

    @property
    def saved_against_written(self) -> float | None:
        """None where it is unknown, and where the written order is the one in force."""
        return 1 - self.calls / self.written_calls if self.written_calls and self.policy != "written" else None

    @property
    def sampled(self) -> int:
        return sum(f.sampled for f in self.filters)

    @property
    def stored(self) -> int:
        return sum(i.stored for i in self.streams)

    @property
    def needed(self) -> int:
        return sum(i.needed for i in self.streams)

    @property
    def work(self) -> float:
        return sum(i.work for i in self.inputs)
