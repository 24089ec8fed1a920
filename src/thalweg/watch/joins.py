"""Explain and the handle of a join: cells, shares, routes, state against its minimum, time per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.execute.shape import Shape
from thalweg.optimize import shares as sharing
from thalweg.plan import Change, Event, Reason, Route
from thalweg.profile.rates.heavy import heavy
from thalweg.spark.board import JoinEntry, board
from thalweg.spark.keys import tasks
from thalweg.watch import report, words
from thalweg.watch.classes import Classes
from thalweg.watch.joinsummary import JoinSummary, classes, filtering, needed, summarise, window
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

    def __init__(self, entry: JoinEntry) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        return self._entry.name

    def _reports(self, *stages: str) -> list[dict[str, Any]]:
        board.catch_up()
        self._entry.collect()
        with self._entry.lock:
            return [r for r in self._entry.reports if r["stage"] in stages]

    def _newest(self) -> list[dict[str, Any]]:
        """The last report of each cell: counts in it are totals."""
        last: dict[int, dict[str, Any]] = {}
        for r in self._reports("cell"):
            last[r["key"]] = r
        return list(last.values())

    def summary(self) -> JoinSummary:
        """All reports added up, as plain values."""
        return summarise(self._entry, self._reports("pack"), self._newest())

    def results(self) -> int:
        """Results so far."""
        return _results(self._newest())

    def stats(self) -> pd.DataFrame:
        """One row for each batch, cell and input; where several tasks made up a cell's batch, with the totals after the
        last of them."""
        last: dict[tuple[int | None, int], dict[str, Any]] = {}
        for r in self._reports("cell"):
            made = last.get((r["batch"], r["key"]), {"results": 0})["results"]
            last[r["batch"], r["key"]] = r | {"results": made + r["results"]}
        rows = []
        for r in last.values():
            for alias, values in r["stats"]["inputs"].items():
                seconds = r["seconds"]
                rows.append(
                    (r["batch"], r["key"], alias, values["rows in"], r["stats"]["sources"][alias]["late"], values["stored"],
                     r["needed"].get(alias, values["stored"]), values["bytes"], values["work"], values["profiling work"],
                     r["results"], r["routes"].get(alias, ""), seconds.get("load"), seconds.get("join"),
                     seconds.get("save"), r["written"], r.get("state", 0))
                )  # fmt: skip
        return pd.DataFrame(rows, columns=STAT_COLUMNS)

    def filters(self) -> pd.DataFrame:
        """One row for each packing task and Python predicate of its input."""
        rows = []
        for number, r in enumerate(p for p in self._reports("pack") if "filters" in p):
            names, tally = r["filters"], r["tally"]
            route = " → ".join(names[i] for i in r["route"])
            for i, name in enumerate(names):
                counts = (tally[k][i] for k in ("calls", "extra", "passed", "seconds"))
                rows.append((r["batch"], number, r["input"], name, tally["rows_in"], *counts, route))
        return pd.DataFrame(rows, columns=FILTER_COLUMNS)

    def flows(self) -> pd.DataFrame:
        """How many tuples, then partial results, came to and left each operator in the newest batch, in the order of the
        routes in force; of the cells that have the route which most have."""
        reports = self._reports("cell")
        newest = reports[-1]["batch"] if reports else None
        now = {c["key"]: c for c in reports if c["batch"] == newest}
        before = {c["key"]: c for c in reports if c["batch"] != newest}
        rows: list[tuple[str, str, int, int]] = []
        for alias, route in self.plan().items():
            packs = [
                p for p in self._reports("pack") if p["batch"] == newest and p["input"] == alias and "filters" in p
            ]
            if packs:
                told = filtering(self._entry, packs)
                passed = {p["filters"][k]: 0 for p in packs for k in p["route"]}
                for p in packs:
                    for k, name in enumerate(p["filters"]):
                        passed[name] += p["tally"]["passed"][k]
                calls = {p.name: p.calls - p.extra for p in told.predicates}
                order = told.routes[0][0].split(" → ") if told.routes else []
                rows += [(alias, name, calls[name], passed[name]) for name in order]
            own = [key for key, c in now.items() if c["routes"].get(alias) == route]
            for stem in route.split(" → "):
                met = [_met(now.get(k), alias, stem) - _met(before.get(k), alias, stem) for k in own]
                rows.append((alias, stem, *(int(n) for n in sum(met, np.zeros(2)))))  # type: ignore[arg-type]
        return pd.DataFrame(rows, columns=["input", "operator", "came", "left"])

    def layouts(self) -> pd.DataFrame:
        """The index layout in force of each stem, batch by batch, in the cell with the most work."""
        rows = []
        for batch, cells in _by_batch(self._reports("cell")).items():
            busy = max(cells, key=lambda c: sum(v["work"] for v in c["stats"]["inputs"].values()))
            rows += [(batch, stem, view["layout"]) for stem, view in busy.get("indexes", {}).items()]
        return pd.DataFrame(rows, columns=["batch", "stem", "layout"])

    def events(self) -> pd.DataFrame:
        """All decisions, of filters while packing and of cells, in the order they were reported."""
        rows = [
            words.row(Event.of(event), r["batch"], r.get("key"))
            for r in self._reports("pack", "cell")
            for event in r.get("events", ())
        ]
        return pd.DataFrame(rows + self._entry.decisions, columns=words.EVENT_COLUMNS)

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
        counts: dict[str, dict[str, int]] = {}
        for c in self._newest():
            for alias, route in c["routes"].items():
                counts.setdefault(alias, {})[route] = counts.setdefault(alias, {}).get(route, 0) + 1
        return {alias: max(routes, key=lambda r: routes[r]) for alias, routes in counts.items()}

    def freeze(self, orders: Mapping[str, Sequence[str]] | None = None) -> None:
        """Pin the present orders of each cell and of the filters before it, from the next batch on; or, for some
        streams, the given orders of operator names: `freeze({"s1": ["s3", "s2"]})`."""
        checked = {a: list(names) for a, names in (orders or {}).items()}
        self._check(checked)
        filters = {r["input"]: r["route"] for r in self._reports("pack") if "route" in r}
        before = self.plan()
        self._entry.control.write(frozen=checked, filters=filters)
        self._decided("freeze", before, before | {a: " → ".join(names) for a, names in checked.items()})

    def thaw(self) -> None:
        """Let the policies decide again, from what they had learned."""
        before = self.plan()
        self._entry.control.write(frozen=None, filters={})
        self._decided("thaw", before, before)

    def _check(self, orders: Mapping[str, Sequence[str]]) -> None:
        """An order that can't be is an error here, not in a worker."""
        shape = Shape(self._entry.routed, prefiltered=True, leave=True)
        for alias, wanted in orders.items():
            if alias not in shape.number:
                raise DefinitionError(f"the query has no input '{alias}'", hint=did_you_mean(alias, shape.number))
            pipeline = shape.pipeline(shape.number[alias])
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
            self._entry.decisions.append(words.row(event))

    def explain(self) -> JoinExplanation:
        """How the query is cut and routed, and what it keeps."""
        newest = self._newest()
        each = {i.alias: classes(newest, i.alias) for i in self._entry.query.inputs}
        found = {alias: c for alias, c in each.items() if c is not None}
        return JoinExplanation(text(self._entry, self._reports("pack"), newest, found), found)

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


def text(
    entry: JoinEntry, packs: list[dict[str, Any]], cells: list[dict[str, Any]], found: Mapping[str, Classes]
) -> str:
    """The whole explanation; `found` are the classes of inputs that have some."""
    kind = "streaming" if entry.streaming else "batch"
    rows_in = sum(p["rows"] for p in packs)
    lines = [
        f"query '{entry.name}'   policy {entry.policy}   {kind}   {rows_in:,} rows in, {_results(cells):,} results"
    ]
    lines += _cut(entry, packs)
    lines.append("")
    lines += _inputs(entry, cells)
    lines += _state(entry, cells)
    quiet = sorted({a for c in cells for a in c.get("silent", ())})
    if quiet:
        lines.append(
            f"silent      {', '.join(quiet)}: nothing came for longer than idle=, the others go on without waiting"
        )
    lines += _indexes(cells)
    routes = _routes(cells, found)
    if routes:
        lines += ["", *routes]
    lines += ["", *_predicates(entry)]
    return "\n".join(lines)


def _met(report: dict[str, Any] | None, alias: str, operator: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows in and out of an operator that an input's tuples visited, since the query began."""
    met = report["stats"]["inputs"][alias]["operators"].get(operator) if report is not None else None
    return np.array([met["rows in"], met["rows out"]], np.float64) if met else np.zeros(2)


def _by_batch(reports: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for r in reports:
        found.setdefault(r["batch"], []).append(r)
    return found


def _stages(
    batch: int, progress: Mapping[str, int], packs: list[dict[str, Any]], cells: list[dict[str, Any]]
) -> tuple[float, ...]:
    ms = {k: v / 1000 for k, v in progress.items()}
    finding = ms.get("latestOffset", 0.0) + ms.get("getBatch", 0.0)
    packing = max(p["ended"] for p in packs) - min(p["began"] for p in packs)
    reading = sum(p["seconds"].get("source", 0.0) for p in packs)
    share = reading / max(reading + sum(p["seconds"].get("pack", 0.0) for p in packs), 1e-9)
    shuffle = min(c["began"] for c in cells) - max(p["ended"] for p in packs)
    joining = max(c["ended"] for c in cells) - min(c["began"] for c in cells)
    running = ms.get("addBatch", 0.0)
    sink = max(running - packing - shuffle - joining, 0.0)
    inside = [sum(c["seconds"].get(k, 0.0) for c in cells) / len(cells) for k in INSIDE]
    trigger = ms.get("triggerExecution", 0.0)
    return (
        batch, sum(p["rows"] for p in packs), trigger, finding + packing * share, packing * (1 - share), shuffle,
        joining, sink, max(trigger - running - finding, 0.0), *inside,
    )  # fmt: skip


def _results(cells: list[dict[str, Any]]) -> int:
    return sum(int(c["stats"]["results"]) for c in cells)


def _cut(entry: JoinEntry, packs: list[dict[str, Any]]) -> list[str]:
    if entry.kind == "no cells":
        return ["cells       none: one stream and tables, each task joins its own rows; no shuffle, no state"]
    sizes = entry.shares.sizes
    cut = [
        f"{' = '.join(map(str, k.columns))} in {s}" for k, s in zip(entry.query.block.keys, sizes, strict=True) if s > 1
    ]
    lines = [f"cells       {entry.shares.cells}: {'; '.join(cut) or 'not cut'}   ({entry.why})"]
    rows, sent = sum(p["rows"] for p in packs), sum(p["sent"] for p in packs)
    if rows:
        lines.append(f"copied      {sent:,} rows sent to cells for {rows:,} read: {sent / rows:.2f} copies of a row")
        lines += _better_cut(entry, packs) + _balance(entry, packs)
    busy = tasks(entry.shares.cells, entry.partitions)
    if entry.streaming and (busy < entry.shares.cells or entry.partitions > entry.shares.cells):
        lines.append(
            f"tasks       {entry.shares.cells} cells in {busy} of {entry.partitions} tasks: set "
            f"spark.sql.shuffle.partitions={entry.shares.cells} before a new checkpoint is begun"
        )
    return lines


def _better_cut(entry: JoinEntry, packs: list[dict[str, Any]]) -> list[str]:
    """What the measured rates would say. The cut itself never changes under a checkpoint."""
    seen = {i.alias: sum(p["rows"] for p in packs if p["input"] == i.alias) for i in entry.query.inputs}
    rates = [float(seen[i.alias]) for i in entry.query.inputs]
    best, _ = sharing.for_query(entry.query, entry.shares.cells, rates)
    here, there = (sharing.copied(entry.query, s, rates) for s in (entry.shares, best))
    if not entry.streaming or there > 0.95 * here:
        return []
    told = ", ".join(f"{a} {n:,}" for a, n in seen.items() if n)
    return [
        f"rates       measured rows ({told}) ask for another cut, with {there / here:.0%} of the rows sent: declare them "
        "with tw.stream(..., rate=) and begin a new checkpoint"
    ]


def _balance(entry: JoinEntry, packs: list[dict[str, Any]]) -> list[str]:
    """How evenly cells are loaded, and the key values that keep them from being so."""
    loads = [sum(column) for column in zip(*(p["cells"] for p in packs), strict=True)]
    if len(loads) < 2 or not sum(loads):
        return []
    lines = [f"balance     the busiest cell gets {max(loads) * len(loads) / sum(loads):.2f} x the mean"]
    added: dict[str, dict[str, Any]] = {}
    for record in (h for p in packs for h in p["heavy"]):
        total = added.setdefault(record["column"], {"share": record["share"], "sampled": 0, "values": {}})
        total["sampled"] += record["sampled"]
        for value, count in record["values"]:
            total["values"][value] = total["values"].get(value, 0) + count
    for column, total in added.items():
        values = sorted(total["values"].items(), key=lambda v: -v[1])
        for value, share in heavy(total | {"values": values}):
            lines.append(
                f"heavy       {column} = {value} has {share:.0%} of the rows, where a part should get "
                f"{1 / total['share']:.0%}; one value is never split"
            )
    return lines


def _inputs(entry: JoinEntry, cells: list[dict[str, Any]]) -> list[str]:
    table = [("input", "window", "rows in", "late", "stored", "needed", "bytes", "probe work")]
    for i in entry.query.inputs:
        values = [c["stats"]["inputs"][i.alias] for c in cells]
        late = sum(c["stats"]["sources"][i.alias]["late"] for c in cells)
        table.append(
            (i.alias, window(i), f"{sum(v['rows in'] for v in values):,}", f"{late:,}",
             f"{sum(v['stored'] for v in values):,}", f"{needed(entry, cells, i.alias):,}",
             f"{sum(v['bytes'] for v in values):,}",
             f"{sum(v['work'] + v['profiling work'] for v in values):,.0f}")
        )  # fmt: skip
    widths = [max(len(r[k]) for r in table) for k in range(len(table[0]))]
    return [
        "  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths, strict=True))).rstrip()
        for r in table
    ]


def _state(entry: JoinEntry, cells: list[dict[str, Any]]) -> list[str]:
    streams = [i.alias for i in entry.query.inputs if i.is_stream]
    stored = sum(c["stats"]["inputs"][a]["stored"] for c in cells for a in streams)
    least = sum(needed(entry, cells, a) for a in streams)
    if entry.kind == "no cells" or not entry.streaming or not least:
        return []
    size = sum(c["state"] for c in cells)
    return [
        f"state       {stored:,} rows, {stored / least:.2f} x the {least:,} that the windows need; {size:,} bytes in the "
        f"state store, {size * least // max(stored, 1):,} for those alone"
    ]


def _indexes(cells: list[dict[str, Any]]) -> list[str]:
    """Of each stem, in the cell with the most work: its layout, who asks how, what other layouts would cost."""
    if not cells:
        return []
    busy = max(cells, key=lambda c: sum(v["work"] for v in c["stats"]["inputs"].values()))
    inputs = busy["stats"]["inputs"]
    lines = [""]
    for alias, view in busy.get("indexes", {}).items():
        met = [m for m in (v["operators"].get(alias) for v in inputs.values()) if m]
        buckets, matches = sum(m["buckets"] for m in met), max(sum(m["rows out"] for m in met), 1)
        candidates = sum(m["work"] for m in met) - buckets
        lines.append(
            f"index of {alias}  {view['layout']}   {candidates / matches:,.3g} candidates and "
            f"{buckets / matches:,.3g} buckets for a match, {inputs[alias]['index bytes'] / 1000:,.0f} kB"
        )
        if view["patterns"]:
            shown = ", ".join(f"{name} {share:.0%}" for name, share in view["patterns"])
            others = ", ".join(f"{name} {times:.3g} times as much" for name, times in view["alternatives"])
            lines += [f"    asked by    {shown}", f"    would cost  {others}"]
        if view["why"]:
            lines.append(f"    tuned by    {view['why']}")
    return lines if len(lines) > 1 else []


def _routes(cells: list[dict[str, Any]], found: Mapping[str, Classes]) -> list[str]:
    lines = []
    for alias in dict.fromkeys(a for c in cells for a in c["routes"]):
        counts: dict[str, int] = {}
        for c in cells:
            if alias in c["routes"]:
                route = "by class" if alias in c["classes"] else c["routes"][alias]
                counts[route] = counts.get(route, 0) + 1
        shown = "; ".join(r + (f" ({n} of {len(cells)} cells)" if len(counts) > 1 else "") for r, n in counts.items())
        why = next(c["why"][alias] for c in cells if alias in c["why"])
        lines.append(f"route of {alias}  {shown}   {why}")
        if alias in found:
            lines += [f"    {line}".rstrip() for line in found[alias].text()] + [""]
    return lines


def _predicates(entry: JoinEntry) -> list[str]:
    lines = []
    ordered = {i.alias for i in entry.query.inputs if i.window.ordered}
    for f in entry.query.block.filters:
        if f.text in entry.left:
            place = "Spark, after the join (only Spark can evaluate it, and the window comes first)"
        elif f.functions or f.input in ordered:
            place = "the cell, after the window" if f.input in ordered else "Python, adaptive, before the window"
        else:
            place = "Spark, before the join"
        lines.append(f"{f.text}: {place}")
    for key in entry.query.block.keys:
        lines.append(f"{' = '.join(map(str, key.columns))}: index of the stems, as {key.type}")
    for r in entry.query.block.residuals:
        place = (
            "Spark, after the join (not vectorised)"
            if r.text in entry.left
            else "on candidates, as soon as its inputs are bound"
        )
        lines.append(f"{r.text}: {place}")
    return lines
