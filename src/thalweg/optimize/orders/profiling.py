"""Base of the policies that order operators by profiled rows: A-Greedy and its kin (thesis chapter 4, 5.2).

Part of the rows, chosen by coin flips of probability p, travels as a ruster with the purpose `profile`. The thesis
flips the coin when a tuple is dropped; here it is flipped before, because a batch is filtered as a whole. The rows
logged are the same: those that were chosen and dropped. Where rows join, what the profiled ones met, and were counted
against besides, is kept by what they had visited before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import PASSED, UNTRIED, Journey, Visits
from thalweg.optimize.orders.ranking import Believed, Ranking
from thalweg.optimize.orders.single import SingleRoute, sampled
from thalweg.plan import Reason, Ruster
from thalweg.plan.ruster import Also
from thalweg.profile.prices import RECORDED, Prices
from thalweg.profile.rates.given import Seen, Visited
from thalweg.profile.rates.rates import MEMORY, Rates


@dataclass
class Profiling(SingleRoute):
    """Samples rows, keeps rates, and leaves what to do with the pass bits to `learn`."""

    p: float = 0.01
    alpha: float = 0.9
    """Thrash avoidance: an operator takes another's place if it ranks better by more than 1 / alpha (4.3.4)."""
    prices: Prices = RECORDED

    def __post_init__(self) -> None:
        super().__post_init__()
        self.costs = Rates(self.pipeline, self.prices)
        self.ranking = Ranking(self.pipeline, self.believe, self.costs.unit)
        self._tried = np.zeros(len(self.pipeline))
        self._passed = np.zeros(len(self.pipeline))
        self._owed = 0.0

    def sampling(self) -> float:
        """The probability with which a row of the next batch is profiled."""
        return self.p

    def clump(self) -> int:
        """How many rows to profile are worth a ruster of their own; fewer wait for the next batch. 0: a plain coin
        flip each."""
        return 0

    def also(self) -> Also:
        """Which operators profiled rows are tried on even after a drop."""
        return "all"

    def learn(self, profiled: list[Journey]) -> None:
        """Take in the pass bits of one batch's profiled rows."""
        raise NotImplementedError

    def believe(self, visited: Visited, operator: int) -> Believed | None:
        """Rows out and seconds per row in, after these operators; None while unknown."""
        found = self.costs.given.believe(visited, operator)
        return None if found is None else (found.fanout, found.seconds)

    def rank(self, before: Sequence[int], operator: int) -> float:
        """The rank of an operator after others where rows join; the lower the earlier."""
        return self.ranking.reach(before, (operator,)).rank

    def route(self, batch: Batch) -> list[Ruster]:
        if len(self.pipeline) < 2 or not len(batch):
            return [Ruster(None, self.plan.route)]
        self._owed += self.sampling() * len(batch)
        if self._owed < self.clump():
            return [Ruster(None, self.plan.route)]
        chosen = sampled(self._random, len(batch), self._owed / len(batch))
        self._owed = 0.0
        if not chosen.any():
            return [Ruster(None, self.plan.route)]
        return [
            Ruster(np.flatnonzero(~chosen), self.plan.route),
            Ruster(np.flatnonzero(chosen), self.plan.route, "profile", self.also()),
        ]

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        self.costs.observe(visits)
        profiled = [j for j in visits.journeys if j.passed is not None]
        for journey in profiled:
            bits = journey.passed
            assert bits is not None
            forget = 0.5 ** (len(bits) / MEMORY)
            self._tried = self._tried * forget + (bits != UNTRIED).sum(axis=0)
            self._passed = self._passed * forget + (bits == PASSED).sum(axis=0)
        if self.costs.joins and profiled:
            self.costs.given.round += 1
            for journey in visits.journeys:
                self.take_in(*self.costs.seen(journey))
        self.learn(profiled)

    def take_in(self, on_way: Sequence[Seen], rivals: Sequence[Seen]) -> None:
        """Renew what is believed of operators after others."""
        for seen in (*on_way, *rivals):
            self.costs.given.observe(*seen)
        self.ranking.forget()

    def explain(self) -> Explanation:
        costs = self.costs.per_row if self.tuples else None
        views = tuple(
            OperatorView(
                name,
                self._passed[i] / self._tried[i] if self._tried[i] else None,
                None if costs is None else float(costs[i]),
            )
            for i, name in enumerate(self.pipeline.names)
        )
        route = RouteView("", 1.0, self.plan.route, self.estimate())
        return Explanation(self.name, Reason.of(self.why()), (route,), views, Reason.of(self.to_change()))

    def estimate(self) -> float | None:
        """Estimated seconds per row on the present order."""
        return self.ranking.price(self.order) if self.costs.joins else None

    def to_change(self) -> str | Reason:
        return ""

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "costs": self.costs.snapshot(),
            "tried": self._tried.tolist(),
            "passed": self._passed.tolist(),
            "owed": self._owed,
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.costs.restore(record["costs"])
        self.ranking.forget()
        self._tried = np.array(record["tried"], float)
        self._passed = np.array(record["passed"], float)
        self._owed = record["owed"]
