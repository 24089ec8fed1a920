"""`independent`: order by unconditional drop rate per cost, as if filters knew nothing of each other (thesis 4.5).

Invariant: d(i|0)/t is non-increasing along the order, up to α. Optimal where filters are independent; up to n times
dearer than A-Greedy where they are correlated (the lab shows it). Needs fewer samples: p = 0.005. Correction is a sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.contract.visits import Journey
from thalweg.optimize.orders.profiling import Profiling
from thalweg.profile.rates.window import ProfileWindow


@dataclass
class Independent(Profiling):
    """Only row 1 of the matrix view is kept.

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
        costs = self.costs.per_row
        rank = self.profile.bits.sum(axis=0) / costs
        placed = rank[list(self.order)]
        later = np.maximum.accumulate(placed[::-1])[::-1]
        if (placed[:-1] < self.alpha * later[1:]).any():
            wish = sorted(self.order, key=lambda op: -rank[op])
            route = self.pipeline.closest(wish)
            self.reorder(
                route.operators, "sorted by drop rate per cost, filters taken as independent",
                before=self.profile.cost(self.order, costs), after=self.profile.cost(route.operators, costs),
            )  # fmt: skip

    def estimate(self) -> float | None:
        return self.profile.cost(self.order, self.costs.per_row) if len(self.profile) else None

    def why(self) -> str:
        return f"drop rate per cost, each filter alone, on {len(self.profile)} profiled tuples"

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"window": self.profile.snapshot()}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.profile.restore(record["window"])
