"""Dispatch: between one policy and the fabric. Asks for routes, sends scouts ahead, tells what came of it.

A policy that rests is not asked: batches travel as the last one did, classified row by row where it has classes, and it
hears about several together, at once if rows were recalled. While routes are pinned, the policy neither decides nor
learns. Invariant: nothing here reads the data, and every visit is told exactly once and in order, whether or not a
snapshot was taken in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.policy import Classifying, Policy, Resting, Scouting
from thalweg.contract.visits import Journey, Visits
from thalweg.execute.arrival import Arrival
from thalweg.plan import Event, Pipeline, Route, Routes, Ruster

Ints = NDArray[np.int64]
Run = Callable[[Arrival, Sequence[Ruster]], tuple[Ints, Ints, tuple[Journey, ...]]]
"""Sends rusters on their way: the lines that pass the input's filters, those that were recalled, and journeys."""


@dataclass
class Dispatch:
    """One policy and its pipeline."""

    policy: Policy
    pipeline: Pipeline
    events: list[Event] = field(default_factory=list)
    """Where its decisions go."""
    frozen: Route | None = None
    """The route that is pinned, if one is."""
    by_class: bool = False
    """While frozen: whether each class keeps its own route instead."""
    rest: int = 0
    """Batches for which the policy need not be asked."""
    rusters: Sequence[Ruster] = ()
    """How these travel."""
    untold: list[Visits] = field(default_factory=list)
    """What the policy has not been told yet."""

    def __post_init__(self) -> None:
        self._scouts = isinstance(self.policy, Scouting)
        self._rests = isinstance(self.policy, Resting)

    def ask(self, batch: Batch) -> Sequence[Ruster]:
        """Who travels which way."""
        if self.frozen is None:
            return self.policy.route(batch)
        if self.by_class and isinstance(self.policy, Classifying):
            return self.policy.assign(batch)
        return [Ruster(None, self.frozen)]

    def again(self, batch: Batch) -> Sequence[Ruster]:
        """Who travels which way while the policy rests. Rows of another batch mean nothing here: a policy that split them and
        has no classes is asked after all."""
        if all(r.rows is None and r.ids is None for r in self.rusters):
            return self.rusters
        return self.policy.assign(batch) if isinstance(self.policy, Classifying) else self.ask(batch)

    def scouts(self, rows: int, sent: int) -> int:
        """How many of the rows left go ahead of the others."""
        return self.policy.ahead(rows, sent) if self._scouts and self.frozen is None else 0  # type: ignore[attr-defined]

    def learn(self, visits: Visits, rusters: Sequence[Ruster], *, recalled: bool = False) -> None:
        """Note what came of a batch; tell the policy unless it rests."""
        if self.frozen is not None:
            return
        self.untold.append(visits)
        self.rest = max(self.rest - 1, 0)
        if not self.rest or recalled:
            self.tell()
            self.rusters = rusters

    def tell(self) -> None:
        """Let the policy know what came of the batches since it was last told. It says for how many more it rests."""
        if not self.untold:
            return
        told, self.untold = self.untold, []
        journeys = tuple([j for v in told for j in v.journeys])
        self.policy.observe(Visits(told[-1].batch, sum([v.rows for v in told]), journeys))
        self.rest = self.policy.rest if self._rests else 0  # type: ignore[attr-defined]
        self.events += self.policy.drain()

    def pin(self, route: Route | None = None) -> None:
        """Freeze: the given route, or those in force."""
        self.tell()
        self.rest = 0
        if route is not None:
            self.by_class = False
        elif self.frozen is None:
            self.by_class = len(self.policy.plan.routes) > 1 and isinstance(self.policy, Classifying)
        self.frozen = route or self.frozen or self.policy.plan.route

    @property
    def routes(self) -> Routes:
        """The routes in force: those pinned, or the policy's."""
        return self.policy.plan if self.frozen is None or self.by_class else Routes.single(self.frozen)

    def release(self) -> None:
        self.frozen, self.by_class = None, False


@dataclass
class Sending:
    """Sends the rows of one input through the fabric, in turns."""

    dispatch: Dispatch
    row_column: int
    run: Run
    met: Callable[[Visits], None]
    in_order: Callable[[Sequence[Ints], Ints], Ints]

    def send(self, arrival: Arrival, batch: int) -> Ints:
        """Send scouts, evenly spaced, for as long as the policy wants some; then the rest, with those that turned back,
        and again what is recalled. Returns the lines that passed the filters, in their order."""
        whole, kept = arrival.partial, list[Ints]()
        if self.dispatch.rest:
            rusters = self.dispatch.again(arrival.batch(batch, self.dispatch.pipeline.stream, self.row_column))
            arrival = self.once(arrival, kept, batch, rusters)
        sent = 0
        while len(arrival.partial):
            wanted = self.dispatch.scouts(len(arrival.partial), sent)
            if not wanted:
                arrival = self.once(arrival, kept, batch)
                continue
            spaced = np.arange(wanted) * len(arrival.partial) // wanted
            back = self.once(arrival.pick(spaced), kept, batch).partial
            if len(back) < wanted:
                left = np.ones(len(arrival.partial), np.bool_)
                left[spaced] = False
                rest = arrival.partial.compress(left, axis=0)
                arrival = replace(arrival, partial=self.in_order([rest, back], whole))
            sent += wanted
        return self.in_order(kept, whole)

    def once(self, arrival: Arrival, kept: list[Ints], batch: int, rusters: Sequence[Ruster] = ()) -> Arrival:
        """Route, if that is left to do; run, learn. Adds the lines that passed the filters to `kept`; returns what was
        recalled."""
        count = len(arrival.partial)
        if not rusters:
            rusters = self.dispatch.ask(arrival.batch(batch, self.dispatch.pipeline.stream, self.row_column))
        passed, recalled, journeys = self.run(arrival, rusters)
        kept.append(passed)
        visits = Visits(batch, count - len(recalled), journeys)
        self.dispatch.learn(visits, rusters, recalled=len(recalled) > 0)
        self.met(visits)
        return replace(arrival, partial=recalled)
