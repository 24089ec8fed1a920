"""The summary of a join: the reports of its packing tasks and cells added up, as plain values that the live view and the
report draw from.

Counts of cells are totals since the query began, so the newest report of each cell tells all; those of packing tasks
are of one batch each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thalweg.language.query import Input
from thalweg.optimize import shares as sharing
from thalweg.profile.prices import RECORDED
from thalweg.spark.board import JoinEntry
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


def summarise(entry: JoinEntry, packs: list[dict[str, Any]], cells: list[dict[str, Any]]) -> JoinSummary:
    """Add up the reports of all packing tasks, and the newest of each cell."""
    inputs = tuple(_input(entry, i, packs, cells) for i in entry.query.inputs)
    results = sum(int(c["stats"]["results"]) for c in cells)
    return JoinSummary(entry.name, entry.policy, entry.streaming, max(len(cells), 1), results, inputs)


def _input(entry: JoinEntry, i: Input, packs: list[dict[str, Any]], cells: list[dict[str, Any]]) -> InputSummary:
    own = [p for p in packs if p["input"] == i.alias]
    values = [c["stats"]["inputs"][i.alias] for c in cells]
    came = sum(p["rows"] for p in own) if own else sum(v["rows in"] for v in values)
    judged = [p for p in own if "filters" in p]
    filters = filtering(entry, judged) if judged else None
    routes = [c["routes"][i.alias] for c in cells if c["routes"].get(i.alias)]
    route = max(routes, key=routes.count) if routes else ""
    return InputSummary(
        i.alias, window(i), i.is_stream, came, sum(c["stats"]["sources"][i.alias]["late"] for c in cells),
        sum(v["stored"] for v in values), needed(entry, cells, i.alias),
        sum(v["work"] + v["profiling work"] for v in values), route, filters, classes(cells, i.alias),
    )  # fmt: skip


def classes(cells: list[dict[str, Any]], alias: str) -> Classes | None:
    """Those of an input's tuples, as the busiest cell that has any tells of them."""
    having = [c for c in cells if alias in c["classes"]]
    if not having:
        return None
    told = max(having, key=lambda c: int(c["results"]))["classes"][alias]
    each = [class_summary(c, c["met"], len(told["operators"])) for c in told["each"]]
    return Classes(each, told["operators"], told["tree"], probes)


def probes(seconds: float) -> str:
    """Seconds of a join, as probes of a price that everybody can compare.

    >>> probes(3.25 * RECORDED.candidate)
    '3.2 probes'
    """
    return f"{seconds / RECORDED.candidate:.1f} probes"


def filtering(entry: JoinEntry, packs: list[dict[str, Any]]) -> Summary:
    """The Python predicates of one input, over the given reports of its packing tasks."""
    names = packs[0]["filters"]
    return summarise_filters(entry.name, entry.policy, entry.streaming, names, dict.fromkeys(names, ""), packs)


def needed(entry: JoinEntry, cells: list[dict[str, Any]], alias: str) -> int:
    """Rows of an input that its window still needs, each counted once however many cells have it."""
    number = [i.alias for i in entry.query.inputs].index(alias)
    copies = entry.shares.replication(sharing.classes(entry.query)[number]) if entry.shares.sizes else 1
    total = sum(c["needed"].get(alias, c["stats"]["inputs"][alias]["stored"]) for c in cells)
    return int(total / copies)


def window(i: Input) -> str:
    if not i.is_stream:
        return "table"
    w = i.window
    if w.kind == "range":
        return f"RANGE {w.span / 1e6:g} s"
    if w.kind == "rows":
        return f"ROWS {w.rows}"
    if w.kind == "partition":
        return f"PARTITION BY {', '.join(w.by)} ROWS {w.rows}"
    return str(w.kind).upper()
