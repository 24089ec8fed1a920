"""`lottery`: the eddy's ticket scheme, drawn once for a ruster instead of once for a tuple.

An operator is credited a ticket for each tuple it takes and debited one for each it returns, so tickets count the
tuples it has dropped lately; the next operator of a route is drawn with chances in proportion. The original eddy learns
costs through back-pressure: a slow operator's queue is full and can't win. A vectorised fabric has no queues, so
tickets are divided by the measured cost. Tickets fade with a half-life, which stands for the eddy's window scheme, and
each operator keeps a small stake so that none is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import Visits
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Reason, Route, Ruster
from thalweg.profile.rates.rates import Rates


@dataclass
class Lottery(SingleRoute):
    """Draws a route for every `ruster` rows.

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((50_000, 3)) < [0.9, 0.5, 0.1]
    >>> r = run("lottery", rows, costs=[1.0, 1.0, 1.0], seed=7)
    >>> round(float(r.useful[10:].sum()) / 40_000, 1)  # the best order needs 1.1 evaluations a tuple, the written one 2.4
    1.2
    """

    ruster: int = 100
    half_life: int = 5000
    stake: float = 0.02
    """Least chance of an operator, as a share of the mean: the price of exploring."""
    name = "lottery"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.costs = Rates(self.pipeline)
        self.tickets = np.zeros(len(self.pipeline))

    @property
    def chances(self) -> list[float]:
        """Chance of each operator to be drawn next, before those not eligible are taken out."""
        worth = self.tickets / self.costs.per_row
        mean = worth.mean() if len(worth) else 0.0
        worth = np.ones_like(worth) if mean <= 0 else np.maximum(worth, self.stake * mean)
        return list(worth / worth.sum())

    def route(self, batch: Batch) -> list[Ruster]:
        if len(self.pipeline) < 2 or not len(batch):
            return [Ruster(None, self.plan.route)]
        chances = np.array(self.chances)
        starts = range(0, len(batch), self.ruster)
        return [Ruster(np.arange(s, min(s + self.ruster, len(batch))), self._draw(chances)) for s in starts]

    def _draw(self, chances: np.ndarray[Any, np.dtype[np.float64]]) -> Route:
        if self.pipeline.free:
            # The smallest of exponential draws with these rates is a draw in proportion; sorted, a whole route.
            return Route(tuple(np.argsort(self._random.exponential(size=len(chances)) / chances).tolist()))
        route: list[int] = []
        while len(route) < len(chances):
            ready = self.pipeline.eligible(route)
            share = chances[ready] / chances[ready].sum()
            route.append(int(self._random.choice(ready, p=share)))
        return Route(tuple(route))

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        self.costs.observe(visits)
        fade = 0.5 ** (visits.rows / self.half_life)
        self.tickets *= fade
        for journey in visits.journeys:
            for v in journey.visits:
                survived = v.rows_out if v.survivors is None else v.survivors
                self.tickets[v.operator] += max(v.rows_in - survived, 0)
        self._tell()

    def _tell(self) -> None:
        """Keep the likeliest route as the plan; a lead of less than a tenth is the luck of the draw."""
        chances = np.array(self.chances)
        placed = chances[list(self.order)]
        if (placed[:-1] < 0.9 * np.maximum.accumulate(placed[::-1])[::-1][1:]).any():
            likely = self.pipeline.closest(np.argsort(-chances, kind="stable").tolist())
            self.reorder(likely.operators, "most tickets per cost first: now the likeliest route")

    def explain(self) -> Explanation:
        costs = self.costs.per_row
        views = tuple(OperatorView(n, None, float(c)) for n, c in zip(self.pipeline.names, costs, strict=True))
        chances = ", ".join(f"{n} {c:.0%}" for n, c in zip(self.pipeline.names, self.chances, strict=True))
        return Explanation(
            self.name, Reason(f"a route is drawn for each {self.ruster} rows; chances to go first: {chances}"),
            (RouteView("", 1.0, self.plan.route),), views,
        )  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"tickets": self.tickets.tolist(), "costs": self.costs.snapshot()}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.tickets = np.array(record["tickets"], float)
        self.costs.restore(record["costs"])
