"""Gathering: from what was asked and what tasks reported to the view of a query.

Counts of cells are totals since the query began, so the newest report of each cell says it all. Other tasks report one
batch each; the history has their totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from typing import Any

from thalweg.contract.report import CELLS, InputReport, RoutingReport, Stage, TaskReport
from thalweg.language.query import Query
from thalweg.optimize import shares as sharing
from thalweg.plan.layout import Layout
from thalweg.plan.shares import Shares
from thalweg.profile.rates.heavy import heavy
from thalweg.spark.asked import Asked, AskedInput, Cut
from thalweg.spark.control import Orders
from thalweg.spark.history import History, Told
from thalweg.spark.keys import tasks
from thalweg.watch.bottleneck import spent
from thalweg.watch.stages import busy, stages
from thalweg.watch.view import (
    BatchView,
    CutView,
    EventView,
    IndexView,
    InputView,
    OperatorView,
    PathView,
    QueryView,
    RouteView,
)

SPENT = 16
"""Newest batches whose mean says where the time goes."""
THAWED = "thawed: the policy decides again from the next batch on"


def gather(
    asked: Asked, history: History, orders: Orders, progress: Mapping[int, Mapping[str, int]], since: int
) -> QueryView:
    """The view of a query, with batches and events after `since`."""
    cells = history.cells()
    inputs = tuple(_input(asked, i, history, cells, orders) for i in asked.inputs)
    visited = {name for i in inputs for p in i.paths for name in p.names}
    made = sum(c.made for c in history.cells(*CELLS)) if asked.is_join else history.total("filter", "").rows_out
    return QueryView(
        asked.name,
        asked.policy,
        "join" if asked.is_join else "filter",
        asked.streaming,
        history.batches,
        sum(i.rows_in for i in [i for i in inputs if i.is_stream] or inputs),
        made,
        max(len(cells), 1),
        orders.frozen,
        inputs,
        tuple((text, place) for text, place in asked.places.items() if text not in visited),
        None if asked.cut is None else _cut(asked, asked.cut, history),
        tuple(_batches(asked, history, progress, since)),
        tuple(event(told) for told in history.events if told.heard > since),
        since,
        history.heard,
        tuple(history.floods.now.values()),
        spent(tuple(_batches(asked, history, progress, _newer(history)))),
    )


def filtering(asked: Asked) -> Stage:
    """The stage in which the filters of a query run."""
    return "pack" if asked.is_join else "filter"


def _input(asked: Asked, i: AskedInput, history: History, cells: Sequence[TaskReport], orders: Orders) -> InputView:
    stage, own = filtering(asked), [c.input(i.alias) for c in cells]
    total = history.total(stage, i.alias)
    newest = [v for r in history.newest(stage) for v in r.inputs if v.alias == i.alias]
    filters = _filters(asked, total, newest, orders, [] if asked.is_join else i.pipeline.names)
    probes = _probes(asked, i.alias, history, own, orders) if asked.is_join else None
    return InputView(
        i.alias,
        window(i),
        i.window is not None,
        total.rows_in or sum(v.rows_in for v in own),
        sum(v.late for v in own),
        total.timeless + sum(v.timeless for v in own),
        total.ahead,
        total.failed + sum(v.failed for v in own),
        sum(v.stored for v in own),
        int(sum(v.needed for v in own) / i.copies),
        sum(v.row_bytes for v in own),
        sum(v.probe_work for v in own),
        any(i.alias in c.silent for c in cells),
        filters,
        probes,
        _index(i.alias, cells),
    )


def _filters(
    asked: Asked, total: InputReport, newest: Sequence[InputReport], orders: Orders, known: Sequence[str]
) -> PathView | None:
    """The filters of one input: `total` over the query's life, `newest` of each task of the newest batch."""
    names = [o.name for o in total.operators] or known
    if not names:
        return None
    operators = []
    for name in names:
        met = total.operator(name)
        written: float | None = None
        if asked.policy == "written":
            written = met.calls
        elif total.sampled:
            written = met.written / total.sampled * total.rows_in
        passed, tried = (met.held, met.tried) if met.tried else (met.rows_out, met.rows_in)
        rate, cost = passed / tried if tried else None, met.seconds / met.calls if met.calls else None
        place = asked.places.get(name, "")
        operators.append(
            OperatorView(
                name, place, met.rows_in, met.rows_out, met.calls, rate, cost, met.work, written, total.rows_in
            )
        )
    return _routed(PathView("filters", tuple(operators), sampled=total.sampled), newest, newest, orders)


def _probes(asked: Asked, alias: str, history: History, own: Sequence[InputReport], orders: Orders) -> PathView | None:
    """The probes of one input's rows in all cells; `own` are the newest reports of each cell, with totals."""
    if not any(v.routing is not None for v in own):
        return None
    operators = [
        OperatorView(
            met.name, asked.places.get(met.name, ""), met.rows_in, met.rows_out, met.calls,
            met.rows_out / met.rows_in if met.rows_in else None, met.seconds / met.calls if met.calls else None,
            met.work, None, 0,
        )
        for met in reduce(InputReport.plus, own).operators
    ]  # fmt: skip
    return _routed(PathView("probes", tuple(operators)), own, _newest(history, alias), orders)


def _routed(path: PathView, reports: Sequence[InputReport], newest: Sequence[InputReport], orders: Orders) -> PathView:
    """The path with the routes that tasks reported, and the reason of the busiest; `newest` are the counts of the newest
    batch."""
    known = [(v.rows_in, v.routing) for v in reports if v.routing is not None]
    if not known:
        return path
    _, busy = max(known, key=lambda found: found[0])
    _, classed = max(((n, r) for n, r in known if r.classes), key=lambda found: found[0], default=(0, None))
    thawed = busy.frozen and not orders.frozen
    return replace(
        path,
        routes=tuple(RouteView(o, share, _flow(o, newest)) for o, share in _shares(known)),
        why=THAWED if thawed else str(busy.why),
        to_change="" if thawed else str(busy.to_change or ""),
        version=busy.version,
        frozen=busy.frozen and not thawed,
        classes=() if classed is None else classed.classes,
        tree="" if classed is None else classed.tree,
    )


def _shares(known: Sequence[tuple[int, RoutingReport]]) -> list[tuple[tuple[str, ...], float]]:
    """Each route in force with the share of the rows that take it, most rows first."""
    some = any(rows for rows, _ in known)
    weights: dict[tuple[str, ...], float] = {}
    for rows, routing in known:
        for route, share in [(c.route, c.share) for c in routing.classes] or [(routing.route, 1.0)]:
            weights[route] = weights.get(route, 0.0) + share * (rows if some else 1)
    whole = sum(weights.values())
    ordered = sorted(weights.items(), key=lambda item: -item[1])
    return [(route, n / whole) for route, n in ordered if route and n]


def _flow(order: Sequence[str], newest: Sequence[InputReport]) -> tuple[tuple[int, int], ...]:
    own = [v for v in newest if v.routing is not None and v.routing.route == order and not v.routing.classes]
    met = [[v.operator(name) for v in own] for name in order] if own else []
    return tuple((sum(o.rows_in for o in each), sum(o.rows_out for o in each)) for each in met)


def _index(alias: str, cells: Sequence[TaskReport]) -> IndexView | None:
    if not cells:
        return None
    busy = busiest(cells)
    told = busy.input(alias)
    if told.index is None:
        return None
    met = [v.operator(alias) for v in busy.inputs]
    buckets, matches = sum(m.buckets for m in met), max(sum(m.rows_out for m in met), 1)
    candidates = sum(m.work for m in met) - buckets
    index = told.index
    return IndexView(
        index.layout, candidates / matches, buckets / matches, told.index_bytes, index.patterns, index.alternatives, index.why
    )  # fmt: skip


def busiest(cells: Sequence[TaskReport]) -> TaskReport:
    return max(cells, key=lambda c: sum(i.work for i in c.inputs))


def window(i: AskedInput) -> str:
    """As a query's text would say it."""
    w = i.window
    if w is None:
        return "table"
    if w.kind == "range":
        return f"RANGE {w.span / 1e6:g} s"
    by = f"PARTITION BY {', '.join(w.by)} " if w.kind == "partition" else ""
    return f"{by}ROWS {w.rows}" if w.kind in ("rows", "partition") else str(w.kind).upper()


def _cut(asked: Asked, cut: Cut, history: History) -> CutView:
    packed = {i.alias: history.total("pack", i.alias) for i in asked.inputs}
    loads, count = history.sent, cut.shares.cells
    return CutView(
        count,
        () if cut.query is None else _keys(cut.query, cut.shares),
        cut.why,
        sum(p.rows_in for p in packed.values()),
        sum(p.rows_out for p in packed.values()),
        max(loads) * len(loads) / sum(loads) if len(loads) > 1 and any(loads) else None,
        tuple((c, v, share, 1 / h.share) for c, h in history.heavy.items() for v, share in heavy(asdict(h))),
        _better(cut.query, cut.shares, packed) if asked.streaming and cut.query is not None else None,
        tasks(count, cut.partitions),
        cut.partitions,
        sum(c.state for c in history.cells(*CELLS)),
    )


def _keys(query: Query, shares: Shares) -> tuple[tuple[str, int], ...]:
    sizes = zip(query.block.keys, shares.sizes, strict=True)
    return tuple((" = ".join(map(str, k.columns)), s) for k, s in sizes if s > 1)


def _better(query: Query, shares: Shares, packed: Mapping[str, InputReport]) -> float | None:
    """What the measured rates would say. The cut itself never changes under a checkpoint."""
    rates = [float(packed[i.alias].rows_in) for i in query.inputs]
    best, _ = sharing.for_query(query, shares.cells, rates)
    here, there = (sharing.copied(query, s, rates) for s in (shares, best))
    return there / here if any(rates) and there <= 0.95 * here else None


# Batches


def _batches(
    asked: Asked, history: History, progress: Mapping[int, Mapping[str, int]], since: int
) -> Iterable[BatchView]:
    """Every batch that something was heard of after `since`; for filters in a batch job, every task."""
    if not history.reports("filter", "pack", "cell", since=since):
        return  # a scrape, or explain(): they ask for no past batch, and must not read all reports for it
    found: dict[int, list[TaskReport]] = {}
    fresh: set[int] = set()
    for r in history.reports("filter", "pack", *CELLS, "unpack"):
        number = r.batch if r.batch is not None else 0 if asked.is_join else r.task
        found.setdefault(number, []).append(r)
        if r.heard > since:
            fresh.add(number)
    before: dict[int, TaskReport] = {}
    copies = {i.alias: i.copies for i in asked.inputs}
    for number in sorted(found):
        cells = [r for r in found[number] if r.stage == "cell"]
        if number in fresh:
            first = [r for r in found[number] if r.stage in ("filter", "pack")]
            aliases = list(dict.fromkeys(i.alias for r in first for i in r.inputs))
            filters = [_together([r.input(a) for r in first if any(i.alias == a for i in r.inputs)]) for a in aliases]
            timed = [r for r in found[number] if r.timing.seconds]
            seconds = stages(progress[number], timed) if number in progress and timed else {}
            joined = tuple(_stored(_added(cells, before, a), n) for a, n in copies.items()) if cells else ()
            made = sum(r.results for r in found[number] if r.stage in CELLS)
            yield BatchView(number, tuple(filters), joined, made, seconds, busy(timed))
        before |= {r.task: r for r in cells}


def _newer(history: History) -> int:
    """The number of the last report before the newest batches."""
    reports = [r for r in history.reports("filter", "pack", *CELLS, "unpack") if r.batch is not None]
    newest = sorted({r.batch for r in reports if r.batch is not None})[-SPENT:]
    return min((r.heard for r in reports if r.batch in newest), default=history.heard + 1) - 1


def _newest(history: History, alias: str) -> list[InputReport]:
    """What the newest batch added to one input, by cell."""
    return _added(history.newest("cell"), history.before, alias)


def _added(cells: Sequence[TaskReport], before: Mapping[int, TaskReport], alias: str) -> list[InputReport]:
    """What each cell added to one input since the reports before. Totals that go back to a time before all reports say
    nothing about this batch."""
    added = []
    for task, r in {r.task: r for r in cells}.items():
        own = r.input(alias)
        if task in before:
            own = own.minus(before[task].input(alias))
        elif r.since_start and r.loaded != "new":
            own = own.minus(own)
        added.append(own)
    return added


def _stored(parts: Sequence[InputReport], copies: int) -> InputReport:
    """One input in all cells: counts and what is stored."""
    kept = {k: sum(getattr(i, k) for i in parts) for k in ("stored", "needed", "row_bytes", "index_bytes")}
    return replace(_together(parts), **kept | {"needed": kept["needed"] // copies})


def _together(parts: Sequence[InputReport]) -> InputReport:
    """All counts added up; routes and index of the part with the most work."""
    busy = max(parts, key=lambda i: (i.work, i.rows_in))
    return replace(reduce(InputReport.plus, parts), routing=busy.routing, index=busy.index)


# Events


def event(told: Told) -> EventView:
    """A decision, as people read it."""
    e, change = told.event, told.event.change
    where, before, after = ("", "", "") if change is None else (
        change.where, *(_side(v, change.attributes) for v in (change.before, change.after))
    )  # fmt: skip
    return EventView(
        told.batch, told.task, e.by, e.kind, e.version, e.tuples, where, before, after, str(e.why), e.cost_before, e.cost_after
    )  # fmt: skip


def _side(value: Any, attributes: Sequence[str]) -> str:
    if isinstance(value, Layout):
        return value.named(attributes)
    return "" if value is None else routed(value) if isinstance(value, Mapping) else str(value)


def routed(routes: Mapping[str, tuple[str, ...]]) -> str:
    """The routes of one input in one line.

    >>> routed({"": ("b", "a")}), routed({"hot": ("b", "a"), "cold": ("a", "b")})
    ('b → a', 'hot: b → a; cold: a → b')
    """
    orders = {label: " → ".join(route) for label, route in routes.items()}
    return "; ".join(f"{label}: {order}" if label else order for label, order in orders.items())
