"""The handle of a named query, a filter or a join: see it, list its decisions, pin its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

import pandas as pd

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.plan import Change, Event, Plan, Reason, Route
from thalweg.spark.asked import AskedInput
from thalweg.spark.board import Entry, board
from thalweg.spark.control import Orders
from thalweg.spark.history import History
from thalweg.watch import explain, frames, report
from thalweg.watch.gather import busiest, event, gather
from thalweg.watch.view import EventView, QueryView

Order = Sequence[str] | Mapping[str, Sequence[str]]
"""Names of predicates for a filter; for a join, names of operators by input."""


class Explanation(str):
    """Text that a notebook shows as tables and pictures."""

    view: QueryView

    def __new__(cls, view: QueryView) -> Explanation:
        made = super().__new__(cls, explain.text(view))
        made.view = view
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return explain.html(self.view)


class QueryHandle:
    """What `tw.query(name)` returns."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        return self._entry.name

    def _history(self) -> History:
        board.catch_up()
        self._entry.collect()
        return self._entry.history

    def view(self, since: int = 0) -> QueryView:
        """Everything that is known of the query, as plain values; `view().record()` becomes JSON.

        Pass the `cursor` of an earlier view as `since` to get only the batches and events that came after it.
        """
        entry, history = self._entry, self._history()
        orders, _ = entry.control.orders()
        with entry.lock:
            return gather(entry.asked, history, orders, entry.progress, since)

    def explain(self) -> Explanation:
        """The routes in force, why, and what they save; prints as text, shows as HTML in notebooks."""
        return Explanation(self.now())

    def now(self) -> QueryView:
        """The view without past batches and events."""
        return self.view(since=self._history().heard)

    def plan(self) -> Plan:
        """The plan in force: routes by input and class, index layouts where a tuner chose them, and what is pinned.

        Tasks may differ: an input has the route that most of its rows take. Before the first batch, it is as written.
        """
        asked, view, history = self._entry.asked, self.now(), self._history()
        paths = {i.alias: i.probes if asked.is_join else i.filters for i in view.inputs}
        known = {alias: path for alias, path in paths.items() if path is not None and path.routes}
        written = {i.alias: _written(i) for i in asked.inputs if len(i.pipeline)}
        routes = {a: {c.label: c.route for c in p.classes} or {"": p.order} for a, p in known.items()}
        with self._entry.lock:
            task = busiest(history.cells()).task if history.cells() else None
            changes = [t.event.change for t in history.events if t.task == task and t.event.change is not None]
        layouts = {c.where: c.after for c in changes if c.part == "layouts"}
        version = max((p.version for p in known.values()), default=0)
        return Plan(version, routes or written, layouts, pinned=frozenset(a for a, p in known.items() if p.frozen))

    def events(self) -> pd.DataFrame:
        """All decisions that are still kept, in the order in which they were reported."""
        history = self._history()
        with self._entry.lock:
            told = list(history.events)
        return pd.DataFrame([asdict(event(t)) for t in told], columns=[f.name for f in fields(EventView)])

    def stats(self) -> pd.DataFrame:
        """What tasks reported: for a filter, one row for each task and predicate; for a join, one row for each batch,
        cell and input."""
        if not self._entry.asked.is_join:
            return self.filters()
        history = self._history()
        with self._entry.lock:
            return frames.cells(history.reports("cell"))

    def filters(self) -> pd.DataFrame:
        """One row for each task and Python predicate; in a join, of the tasks that pack its inputs."""
        history = self._history()
        with self._entry.lock:
            return frames.filters(history.reports("filter", "pack"))

    def stages(self) -> pd.DataFrame:
        """Wall-clock seconds of each batch by stage; they add up (`watch/stages.py`)."""
        return frames.stages(self.view().recent)

    def freeze(self, order: Order | None = None) -> Plan:
        """Pin the present routes, or the given ones, from the next batch on; returns the pinned plan.

        An order is a list of predicate names for a filter, `freeze(["few", "most"])`, and a mapping for a join,
        `freeze({"s1": ["s3", "s2"]})`. Inputs of a join that it leaves out keep the routes they have, in each cell and
        for each class of rows.
        """
        given, before = self._checked(order), self.plan()
        routes = dict(given)
        if not given and not self._entry.asked.is_join and len(before.routes.get("", ())) == 1:
            routes = {"": before.route("")}  # tasks may differ: all of them take the route that most rows take
        history = self._history()
        packed = [history.total("pack", i.alias) for i in self._entry.asked.inputs]
        filters = {i.alias: i.routing.route for i in packed if i.routing is not None}
        self._entry.control.order(Orders(True, routes, filters))
        pinned = {**before.routes, **{alias: {"": route} for alias, route in given.items()}}
        after = Plan(before.version, pinned, before.layouts, pinned=frozenset(pinned))
        self._decided("freeze", before, after)
        return after

    def thaw(self) -> None:
        """Let the policy decide again, from what it had learned."""
        plan = self.plan()
        self._entry.control.order(Orders())
        self._decided("thaw", plan, plan)

    def _checked(self, order: Order | None) -> dict[str, tuple[str, ...]]:
        """An order that can't be is an error here, not in a worker."""
        inputs = {i.alias: i for i in self._entry.asked.inputs}
        if order is None:
            return {}
        if self._entry.asked.is_join != isinstance(order, Mapping):
            example = next(i for i in inputs.values() if len(i.pipeline))
            names = example.pipeline.names
            if self._entry.asked.is_join:
                raise DefinitionError(
                    "a join has an order for each input", hint=f"for example freeze({ {example.alias: names} })"
                )
            raise DefinitionError("a filter has one order, a list of names", hint=f"for example freeze({names})")
        orders = order if isinstance(order, Mapping) else {"": order}
        return {alias: _allowed(inputs, alias, wanted) for alias, wanted in orders.items()}

    def _decided(self, kind: str, before: Plan, after: Plan) -> None:
        for alias, routes in after.routes.items():
            change = Change("routes", alias, before.routes.get(alias), routes)
            self._entry.decided(Event("user", kind, before.version, 0, Reason("asked for"), change))

    def report(self, path: str | Path | None = None) -> Path:
        """Write all of it as one HTML page that needs nothing else; by default `<name>.html` in the working folder."""
        return report.write(self.view(), path)

    def __repr__(self) -> str:
        return f"<thalweg query '{self.name}', policy {self._entry.asked.policy}>\n{self.explain()}"

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def _written(i: AskedInput) -> dict[str, tuple[str, ...]]:
    return {"": tuple(i.pipeline.names[k] for k in i.pipeline.written)}


def _allowed(inputs: Mapping[str, AskedInput], alias: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """The order of one input, if its rows can take it."""
    if alias not in inputs:
        raise DefinitionError(f"the query has no input '{alias}'", hint=did_you_mean(alias, inputs))
    pipeline, whose = inputs[alias].pipeline, f" for '{alias}'" if alias else ""
    names = pipeline.names
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or not all(isinstance(n, str) for n in wanted):
        raise DefinitionError(f"an order{whose} is a list of names, not {wanted!r}", hint=f"for example {names}")
    for name in wanted:
        if name not in names:
            missing = f"rows of '{alias}' visit no '{name}'" if alias else f"no predicate '{name}'"
            raise DefinitionError(missing, hint=did_you_mean(name, names))
    if not pipeline.allows(Route(tuple(names.index(n) for n in wanted))):
        rule = (
            "every operator once, each when a predicate connects it" if alias else "every predicate once, guards first"
        )
        raise DefinitionError(f"an order{whose} names {rule}", hint=f"for example {names}")
    return tuple(wanted)


def query(name: str) -> QueryHandle:
    """The handle of a query, by its name."""
    return QueryHandle(board.entry(name))
