"""A summary: the reports of a query's tasks added up, as plain values that explain, progress and reports draw from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PredicateSummary:
    """One adaptive predicate over the whole life of the query."""

    name: str
    place: str
    calls: int
    extra: int
    pass_rate: float | None
    """Of all rows where rows were sampled, else of the rows that got there."""
    cost: float | None
    """Seconds per call."""
    written_calls: float | None
    """Calls that the written order would have made, from sampled rows."""


@dataclass(frozen=True)
class ClassSummary:
    """One class of tuples that has a route of its own, in the cell that saw most rows of the newest batch."""

    label: str
    share: float
    route: tuple[int, ...]
    estimate: float | None
    """Seconds of work per tuple."""
    rows: int
    came: tuple[int, ...]
    left: tuple[int, ...]
    """Rows that came to each operator and left it, on the class' own way."""


@dataclass(frozen=True)
class Summary:
    """Everything `explain` tells."""

    name: str
    policy: str
    streaming: bool
    batches: int
    rows_in: int
    rows_out: int
    routes: tuple[tuple[str, float], ...]
    """The routes in force in the newest batch, with the share of the rows each cell sent along."""
    why: str
    to_change: str
    predicates: tuple[PredicateSummary, ...]
    in_spark: tuple[tuple[str, str], ...]
    sampled: int
    reorders: int
    classes: tuple[ClassSummary, ...] = ()
    tree: str = ""
    """How tuples are told apart, as text."""

    @property
    def calls(self) -> int:
        return sum(p.calls for p in self.predicates)

    @property
    def spark_calls(self) -> int:
        """Spark calls every Python predicate on every row."""
        return self.rows_in * len(self.predicates)

    @property
    def written_calls(self) -> float | None:
        known = [p.written_calls for p in self.predicates]
        return None if any(k is None for k in known) else sum(k for k in known if k is not None)

    @property
    def saved_against_spark(self) -> float:
        return 1 - self.calls / self.spark_calls if self.spark_calls else 0.0

    @property
    def saved_against_written(self) -> float | None:
        return 1 - self.calls / self.written_calls if self.written_calls else None


def summarise(
    name: str,
    policy: str,
    streaming: bool,
    names: list[str],
    places: Mapping[str, str],
    reports: Iterable[dict[str, Any]],
) -> Summary:
    """Add up reports of tasks."""
    reports = list(reports)
    n = len(names)
    total = {k: [0.0] * n for k in ("calls", "extra", "passed", "tried", "held", "seconds", "written_calls")}
    rows_in = rows_out = sampled = reorders = 0
    for report in reports:
        tally = report["tally"]
        rows_in += tally["rows_in"]
        rows_out += tally["rows_out"]
        sampled += tally["sampled"]
        reorders += sum(e["change"] is not None for e in report["events"])
        for key, sums in total.items():
            for i, value in enumerate(tally[key]):
                sums[i] += value
    newest = _newest(reports)
    predicates = []
    for i, predicate in enumerate(names):
        calls, extra = int(total["calls"][i]), int(total["extra"][i])
        if total["tried"][i]:
            rate: float | None = total["held"][i] / total["tried"][i]
        else:
            rate = total["passed"][i] / (calls - extra) if calls > extra else None
        written: float | None = None
        if policy == "written":
            written = calls
        elif sampled:
            written = total["written_calls"][i] / sampled * rows_in
        cost = total["seconds"][i] / calls if calls else None
        predicates.append(PredicateSummary(predicate, places.get(predicate, ""), calls, extra, rate, cost, written))
    busiest = max(newest, key=lambda r: int(r["tally"]["rows_in"]), default=None)
    return Summary(
        name, policy, streaming, len({r["batch"] for r in reports}), rows_in, rows_out,
        _routes(newest, names), busiest["why"] if busiest else "not run yet", busiest["to_change"] if busiest else "",
        tuple(predicates), tuple((p, w) for p, w in places.items() if p not in names), sampled, reorders,
        _classes(busiest, n), busiest.get("tree", "") if busiest else "",
    )  # fmt: skip


def _classes(report: dict[str, Any] | None, predicates: int) -> tuple[ClassSummary, ...]:
    if report is None:
        return ()
    met = report["tally"].get("classes", {})
    return tuple(class_summary(c, met.get(c["label"]), predicates) for c in report.get("classes", []))


def class_summary(told: Mapping[str, Any], met: Sequence[int] | None, operators: int) -> ClassSummary:
    """A class as a worker told of it, with what its tuples met: as `execute.counts.ByClass`, None for nothing."""
    counts = met or [0] * (2 * operators + 1)
    came, left = tuple(counts[1 : 1 + operators]), tuple(counts[1 + operators :])
    return ClassSummary(told["label"], told["share"], tuple(told["route"]), told["estimate"], counts[0], came, left)


def _newest(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the last micro-batch, or of the last job."""
    batches = [r["batch"] for r in reports if r["batch"] is not None]
    if batches:
        return [r for r in reports if r["batch"] == max(batches)]
    last = max((r.get("heard", 0) for r in reports), default=0)
    return [r for r in reports if r.get("heard", 0) == last]


def _routes(reports: list[dict[str, Any]], names: list[str]) -> tuple[tuple[str, float], ...]:
    rows: dict[str, float] = {}
    for r in reports:
        for order, share in [(c["route"], c["share"]) for c in r.get("classes", [])] or [(r["route"], 1.0)]:
            route = " → ".join(names[i] for i in order)
            rows[route] = rows.get(route, 0.0) + share * r["tally"]["rows_in"]
    whole = sum(rows.values())
    return tuple((route, n / whole) for route, n in sorted(rows.items(), key=lambda item: -item[1])) if whole else ()
