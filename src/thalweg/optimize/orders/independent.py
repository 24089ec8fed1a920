"""`independent`: order by unconditional rank, as if operators knew nothing of each other (thesis 4.5).

Invariant: the rank, for filters the drop rate per cost, gets no better along the order, up to α. Optimal where
operators are independent; up to n times the cost of A-Greedy's order where they are correlated (the lab shows it).
Needs fewer samples: p = 0.005. Correction is a sort. A stem ranks by fan-out and cost of the rows that go there first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thalweg.contract.visits import Journey
from thalweg.optimize.orders.profiling import Profiling
from thalweg.optimize.orders.ranking import clearly_before
from thalweg.plan import Reason, Route
from thalweg.profile.rates.window import ProfileWindow


@dataclass
class Independent(Profiling):
    """Only row 1 of the matrix view is kept.

    >>> import numpy as np
    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((20_000, 3)) < [0.9, 0.5, 0.1]
    >>> run("independent", rows, costs=[1.0, 1.0, 1.0], seed=7).final_order
    (2, 1, 0)
    """

    p: float = 0.005
    window: int = 1000
    name = "independent"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.profile = ProfileWindow(len(self.pipeline), self.window)

    def learn(self, profiled: list[Journey]) -> None:
        for journey in profiled:
            assert journey.passed is not None
            self.profile.push(journey.passed)
        if not profiled or not len(self.profile):
            return
        ranks = self._ranks()
        placed = [ranks[op] for op in self.order]
        if any(clearly_before(min(placed[k + 1 :]), placed[k], self.alpha) for k in range(len(placed) - 1)):
            route = self.pipeline.closest(sorted(self.order, key=lambda op: ranks[op]))
            why = "sorted by what each operator alone drops or adds per cost"
            self.reorder(route.operators, why, before=self.price(self.plan.route), after=self.price(route))

    def _ranks(self) -> list[float]:
        if self.costs.joins:
            return [self.rank((), op) for op in range(len(self.pipeline))]
        return [-float(r) for r in self.profile.bits.sum(axis=0) / self.costs.per_row]

    def price(self, route: Route) -> float | None:
        """Estimated seconds per row on a route."""
        if self.costs.joins:
            return self.ranking.price(route.operators)
        return self.profile.cost(route.operators, self.costs.per_row) if len(self.profile) else None

    def estimate(self) -> float | None:
        return self.price(self.plan.route)

    def why(self) -> Reason:
        why = "sorted by what each operator alone drops or adds per cost, on {rows} profiled rows"
        return Reason.of(why, rows=len(self.profile))

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"window": self.profile.snapshot()}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.profile.restore(record["window"])
