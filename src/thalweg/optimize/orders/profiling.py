"""Base of the policies that order filters by sampled drop vectors: A-Greedy and its kin (thesis chapter 4).

Part of the tuples, chosen by coin flips of probability p, travels as a ruster with the purpose `profile`. The thesis
flips the coin when a tuple is dropped; here it is flipped before, because a batch is filtered as a whole. The tuples
logged are the same: those that were chosen and dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import PASSED, UNTRIED, Journey, Visits
from thalweg.optimize.orders.single import SingleRoute, sampled
from thalweg.plan import Reason, Ruster
from thalweg.plan.ruster import Also
from thalweg.profile.rates.costs import Costs


@dataclass
class Profiling(SingleRoute):
    """Samples tuples, keeps costs and unconditional pass rates, and leaves what to do with the bits to `learn`."""

    p: float = 0.01
    alpha: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        self.costs = Costs(len(self.pipeline))
        self._tried = np.zeros(len(self.pipeline))
        self._passed = np.zeros(len(self.pipeline))
        self._owed = 0.0

    def sampling(self) -> float:
        """The probability with which a tuple of the next batch is profiled."""
        return self.p

    def clump(self) -> int:
        """How many tuples to profile are worth a ruster of their own; fewer wait for the next batch. 0: a plain coin
        flip each."""
        return 0

    def also(self) -> Also:
        """Which operators profiled tuples are tried on even after a drop."""
        return "all"

    def learn(self, profiled: list[Journey]) -> None:
        """Take in the pass bits of one batch's profiled tuples."""
        raise NotImplementedError

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
            forget = 0.5 ** (len(bits) / 2000)
            self._tried = self._tried * forget + (bits != UNTRIED).sum(axis=0)
            self._passed = self._passed * forget + (bits == PASSED).sum(axis=0)
        self.learn(profiled)

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
        """Estimated seconds per tuple on the present order."""
        return None

    def to_change(self) -> str:
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
        self._tried = np.array(record["tried"], float)
        self._passed = np.array(record["passed"], float)
        self._owed = record["owed"]
