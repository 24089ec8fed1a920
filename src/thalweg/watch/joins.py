"""Explain and the handle of a join: cells, shares, routes, state against its minimum, time per stage."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from thalweg.spark.board import JoinEntry, board
from thalweg.watch.handle import EVENT_COLUMNS

STAT_COLUMNS = [
    "batch", "cell", "input", "rows in", "late", "stored", "bytes", "work", "profiling work", "results", "route",
    "load", "join", "save", "written",
]  # fmt: skip


class JoinHandle:
    """What `tw.query(name)` returns for a join."""

    def __init__(self, entry: JoinEntry) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        return self._entry.name

    def _reports(self, stage: str) -> list[dict[str, Any]]:
        board.catch_up()
        self._entry.collect()
        with self._entry.lock:
            return [r for r in self._entry.reports if r["stage"] == stage]

    def _newest(self) -> list[dict[str, Any]]:
        """The last report of each cell: counts in it are totals."""
        last: dict[int, dict[str, Any]] = {}
        for r in self._reports("cell"):
            last[r["key"]] = r
        return list(last.values())

    def stats(self) -> pd.DataFrame:
        """One row for each batch, cell and input."""
        rows = []
        for r in self._reports("cell"):
            for alias, values in r["stats"]["inputs"].items():
                seconds = r["seconds"]
                rows.append(
                    (r["batch"], r["key"], alias, values["rows in"], r["stats"]["sources"][alias]["late"], values["stored"],
                     values["bytes"], values["work"], values["profiling work"], r["results"], r["routes"].get(alias, ""),
                     seconds.get("load"), seconds.get("join"), seconds.get("save"), r["written"])
                )  # fmt: skip
        return pd.DataFrame(rows, columns=STAT_COLUMNS)

    def events(self) -> pd.DataFrame:
        """All decisions: of filters while packing, and of cells."""
        rows = [
            {"batch": r["batch"], "partition": r.get("key"), **event}
            for stage in ("pack", "cell")
            for r in self._reports(stage)
            for event in r.get("events", ())
        ]
        return pd.DataFrame(rows, columns=EVENT_COLUMNS)

    def explain(self) -> JoinExplanation:
        """How the query is cut and routed, and what it keeps."""
        return JoinExplanation(text(self._entry, self._reports("pack"), self._newest()))

    def __repr__(self) -> str:
        return str(self.explain())

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


class JoinExplanation(str):
    """Text that a notebook shows as it is."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def text(entry: JoinEntry, packs: list[dict[str, Any]], cells: list[dict[str, Any]]) -> str:
    """The whole explanation."""
    kind = "streaming" if entry.streaming else "batch"
    rows_in = sum(p["rows"] for p in packs)
    lines = [
        f"query '{entry.name}'   policy {entry.policy}   {kind}   {rows_in:,} rows in, {_results(cells):,} results"
    ]
    lines += _cut(entry, packs)
    lines.append("")
    lines += _inputs(entry, cells)
    routes = _routes(cells)
    if routes:
        lines += ["", *routes]
    lines += ["", *_predicates(entry)]
    return "\n".join(lines)


def _results(cells: list[dict[str, Any]]) -> int:
    return sum(int(c["stats"]["results"]) for c in cells)


def _cut(entry: JoinEntry, packs: list[dict[str, Any]]) -> list[str]:
    if entry.kind == "no cells":
        return ["cells       none: one stream and tables, each task joins its own rows; no shuffle, no state"]
    sizes = entry.shares.sizes
    cut = [f"{' = '.join(map(str, k.columns))} in {s}" for k, s in zip(entry.query.keys, sizes, strict=True) if s > 1]
    lines = [f"cells       {entry.shares.cells}: {'; '.join(cut) or 'not cut'}   ({entry.why})"]
    rows, sent = sum(p["rows"] for p in packs), sum(p["sent"] for p in packs)
    if rows:
        lines.append(f"copied      {sent:,} rows sent to cells for {rows:,} read: {sent / rows:.2f} copies of a row")
    return lines


def _inputs(entry: JoinEntry, cells: list[dict[str, Any]]) -> list[str]:
    table = [("input", "window", "rows in", "late", "stored", "bytes", "probe work")]
    for i in entry.query.inputs:
        values = [c["stats"]["inputs"][i.alias] for c in cells]
        late = sum(c["stats"]["sources"][i.alias]["late"] for c in cells)
        table.append(
            (i.alias, _window(i), f"{sum(v['rows in'] for v in values):,}", f"{late:,}",
             f"{sum(v['stored'] for v in values):,}", f"{sum(v['bytes'] for v in values):,}",
             f"{sum(v['work'] + v['profiling work'] for v in values):,.0f}")
        )  # fmt: skip
    widths = [max(len(r[k]) for r in table) for k in range(len(table[0]))]
    return [
        "  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths, strict=True))).rstrip()
        for r in table
    ]


def _window(i: Any) -> str:
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


def _routes(cells: list[dict[str, Any]]) -> list[str]:
    lines = []
    for alias in dict.fromkeys(a for c in cells for a in c["routes"]):
        counts: dict[str, int] = {}
        for c in cells:
            if alias in c["routes"]:
                counts[c["routes"][alias]] = counts.get(c["routes"][alias], 0) + 1
        shown = "; ".join(r + (f" ({n} of {len(cells)} cells)" if len(counts) > 1 else "") for r, n in counts.items())
        why = next(c["why"][alias] for c in cells if alias in c["why"])
        lines.append(f"route of {alias}  {shown}   {why}")
    return lines


def _predicates(entry: JoinEntry) -> list[str]:
    lines = []
    ordered = {i.alias for i in entry.query.inputs if i.window.ordered}
    for f in entry.query.filters:
        if f.text in entry.left:
            place = "Spark, after the join (only Spark can evaluate it, and the window comes first)"
        elif f.functions or f.input in ordered:
            place = "the cell, after the window" if f.input in ordered else "Python, adaptive, before the window"
        else:
            place = "Spark, before the join"
        lines.append(f"{f.text}: {place}")
    for key in entry.query.keys:
        lines.append(f"{' = '.join(map(str, key.columns))}: index of the stems, as {key.type}")
    for r in entry.query.residuals:
        place = (
            "Spark, after the join (not vectorised)"
            if r.text in entry.left
            else "on candidates, as soon as its inputs are bound"
        )
        lines.append(f"{r.text}: {place}")
    return lines
