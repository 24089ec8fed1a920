"""A summary: the reports of a query's tasks added up, as plain values that explain, progress and reports draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.contract.report import ClassReport, InputReport


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
    names: Sequence[str],
    places: Mapping[str, str],
    total: InputReport,
    newest: Sequence[InputReport],
    batches: int = 0,
) -> Summary:
    """The filters of one input: `total` over the query's life, `newest` of each task of the newest batch."""
    predicates = []
    for predicate in names:
        met = total.operator(predicate)
        if met.tried:
            rate: float | None = met.held / met.tried
        else:
            rate = met.rows_out / met.rows_in if met.rows_in > 0 else None
        written: float | None = None
        if policy == "written":
            written = met.calls
        elif total.sampled:
            written = met.written / total.sampled * total.rows_in
        cost = met.seconds / met.calls if met.calls else None
        place = places.get(predicate, "")
        predicates.append(PredicateSummary(predicate, place, met.calls, met.extra, rate, cost, written))
    busiest = max((i for i in newest if i.routing is not None), key=lambda i: i.rows_in, default=None)
    routing = busiest.routing if busiest is not None else None
    return Summary(
        name, policy, streaming, batches, total.rows_in, total.rows_out, _routes(newest),
        str(routing.why) if routing else "not run yet", str(routing.to_change or "") if routing else "", tuple(predicates),
        tuple((p, w) for p, w in places.items() if p not in names), total.sampled,
        tuple(class_summary(c, names) for c in routing.classes) if routing else (), routing.tree if routing else "",
    )  # fmt: skip


def class_summary(c: ClassReport, names: Sequence[str]) -> ClassSummary:
    route = tuple(names.index(n) for n in c.route)
    return ClassSummary(c.label, c.share, route, c.estimate, c.rows, c.came, c.left)


def _routes(inputs: Sequence[InputReport]) -> tuple[tuple[str, float], ...]:
    rows: dict[str, float] = {}
    for i in inputs:
        if i.routing is None:
            continue
        for order, share in [(c.route, c.share) for c in i.routing.classes] or [(i.routing.route, 1.0)]:
            route = " → ".join(order)
            rows[route] = rows.get(route, 0.0) + share * i.rows_in
    whole = sum(rows.values())
    return tuple((route, n / whole) for route, n in sorted(rows.items(), key=lambda item: -item[1])) if whole else ()
