"""Base of the policies with classes of tuples: content-based routing and query mesh.

Invariant: every row of a batch is in one ruster, whatever the content; a row of an unknown class takes the first
route of the plan. The plan is a class label for each route in force, so a reader of the plan sees the classes.

One class: the contract of a policy, each part with its default for policies with classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import PASSED, UNTRIED, Journey, Visits
from thalweg.errors import CheckpointError
from thalweg.optimize.classes.routeprices import MOST, Prices
from thalweg.plan import Change, Event, Pipeline, Reason, Route, Routes, Ruster
from thalweg.profile.content.attributes import Attributes, Values
from thalweg.profile.rates.rates import Rates

Bits = NDArray[np.int8]


@dataclass
class Classed:
    """A plan of several routes, its events, costs and pass rates. Subclasses classify and learn."""

    pipeline: Pipeline
    seed: int = 0
    plan: Routes = field(init=False)
    tuples: int = field(init=False, default=0)
    name = "classed"

    def __post_init__(self) -> None:
        self.plan = Routes.single(self.pipeline.written)
        self.costs = Rates(self.pipeline)
        self.attributes = Attributes()
        self.costs_shared = False
        """Whether another object updates the costs."""
        self._random = np.random.default_rng([self.seed, len(self.pipeline)])
        self._per_row: NDArray[np.float64] | None = None
        self._events: list[Event] = []
        self._shares: dict[str, float] = {}
        self._tried = np.zeros(len(self.pipeline))
        self._passed = np.zeros(len(self.pipeline))
        self.stems = np.array([op.kind == "stem" for op in self.pipeline.operators], np.bool_)
        written = self.pipeline.written.operators
        self.choice = any(len(self.pipeline.eligible(written[:k])) > 1 for k in range(len(written)))
        """Whether there is anything to choose: more than one allowed order."""

    # For subclasses to define

    def assign(self, batch: Batch) -> list[Ruster]:
        """The rows of a batch by class, on the routes in force; pure."""
        raise NotImplementedError

    def work(self, batch: Batch, rest: NDArray[np.bool_] | None) -> list[Ruster]:
        """Rusters for the rows not yet taken out; for a policy that samples by itself."""
        raise NotImplementedError

    def foretell(self, values: Values) -> Ruster:
        """The routes that tuples of this content would take; pure."""
        raise NotImplementedError

    def look(self, sample: Batch) -> Values | None:
        """The content of sampled tuples; None if it differs from what was learned."""
        if len(self.attributes) and not self.attributes.known(sample.data):
            return None
        return self.attributes.look(sample.data)

    def observe(self, visits: Visits) -> None:
        """Learn from the outcome of the batch; maybe change the plan."""
        raise NotImplementedError

    def estimate(self, label: str) -> float | None:
        """Estimated seconds per tuple of a class."""
        raise NotImplementedError

    def why(self) -> str:
        raise NotImplementedError

    def tree(self) -> str:
        """How content is classified, as text; empty with one class."""
        if len(self.plan.routes) < 2:
            return ""
        return "\n".join(f"{label}: {route.named(self.pipeline.names)}" for label, route in self.plan.routes.items())

    # Shared

    def prices(self) -> Prices:
        """Current costs of tuples on an order."""
        return Prices(self.costs.lookup, self.costs.examined, self.costs.fanout)

    @property
    def per_row(self) -> NDArray[np.float64]:
        """Seconds per row and operator at the last observation."""
        if self._per_row is None:
            self._per_row = self.costs.per_row.copy()
        return self._per_row

    def refresh(self) -> None:
        """Recompute costs on next use."""
        self._per_row = None

    def tally(self, visits: Visits) -> None:
        """Costs, tuples, shares of classes, unconditional pass rates."""
        self.tuples += visits.rows
        if not self.costs_shared:
            self.costs.observe(visits)
        self.refresh()
        if visits.rows:
            keep = 0.5 ** (visits.rows / self.costs.memory)
            self._shares = {label: rows * keep for label, rows in self._shares.items()}
        for journey in visits.journeys:
            begun = (journey.rows,) if journey.begun is None else journey.begun.tolist()
            for label, rows in zip(journey.ruster.labels, begun, strict=True):
                if label in self.plan.routes:
                    self._shares[label] = self._shares.get(label, 0.0) + rows
            if journey.passed is not None:
                forget = 0.5 ** (len(journey.passed) / self.costs.memory)
                self._tried = self._tried * forget + (journey.passed != UNTRIED).sum(axis=0)
                self._passed = self._passed * forget + (journey.passed == PASSED).sum(axis=0)

    def change(
        self, routes: Mapping[str, Route], why: str, *, kind: str = "reorder",
        before: float | None = None, after: float | None = None,
    ) -> bool:  # fmt: skip
        """Bring routes into force and record why; no effect if they are in force already."""
        if dict(routes) == dict(self.plan.routes):
            return False
        names, was = self.pipeline.names, self.plan
        self.plan = was.with_routes(routes)
        self._shares = {label: n for label, n in self._shares.items() if label in routes}
        made = Change("routes", self.pipeline.stream, was.names(names), self.plan.names(names), before, after)
        self._events.append(Event(self.name, kind, self.plan.version, self.tuples, Reason.of(why), made))
        return True

    def note(self, kind: str, why: str) -> None:
        """Record a decision that changed no route."""
        self._events.append(Event(self.name, kind, self.plan.version, self.tuples, Reason.of(why)))

    def shares(self) -> dict[str, float]:
        """Share of the tuples of each class; equal before any tuple."""
        known = {label: self._shares.get(label, 0.0) for label in self.plan.routes}
        whole = sum(known.values())
        return {label: n / whole if whole else 1 / len(known) for label, n in known.items()}

    def pending(self) -> list[Event]:
        """Undrained decisions."""
        return list(self._events)

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def explain(self) -> Explanation:
        costs = self.costs.per_row if self.tuples else None
        shares = self.shares()
        operators = tuple(
            OperatorView(
                name,
                float(self._passed[i] / self._tried[i]) if self._tried[i] else None,
                None if costs is None else float(costs[i]),
            )
            for i, name in enumerate(self.pipeline.names)
        )
        routes = tuple(
            RouteView(label, shares[label], route, self.estimate(label)) for label, route in self.plan.routes.items()
        )
        why, to_change = Reason.of(self.why()), Reason.of(self.to_change())
        return Explanation(self.name, why, routes, operators, to_change, self.tree())

    def to_change(self) -> str:
        return ""

    def snapshot(self) -> dict[str, Any]:
        return {
            "policy": self.name,
            "operators": len(self.pipeline),
            "routes": [[label, list(route)] for label, route in self.plan.routes.items()],
            "version": self.plan.version,
            "tuples": self.tuples,
            "random": self._random.bit_generator.state,
            "costs": None if self.costs_shared else self.costs.snapshot(),
            "shares": dict(self._shares),
            "tried": self._tried.tolist(),
            "passed": self._passed.tolist(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        if record["operators"] != len(self.pipeline):
            raise CheckpointError(
                f"the order {record['routes'][0][1]} is not one of the {len(self.pipeline)} operators of '{self.pipeline.stream}'",
                hint="it was learned by another query",
            )
        # Guards may have been added since: a restored route must still be allowed.
        routes = {label: self.allowed(order) for label, order in record["routes"]}
        self.plan = Routes(int(record["version"]), routes)
        self.tuples = int(record["tuples"])
        self._random.bit_generator.state = record["random"]
        if record["costs"] is not None:
            self.costs.restore(record["costs"])
        self.refresh()
        self._shares = dict(record["shares"])
        self._tried = np.array(record["tried"], float)
        self._passed = np.array(record["passed"], float)

    def allowed(self, wish: Sequence[int]) -> Route:
        return self.pipeline.closest([int(op) for op in wish])


def outcomes(journey: Journey) -> Bits:
    """The outcome of profiled tuples at every operator: 0 dropped, 1 passed or one match, more matches, UNTRIED."""
    assert journey.passed is not None
    if journey.matches is None:
        return journey.passed
    return np.where(journey.matches >= 0, np.minimum(journey.matches, MOST), journey.passed).astype(np.int8)
