"""`sweep`: A-Greedy's order at a fraction of its profiling, one place at a time (thesis 4.4).

Invariant, while place j is under the lens: d(i|i-1)/t_f(i) >= d(j|i-1)/t_f(j) for all i < j. A profiled tuple costs at
most one extra evaluation, that of the filter at j. A stage ends with a violation (that filter moves to its greedy
place) or after `window` profiled tuples without one; then the next place is examined. Same 4/α bound as A-Greedy once
settled, slower to get there.

The thesis does not say when a young stage may be judged: here after a fifth of its tuples. Guards restrict where a
filter may go. Stems: profiled rows are counted against the stem at j at every place before it, and ranks with fan-outs
take the place of drop rates per cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.contract.visits import DROPPED, Journey
from thalweg.optimize.orders.profiling import Profiling
from thalweg.optimize.orders.ranking import clearly_before
from thalweg.plan import Reason
from thalweg.plan.ruster import Also


@dataclass
class Sweep(Profiling):
    """Keeps the diagonal up to place j and column j of the matrix view.

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((200_000, 3)) < [0.9, 0.5, 0.1]
    >>> run("sweep", rows, costs=[1.0, 1.0, 1.0], seed=7).final_order
    (2, 1, 0)
    """

    window: int = 500
    name = "sweep"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.place = min(1, len(self.pipeline) - 1)
        self._start_stage()

    def _start_stage(self) -> None:
        self._diagonal = np.zeros(len(self.pipeline), np.int64)
        self._column = np.zeros(len(self.pipeline), np.int64)
        self._logged = 0

    def also(self) -> Also:
        return frozenset({self.order[self.place]})

    def learn(self, profiled: list[Journey]) -> None:
        for journey in profiled:
            assert journey.passed is not None
            if self.costs.joins:
                self._logged += journey.rows
                continue
            if journey.ruster.route != self.plan.route:
                continue
            drops = journey.passed[:, list(self.order)] == DROPPED
            drops = drops[drops.any(axis=1)]
            if not len(drops):
                continue
            first = drops.argmax(axis=1)
            examined = drops[:, self.place]
            # A tuple dropped at k reached the places up to k; those beyond j do not matter here.
            self._diagonal += np.bincount(first[first <= self.place], minlength=len(self._diagonal))
            reach = np.minimum(first[examined], self.place)
            self._column += (reach[:, None] >= np.arange(len(self._column))[None, :]).sum(axis=0)
            self._logged += len(drops)
        if self._logged >= self.window // 5 and self._correct():
            return
        if self._logged >= self.window:
            self._next_place()

    def _correct(self) -> bool:
        j, order = self.place, list(self.order)
        a = self.costs.per_row[order]
        for i in range(j):
            if self.costs.joins:
                behind = clearly_before(self.rank(order[:i], order[j]), self.rank(order[:i], order[i]), self.alpha)
            else:
                behind = self._diagonal[i] / a[i] < self.alpha * self._column[i] / a[j]
            if behind:
                if order[j] not in self.pipeline.eligible(order[:i]):
                    continue
                moved, ahead = order[j], order[i]
                order.insert(i, order.pop(j))
                names, route = self.pipeline.names, self.pipeline.closest(order)
                text = "'{moved}' drops more, or adds less, per cost than '{ahead}' at place {place}"
                why = Reason.of(text, moved=names[moved], ahead=names[ahead], place=i + 1)
                self.reorder(route.operators, why, before=self.estimate(), after=self.ranking.price(route.operators))
                self._next_place()
                return True
        return False

    def _next_place(self) -> None:
        n = len(self.pipeline)
        self.place = self.place + 1 if self.place + 1 < n else min(1, n - 1)
        self._start_stage()

    def why(self) -> Reason:
        why = "place {place} is under examination: {seen} of the {stage} rows of its stage were seen"
        return Reason.of(why, place=self.place + 1, seen=self._logged, stage=self.window)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "place": self.place,
            "diagonal": self._diagonal.tolist(),
            "column": self._column.tolist(),
            "logged": self._logged,
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.place = record["place"]
        self._diagonal = np.array(record["diagonal"], np.int64)
        self._column = np.array(record["column"], np.int64)
        self._logged = record["logged"]
