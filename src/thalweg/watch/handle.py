"""The handle of a named query: explain it, list its decisions, pin its plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.plan import Change, Event, Reason, Route, Routes
from thalweg.spark.board import Entry, board
from thalweg.watch import explain, report, words
from thalweg.watch.summary import Summary, summarise

STATS_COLUMNS = [
    "batch", "partition", "predicate", "rows_in", "rows_out", "calls", "extra", "passed", "seconds", "route", "version",
]  # fmt: skip


class Explanation(str):
    """Text that a notebook shows as a table."""

    summary: Summary

    def __new__(cls, summary: Summary) -> Explanation:
        made = super().__new__(cls, explain.text(summary))
        made.summary = summary
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return explain.html(self.summary)


class QueryHandle:
    """What `tw.query(name)` returns."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        return self._entry.name

    def _reports(self) -> list[dict[str, Any]]:
        board.catch_up()
        self._entry.collect()
        with self._entry.lock:
            return list(self._entry.reports)

    def summary(self) -> Summary:
        e = self._entry
        return summarise(e.name, e.policy, e.streaming, e.pipeline.names, e.places, self._reports())

    def explain(self) -> Explanation:
        """The routes in force, why, and what they save; prints as text, shows as HTML in notebooks."""
        return Explanation(self.summary())

    def plan(self) -> Routes:
        """The plan of the cell that saw most rows in the newest batch."""
        reports = self._reports()
        if not reports:
            return Routes.single(self._entry.pipeline.written)
        newest = max(reports, key=lambda r: (r["batch"] if r["batch"] is not None else -1, r["tally"]["rows_in"]))
        classes = newest.get("classes") or [{"label": "", "route": newest["route"]}]
        return Routes(newest["version"], {c["label"]: Route(tuple(c["route"])) for c in classes})

    def events(self) -> pd.DataFrame:
        """All decisions, in the order they were reported."""
        rows = [
            words.row(Event.of(event), r["batch"], r["partition"]) for r in self._reports() for event in r["events"]
        ]
        return pd.DataFrame(rows + self._entry.decisions, columns=words.EVENT_COLUMNS)

    def stats(self) -> pd.DataFrame:
        """One row for each task and predicate."""
        names = self._entry.pipeline.names
        rows = []
        for r in self._reports():
            route, tally = " → ".join(names[i] for i in r["route"]), r["tally"]
            for i, predicate in enumerate(names):
                rows.append(
                    (r["batch"], r["partition"], predicate, tally["rows_in"], tally["rows_out"], tally["calls"][i],
                     tally["extra"][i], tally["passed"][i], tally["seconds"][i], route, r["version"])
                )  # fmt: skip
        return pd.DataFrame(rows, columns=STATS_COLUMNS)

    def freeze(self, order: Sequence[str] | None = None) -> Routes:
        """Pin the present route, or the given order of predicate names, from the next batch on.

        Where classes have routes of their own all of them stay, as each worker has them; an order given is for all.
        """
        pipeline = self._entry.pipeline
        if order is None:
            present = self.plan()
            if len(present.routes) > 1:
                self._entry.control.write(frozen="classes")
                self._decided("freeze", present, present)
                return present
            route = present.route
        else:
            for name in order:
                if name not in pipeline.names:
                    raise DefinitionError(f"no predicate '{name}'", hint=did_you_mean(name, pipeline.names))
            route = Route(tuple(pipeline.names.index(name) for name in order))
            if not pipeline.allows(route):
                raise DefinitionError("an order names every adaptive predicate once, guards first",
                                      hint=f"for example {list(pipeline.names)}")  # fmt: skip
        before = self.plan()
        self._entry.control.write(frozen=list(route))
        after = Routes(before.version, {"": route})
        self._decided("freeze", before, after)
        return after

    def thaw(self) -> None:
        """Let the policy decide again, from what it had learned."""
        plan = self.plan()
        self._entry.control.write(frozen=None)
        self._decided("thaw", plan, plan)

    def _decided(self, kind: str, before: Routes, after: Routes) -> None:
        pipeline = self._entry.pipeline
        change = Change("routes", pipeline.stream, before.names(pipeline.names), after.names(pipeline.names))
        event = Event("user", kind, before.version, 0, Reason("asked for"), change)
        self._entry.decisions.append(words.row(event))

    def report(self, path: str | Path | None = None) -> Path:
        """Write all of it as one HTML page that needs nothing else; by default `<name>.html` in the working folder."""
        return report.write(self, path)

    def __repr__(self) -> str:
        return f"<thalweg query '{self.name}', policy {self._entry.policy}>\n{self.explain()}"

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def query(name: str) -> Any:
    """The handle of a query by its name: a QueryHandle for filters, a JoinHandle for joins."""
    entry = board.entry(name)
    if isinstance(entry, Entry):
        return QueryHandle(entry)
    from thalweg.watch.joins import JoinHandle

    return JoinHandle(entry)
