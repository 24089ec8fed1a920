"""`agreedy`: A-Greedy, the greedy order by rank, kept true while the stream flows (thesis 4.3, for joins 5.2).

Invariant (GI): at each place i the operator there has the best rank (ranking.py) among those not yet placed, given the
ones before it, up to the thrash-avoidance factor α. A violation is corrected from that place on (figure 4.7). With
steady statistics an order of filters costs at most 4/α times the best (4.3.3).

Filters: profiled rows are tried on all of them, the profile window keeps the drop vectors, and the matrix view shows
violations. Stems: scouts go ahead (scouting.py) and are counted, at each step, against the stems that might come next;
they see what the thesis' logical filters see, with fan-outs, and nothing is joined twice.

Decisions where the thesis is silent or other choices are better:
- The corrector inserts the better operator and shifts the rest instead of swapping two: it gives the order printed in
  example 4.3.3, which swapping does not, and keeps guards before what they guard.
- Where guards (`after=`) or join graphs restrict orders, only eligible operators compete; the bound is then not proven.
- `follow`: the thesis fixes window and p per query and calls adapting them open. Here a detected change empties the
  window and raises p for one burst, and p falls to half as the window fills without change. A reorder then also needs
  `evidence`: the lead must exceed that many standard errors and be worth `worthwhile` of the whole cost, so that ties
  on a stationary stream do not flap. follow=False is the algorithm of the thesis, with its constants.
- A new order of stems must save at least what one more index may cost to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import DROPPED, UNTRIED, Journey, Visits
from thalweg.optimize.auto.ledger import Ledger
from thalweg.optimize.orders.profiling import Profiling
from thalweg.optimize.orders.ranking import Believed, Reach
from thalweg.optimize.orders.scouting import LONGEST, Scouting, beyond_doubt
from thalweg.plan import Reason, Route, Ruster
from thalweg.profile.rates.change import ChangeDetector
from thalweg.profile.rates.given import Seen, Visited
from thalweg.profile.rates.matrix import MatrixView
from thalweg.profile.rates.window import ProfileWindow

BURST = 100
"""Statistic: profile tuples wanted at once after a change, enough to tell filters apart that differ by a fifth in drop
rate."""
CLUMP = 16
"""Size: profile tuples that are worth a ruster of their own."""


@dataclass
class AGreedy(Profiling):
    """A-Greedy over one pipeline.

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((20_000, 3)) < [0.9, 0.5, 0.1]
    >>> run("agreedy", rows, costs=[1.0, 1.0, 1.0], seed=7).final_order
    (2, 1, 0)
    """

    window: int = 1000
    follow: bool = True
    evidence: float = 2.0
    worthwhile: float = 0.01
    scouts: int = 48
    regret: float = 0.01
    name = "agreedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.profile = ProfileWindow(len(self.pipeline), self.window)
        self.view = MatrixView(self.order)
        self.change = ChangeDetector(len(self.pipeline))
        """Of what ordinary work drops, on the order in force."""
        self.trials = ChangeDetector(len(self.pipeline))
        """Of what each filter drops of the profiled rows, whatever comes before it."""
        self.ledger = Ledger(self.regret)
        self.scouting = Scouting(self.ledger, self.prices, self.costs.unit, self.scouts)
        written = self.pipeline.written.operators
        self.choice = any(len(self.pipeline.eligible(written[:k])) > 1 for k in range(len(written)))
        """Whether there is anything to choose: more than one allowed order."""
        self._burst = self.follow
        self._after: dict[Visited, tuple[int, NDArray[np.int64]]] = {}
        """Of the window, by operators visited before: rows that pass them all, and drops of each filter among those."""

    # When to look

    def sampling(self) -> float:
        if not self.follow:
            return self.p
        if self._burst:
            return 10 * self.p
        # The fuller the window without a change, the less another sample can tell. But a filter that ordinary work
        # hardly reaches gets fresh trials only from samples: then they don't grow rarer.
        floor = 0.25 if self.change.least_met > self.p else 1.0
        return self.p * min(max(3 * BURST / max(len(self.profile), 1), floor), 2.0)

    def clump(self) -> int:
        # A full window has seen no change for long: there is no hurry, and larger rusters are cheaper by the row.
        return max(CLUMP, len(self.profile) // CLUMP) if self.follow else 0

    def ahead(self, rows: int, sent: int) -> int:
        """How many of the rows left go ahead as scouts."""
        return self.scouting.ahead(rows, sent) if self.costs.joins and self.choice else 0

    @property
    def rest(self) -> int:
        """For how many batches the rusters last given may be used again."""
        return self.scouting.pace.rest if self.choice else LONGEST

    def route(self, batch: Batch) -> list[Ruster]:
        if not self.costs.joins:
            return super().route(batch)
        pace = self.scouting.pace
        if pace.looking:
            # Seldom scouts take the written order by turns, or what is believed of it would grow old.
            aside = pace.every > 1 and pace.rounds % 2
            return [Ruster(None, self.pipeline.written if aside else self.plan.route, "profile", "all", turn=0.5)]
        return [Ruster(None, self.plan.route, limit=self.scouting.limit(self.estimate()) if self.choice else None)]

    # What was seen

    def observe(self, visits: Visits) -> None:
        if self.costs.joins:
            self.tuples += visits.rows
            if self.choice:
                self._hear(visits)
            return
        if self.follow:
            changed = self.change.observe(visits)
            if changed is None:
                changed = self._tried_otherwise(visits)
            if changed is not None:
                self.forget()
                why = "'{operator}' drops a different share of the rows than before; profiling afresh"
                self.note("change seen", Reason.of(why, operator=self.pipeline.names[changed]))
        super().observe(visits)

    def _tried_otherwise(self, visits: Visits) -> int | None:
        """The filter that drops another share of the profiled rows than before. Ordinary work may never show it: few rows
        reach the last filter."""
        changed = None
        for journey in visits.journeys:
            if journey.passed is not None:
                drops, tried = (journey.passed == DROPPED).sum(axis=0), (journey.passed != UNTRIED).sum(axis=0)
                found = self.trials.count([*drops.tolist(), *tried.tolist()])
                changed = found if changed is None else changed
        return changed

    def _hear(self, visits: Visits) -> None:
        """Learn from joined rows, and decide where scouts came back."""
        scouting, journeys = self.scouting, visits.journeys
        pace = scouting.pace
        scouting.told(len(journeys))
        seconds = sum(map(self.costs.spent, journeys))
        back = any(j.recalled for j in journeys)
        self.ledger.useful += seconds + scouting.send * len(journeys)
        if pace.looking or back or not scouting.as_usual(visits.rows, seconds):
            on_way, rivals = list[Seen](), list[Seen]()
            for journey in journeys:
                met, tried = self.costs.seen(journey)
                on_way += met
                rivals += tried
                self.ledger.spend(self.costs.extra(journey))
            if pace.looking:
                pace.rounds += 1
                self.costs.given.round += 1
                self.ledger.spend(scouting.trip)
            changed = self.learn_from(on_way, rivals)
            if pace.looking:
                before = self.plan
                gain = self.decide()
                paid = self.plan is not before and (gain is None or gain * pace.rows >= scouting.trip)
                scouting.looked(visits.rows, paid=paid, found=self.plan is not before, changed=changed)
            elif back:
                scouting.recalled()
                self.costs.given.doubt()
            else:
                self._credit(visits.rows, seconds)
                if scouting.travelled(visits.rows, seconds, changed=changed):
                    self.decide()
        scouting.settle_rest()

    def _credit(self, rows: int, seconds: float) -> None:
        """Enter what the order in force saved against the written one."""
        written = self.pipeline.written.operators
        if self.order != written:
            self.ledger.saved += max((self.ranking.price(written) or 0.0) * rows - seconds, 0.0)

    def learn_from(self, on_way: Sequence[Seen], rivals: Sequence[Seen]) -> bool:
        """Take in what joined rows met. Whether the data has changed: the way costs several times what was believed, or
        a rival only a fraction."""
        ratio, far = self.costs.given.ratio, beyond_doubt()
        changed = any(ratio(v, o, n, s) > max(far, self.scouting.pace.leash) for v, o, n, _, s in on_way)
        changed |= any(ratio(v, o, n, s) < 1 / far for v, o, n, _, s in rivals)
        if changed:
            self.costs.given.doubt()
        self.take_in(on_way, rivals)
        return changed

    def learn(self, profiled: list[Journey]) -> None:
        """Filters: log drop vectors, then restore the invariant wherever the matrix view shows a violation."""
        for journey in profiled:
            assert journey.passed is not None
            inserted, expired = self.profile.push(journey.passed)
            self.view.insert(inserted)
            self.view.delete(expired)
        self._after.clear()
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

    def forget(self) -> None:
        """What was profiled says nothing about now."""
        self.change.reset()
        self.trials.reset()
        self.profile.keep_newest(0)
        self.view.rebuild(self.order, self.profile.bits)
        self._after.clear()
        self._burst = True

    def believe(self, visited: Visited, operator: int) -> Believed | None:
        if self.costs.joins:
            return super().believe(visited, operator)
        if visited not in self._after:
            self._after[visited] = self.profile.after(visited)
        rows, drops = self._after[visited]
        return (1.0 - drops[operator] / rows, float(self.costs.per_row[operator])) if rows else None

    # What to do about it

    def decide(self) -> float | None:
        """Joins: bring the greedy order in force where it pays. Returns the seconds it saves per row, if known."""
        present, written = self.order, self.pipeline.written.operators
        order, moved = self.ranking.greedy(present, self.alpha)
        if moved is None:  # no place is clearly wrong, but two that rank alike may leave the next very different work
            order, moved = self.ranking.greedy(present, 1.0)
            now, then = self.ranking.price(present), self.ranking.price(order)
            if now is None or then is None or then >= self.alpha * now:
                order = present
        if self._alike(written, order):
            order, moved = written, None
        elif self._alike(present, order):
            return None
        if order == present:
            return None
        before, after = self.ranking.price(present), self.ranking.price(order)
        self.scouting.pace.promised = after
        self.reorder(order, self._overtaken(moved), before=before, after=after)
        return None if before is None or after is None else before - after

    def _alike(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two orders differ by less, as far as is known, than the indexes may cost that only the other needs: one,
        if none is known to be."""
        before, after = self.ranking.price(one), self.ranking.price(other)
        new = self.pipeline.indexes(other) - self.pipeline.indexes(one)
        upkeep = self.prices.entry * max(len(new), 1)
        return before is not None and after is not None and abs(before - after) < upkeep

    def _overtaken(self, moved: tuple[Reach, Reach] | None) -> Reason:
        if moved is None:
            return Reason("no other order saves more than one more index costs to keep")
        names, (better, behind) = self.pipeline.names, moved
        why = (
            "{better} comes before {behind}: it leaves {rows:.3g} rows of each row for {nanoseconds:.3g} ns, "
            "{behind} {other_rows:.3g} for {other_nanoseconds:.3g} ns"
        )
        return Reason.of(
            why, better=names[better.operators[-1]], behind=names[behind.operators[-1]], rows=better.fanout,
            other_rows=behind.fanout, nanoseconds=1e9 * better.seconds, other_nanoseconds=1e9 * behind.seconds,
        )  # fmt: skip

    def _violation(self, start: int) -> int | None:
        """The first place from `start` on where a later filter drops more of the remaining rows per cost (figure 4.6)."""
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
        """Restore GI from `place` on (figure 4.7)."""
        self.ranking.forget()
        costs = self.costs.per_row
        order, _ = self.ranking.greedy(self.order, self.alpha, place)
        before, after = self.profile.cost(self.order, costs), self.profile.cost(order, costs)
        if order == self.order or (self.follow and after > before * (1 - self.worthwhile)):
            return
        first = next(k for k, op in enumerate(order) if op != self.order[k])
        names, was = self.pipeline.names, self.order[first]
        self.view.rebuild(order, self.profile.bits)
        self.change.reset()
        why = "'{better}' drops more per cost than '{behind}' among the rows that get there"
        self.reorder(order, Reason.of(why, better=names[order[first]], behind=names[was]), before=before, after=after)

    # Seen from outside

    def price(self, route: Route) -> float | None:
        """Estimated seconds per row on a route."""
        if self.costs.joins:
            return self.ranking.price(route.operators)
        return self.profile.cost(route.operators, self.costs.per_row) if len(self.profile) else None

    def estimate(self) -> float | None:
        return self.price(self.plan.route)

    def why(self) -> Reason:
        if not self.choice:
            return Reason("only one order is allowed")
        if self.costs.joins:
            why = "each step is the one that leaves the fewest rows for its cost; {rounds} rounds of scouts took {share:.1%}"
            share = self.ledger.spent / max(self.ledger.work, 1e-12)
            return Reason.of(why + " of the work", rounds=self.scouting.pace.rounds, share=share)
        if not len(self.profile):
            return Reason("no row profiled yet: as written" if not self.plan.version else "profiling afresh")
        why = "each filter is the one that drops most per cost of the rows that get there, on {rows} profiled rows"
        return Reason.of(why, rows=len(self.profile))

    def to_change(self) -> Reason:
        nearest = self.ranking.nearest(self.order) if self.choice and self.estimate() is not None else None
        if nearest is None:
            return Reason("")
        lead, rival, present = nearest
        names = self.pipeline.names
        if np.isinf(lead):
            why = "{present} stays ahead of {rival} until more rows show that the change pays"
            return Reason.of(why, rival=names[rival], present=names[present])
        why = "{present} stays ahead of {rival}, which does {lead:.0%} as much per unit of cost; above {needed:.0%} it overtakes"
        return Reason.of(why, rival=names[rival], present=names[present], lead=lead, needed=1 / self.alpha)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "window": self.profile.snapshot(),
            "change": self.change.snapshot(),
            "trials": self.trials.snapshot(),
            "burst": self._burst,
            "ledger": self.ledger.snapshot(),
            "pace": self.scouting.snapshot(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.profile.restore(record["window"])
        self.change.restore(record["change"])
        self.trials.restore(record["trials"])
        self._burst = bool(record["burst"])
        self.ledger.restore(record["ledger"])
        self.scouting.restore(record["pace"])
        self._after.clear()
        self.view = MatrixView(self.order)
        self.view.insert(self.profile.bits)
