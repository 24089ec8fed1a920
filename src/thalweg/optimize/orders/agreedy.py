"""`agreedy`: A-Greedy, conditional drop rate per cost, kept true while the stream flows (thesis 4.3).

Invariant (GI): at each place i the filter there has the greatest d(·|i-1)/t among the filters not yet placed, up to the
thrash-avoidance factor α. A violation found in the matrix view is corrected from that place on (figure 4.7). With
steady statistics the order costs at most 4/α times the best (4.3.3).

Decisions where the thesis is silent or other choices are better:
- The corrector inserts the better filter and shifts the rest instead of swapping two: it gives the order printed in
  example 4.3.3, which swapping does not, and keeps guards before what they guard.
- Where guards (`after=`) pin filters, only eligible filters compete for a place; the bound of 4 is then not proven.
- `follow`: the thesis fixes window and p per query and calls adapting them open. Here a detected change empties the
  window and raises p for one burst, and p falls as the window fills without change. A reorder then also needs
  `evidence`: the lead must exceed that many standard errors and be worth `worthwhile` of the whole cost, so that ties
  on a stationary stream do not flap. follow=False is the algorithm of the thesis, with its constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import Journey, Visits
from thalweg.optimize.orders.profiling import Profiling
from thalweg.plan import Reason
from thalweg.profile.rates.change import ChangeDetector
from thalweg.profile.rates.matrix import MatrixView
from thalweg.profile.rates.window import ProfileWindow

BURST = 100
"""Profile tuples wanted at once after a change: enough to tell filters apart that differ by a fifth in drop rate."""
BURST_SAMPLING = 0.1
CLUMP = 16
"""Profile tuples that are worth a ruster of their own: calls for a few rows take nearly as long as calls for dozens."""


@dataclass
class AGreedy(Profiling):
    """A-Greedy over one pipeline of filters.

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((20_000, 3)) < [0.9, 0.5, 0.1]
    >>> run("agreedy", rows, costs=[1.0, 1.0, 1.0], seed=7).final_order
    (2, 1, 0)
    """

    window: int = 1000
    follow: bool = True
    evidence: float = 2.0
    worthwhile: float = 0.01
    name = "agreedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.profile = ProfileWindow(len(self.pipeline), self.window)
        self.view = MatrixView(self.order)
        self.change = ChangeDetector(len(self.pipeline))
        self._burst = self.follow
        self.corrections = 0

    def sampling(self) -> float:
        if not self.follow:
            return self.p
        if self._burst:
            return BURST_SAMPLING
        # The fuller the window without a change, the less another sample can tell.
        return self.p * min(max(3 * BURST / max(len(self.profile), 1), 0.25), 2.0)

    def clump(self) -> int:
        # A full window has seen no change for long: there is no hurry, and larger rusters are cheaper by the row.
        return max(CLUMP, len(self.profile) // CLUMP) if self.follow else 0

    def observe(self, visits: Visits) -> None:
        if self.follow:
            changed = self.change.observe(visits)
            if changed is not None:
                self._forget(changed)
        super().observe(visits)

    def forget(self) -> None:
        """What was profiled says nothing about now."""
        self.change.reset()
        self.profile.keep_newest(0)
        self.view.rebuild(self.order, self.profile.bits)
        self._burst = True

    def _forget(self, operator: int) -> None:
        self.forget()
        why = "'{operator}' drops a different share of the rows than before; profiling afresh"
        self.note("change seen", Reason.of(why, operator=self.pipeline.names[operator]))

    def learn(self, profiled: list[Journey]) -> None:
        for journey in profiled:
            assert journey.passed is not None
            inserted, expired = self.profile.push(journey.passed)
            self.view.insert(inserted)
            self.view.delete(expired)
        if not profiled or not len(self.profile):
            return
        if self.follow:
            if self._burst and len(self.profile) < BURST // 2:
                return
            self._burst = False
        # A batch may bring several violations; a correction leaves none between its place and the next one found.
        place = self._violation(0)
        while place is not None:
            self._correct(place)
            place = self._violation(place + 1)

    def _violation(self, start: int) -> int | None:
        """The first place from `start` on where a later filter drops more of the remaining tuples per cost (figure
        4.6)."""
        V, a = self.view.V, self.costs.per_row[self.view.order]
        rank = V / a
        for i in range(start, len(a) - 1):
            for j in self._candidates(i):
                if rank[i, i] < self.alpha * rank[i, j] and self._significant(V, a, i, j):
                    return i
        return None

    def _significant(self, V: NDArray[np.int64], a: NDArray[np.float64], i: int, j: int) -> bool:
        if not self.follow:
            return True
        # Counts and costs are estimates. However unsure a cost is, it is not below nothing: costs are weighed as ratios.
        own, rival = V[i, i] / a[i], V[i, j] / a[j]
        if rival - own <= self.evidence * np.sqrt(rival / a[j] + own / a[i]):
            return False
        unsure = self.costs.error[self.view.order]
        return bool(own == 0 or np.log(rival / own) > self.evidence * np.hypot(unsure[i], unsure[j]))

    def _candidates(self, i: int) -> list[int]:
        """Places after i whose filter may stand at i."""
        order = self.view.order
        if self.pipeline.free:
            return list(range(i + 1, len(order)))
        eligible = set(self.pipeline.eligible(order[:i]))
        return [j for j in range(i + 1, len(order)) if order[j] in eligible]

    def _correct(self, place: int) -> None:
        """Restore GI from `place` on, scanning the window once per place touched (figure 4.7)."""
        costs, bits, view = self.costs.per_row, self.profile.bits, self.view
        before = self.profile.cost(self.order, costs)
        was = self.order
        last, r = place, place
        while r <= last:
            view.V[r] = view.row(r, bits)
            a = costs[view.order]
            best = r
            for c in self._candidates(r):
                if view.V[r, c] / a[c] > view.V[r, best] / a[best]:
                    best = c
            if best != r:
                last = max(last, best)
                view.move(best, r)
            r += 1
        if not self.pipeline.free:
            # Of parts that nothing connects, one must be finished before the next: moving an operator may break that.
            view.order = list(self.pipeline.closest(view.order))
        after = self.profile.cost(view.order, costs)
        if self.follow and after > before * (1 - self.worthwhile):
            view.rebuild(was, bits)
            return
        view.rebuild(view.order, bits)
        self.corrections += 1
        self.change.reset()
        moved, ahead = self.pipeline.names[view.order[place]], self.pipeline.names[was[place]]
        self.reorder(
            view.order, f"'{moved}' drops more per cost than '{ahead}' among the tuples that get there",
            before=before, after=after,
        )  # fmt: skip

    def estimate(self) -> float | None:
        return self.profile.cost(self.order, self.costs.per_row) if len(self.profile) else None

    def why(self) -> str:
        if not len(self.profile):
            return "no tuple profiled yet: as written" if not self.plan.version else "profiling afresh"
        return (
            f"greedy by drop rate per cost, conditional on the filters before, on {len(self.profile)} profiled tuples"
        )

    def to_change(self) -> str:
        if len(self.profile) < 2 or len(self.pipeline) < 2:
            return ""
        V, a = self.view.V, self.costs.per_row[self.view.order]
        rank = V / a
        margins = [
            (rank[i, j] / rank[i, i] if rank[i, i] else np.inf if rank[i, j] else 0.0, i, j)
            for i in range(len(a) - 1)
            for j in self._candidates(i)
        ]
        if not margins:
            return ""
        ratio, i, j = max(margins)
        names = self.pipeline.names
        return (
            f"nearest rival: '{names[self.view.order[j]]}' at {ratio:.0%} of '{names[self.view.order[i]]}' at place {i + 1}; "
            f"it takes the place above {1 / self.alpha:.0%}"
        )

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "window": self.profile.snapshot(),
            "change": self.change.snapshot(),
            "burst": self._burst,
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.profile.restore(record["window"])
        self.change.restore(record["change"])
        self._burst = bool(record["burst"])
        self.view = MatrixView(self.order)
        self.view.insert(self.profile.bits)
