"""Visits first what lets the fewest rows through, for filters and joins alike.

Every seventh row is tried on every operator it can reach. How many rows come out of an operator for each that goes in,
matches of a join counted, decides the order; old counts fade, so that the order follows the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import Visits
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Reason, Ruster


class Fewest(SingleRoute):
    name = "fewest"
    format = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tried, self.left = np.zeros((2, len(self.pipeline)))

    def route(self, batch: Batch) -> list[Ruster]:
        sample, rest = np.arange(0, len(batch), 7), np.flatnonzero(np.arange(len(batch)) % 7)
        return [Ruster(sample, self.plan.route, "profile", "all"), Ruster(rest, self.plan.route)]

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        for journey in visits.journeys:
            seen = journey.passed if journey.matches is None else np.maximum(journey.passed, journey.matches)
            if seen is not None:
                self.tried = 0.9 * self.tried + (seen >= 0).sum(axis=0)
                self.left = 0.9 * self.left + np.maximum(seen, 0).sum(axis=0)
        wish = sorted(range(len(self.pipeline)), key=self.rates.__getitem__)
        self.reorder(self.pipeline.closest(wish).operators, Reason.of("it lets the fewest rows through first"))

    @property
    def rates(self) -> list[float]:
        """For each operator the rows out for each row in; 1 where none was tried."""
        return [float(out / rows) if rows else 1.0 for rows, out in zip(self.tried, self.left, strict=True)]

    def explain(self) -> Explanation:
        views = tuple(OperatorView(n, r) for n, r in zip(self.pipeline.names, self.rates, strict=True))
        routes = (RouteView("", 1.0, self.plan.route),)
        return Explanation(self.name, Reason("ordered by the rows that pass, fewest first"), routes, views)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"tried": self.tried.tolist(), "left": self.left.tolist()}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.tried, self.left = np.array(record["tried"]), np.array(record["left"])
