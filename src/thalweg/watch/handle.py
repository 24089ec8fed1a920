"""The handle of a named query: explain it, list its decisions, pin its plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.plan import Change, Event, Pipeline, Reason, Route, Routes
from thalweg.spark.board import Entry, board
from thalweg.spark.control import Orders
from thalweg.spark.history import History
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

    @property
    def _pipeline(self) -> Pipeline:
        return self._entry.asked.inputs[0].pipeline

    def _history(self) -> History:
        board.catch_up()
        self._entry.collect()
        return self._entry.history

    def summary(self) -> Summary:
        asked, history = self._entry.asked, self._history()
        with self._entry.lock:
            newest = [r.inputs[0] for r in history.newest("filter")]
            return summarise(
                asked.name, asked.policy, asked.streaming, self._pipeline.names, asked.places,
                history.total("filter", ""), newest, history.batches,
            )  # fmt: skip

    def explain(self) -> Explanation:
        """The routes in force, why, and what they save; prints as text, shows as HTML in notebooks."""
        return Explanation(self.summary())

    def plan(self) -> Routes:
        """The plan of the cell that saw most rows in the newest batch."""
        history = self._history()
        with self._entry.lock:
            newest = [r.inputs[0] for r in history.newest("filter")]
        routing = max(newest, key=lambda i: i.rows_in).routing if newest else None
        if routing is None:
            return Routes.single(self._pipeline.written)
        names = self._pipeline.names
        routes = {c.label: c.route for c in routing.classes} or {"": routing.route}
        return Routes(routing.version, {label: Route(tuple(map(names.index, r))) for label, r in routes.items()})

    def events(self) -> pd.DataFrame:
        """All decisions, in the order they were reported."""
        return events(self._entry, self._history())

    def stats(self) -> pd.DataFrame:
        """One row for each task and predicate."""
        history = self._history()
        with self._entry.lock:
            reports = history.reports("filter")
        rows = []
        for r in reports:
            (i,) = r.inputs
            route, version = (" → ".join(i.routing.route), i.routing.version) if i.routing is not None else ("", 0)
            for o in i.operators:
                rows.append(
                    (r.batch, r.task, o.name, i.rows_in, i.rows_out, o.calls, o.extra, o.rows_out, o.seconds, route, version)
                )  # fmt: skip
        return pd.DataFrame(rows, columns=STATS_COLUMNS)

    def freeze(self, order: Sequence[str] | None = None) -> Routes:
        """Pin the present route, or the given order of predicate names, from the next batch on.

        Where classes have routes of their own all of them stay, as each worker has them; an order given is for all.
        """
        pipeline = self._pipeline
        if order is None:
            present = self.plan()
            if len(present.routes) > 1:
                self._entry.control.order(Orders(frozen=True))
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
        self._entry.control.order(Orders(frozen=True, routes={"": tuple(pipeline.names[k] for k in route)}))
        after = Routes(before.version, {"": route})
        self._decided("freeze", before, after)
        return after

    def thaw(self) -> None:
        """Let the policy decide again, from what it had learned."""
        plan = self.plan()
        self._entry.control.order(Orders())
        self._decided("thaw", plan, plan)

    def _decided(self, kind: str, before: Routes, after: Routes) -> None:
        pipeline = self._pipeline
        change = Change("routes", pipeline.stream, before.names(pipeline.names), after.names(pipeline.names))
        self._entry.decided(Event("user", kind, before.version, 0, Reason("asked for"), change))

    def report(self, path: str | Path | None = None) -> Path:
        """Write all of it as one HTML page that needs nothing else; by default `<name>.html` in the working folder."""
        return report.write(self, path)

    def __repr__(self) -> str:
        return f"<thalweg query '{self.name}', policy {self._entry.asked.policy}>\n{self.explain()}"

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def events(entry: Entry, history: History) -> pd.DataFrame:
    """All decisions that are still kept, one a row."""
    with entry.lock:
        told = list(history.events)
    return pd.DataFrame([words.row(t.event, t.batch, t.task) for t in told], columns=words.EVENT_COLUMNS)


def query(name: str) -> Any:
    """The handle of a query by its name: a QueryHandle for filters, a JoinHandle for joins."""
    entry = board.entry(name)
    if not entry.asked.is_join:
        return QueryHandle(entry)
    from thalweg.watch.joins import JoinHandle

    return JoinHandle(entry)
