"""Caching: between the cache tuner, the orders in force and the caches of the fabric.

Between batches it tells the tuner which orders hold, applies the changes it proposes, and moves pages. What is cached
is never part of a snapshot: a restored engine begins with empty caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.learned import FORMAT
from thalweg.contract.visits import Visits
from thalweg.engine.dispatch import Dispatch
from thalweg.execute.operators.cache import Caches
from thalweg.execute.shape import Shape
from thalweg.optimize.caches.tuner import CacheTuner
from thalweg.plan import Event, Plan, Route
from thalweg.plan.cached import Placed
from thalweg.state.slice import Slice

Ints = NDArray[np.int64]


class Caching:
    """The caches of one block and their tuner."""

    def __init__(self, tuner: CacheTuner, shape: Shape, caches: Caches, dispatches: Mapping[int, Dispatch]) -> None:
        self.tuner, self.shape, self.caches, self.dispatches = tuner, shape, caches, dispatches
        self._placed: dict[str, Placed] = {}
        self.changes = 0
        """Caches placed and dropped so far."""
        self._routes: dict[int, Route] = {}
        self._told: dict[Placed, tuple[int, int]] = {}
        """Probes and misses that the tuner knows of."""
        tuner.begin(shape.graph)

    @property
    def placed(self) -> dict[str, Placed]:
        """The caches in force, by name."""
        return dict(self._placed)

    def begin(self, i: int, *, followed: bool) -> None:
        """Rows of an input set out."""
        if self.caches:
            self.caches.begin(i, followed=followed)

    def stored(
        self, i: int, own: Ints, placed: Sequence[tuple[Slice, int, int]], rows: int, which: Ints | None
    ) -> None:
        """They are stored."""
        if self.caches:
            self.caches.stored(i, own, placed, rows, which)

    def observe(self, i: int, visits: Visits) -> None:
        """What a batch of an input met."""
        self.tuner.heard(i, visits)

    def _report(self) -> None:
        """Tell the tuner which keys missed, of caches in use and of those that are watched."""
        for placed, shadow in self.caches.shadows.items():
            rows, new = shadow.drain()
            if rows:
                self.tuner.missed(placed, rows, new)
        for placed in self.caches.placed:
            met = self.caches.caches[placed.cached].by_input(placed.input)
            before = self._told.get(placed, (0, 0))
            if met[0] > before[0]:
                self.tuner.missed(placed, met[0] - before[0], met[1] - before[1])
            self._told[placed] = met

    def balance(self) -> None:
        """Move pages from caches of lower priority to those that want some; give back what is over the limit."""
        pages, priorities = self.caches.pages, self.tuner.priorities()
        if pages.limit is None:
            return
        ranked = sorted(self.caches.caches.values(), key=lambda c: priorities.get(c.cached, 0.0))
        for cache in ranked:
            while pages.over and cache.store.release():
                pass
            if pages.over:
                cache.store.clear()
        for cache in reversed(ranked):
            if cache.store.starved:
                cache.store.starved = False
                mine = priorities.get(cache.cached, 0.0)
                lower = (c for c in ranked if priorities.get(c.cached, 0.0) < mine)
                next((c for c in lower if c.store.release()), None)

    def limit(self, size: int | None) -> None:
        """Another budget, from now on."""
        self.caches.pages.limit = size
        self.balance()

    def tune(self) -> list[Event]:
        """Apply what the tuner proposes."""
        routes = {i: d.routes.route for i, d in self.dispatches.items()}
        if not self.tuner.listening and routes == self._routes:
            if self.caches.pages.limit is not None:
                self.balance()
            return []
        self._report()
        self.balance()
        if routes != self._routes:
            self._routes = routes
            self.tuner.orders({i: self._order(i, route) for i, route in routes.items()})
        self.tuner.decide()
        plan = Plan(caches=self._placed)
        while (change := self.tuner.propose(plan)) is not None:
            plan = plan.apply(change)
        if plan.version:
            self.changes += plan.version
            self._placed = dict(plan.caches)
            self.caches.place(set(self._placed.values()))
            self._told = {p: t for p, t in self._told.items() if p in self.caches.placed}
        self.caches.watch(self.tuner.watched)
        return self.tuner.drain()

    def _order(self, i: int, route: Route) -> tuple[int, ...]:
        others, first = self.shape.others(i), len(self.shape.filters[i])
        return tuple(others[op - first] for op in route if op >= first)

    def snapshot(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "tuner": self.tuner.name,
            "changes": self.changes,
            "learned": self.tuner.snapshot(),
            "placed": {name: placed.record() for name, placed in self._placed.items()},
            "routes": [[i, list(route.operators)] for i, route in self._routes.items()],
        }

    def restore(self, record: Mapping[str, Any] | None) -> None:
        """Go on deciding where an equal tuner of this format stopped; what was cached is gone."""
        self.caches.drop()
        if record is None or record["tuner"] != self.tuner.name or record.get("format") != FORMAT:
            return
        self.tuner.restore(record["learned"])
        self.changes = record["changes"]
        self._placed = {name: Placed.of(entry) for name, entry in record["placed"].items()}
        self._routes = {i: Route(tuple(operators)) for i, operators in record["routes"]}
        self.caches.place(set(self._placed.values()))
        self.caches.watch(self.tuner.watched)
