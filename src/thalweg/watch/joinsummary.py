"""The summary of a join: the reports of its packing tasks and cells added up, as plain values that the live view and the
report draw from.

Counts of cells are totals since the query began, so the newest report of each cell tells all; those of packing tasks
are of one batch each.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.contract.report import InputReport, TaskReport
from thalweg.profile.prices import RECORDED
from thalweg.spark.asked import Asked, AskedInput
from thalweg.spark.history import History
from thalweg.watch.classes import Classes
from thalweg.watch.summary import Summary, class_summary
from thalweg.watch.summary import summarise as summarise_filters


@dataclass(frozen=True)
class InputSummary:
    """One input: what came, what is kept, where its tuples go."""

    alias: str
    window: str
    is_stream: bool
    read: int
    """Rows that came, before its filters."""
    late: int
    stored: int
    needed: int
    """Of the stored rows, those that the window still needs; copies in several cells count once."""
    work: float
    """Of its tuples' probes: buckets looked up and candidates examined."""
    route: str
    """The probe order that most cells have."""
    filters: Summary | None
    """Its Python predicates, run while packing."""
    classes: Classes | None
    """Classes of its tuples that have probe orders of their own, in the cell that made most results of the newest batch."""


@dataclass(frozen=True)
class JoinSummary:
    """Everything that is known of a join, over all cells."""

    name: str
    policy: str
    streaming: bool
    cells: int
    results: int
    inputs: tuple[InputSummary, ...]

    @property
    def streams(self) -> tuple[InputSummary, ...]:
        return tuple(i for i in self.inputs if i.is_stream)

    @property
    def read(self) -> int:
        return sum(i.read for i in self.inputs)

    @property
    def filters(self) -> tuple[Summary, ...]:
        return tuple(i.filters for i in self.inputs if i.filters is not None)

    @property
    def calls(self) -> int:
        return sum(f.calls for f in self.filters)

    @property
    def spark_calls(self) -> int:
        """Spark calls every Python predicate of an input on every row of it."""
        return sum(f.spark_calls for f in self.filters)

    @property
    def saved_against_spark(self) -> float | None:
        return 1 - self.calls / self.spark_calls if self.spark_calls else None

    @property
    def stored(self) -> int:
        return sum(i.stored for i in self.streams)

    @property
    def needed(self) -> int:
        return sum(i.needed for i in self.streams)

    @property
    def work(self) -> float:
        return sum(i.work for i in self.inputs)


def summarise(asked: Asked, history: History) -> JoinSummary:
    """Add up what all packing tasks and cells reported."""
    cells = history.cells()
    inputs = tuple(_input(asked, i, history, cells) for i in asked.inputs)
    made = sum(c.made for c in cells)
    return JoinSummary(asked.name, asked.policy, asked.streaming, max(len(cells), 1), made, inputs)


def _input(asked: Asked, i: AskedInput, history: History, cells: list[TaskReport]) -> InputSummary:
    packed, own = history.total("pack", i.alias), [c.input(i.alias) for c in cells]
    came = packed.rows_in or sum(v.rows_in for v in own)
    filters = filtering(asked, packed, packs(history, i.alias)) if packed.operators else None
    routes = [" → ".join(v.routing.route) for v in own if v.routing is not None and v.routing.route]
    route = max(routes, key=routes.count) if routes else ""
    return InputSummary(
        i.alias, window(i), i.window is not None, came, sum(v.late for v in own), sum(v.stored for v in own),
        needed(i, cells), sum(v.probe_work for v in own), route, filters, classes(cells, i.alias),
    )  # fmt: skip


def packs(history: History, alias: str) -> list[InputReport]:
    """What the tasks that packed an input reported in the newest batch."""
    return [i for r in history.newest("pack") for i in r.inputs if i.alias == alias]


def classes(cells: list[TaskReport], alias: str) -> Classes | None:
    """Those of an input's tuples, as the busiest cell that has any tells of them."""
    having = [(c.results, i) for c in cells for i in c.inputs if i.alias == alias and i.routing and i.routing.classes]
    if not having:
        return None
    _, told = max(having, key=lambda found: found[0])
    assert told.routing is not None
    names = [o.name for o in told.operators]
    return Classes([class_summary(c, names) for c in told.routing.classes], names, told.routing.tree, probes)


def probes(seconds: float) -> str:
    """Seconds of a join, as probes of a price that everybody can compare.

    >>> probes(3.25 * RECORDED.candidate)
    '3.2 probes'
    """
    return f"{seconds / RECORDED.candidate:.1f} probes"


def filtering(asked: Asked, total: InputReport, newest: list[InputReport]) -> Summary:
    """The Python predicates of one input."""
    names = [o.name for o in total.operators]
    return summarise_filters(asked.name, asked.policy, asked.streaming, names, dict.fromkeys(names, ""), total, newest)


def needed(i: AskedInput, cells: list[TaskReport]) -> int:
    """Rows of an input that its window still needs, each counted once however many cells have it."""
    return int(sum(c.input(i.alias).needed for c in cells) / i.copies)


def window(i: AskedInput) -> str:
    w = i.window
    if w is None:
        return "table"
    if w.kind == "range":
        return f"RANGE {w.span / 1e6:g} s"
    if w.kind == "rows":
        return f"ROWS {w.rows}"
    if w.kind == "partition":
        return f"PARTITION BY {', '.join(w.by)} ROWS {w.rows}"
    return str(w.kind).upper()
