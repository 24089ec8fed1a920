"""Explain and the handle of a join: cells, shares, routes, state against its minimum, time per stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thalweg.contract.report import InputReport, OperatorReport, Stage, TaskReport
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.optimize import shares as sharing
from thalweg.plan import Change, Event, Reason, Route
from thalweg.profile.rates.heavy import heavy
from thalweg.spark.asked import Asked, Cut
from thalweg.spark.board import Entry, board
from thalweg.spark.control import Orders
from thalweg.spark.history import History
from thalweg.spark.keys import tasks
from thalweg.watch import report
from thalweg.watch.classes import Classes
from thalweg.watch.handle import events
from thalweg.watch.joinsummary import JoinSummary, classes, filtering, needed, packs, summarise, window
from thalweg.watch.sankey import sankey

STAT_COLUMNS = [
    "batch", "cell", "input", "rows in", "late", "stored", "needed", "bytes", "work", "profiling work", "results",
    "route", "load", "join", "save", "written", "state",
]  # fmt: skip
STAGES = ["batch", "rows", "trigger", "source", "pack", "shuffle", "cell", "sink", "spark"]
FILTER_COLUMNS = ["batch", "task", "input", "predicate", "rows_in", "calls", "extra", "passed", "seconds", "route"]
INSIDE = ["receive", "load", "join", "save", "send"]
"""What a cell's time is made of, on average over cells."""


class JoinHandle:
    """What `tw.query(name)` returns for a join."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        return self._entry.name

    def _history(self) -> History:
        board.catch_up()
        self._entry.collect()
        return self._entry.history

    def _reports(self, stage: Stage) -> list[TaskReport]:
        history = self._history()
        with self._entry.lock:
            return history.reports(stage)

    def summary(self) -> JoinSummary:
        """All reports added up, as plain values."""
        history = self._history()
        with self._entry.lock:
            return summarise(self._entry.asked, history)

    def results(self) -> int:
        """Results so far."""
        return sum(c.made for c in self._history().cells())

    def stats(self) -> pd.DataFrame:
        """One row for each batch, cell and input; where several tasks made up a cell's batch, with the totals after the
        last of them."""
        last: dict[tuple[int | None, int], TaskReport] = {}
        for r in self._reports("cell"):
            before = last.get((r.batch, r.task))
            last[r.batch, r.task] = r if before is None else replace(r, results=before.results + r.results)
        rows = []
        for r in last.values():
            for i in r.inputs:
                seconds = r.timing.seconds
                rows.append(
                    (r.batch, r.task, i.alias, i.rows_in, i.late, i.stored, i.needed, i.row_bytes, i.work, i.profiling_work,
                     r.results, _route(i), seconds.get("load"), seconds.get("join"), seconds.get("save"), r.written, r.state)
                )  # fmt: skip
        return pd.DataFrame(rows, columns=STAT_COLUMNS)

    def filters(self) -> pd.DataFrame:
        """One row for each packing task and Python predicate of its input."""
        rows = []
        packs = ((r.batch, i) for r in self._reports("pack") for i in r.inputs if i.operators)
        for number, (batch, i) in enumerate(packs):
            for o in i.operators:
                rows.append(
                    (batch, number, i.alias, o.name, i.rows_in, o.calls, o.extra, o.rows_out, o.seconds, _route(i))
                )
        return pd.DataFrame(rows, columns=FILTER_COLUMNS)

    def flows(self) -> pd.DataFrame:
        """How many tuples, then partial results, came to and left each operator in the newest batch, in the order of the
        routes in force; of the cells that have the route which most have."""
        history, reports = self._history(), self._reports("cell")
        newest = reports[-1].batch if reports else None
        now = {c.task: c for c in reports if c.batch == newest}
        before = {c.task: c for c in reports if c.batch != newest}
        rows: list[tuple[str, str, int, int]] = []
        for alias, route in self.plan().items():
            with self._entry.lock:
                packed = packs(history, alias)
            if packed and packed[0].operators:
                total = reduce(InputReport.plus, packed)
                told = filtering(self._entry.asked, total, packed)
                order = told.routes[0][0].split(" → ") if told.routes else []
                rows += [(alias, n, total.operator(n).rows_in, total.operator(n).rows_out) for n in order]
            own = [key for key, c in now.items() if _route(c.input(alias)) == route]
            for stem in route.split(" → "):
                met = [_met(now.get(k), alias, stem) - _met(before.get(k), alias, stem) for k in own]
                rows.append((alias, stem, *(int(n) for n in sum(met, np.zeros(2)))))  # type: ignore[arg-type]
        return pd.DataFrame(rows, columns=["input", "operator", "came", "left"])

    def layouts(self) -> pd.DataFrame:
        """The index layout in force of each stem, batch by batch, in the cell with the most work."""
        rows = []
        for batch, cells in _by_batch(self._reports("cell")).items():
            busy = _busiest(cells)
            rows += [(batch, i.alias, i.index.layout) for i in busy.inputs if i.index is not None]
        return pd.DataFrame(rows, columns=["batch", "stem", "layout"])

    def events(self) -> pd.DataFrame:
        """All decisions, of filters while packing and of cells, in the order they were reported."""
        return events(self._entry, self._history())

    def stages(self) -> pd.DataFrame:
        """Seconds by the wall of each batch, by stage; and what the cells' part is made of.

        source: finding new data and reading it; pack: filtering, placing, packing; shuffle: from the last packed row to
        the first cell at work; cell: from the first to the last cell; sink: what is left of running the batch (unpacking
        what came last, writing, collecting); spark: planning and Spark's own logs. Clocks of several machines may differ.
        """
        packs, cells = _by_batch(self._reports("pack")), _by_batch(self._reports("cell"))
        with self._entry.lock:
            progress = dict(self._entry.progress)
        rows = [_stages(b, progress[b], packs[b], cells[b]) for b in progress if b in packs and b in cells]
        return pd.DataFrame(rows, columns=[*STAGES, *INSIDE])

    def plan(self) -> dict[str, str]:
        """The probe order of each stream's tuples, as most cells have it."""
        counts: dict[str, Counter[str]] = {}
        for c in self._history().cells():
            for i in c.inputs:
                if i.routing is not None:
                    counts.setdefault(i.alias, Counter())[_route(i)] += 1
        return {alias: routes.most_common(1)[0][0] for alias, routes in counts.items()}

    def freeze(self, orders: Mapping[str, Sequence[str]] | None = None) -> None:
        """Pin the present orders of each cell and of the filters before it, from the next batch on; or, for some
        streams, the given orders of operator names: `freeze({"s1": ["s3", "s2"]})`."""
        checked = {a: list(names) for a, names in (orders or {}).items()}
        self._check(checked)
        history = self._history()
        packed = [history.total("pack", i.alias) for i in self._entry.asked.inputs]
        filters = {i.alias: i.routing.route for i in packed if i.routing is not None}
        before = self.plan()
        self._entry.control.order(Orders(True, {a: tuple(names) for a, names in checked.items()}, filters))
        self._decided("freeze", before, before | {a: " → ".join(names) for a, names in checked.items()})

    def thaw(self) -> None:
        """Let the policies decide again, from what they had learned."""
        before = self.plan()
        self._entry.control.order(Orders())
        self._decided("thaw", before, before)

    def _check(self, orders: Mapping[str, Sequence[str]]) -> None:
        """An order that can't be is an error here, not in a worker."""
        pipelines = {i.alias: i.pipeline for i in self._entry.asked.inputs}
        for alias, wanted in orders.items():
            if alias not in pipelines:
                raise DefinitionError(f"the query has no input '{alias}'", hint=did_you_mean(alias, pipelines))
            pipeline = pipelines[alias]
            names = pipeline.names
            for name in wanted:
                if name not in names:
                    raise DefinitionError(f"tuples of '{alias}' visit no '{name}'", hint=did_you_mean(name, names))
            if not pipeline.allows(Route(tuple(names.index(n) for n in wanted))):
                raise DefinitionError(
                    f"an order for '{alias}' names every operator once, each when a predicate connects it",
                    hint=f"for example {names}",
                )

    def _decided(self, kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for alias in after:
            was, now = ({"": tuple(routes.get(alias, "").split(" → "))} for routes in (before, after))
            event = Event("user", kind, 0, 0, Reason("asked for"), Change("routes", alias, was, now))
            self._entry.decided(event)

    def explain(self) -> JoinExplanation:
        """How the query is cut and routed, and what it keeps."""
        asked, history = self._entry.asked, self._history()
        with self._entry.lock:
            cells = history.cells()
            each = {i.alias: classes(cells, i.alias) for i in asked.inputs}
            found = {alias: c for alias, c in each.items() if c is not None}
            return JoinExplanation(text(asked, history, cells, found), found)

    def report(self, path: str | Path | None = None) -> Path:
        """Write all of it as one HTML page that needs nothing else; by default `<name>.html` in the working folder."""
        return report.write(self, path)

    def __repr__(self) -> str:
        return str(self.explain())

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


class JoinExplanation(str):
    """Text that a notebook shows as it is, and below it a picture of the tuples of each class on their routes."""

    classes: Mapping[str, Classes]
    """By input, where classes of its tuples have routes of their own."""

    def __new__(cls, told: str, classes: Mapping[str, Classes]) -> JoinExplanation:
        made = super().__new__(cls, told)
        made.classes = classes
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        drawn = "".join(
            f"<div><b>{escape(alias)}</b>{sankey(c.each, c.operators)}</div>" for alias, c in self.classes.items()
        )
        return f"<pre>{escape(str(self))}</pre>{drawn}"


def text(asked: Asked, history: History, cells: list[TaskReport], found: Mapping[str, Classes]) -> str:
    """The whole explanation; `found` are the classes of inputs that have some."""
    kind = "streaming" if asked.streaming else "batch"
    packed = {i.alias: history.total("pack", i.alias) for i in asked.inputs}
    rows, made = sum(p.rows_in for p in packed.values()), sum(c.made for c in cells)
    lines = [f"query '{asked.name}'   policy {asked.policy}   {kind}   {rows:,} rows in, {made:,} results"]
    lines += _cut(asked, packed, history)
    lines.append("")
    lines += _inputs(asked, cells)
    lines += _state(asked, cells)
    quiet = sorted({a for c in cells for a in c.silent})
    if quiet:
        lines.append(
            f"silent      {', '.join(quiet)}: nothing came for longer than idle=, the others go on without waiting"
        )
    lines += _indexes(cells)
    routes = _routes(asked, cells, found)
    if routes:
        lines += ["", *routes]
    lines += ["", *(f"{text}: {place}" for text, place in asked.places.items())]
    return "\n".join(lines)


def _route(i: InputReport) -> str:
    return " → ".join(i.routing.route) if i.routing is not None else ""


def _busiest(cells: list[TaskReport]) -> TaskReport:
    return max(cells, key=lambda c: sum(i.work for i in c.inputs))


def _met(report: TaskReport | None, alias: str, operator: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows in and out of an operator that an input's tuples visited, since the query began."""
    met = report.input(alias).operator(operator) if report is not None else OperatorReport(operator)
    return np.array([met.rows_in, met.rows_out], np.float64)


def _by_batch(reports: list[TaskReport]) -> dict[int | None, list[TaskReport]]:
    found: dict[int | None, list[TaskReport]] = {}
    for r in reports:
        found.setdefault(r.batch, []).append(r)
    return found


def _stages(
    batch: int, progress: Mapping[str, int], packs: list[TaskReport], cells: list[TaskReport]
) -> tuple[float, ...]:
    ms = {k: v / 1000 for k, v in progress.items()}
    finding = ms.get("latestOffset", 0.0) + ms.get("getBatch", 0.0)
    packing = max(p.timing.ended for p in packs) - min(p.timing.began for p in packs)
    reading = sum(p.timing.seconds.get("source", 0.0) for p in packs)
    share = reading / max(reading + sum(p.timing.seconds.get("pack", 0.0) for p in packs), 1e-9)
    shuffle = min(c.timing.began for c in cells) - max(p.timing.ended for p in packs)
    joining = max(c.timing.ended for c in cells) - min(c.timing.began for c in cells)
    running = ms.get("addBatch", 0.0)
    sink = max(running - packing - shuffle - joining, 0.0)
    inside = [sum(c.timing.seconds.get(k, 0.0) for c in cells) / len(cells) for k in INSIDE]
    trigger = ms.get("triggerExecution", 0.0)
    return (
        batch, sum(i.rows_in for p in packs for i in p.inputs), trigger, finding + packing * share, packing * (1 - share), shuffle,
        joining, sink, max(trigger - running - finding, 0.0), *inside,
    )  # fmt: skip


def _cut(asked: Asked, packed: Mapping[str, InputReport], history: History) -> list[str]:
    cut = asked.cut
    if cut is None:
        return ["cells       none: one stream and tables, each task joins its own rows; no shuffle, no state"]
    sizes = zip(cut.query.block.keys, cut.shares.sizes, strict=True)
    parts = [f"{' = '.join(map(str, k.columns))} in {s}" for k, s in sizes if s > 1]
    lines = [f"cells       {cut.shares.cells}: {'; '.join(parts) or 'not cut'}   ({cut.why})"]
    rows, sent = sum(p.rows_in for p in packed.values()), sum(p.rows_out for p in packed.values())
    if rows:
        lines.append(f"copied      {sent:,} rows sent to cells for {rows:,} read: {sent / rows:.2f} copies of a row")
        if asked.streaming:
            lines += _better_cut(cut, packed)
        lines += _balance(history)
    busy = tasks(cut.shares.cells, cut.partitions)
    if asked.streaming and (busy < cut.shares.cells or cut.partitions > cut.shares.cells):
        lines.append(
            f"tasks       {cut.shares.cells} cells in {busy} of {cut.partitions} tasks: set "
            f"spark.sql.shuffle.partitions={cut.shares.cells} before a new checkpoint is begun"
        )
    return lines


def _better_cut(cut: Cut, packed: Mapping[str, InputReport]) -> list[str]:
    """What the measured rates would say. The cut itself never changes under a checkpoint."""
    rates = [float(packed[i.alias].rows_in) for i in cut.query.inputs]
    best, _ = sharing.for_query(cut.query, cut.shares.cells, rates)
    here, there = (sharing.copied(cut.query, s, rates) for s in (cut.shares, best))
    if there > 0.95 * here:
        return []
    told = ", ".join(f"{a} {p.rows_in:,}" for a, p in packed.items() if p.rows_in)
    return [
        f"rates       measured rows ({told}) ask for another cut, with {there / here:.0%} of the rows sent: declare them "
        "with tw.stream(..., rate=) and begin a new checkpoint"
    ]


def _balance(history: History) -> list[str]:
    """How evenly cells are loaded, and the key values that keep them from being so."""
    loads = history.sent
    if len(loads) < 2 or not sum(loads):
        return []
    lines = [f"balance     the busiest cell gets {max(loads) * len(loads) / sum(loads):.2f} x the mean"]
    for column, seen in history.heavy.items():
        for value, share in heavy(asdict(seen)):
            lines.append(
                f"heavy       {column} = {value} has {share:.0%} of the rows, where a part should get "
                f"{1 / seen.share:.0%}; one value is never split"
            )
    return lines


def _inputs(asked: Asked, cells: list[TaskReport]) -> list[str]:
    table = [("input", "window", "rows in", "late", "stored", "needed", "bytes", "probe work")]
    for i in asked.inputs:
        own = [c.input(i.alias) for c in cells]
        counts = [sum(v.rows_in for v in own), sum(v.late for v in own), sum(v.stored for v in own), needed(i, cells)]
        size, work = sum(v.row_bytes for v in own), sum(v.probe_work for v in own)
        table.append((i.alias, window(i), *(f"{n:,}" for n in (*counts, size)), f"{work:,.0f}"))  # type: ignore[arg-type]
    widths = [max(len(r[k]) for r in table) for k in range(len(table[0]))]
    return [
        "  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths, strict=True))).rstrip()
        for r in table
    ]


def _state(asked: Asked, cells: list[TaskReport]) -> list[str]:
    streams = [i for i in asked.inputs if i.window is not None]
    stored = sum(c.input(i.alias).stored for c in cells for i in streams)
    least = sum(needed(i, cells) for i in streams)
    if asked.cut is None or not asked.streaming or not least:
        return []
    size = sum(c.state for c in cells)
    return [
        f"state       {stored:,} rows, {stored / least:.2f} x the {least:,} that the windows need; {size:,} bytes in the "
        f"state store, {size * least // max(stored, 1):,} for those alone"
    ]


def _indexes(cells: list[TaskReport]) -> list[str]:
    """Of each stem, in the cell with the most work: its layout, who asks how, what other layouts would cost."""
    if not cells:
        return []
    busy = _busiest(cells)
    lines = [""]
    for i in busy.inputs:
        if i.index is None:
            continue
        met = [v.operator(i.alias) for v in busy.inputs]
        buckets, matches = sum(m.buckets for m in met), max(sum(m.rows_out for m in met), 1)
        candidates = sum(m.work for m in met) - buckets
        lines.append(
            f"index of {i.alias}  {i.index.layout}   {candidates / matches:,.3g} candidates and "
            f"{buckets / matches:,.3g} buckets for a match, {i.index_bytes / 1000:,.0f} kB"
        )
        if i.index.patterns:
            shown = ", ".join(f"{name} {share:.0%}" for name, share in i.index.patterns)
            others = ", ".join(f"{name} {times:.3g} times as much" for name, times in i.index.alternatives)
            lines += [f"    asked by    {shown}", f"    would cost  {others}"]
        if i.index.why:
            lines.append(f"    tuned by    {i.index.why}")
    return lines if len(lines) > 1 else []


def _routes(asked: Asked, cells: list[TaskReport], found: Mapping[str, Classes]) -> list[str]:
    lines = []
    for alias in (i.alias for i in asked.inputs):
        told = [i.routing for c in cells for i in c.inputs if i.alias == alias and i.routing is not None]
        if not told:
            continue
        counts = Counter("by class" if r.classes else " → ".join(r.route) for r in told)
        shown = "; ".join(r + (f" ({n} of {len(cells)} cells)" if len(counts) > 1 else "") for r, n in counts.items())
        lines.append(f"route of {alias}  {shown}   {told[0].why}")
        if alias in found:
            lines += [f"    {line}".rstrip() for line in found[alias].text()] + [""]
    return lines
