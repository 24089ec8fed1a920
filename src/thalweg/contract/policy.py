"""The contract of a policy: route batches, observe visits, explain yourself.

A policy is pure in its inputs (batches, visits, seed): it reads no clock and no globals, so the same inputs give the
same decisions. It knows the pipeline (names, allowed orders) and never an operator's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.errors import CheckpointError
from thalweg.plan import Event, Pipeline, Plan, Route, Ruster


@dataclass(frozen=True)
class OperatorView:
    """What a policy believes of one operator: unconditional pass rate, and seconds per tuple."""

    name: str
    pass_rate: float | None = None
    cost: float | None = None


@dataclass(frozen=True)
class RouteView:
    """One class of tuples: its label, its share of the tuples, its route, and the estimated seconds per tuple."""

    label: str
    share: float
    route: Route
    estimate: float | None = None


@dataclass(frozen=True)
class Explanation:
    """The present routes, why they are so, and what it would take to change them."""

    policy: str
    why: str
    routes: tuple[RouteView, ...]
    operators: tuple[OperatorView, ...]
    to_change: str = ""
    tree: str = ""
    """How content is classified, as text; empty where all tuples are one class."""


@runtime_checkable
class Policy(Protocol):
    """Chooses routes. See the module's head for what it may rely on.

    In a join it may also have `ahead(rows, sent)`, how many tuples of a batch go first as scouts, and `rest`, for how many
    batches the rusters it gave last may be used again: it is told of these together, at once if tuples are recalled.
    """

    name: str
    plan: Plan

    def route(self, batch: Batch) -> list[Ruster]:
        """Split the batch: each row in exactly one ruster."""
        ...

    def observe(self, visits: Visits) -> None:
        """Learn from what came of the batch; maybe change the plan."""
        ...

    def explain(self) -> Explanation: ...

    def drain(self) -> list[Event]:
        """The decisions since the last call."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as plain JSON values."""
        ...

    def restore(self, record: dict[str, Any]) -> None:
        """Take up what an equal policy of an equal pipeline had learned. A class attribute `format`, a number, tells
        records of one version of a policy from those of the next: `restore` gets only those of its own."""
        ...


@dataclass
class SingleRoute:
    """Base of policies that send every tuple of a batch along one order."""

    pipeline: Pipeline
    seed: int = 0
    plan: Plan = field(init=False)
    tuples: int = field(init=False, default=0)
    name = "single"

    def __post_init__(self) -> None:
        self.plan = Plan.single(self.pipeline.written)
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
        return Explanation(
            self.name, self.why(), (RouteView("", 1.0, self.plan.route, None),),
            tuple(OperatorView(n) for n in self.pipeline.names),
        )  # fmt: skip

    def why(self) -> str:
        return ""

    def reorder(
        self, order: Sequence[int], why: str, *, kind: str = "reorder",
        before: float | None = None, after: float | None = None,
    ) -> None:  # fmt: skip
        """Bring a new order in force and record why."""
        route = Route(tuple(order))
        if route != self.plan.route:
            self.bring({"": route}, kind, why, before, after)

    def bring(
        self, routes: Mapping[str, Route], kind: str, why: str, before: float | None, after: float | None
    ) -> None:
        """Bring routes in force, one for each class, and record why."""
        if dict(routes) == dict(self.plan.routes):
            return
        names = self.pipeline.names
        was = self.plan.named(names)
        self.plan = self.plan.with_routes(routes)
        now = self.plan.named(names)
        self._events.append(Event(self.name, kind, self.plan.version, self.tuples, was, now, why, before, after))

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
        self.plan = Plan(int(record["version"]), {"": self.pipeline.closest(record["order"])})
        self.tuples = int(record["tuples"])
        self._random.bit_generator.state = record["random"]


def sampled(random: np.random.Generator, rows: int, probability: float) -> NDArray[np.bool_]:
    """A coin flip for each row: True with the given probability."""
    return random.random(rows) < probability
