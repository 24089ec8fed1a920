"""The report of a query: one HTML file that needs nothing else, with pictures of its plan, its decisions and its work.

Everything comes from the query's view. The page holds the totals and the events as JSON too, so that anyone can check or
reuse them. An operator has the same colour in all charts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from thalweg.contract.report import InputReport
from thalweg.watch import bottleneck, explain, svg
from thalweg.watch.sankey import sankey
from thalweg.watch.stages import STAGES
from thalweg.watch.svg import Points, brief
from thalweg.watch.view import BatchView, EventView, InputView, PathView, QueryView

EVENTS_SHOWN = 500
STYLE = Path(__file__).with_name("report.css")
SPARK = "Spark's chain"


class Page(type(Path())):  # type: ignore[misc]  # the Path of this system
    """The path of a written report; a notebook shows the page itself."""

    def _repr_html_(self) -> str:
        content = escape(self.read_text(encoding="utf-8"), quote=True)
        return f"<iframe srcdoc=\"{content}\" style='width:100%;height:700px;border:1px solid #8884' title='report'></iframe>"


def write(view: QueryView, path: str | Path | None = None) -> Page:
    """Write the report; by default to `<name>.html` in the working folder."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in view.name)
    target = Path(path) if path is not None else Path(f"{safe}.html")
    if target.is_dir():
        target = target / f"{safe}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(html(view), encoding="utf-8")
    return Page(target)


def html(view: QueryView) -> str:
    """The whole page."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    told = {"query": view.name, "facts": facts(view), "events": [asdict(e) for e in view.events]}
    data = json.dumps(told, default=str).replace("<", "\\u003c")
    body = [
        f"<p class='verdict'>{escape(verdict(view))}</p>", _cards(view), *_routes(view), "<h2>In numbers</h2>",
        f"<div class='scroll'>{explain.html(view, pictures=False)}</div>", *_over_time(view), _events(view.events),
    ]  # fmt: skip
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(view.name)} · Thalweg</title><style>{STYLE.read_text(encoding='utf-8')}</style></head><body>"
        f"<main><header><h1>{escape(view.name)}</h1><p class='when'>Thalweg, {made}</p></header>"
        f"{''.join(body)}</main><script type='application/json' id='data'>{data}</script></body></html>"
    )


def facts(view: QueryView) -> dict[str, Any]:
    """The totals of the page."""
    out = "results" if view.kind == "join" else "rows out"
    found: dict[str, Any] = {"batches": view.batches, "rows in": view.rows_in, out: view.rows_out}
    if view.kind == "join":
        found |= {"stored": view.stored, "needed": view.needed, "late": sum(i.late for i in view.inputs)}
    if view.spark_calls:
        found |= {"calls": view.calls, "spark calls": view.spark_calls}
    return found | {"events": len(view.events)}


def verdict(view: QueryView) -> str:
    """What the query gained, in a sentence or two."""
    changes = sum(e.changed for e in view.events)
    times = "once" if changes == 1 else f"{changes:,} times"
    plan = f"The plan changed {times}." if changes else "The plan did not change."
    kept = f"State: {explain.state(view)}." if view.stored else ""
    saved = explain.savings(view)
    time = "".join(f" {said[0].upper()}{said[1:]}." for _, said in bottleneck.lines(view.spent))
    return " ".join(filter(None, (f"{saved}." if saved else "", kept, plan))) + time


def _cards(view: QueryView) -> str:
    words = {"stored": "rows of streams stored now", "needed": "needed by windows", "late": "late rows"}
    words |= {"rows in": "rows in", "rows out": "rows out", "results": "results", "calls": "predicate calls"}
    cards = [(f"{n:,}", words[k]) for k, n in facts(view).items() if k in words]
    if view.saved_against_spark is not None:
        cards.append((f"{view.saved_against_spark:.0%}", "of Spark's predicate calls saved"))
    if view.saved_against_written is not None:
        cards.append((f"{view.saved_against_written:.0%}", "of the written order's calls saved"))
    made = "".join(f"<div><b>{n}</b><span>{escape(w)}</span></div>" for n, w in cards)
    return f"<section class='cards'>{made}</section>"


def _colours(view: QueryView) -> dict[str, int]:
    """A colour for each input and predicate; a probe has that of the input it looks into."""
    names = [i.alias for i in view.inputs if i.alias] + [
        brief(o) for i in view.inputs for p in i.paths for o in p.names
    ]
    return {name: k for k, name in enumerate(dict.fromkeys(names))}


# Routes


def _routes(view: QueryView) -> list[str]:
    """The rows of the newest batch on their way, input by input."""
    drawn = [part for i in view.inputs for part in _ways(i, _colours(view))]
    return ["<h2>Routes now</h2>", *drawn] if drawn else []


def _ways(i: InputView, colours: Mapping[str, int]) -> list[str]:
    whose = f" of {i.alias} [{i.window}]" if i.alias else ""
    if len(i.paths) == 2 and all(len(p.routes) == 1 and p.routes[0].flow for p in i.paths):
        return [
            _flow(
                [p.routes[0] for p in i.paths],
                f"rows{whose} in the newest batch: through filters, then probes",
                colours,
            )
        ]
    drawn = []
    for path in i.paths:
        if path.classes:
            picture = sankey(path.classes, path.names)
            caption = f"<figcaption>rows{whose} in the newest batch, each class on its route</figcaption>"
            drawn += [f"<figure>{caption}<div class='scroll'>{picture}</div></figure>"] if picture else []
            continue
        for route in path.routes:
            share = f"{route.share:.0%} of the rows" if len(path.routes) > 1 else "rows"
            drawn.append(_flow([route], f"{share}{whose} in the newest batch: through {path.kind}", colours))
    return drawn


def _flow(routes: Sequence[Any], label: str, colours: Mapping[str, int]) -> str:
    steps = [(brief(name), *met) for r in routes for name, met in zip(r.order, r.flow, strict=bool(r.flow))]
    return svg.flow([(n, float(came)) for n, came, _ in steps], float(steps[-1][2]) if steps else 0.0,
                    label=label, colours=colours)  # fmt: skip


# Over time


def _over_time(view: QueryView) -> list[str]:
    """Charts over batches; a single batch is told by the tables above."""
    batches = view.recent
    if len(batches) < 2:
        return []
    marks, colours = _marks(view.events), _colours(view)
    drawn = [*_state(batches, marks, view), *_work(batches, marks, view, colours), *_layouts(batches, view)]
    for i in view.inputs:
        if i.filters is not None and (len(i.filters.operators) > 1 or not i.alias):
            drawn += _predicates(batches, marks, i.alias, i.filters, colours)
        if i.probes is not None and len(i.probes.operators) > 1:
            orders = [(float(b.number), v.routing.route) for b in batches if (v := b.joined(i.alias)) and v.routing]
            names = i.probes.names
            drawn.append(svg.places(orders, names, label=f"probe order of rows of {i.alias}", colours=colours))
    timed = [(float(b.number), {k: b.seconds[k] for k in STAGES}) for b in batches if b.seconds]
    stages = ["<h2>Time per stage</h2>", svg.stacked(timed, unit=" s", label="seconds of each batch by stage")]
    return ["<h2>Over time</h2>", *drawn, *(stages if timed else ())]


def _predicates(
    batches: Sequence[BatchView], marks: list[tuple[float, str]], alias: str, path: PathView, colours: Mapping[str, int]
) -> list[str]:
    seen = [(float(b.number), v) for b in batches if (v := b.filtered(alias)) is not None and v.rows_in]
    whose, names = f" of {alias}" if alias else "", path.names
    rates: dict[str, Points] = {}
    costs: dict[str, Points] = {}
    for name in names:
        met = [(x, v.operator(name)) for x, v in seen]
        rates[brief(name)] = [(x, o.rows_out / o.rows_in) for x, o in met if o.rows_in]
        costs[brief(name)] = [(x, o.seconds / o.calls * 1e6) for x, o in met if o.calls]
    calls = {
        "Thalweg": [(x, sum(o.calls for o in v.operators) / v.rows_in) for x, v in seen],
        SPARK: [(x, float(len(names))) for x, _ in seen],
    }
    orders = [(x, list(map(brief, v.routing.route))) for x, v in seen if v.routing is not None]
    place = f"place of each predicate{whose} in the order"
    return [
        svg.places(orders, list(map(brief, names)), label=place, colours=colours),
        svg.lines(calls, marks=marks, bounds=[SPARK], label=f"predicate calls per row{whose}"),
        svg.lines(rates, marks=marks, share=True, label=f"pass rate of each predicate{whose}", colours=colours),
        svg.lines(costs, marks=marks, label=f"microseconds per call{whose}", colours=colours),
    ]


def _inputs(batches: Sequence[BatchView], view: QueryView) -> dict[str, list[tuple[float, InputReport]]]:
    """What the cells said of each stream, batch by batch."""
    found = {i.alias: [(float(b.number), b.joined(i.alias)) for b in batches] for i in view.streams}
    return {alias: [(x, v) for x, v in each if v is not None] for alias, each in found.items()}


def _state(batches: Sequence[BatchView], marks: list[tuple[float, str]], view: QueryView) -> list[str]:
    sums: dict[str, dict[float, float]] = {"stored": {}, "needed by windows": {}}
    for each in _inputs(batches, view).values():
        for x, v in each:
            for words, rows in zip(sums, (v.stored, v.needed), strict=True):
                sums[words][x] = sums[words].get(x, 0.0) + rows
    series = {words: list(points.items()) for words, points in sums.items()}
    label = "rows of state, and the fewest that the windows need"
    return [svg.lines(series, marks=marks, bounds=["needed by windows"], label=label)]


def _work(
    batches: Sequence[BatchView], marks: list[tuple[float, str]], view: QueryView, colours: Mapping[str, int]
) -> list[str]:
    spent = {
        a: [(x, v.probe_work / v.rows_in) for x, v in each if v.rows_in] for a, each in _inputs(batches, view).items()
    }
    return [svg.lines(spent, marks=marks, label="probe work per row, by input", colours=colours)]


def _layouts(batches: Sequence[BatchView], view: QueryView) -> list[str]:
    """Which index each input had, where any ever had more than one."""
    lanes = {
        alias: [(x, v.index.layout) for x, v in each if v.index is not None]
        for alias, each in _inputs(batches, view).items()
    }
    changed = any(len({layout for _, layout in lane}) > 1 for lane in lanes.values())
    return [svg.lanes(lanes, label="index layout of each input")] if changed else []


# Decisions


def _marks(events: Sequence[EventView]) -> list[tuple[float, str]]:
    """The batches in which the plan changed, with all that changed in them."""
    told: dict[float, list[str]] = {}
    for e in events:
        if e.changed and e.batch is not None:
            told.setdefault(float(e.batch), []).append(f"{e.kind}: {e.after} ({e.why})")
    return [(batch, "\n".join(words)) for batch, words in told.items()]


def _events(events: Sequence[EventView]) -> str:
    if not events:
        return "<h2>Decisions</h2><p>None: the query ran as written.</p>"
    shown = events[-EVENTS_SHOWN:]
    head = "".join(f"<th>{h}</th>" for h in ("batch", "cell or task", "decision", "now", "why"))
    rows = "".join(
        "<tr>" + "".join(f"<td>{'' if v is None else escape(str(v))}</td>" for v in (e.batch, e.partition, e.kind, e.after, e.why))
        + "</tr>" for e in shown
    )  # fmt: skip
    left = f"<p>The last {len(shown):,} of {len(events):,}.</p>" if len(shown) < len(events) else ""
    return f"<h2>Decisions</h2>{left}<div class='scroll'><table id='events'><tr>{head}</tr>{rows}</table></div>"
