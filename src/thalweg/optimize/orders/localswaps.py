"""`localswaps`: compare neighbours only, swap them when the later one is better (thesis 4.6).

Invariant: d(i|i-1)/t_f(i) >= d(i+1|i-1)/t_f(i+1) for all neighbours. A tuple dropped at place k is tried on the filter
at k+1 and no other, so profiling is cheapest of all; the order may stay in a local optimum, up to n times the cost of
A-Greedy's.

After a swap two of the kept counts can't be derived from the bits at hand (the thesis is silent), so the window starts
afresh; a pair is judged after `least` tuples. Stems: profiled rows are counted against the next stem at every place,
and ranks with fan-outs take the place of drop rates per cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import DROPPED, Journey
from thalweg.optimize.orders.profiling import Profiling
from thalweg.optimize.orders.ranking import clearly_before
from thalweg.plan import Reason, Route
from thalweg.plan.ruster import Also


@dataclass
class LocalSwaps(Profiling):
    """Keeps two diagonals of the matrix view, over a sliding window of (dropped at, would the next drop it too).

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((200_000, 3)) < [0.9, 0.5, 0.1]
    >>> run("localswaps", rows, costs=[1.0, 1.0, 1.0], seed=7).final_order
    (2, 1, 0)
    """

    window: int = 1000
    least: int = 200
    name = "localswaps"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._clear()

    def _clear(self) -> None:
        self._place: NDArray[np.int64] = np.zeros(0, np.int64)
        self._next: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def also(self) -> Also:
        return "next"

    def learn(self, profiled: list[Journey]) -> None:
        for journey in profiled:
            assert journey.passed is not None
            if self.costs.joins:
                self._place = np.concatenate([self._place, np.zeros(journey.rows, np.int64)])[-self.window :]
                continue
            if journey.ruster.route != self.plan.route:
                continue
            drops = journey.passed[:, list(self.order)] == DROPPED
            drops = drops[drops.any(axis=1)]
            if len(drops):
                first = drops.argmax(axis=1)
                following = np.minimum(first + 1, drops.shape[1] - 1)
                too = drops[np.arange(len(drops)), following] & (following > first)
                self._place = np.concatenate([self._place, first])[-self.window :]
                self._next = np.concatenate([self._next, too])[-self.window :]
        if profiled and len(self._place) >= self.least:
            self._swap()

    def diagonals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """V[i, i] and V[i, i+1] over the window."""
        n = len(self.pipeline)
        own = np.bincount(self._place, minlength=n)
        beside = np.bincount(self._place[self._next], minlength=n)
        beside[:-1] += own[1:]
        return own, beside

    def _swap(self) -> None:
        order = list(self.order)
        a = self.costs.per_row[order]
        own, beside = (np.zeros(len(order)),) * 2 if self.costs.joins else self.diagonals()
        for i in range(len(order) - 1):
            if self.costs.joins:
                behind = clearly_before(self.rank(order[:i], order[i + 1]), self.rank(order[:i], order[i]), self.alpha)
            else:
                behind = own[i] / a[i] < self.alpha * beside[i] / a[i + 1]
            if behind:
                swapped = order.copy()
                swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
                if not self.pipeline.allows(Route(tuple(swapped))):
                    continue
                names = self.pipeline.names
                text = "'{better}' drops more, or adds less, per cost than '{behind}' before it"
                why = Reason.of(text, better=names[swapped[i]], behind=names[order[i]])
                self.reorder(swapped, why, before=self.estimate(), after=self.ranking.price(swapped))
                self._clear()
                return

    def why(self) -> Reason:
        return Reason.of("no neighbour is better, on {rows} profiled rows", rows=len(self._place))

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"place": self._place.tolist(), "next": self._next.tolist()}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self._place = np.array(record["place"], np.int64)
        self._next = np.array(record["next"], np.bool_)
