"""The report of a query: one HTML file that needs nothing else, with pictures of its plan, its decisions and its work.

Every number comes from the board (`stats`, `events`, `stages`), the same that the handle gives as frames; the page holds
them as JSON too, so that anyone can check or reuse them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from thalweg.watch import explain, svg
from thalweg.watch.explain import brief
from thalweg.watch.sankey import sankey
from thalweg.watch.summary import ClassSummary

if TYPE_CHECKING:
    from thalweg.watch.handle import QueryHandle
    from thalweg.watch.joins import JoinHandle

EVENTS_SHOWN = 500
STYLE = Path(__file__).with_name("report.css")


def write(handle: QueryHandle | JoinHandle, path: str | Path | None = None) -> Path:
    """Write the report; by default to `<name>.html` in the working folder."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in handle.name)
    target = Path(path) if path is not None else Path(f"{safe}.html")
    if target.is_dir():
        target = target / f"{safe}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(html(handle), encoding="utf-8")
    return target


def html(handle: QueryHandle | JoinHandle) -> str:
    """The whole page."""
    from thalweg.watch.handle import QueryHandle

    body, facts = _filters(handle) if isinstance(handle, QueryHandle) else _joins(handle)
    events = handle.events()
    facts["events"] = len(events)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    data = json.dumps({"query": handle.name, "facts": facts, "events": _plain(events)}, default=str).replace(
        "<", "\\u003c"
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(handle.name)} · Thalweg</title><style>{STYLE.read_text(encoding='utf-8')}</style></head><body>"
        f"<main><header><h1>{escape(handle.name)}</h1><p class='when'>Thalweg, {made}</p></header>"
        f"{body}{_events(events)}</main><script type='application/json' id='data'>{data}</script></body></html>"
    )


# Filters


def _filters(handle: QueryHandle) -> tuple[str, dict[str, Any]]:
    s, stats = handle.summary(), handle.stats()
    facts: dict[str, Any] = {
        "rows in": s.rows_in,
        "rows out": s.rows_out,
        "calls": s.calls,
        "spark calls": s.spark_calls,
    }
    cards = [
        (f"{s.rows_in:,}", "rows in"),
        (f"{s.rows_out:,}", "rows out"),
        (f"{s.calls:,}", "predicate calls"),
        (f"{s.saved_against_spark:.0%}", "of Spark's calls saved"),
    ]
    if s.saved_against_written is not None and s.policy != "written":
        cards.append((f"{s.saved_against_written:.0%}", "of the written order's calls saved"))
    kind = "streaming" if s.streaming else "batch"
    parts = [_cards(cards), f"<p>Policy <b>{escape(s.policy)}</b>, {kind}. {escape(explain.savings(s))}.</p>"]
    names = [p.name for p in s.predicates]
    if len(stats):
        stats = stats.assign(x=_moments(stats))
        colours = {n: k for k, n in enumerate(names)}
        drawn = [_classes(s.classes, names)] if s.classes else _route_now(stats, names, colours)
        parts += [f"<h2>The {'routes' if s.classes else 'route'} now</h2>", *drawn]
        parts.append(f"<p>{escape('; '.join(filter(None, (s.why, s.to_change))))}.</p>")
        parts += ["<h2>Over time</h2>", *_filter_times(stats, names, handle.events())]
    parts += ["<h2>Predicates</h2>", f"<div class='scroll'>{explain.html(s, picture=False)}</div>"]
    return "".join(parts), facts


def _classes(classes: Sequence[ClassSummary], operators: Sequence[str], whose: str = "") -> str:
    """Each class of tuples along its own route."""
    drawn = sankey(classes, list(map(brief, operators)))
    caption = f"<figcaption>tuples{whose} in the newest batch, each class on its route</figcaption>"
    return f"<figure>{caption}<div class='scroll'>{drawn}</div></figure>" if drawn else ""


def _moments(stats: pd.DataFrame) -> pd.Series[Any]:
    """Batches; for a query that is not streaming, its tasks in turn."""
    return stats["batch"] if stats["batch"].notna().all() else stats["partition"]


def _route_now(stats: pd.DataFrame, names: Sequence[str], colours: dict[str, int]) -> list[str]:
    newest = stats[stats["x"] == stats["x"].max()]
    drawn = []
    for route, rows in newest.groupby("route", sort=False):
        order = str(route).split(" → ")
        sums = rows.groupby("predicate")[["calls", "extra", "passed"]].sum()
        stations = [(n, float(sums.loc[n, "calls"] - sums.loc[n, "extra"])) for n in order if n in sums.index]
        out = float(sums.loc[order[-1], "passed"]) if order and order[-1] in sums.index else 0.0
        drawn.append(svg.flow(stations, out, label=f"newest batch: {route}", colours=colours))
    return drawn


def _filter_times(stats: pd.DataFrame, names: Sequence[str], events: pd.DataFrame, whose: str = "") -> list[str]:
    marks = _marks(events)
    whole = stats.groupby(["x", "predicate"])[["calls", "extra", "passed", "seconds"]].sum().reset_index()
    rates, costs = {}, {}
    for name in names:
        own = whole[whole["predicate"] == name].sort_values("x")
        met = own[own["calls"] > own["extra"]]
        rates[name] = list(zip(met["x"], met["passed"] / (met["calls"] - met["extra"]), strict=True))
        own = own[own["calls"] > 0]
        costs[name] = list(zip(own["x"], own["seconds"] / own["calls"] * 1e6, strict=True))
    by_batch = stats.groupby("x").agg(calls=("calls", "sum")).reset_index()
    rows = stats.drop_duplicates(["x", "partition"]).groupby("x")["rows_in"].sum().reset_index()
    per_row = by_batch.merge(rows, on="x")
    per_row = per_row[per_row["rows_in"] > 0]
    calls = {
        "Thalweg": list(zip(per_row["x"], per_row["calls"] / per_row["rows_in"], strict=True)),
        "Spark's chain": [(x, float(len(names))) for x in per_row["x"]],
    }
    busiest = stats.sort_values("rows_in").groupby("x").tail(1).sort_values("x")
    orders = [(float(x), str(r).split(" → ")) for x, r in zip(busiest["x"], busiest["route"], strict=True)]
    return [
        svg.places(orders, names, label=f"place of each predicate{whose} in the order"),
        svg.lines(calls, marks=marks, bounds=["Spark's chain"], label=f"predicate calls a row{whose}"),
        svg.lines(rates, marks=marks, share=True, label=f"share of the rows{whose} that get there which pass"),
        svg.lines(costs, marks=marks, label=f"microseconds a call{whose}"),
    ]


# Joins


def _joins(handle: JoinHandle) -> tuple[str, dict[str, Any]]:
    stats, stages = handle.stats(), handle.stages()
    text = str(handle.explain())
    facts: dict[str, Any] = {"batches": int(stats["batch"].nunique()) if len(stats) else 0}
    summary = handle.summary()
    parts = [f"<pre>{escape(text)}</pre>"]
    if len(stats):
        # Counts in reports are totals of their cell: the last of each cell tells all.
        last = stats.sort_values("batch", na_position="first").groupby(["cell", "input"]).tail(1)
        facts |= {
            "rows in": int(last["rows in"].sum()), "results": handle.results(), "stored": summary.stored,
            "late": int(last["late"].sum()),
        }  # fmt: skip
        cards = [
            (f"{facts['rows in']:,}", "rows in cells"),
            (f"{facts['results']:,}", "results"),
            (f"{facts['stored']:,}", "rows of streams stored now"),
            (f"{summary.needed:,}", "needed by windows"),
            (f"{facts['late']:,}", "late"),
        ]
        if summary.saved_against_spark is not None:
            facts |= {"calls": summary.calls, "spark calls": summary.spark_calls}
            cards.append((f"{summary.saved_against_spark:.0%}", "of Spark's predicate calls saved"))
        parts = [_cards(cards), "<h2>Routes</h2>", *_routes(handle), *parts]
        streams = stats[stats["input"].isin([i.alias for i in summary.streams])]
        parts += ["<h2>Over time</h2>", *_join_times(streams, handle.events())]
        parts += _layout_times(handle.layouts()) + _pack_times(handle.filters(), handle.events())
    if len(stages):
        inside = ["source", "pack", "shuffle", "cell", "sink", "spark"]
        rows = [(float(r["batch"]), {k: float(r[k]) for k in inside}) for _, r in stages.iterrows()]
        parts += ["<h2>Time per stage</h2>", svg.stacked(rows, unit=" s", label="seconds of each batch by stage")]
    return "".join(parts), facts


def _routes(handle: JoinHandle) -> list[str]:
    """For each stream its tuples of the newest batch through filters and stems."""
    drawn = []
    inputs = handle.summary().inputs
    windows = {i.alias: i.window for i in inputs}
    flows = handle.flows()
    by_class = [i.alias for i in inputs if i.classes is not None]  # no one route tells where these go
    for alias, rows in flows[~flows["input"].isin(by_class)].groupby("input", sort=False):
        stations = [(brief(str(n)), float(c)) for n, c in zip(rows["operator"], rows["came"], strict=True)]
        label = f"tuples of {alias} [{windows[str(alias)]}] in the newest batch: through filters, then stems"
        drawn.append(svg.flow(stations, float(rows["left"].iloc[-1]), label=label))
    for i in inputs:
        if i.filters is not None:
            drawn.append(_classes(i.filters.classes, [p.name for p in i.filters.predicates], f" of {i.alias}"))
        if i.classes is not None:
            drawn.append(_classes(i.classes.each, i.classes.operators, f" of {i.alias}"))
    return drawn


def _layout_times(layouts: pd.DataFrame) -> list[str]:
    """Which index each stem had, where any stem ever had more than one."""
    known = layouts[layouts["batch"].notna()]
    if not len(known) or (known.groupby("stem")["layout"].nunique() < 2).all():
        return []
    rows = {str(n): list(zip(g["batch"].astype(float), g["layout"], strict=True)) for n, g in known.groupby("stem")}
    return [svg.lanes(rows, label="index layout of each stem")]


def _pack_times(filters: pd.DataFrame, events: pd.DataFrame) -> list[str]:
    drawn = []
    for alias, own in filters[filters["batch"].notna()].groupby("input"):
        own = own.assign(predicate=own["predicate"].map(brief), route=own["route"].map(brief))
        names = list(dict.fromkeys(own["predicate"]))
        if len(names) > 1:
            stats = own.assign(x=own["batch"], partition=own["task"])
            drawn += _filter_times(stats, names, events, f" of {alias}")
    return drawn


def _join_times(stats: pd.DataFrame, events: pd.DataFrame) -> list[str]:
    stats = stats[stats["batch"].notna()]
    if not len(stats):
        return []
    marks = _marks(events)
    drawn = []
    whole = stats.groupby(["batch", "input"])[["stored", "needed"]].sum().reset_index()
    state: dict[str, list[tuple[float, float]]] = {"stored": [], "needed by windows": []}
    for batch, rows in whole.groupby("batch"):
        x = float(str(batch))
        state["stored"].append((x, float(rows["stored"].sum())))
        state["needed by windows"].append((x, float(rows["needed"].sum())))
    words = "rows of state, and the fewest that the windows need"
    drawn.append(svg.lines(state, marks=marks, bounds=["needed by windows"], label=words))
    work = {}
    for name, rows in stats.groupby("input"):
        totals = rows.groupby("batch")[["work", "profiling work", "rows in"]].sum().sort_index()
        fresh = totals.diff().fillna(totals)
        fresh = fresh[fresh["rows in"] > 0]
        if len(fresh):
            spent = (fresh["work"] + fresh["profiling work"]) / fresh["rows in"]
            work[str(name)] = [(float(str(x)), float(y)) for x, y in spent.items()]
    drawn.append(svg.lines(work, marks=marks, label="probe work a tuple, by input"))
    for name, rows in stats[stats["route"] != ""].groupby("input"):
        first = rows.sort_values(["batch", "cell"]).groupby("batch").head(1)
        orders = [(float(b), str(r).split(" → ")) for b, r in zip(first["batch"], first["route"], strict=True)]
        names = list(dict.fromkeys(n for _, order in orders for n in order))
        if len(names) > 1:
            drawn.append(svg.places(orders, names, label=f"probe order of tuples of {name}"))
    return drawn


# Both


def _marks(events: pd.DataFrame) -> list[tuple[float, str]]:
    """The batches in which a plan changed, with all that changed in them."""
    changes = events[events["batch"].notna() & (events["before"] != events["after"])]
    told: dict[float, list[str]] = {}
    for e in changes.itertuples():
        told.setdefault(float(str(e.batch)), []).append(f"{e.kind}: {e.after} ({e.why})")
    return [(batch, "\n".join(words)) for batch, words in told.items()]


def _cards(cards: Sequence[tuple[str, str]]) -> str:
    return (
        "<section class='cards'>"
        + "".join(f"<div><b>{n}</b><span>{escape(w)}</span></div>" for n, w in cards)
        + "</section>"
    )


def _events(events: pd.DataFrame) -> str:
    if not len(events):
        return "<h2>Decisions</h2><p>None: the query ran as written.</p>"
    shown = events.tail(EVENTS_SHOWN)
    head = "".join(f"<th>{h}</th>" for h in ("batch", "cell or task", "decision", "now", "why"))
    rows = "".join(
        f"<tr><td>{_cell(e.batch)}</td><td>{_cell(e.partition)}</td><td>{escape(str(e.kind))}</td>"
        f"<td>{escape(str(e.after))}</td><td>{escape(str(e.why))}</td></tr>"
        for e in shown.itertuples()
    )
    left = f"<p>The last {len(shown):,} of {len(events):,}.</p>" if len(shown) < len(events) else ""
    return f"<h2>Decisions</h2>{left}<div class='scroll'><table id='events'><tr>{head}</tr>{rows}</table></div>"


def _cell(value: Any) -> str:
    return "" if value is None or pd.isna(value) else f"{int(value)}"


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): None if pd.isna(v) else v for k, v in row.items()} for row in frame.to_dict("records")]
