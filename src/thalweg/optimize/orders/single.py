"""Base of the policies that send every row of a batch along one order.

It holds the routes in force and the events of their changes; what to do with what is observed is left to the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import Visits
from thalweg.errors import CheckpointError
from thalweg.plan import Change, Event, Pipeline, Reason, Route, Routes, Ruster


@dataclass
class SingleRoute:
    """Base of policies that send every tuple of a batch along one order."""

    pipeline: Pipeline
    seed: int = 0
    plan: Routes = field(init=False)
    tuples: int = field(init=False, default=0)
    name = "single"

    def __post_init__(self) -> None:
        self.plan = Routes.single(self.pipeline.written)
        self._random = np.random.default_rng([self.seed, len(self.pipeline)])
        self._events: list[Event] = []

    @property
    def order(self) -> tuple[int, ...]:
        return self.plan.route.operators

    def route(self, batch: Batch) -> list[Ruster]:
        return [Ruster(None, self.plan.route)]

    def observe(self, visits: Visits) -> None:
        self.tuples += visits.rows

    def explain(self) -> Explanation:
        views = tuple(OperatorView(n) for n in self.pipeline.names)
        return Explanation(self.name, Reason.of(self.why()), (RouteView("", 1.0, self.plan.route, None),), views)

    def why(self) -> str | Reason:
        return ""

    def reorder(
        self,
        order: Sequence[int],
        why: str | Reason,
        *,
        kind: str = "reorder",
        before: float | None = None,
        after: float | None = None,
    ) -> None:
        """Bring a new order in force and record why."""
        route = Route(tuple(order))
        if route != self.plan.route:
            self.bring({"": route}, kind, why, before, after)

    def bring(
        self, routes: Mapping[str, Route], kind: str, why: str | Reason, before: float | None, after: float | None
    ) -> None:
        """Bring routes in force, one for each class, and record why."""
        if dict(routes) == dict(self.plan.routes):
            return
        names, was = self.pipeline.names, self.plan
        self.plan = was.with_routes(routes)
        change = Change("routes", self.pipeline.stream, was.names(names), self.plan.names(names), before, after)
        self._events.append(Event(self.name, kind, self.plan.version, self.tuples, Reason.of(why), change))

    def note(self, kind: str, why: str | Reason) -> None:
        """Record something noticed that changed no route."""
        self._events.append(Event(self.name, kind, self.plan.version, self.tuples, Reason.of(why)))

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def snapshot(self) -> dict[str, Any]:
        return {
            "policy": self.name,
            "order": list(self.order),
            "version": self.plan.version,
            "tuples": self.tuples,
            "random": self._random.bit_generator.state,
        }

    def restore(self, record: dict[str, Any]) -> None:
        if sorted(record["order"]) != list(range(len(self.pipeline))):
            raise CheckpointError(
                f"the order {record['order']} is not one of the {len(self.pipeline)} operators of '{self.pipeline.stream}'",
                hint="it was learned by another query",
            )
        # Guards may have been added since: what was learned must never bring in a route that is not allowed.
        self.plan = Routes(int(record["version"]), {"": self.pipeline.closest(record["order"])})
        self.tuples = int(record["tuples"])
        self._random.bit_generator.state = record["random"]


def sampled(random: np.random.Generator, rows: int, probability: float) -> NDArray[np.bool_]:
    """A coin flip for each row: True with the given probability."""
    return random.random(rows) < probability
