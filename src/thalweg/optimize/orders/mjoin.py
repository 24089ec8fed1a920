"""A-Greedy for MJoins (thesis 5.2): the order in which an input's tuples visit filters and stems.

The thesis orders stems by the chance that a stem drops the tuple, given that those before it did not, per unit of cost.
That is blind where every probe matches and fan-outs differ. Here an operator is ranked by (f - 1) / D, with f the rows
out per row in, given what was visited before, and D the work per row that is not spent on accepted matches, plus one:
for two neighbours the smaller rank first is the order with less expected work (exchange them and compare), and without
matches it is the thesis' ratio. The root of a star may visit in any order. Elsewhere an operator that must wait for
others is ranked together with the path that leads to it (the logical filters of 5.2.3); no product is formed unless the
query has one. A change needs a gain of 1 - α.

Now and then a few tuples of a batch go ahead as scouts; at every step of their route they are counted against the
operators that might have come instead, so the rest of the batch already travels the order that it asks for. Where
another lets far less through than the first they turn back there. While scouts bring nothing new they grow rare. A
ruster that takes several times the work that was expected is called back, and scouts go first; the more seldom, the
more often that was for nothing. An order that takes more than it promised is weighed again, without scouts. What they
cost, the fixed cost of sending them included, is limited to `regret` of the work, a share of what the order saves against
the written one, and a share of what a batch takes beyond the usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.visits import PASSED, UNTRIED, Journey, Visits
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Reason, Route, Ruster
from thalweg.profile.rates.fanout import Belief, Fanouts
from thalweg.profile.rates.probing import UNIT, units, work_of

SHARE, SURGE = 0.4, 0.1
"""Share of what the order saves against the written one that may be spent on scouts, and of what a batch takes beyond the
work that is usual: that must not go unseen because earlier scouts had used up what they may."""
TRIP, SEND = 24_000.0, 8_000.0
"""Units of work that it takes to send scouts, and to send any tuples, whatever they meet: routing, looking at what came
of it, deciding, and the caches that indexes of other patterns take. About what profiles of `benchmarks/joins` showed."""
ALARM = 2.0
"""How many times what scouts may cost they may while the data changes."""
PAID = 3 * TRIP
"""What a new order must save in one batch for the scouts to have been worth it."""
GRACE = 2.0
"""Rounds of scouts that may be sent before anything was earned."""
REMEMBERED = 64
"""Orders whose prefixes are kept."""
LEAST = 64
"""Tuples of a batch below which none go ahead."""
FIRST, UNSEEN = 3, 16.0
"""Batches before the first scouts: when a stream begins, stems are all but empty and tell little. Sooner if a tuple takes
so many units of work, or a batch has as many tuples as a trip costs."""
WIDER, PATIENCE = 4, 31
"""While scouts bring nothing new, so many times as many batches go by before the next ones, and so many at most."""
RARE, LEARNED = 3, 24
"""Batches between scouts from which on only one batch in so many is learned from..."""
REST, LONG_REST = 3, 12
"""...and so many are told together, if none is called back, twice as many each time up to the second; the engine asks for
none of them."""
CHANGE = 4.0
"""How far off an observation must be to be called a change rather than noise."""
RECALL = 1.5
"""How many times the expected work calls a ruster back..."""
LONGEST = 6.0
"""...twice as many each time that no order was found to repay it, so many at most."""
TURN = 0.5
"""Scouts turn back at their first stem if another lets less than this share of its matches through: it will be first."""

PACING = (
    "_profile", "_alarmed", "_called", "_again", "_every", "_waited", "_unlearned", "rest", "_limited", "_asked", "_bound",
    "_leash", "last", "_level", "_worth", "pace", "_promised", "_growing", "_spell",
)  # fmt: skip
"""The rest of its state."""

Seen = tuple[frozenset[int], int, int, float, float]
"""An observation: visited before, operator, rows in, rows out, work."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """Operators to append next, and what they do together to a row."""

    operators: tuple[int, ...]
    fanout: float
    work: float
    divisor: float

    @property
    def rank(self) -> float:
        return (self.fanout - 1.0) / max(self.divisor, 1e-9)

    def before(self, other: _Reach) -> float:
        """Expected work per row if this comes first and the other after it, up to a term that the order does not
        change."""
        return self.work + self.fanout * (other.divisor - 1.0)


@dataclass
class MJoinGreedy(SingleRoute):
    """Keeps the greedy order by measured fan-outs and work.

    >>> from thalweg.plan import Operator, Pipeline
    >>> policy = MJoinGreedy(Pipeline("a", (Operator("b", "stem"), Operator("c", "stem"))))
    >>> policy.learn([(frozenset(), 0, 16, 800, 880.0)], [(frozenset(), 1, 16, 32, 112.0)])
    False
    >>> policy.plan.route.named(policy.pipeline.names)
    'c → b'
    """

    alpha: float = 0.9
    entry: float = 1.0
    """Units of work that it takes to enter a tuple in one more index."""
    scouts: int = 48
    regret: float = 0.01
    name = "agreedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fanouts = Fanouts()
        self.spent = 0.0
        self.useful = 0.0
        self.saved = 0.0
        self._stem = [op.kind == "stem" for op in self.pipeline.operators]
        self._known: dict[tuple[int, ...], dict[int, frozenset[int]]] = {}
        self._reached: dict[tuple[int, ...], list[_Reach]] = {}
        """Found since something was last learned: what may come next after some operators."""
        self._choice = self._has_choice()
        self._profile = False
        self._alarmed = False
        self._called = False
        """Whether the scouts under way were sent because a ruster was called back."""
        self._again = False
        """Whether further scouts are to go in the same batch: tuples were called back, or scouts saw a change and no order
        that answers it, for the first time."""
        self._every = FIRST
        self._waited = 0
        self._unlearned = 0
        """Batches since one was learned from."""
        self.rest = 0 if self._choice else REST
        """For how many batches the rusters last given may be used again, unasked."""
        self._limited = False
        """Whether the ruster last given has a limit."""
        self._asked = False
        """Whether the batch to be told of was one for which scouts might have gone."""
        self._bound: float | None = None
        """The limit of the order in force, until something is learned."""
        self._leash = RECALL
        """How many times the expected work calls a ruster back now."""
        self.last = 1
        """Tuples of the last batch."""
        self._level: float | None = None
        """Work per tuple just after scouts last looked: what creeps up from there is no surprise at any one batch."""
        self._worth: float | None = None
        """Work per tuple that the decision just made is to save, as far as that is known."""
        self.pace = 0.0
        """Work per tuple of the batch last learned from."""
        self._promised: float | None = None
        """Work per tuple that an order was adopted for, until it has been tried."""
        self._growing = True
        """Whether, from the first batch on, each took far more than the one before: windows are filling."""
        self._spell = REST
        """For how many batches the policy rests next."""

    def _has_choice(self) -> bool:
        route: list[int] = []
        for op in self.pipeline.written:
            if len(self.pipeline.eligible(route)) > 1:
                return True
            route.append(op)
        return False

    def ahead(self, rows: int, sent: int) -> int:
        """How many of `rows` tuples that are left go ahead as scouts, when so many of their batch already went."""
        self._profile = False
        self._asked = True
        if not self._choice:
            return 0
        if not sent and not self._again:
            self._waited += not self._alarmed
            self.last = rows
        due = self._again or (not sent and (self._alarmed or self._waited > self._every or self._large(rows)))
        wanted = min(self.scouts, rows // 4) if due and rows >= LEAST else 0
        if not self.affords(ALARM if self._alarmed else 1.0):
            wanted = 0
        self._profile = wanted > 0
        self._called = self._alarmed and not sent
        return wanted

    def _large(self, rows: int) -> bool:
        """Whether so many tuples, the first of their stream, are worth scouts at once."""
        return not self.fanouts.round and rows >= TRIP

    def affords(self, times: float = 1.0) -> bool:
        """Whether scouts have cost less than they may, so many times over."""
        return self.spent <= times * (self.regret * (self.useful + self.spent) + self.saved + self.grace)

    @property
    def choice(self) -> bool:
        return self._choice

    @property
    def alarmed(self) -> bool:
        """Whether the data was seen to have changed."""
        return self._alarmed

    @property
    def scouting(self) -> bool:
        """Whether the tuples to be routed next are scouts."""
        return self._profile

    def scout(self) -> None:
        """Let the tuples to be routed next be scouts, though none are due."""
        self._profile = True

    @property
    def grace(self) -> float:
        """What may be spent before anything was earned: a few rounds of scouts."""
        return GRACE * TRIP

    def route(self, batch: Batch) -> list[Ruster]:
        if self._profile:
            return [Ruster(None, self._scouted(), "profile", "all", turn=TURN)]
        limit = self._limit()
        self._limited = limit is not None
        return [Ruster(None, self.plan.route, limit=limit)]

    def _scouted(self) -> Route:
        """The order that scouts take: the present one. While they bring nothing new every other round takes the written one,
        or what is believed of it, and so of what the present one saves, would grow old."""
        return self.pipeline.written if self._every >= RARE and self.fanouts.round % 2 else self.plan.route

    def _limit(self) -> float | None:
        """Work per row at which a ruster is called back: several times what the present order should take, many times while
        stems fill, and so much more that a batch of it could repay the scouts. Not twice for the same tuples."""
        if not self._choice or self._alarmed or not self.affords(ALARM):
            return None
        if not self.fanouts.round:
            return UNSEEN
        if self._bound is None:
            rows, work = 1.0, 0.0
            for op, before in self._before(self.order).items():
                belief = self.fanouts.believe(before, op)
                if belief is None:
                    return None
                if self._stem[op]:
                    work += rows * belief.work
                    rows *= belief.fanout
            leash = LONGEST if self._growing else self._leash
            self._bound = max(leash * (work + 1.0), work + TRIP / self.last)
        return self._bound

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if not self._choice:
            return
        self._unlearned += len(visits.journeys)
        self._waited += max(len(visits.journeys) - self._asked, 0)
        self._asked = False
        self._spell = min(2 * self._spell, LONG_REST)
        if self._profile or not self._as_before(visits):
            self._take_in(visits)
        self.rest = self._may_rest()

    def _may_rest(self) -> int:
        """Nobody looks at batches that are not asked for: only where a limit calls back those that are not as expected."""
        if not self._settled or self._level is None or not self._limited:
            return 0
        return max(min(self._spell, self._every - self._waited), 0) if self.affords() else self._spell

    @property
    def _settled(self) -> bool:
        """Whether scouts are rare, or can't be afforded, and the data has not changed."""
        return not (self._alarmed or self._again) and (self._every >= RARE or not self.affords())

    def _take_in(self, visits: Visits) -> None:
        """Learn, and decide where scouts came back."""
        self._bound = None
        self._unlearned = 0
        on_way: list[Seen] = []
        rivals: list[Seen] = []
        for journey in visits.journeys:
            on_way += self._travelled(journey)
            rivals += [(t.visited, t.operator, t.rows, float(t.matches), t.work) for t in journey.trials]
            self.spent += sum(t.work for t in journey.trials) + journey.entries
            if journey.passed is not None:
                rivals += self._judged(journey)
        self.useful += SEND * len(visits.journeys)
        if self._profile:
            self.fanouts.round += 1
            self.spent += TRIP
        before, self._worth = self.plan, None
        changed = self.learn(on_way, rivals, decide=self._profile)
        if self._profile:
            self._waited = 0
            paid = self.plan is not before and (self._worth is None or self._worth * self.last >= PAID)
            if self._called:
                self._leash = RECALL if paid else min(2 * self._leash, LONGEST)
                self._every = int(paid)  # a change that was not answered is looked at again in the next batch
            else:
                self._every = 1 if paid or changed else min(WIDER * self._every + 1, PATIENCE)
            self._level, self._spell = None, REST
            self._alarmed |= changed
            self._again = changed and self.plan is before and not self._again
        elif any(j.recalled for j in visits.journeys):
            self._alarmed = self._again = True
            self._spell = REST
            self.spent += SEND
            self.fanouts.doubt()
        else:
            self._alarmed, self._again = changed, False
            self._account(visits.rows, sum([work for *_, work in on_way]))
        self._profile = False

    def _as_before(self, visits: Visits) -> bool:
        """Whether there is nothing to learn: while scouts are rare, or can't be afforded, most batches are only held against the
        work per tuple that the last ones left."""
        if not self._settled or self._level is None or self._unlearned >= LEARNED:
            return False
        if any(j.recalled for j in visits.journeys):
            return False
        work, usual = sum(map(work_of, visits.journeys)), self._level * visits.rows
        if not usual < RECALL * work < RECALL * RECALL * usual:
            return False
        self.useful += work + SEND * len(visits.journeys)
        return True

    def _account(self, rows: int, work: float) -> None:
        """Credit what the order in force saved against the written one; see whether its work has crept up, or is more than a
        new order promised."""
        written = self.pipeline.written.operators
        if self.order != written:
            expected = self._units(written)
            self.saved += SHARE * max((expected or 0.0) * rows - work, 0.0)
        pace = work / max(rows, 1)
        self._growing, self.pace = self._growing and pace > RECALL * self.pace, pace
        if self._level is None or self._growing:
            self._level = pace
        elif pace > RECALL * self._level:
            self._every, self._spell = 0, REST
            self.saved += SURGE * (pace - self._level) * rows
        promised, self._promised = self._promised, None
        if promised is not None and pace > RECALL * promised:
            self._decide()

    def _travelled(self, journey: Journey) -> Iterable[Seen]:
        """What the operators on the way did to the rows that came to them."""
        before = self._before(journey.ruster.route.operators)
        for v in journey.visits:
            work = units(v)
            self.useful += work
            self.spent += 0.0 if self._stem[v.operator] else v.extra_seconds / UNIT
            if v.rows_in:
                yield before[v.operator], v.operator, v.rows_in, float(v.rows_out), work

    def _before(self, order: Sequence[int]) -> dict[int, frozenset[int]]:
        """What comes before each operator of an order."""
        key = tuple(order)
        if key not in self._known:
            if len(self._known) == REMEMBERED:
                self._known.clear()
            self._known[key] = {op: frozenset(key[:k]) for k, op in enumerate(key)}
        return self._known[key]

    def _judged(self, journey: Journey) -> Iterable[Seen]:
        """What filters that were tried anyway would have done to the rows that the filters before them let through."""
        assert journey.passed is not None
        cost = {
            v.operator: (v.seconds + v.extra_seconds) / (v.rows_in + v.extra)
            for v in journey.visits
            if v.rows_in + v.extra
        }
        visited: frozenset[int] = frozenset()
        reached = np.ones(len(journey.passed), np.bool_)
        for v in journey.visits:
            if self._stem[v.operator]:
                return
            for rival in self.pipeline.eligible(visited):
                bits = journey.passed[reached, rival]
                tried = int((bits != UNTRIED).sum())
                if rival != v.operator and not self._stem[rival] and tried and rival in cost:
                    yield visited, rival, tried, float((bits == PASSED).sum()), tried * cost[rival] / UNIT
            reached = reached & (journey.passed[:, v.operator] == PASSED)
            visited |= {v.operator}

    def learn(self, on_way: Sequence[Seen], rivals: Sequence[Seen] = (), *, decide: bool = True) -> bool:
        """Take in what operators on the way and their rivals did, and reorder if that pays. Returns whether it is a
        change.

        The data has changed where the way costs several times what was believed, or a rival only a fraction.
        """
        ratio = self.fanouts.ratio
        changed = any(ratio(v, o, n, w) > max(CHANGE, self._leash) for v, o, n, _, w in on_way)
        changed |= any(ratio(v, o, n, w) < 1 / CHANGE for v, o, n, _, w in rivals)
        if changed:
            self.fanouts.doubt()
        for seen in (*on_way, *rivals):
            self.fanouts.observe(*seen)
        self._reached.clear()
        if decide:
            self._decide()
        return changed

    def _decide(self) -> None:
        order: list[int] = []
        reason = ""
        while len(order) < len(self.pipeline):
            best, why = self._next(order)
            reason = reason or why
            order.extend(best)
        if tuple(order) == self.order:
            order, reason = self._better_as_a_whole()
        written = self.pipeline.written.operators
        if self._alike(written, order):
            order, reason = list(written), "no other order saves what one more index may cost"
        elif self._alike(self.order, order):
            return
        if tuple(order) != self.order:
            self._adopt(order, reason)

    def _alike(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two orders differ by less, as far as is known, than the indexes may cost that only the other needs."""
        before, after = self._units(one), self._units(other)
        return before is not None and after is not None and abs(before - after) < self._upkeep(one, other)

    def _upkeep(self, one: Sequence[int], other: Sequence[int]) -> float:
        """Units of work per tuple that indexes may cost which only the second order needs: one, if none is known to be."""
        new = self.pipeline.indexes(other) - self.pipeline.indexes(one)
        return self.entry * max(len(new), 1)

    def _better_as_a_whole(self) -> tuple[list[int], str]:
        """Where no place is clearly wrong: the order of the lowest ranks, if all of it takes clearly less than the present
        one. Two that rank alike at the first place may leave the next very different work."""
        rival: list[int] = []
        while len(rival) < len(self.pipeline):
            rival.extend(min(self._reaches(rival), key=lambda r: r.rank).operators)
        now, then = self._units(self.order), self._units(rival)
        if now is None or then is None or then >= self.alpha * now:
            return list(self.order), ""
        return rival, f"all of this order is to take {then:.3g} units of work a tuple, the present one {now:.3g}"

    def _adopt(self, order: Sequence[int], why: str) -> None:
        before, after = self._units(self.order), self._units(order)
        self._promised = after
        if before is not None and after is not None and before > after:
            self._worth = before - after
        self.reorder(
            order, why, before=None if before is None else before * UNIT, after=None if after is None else after * UNIT
        )

    def _next(self, order: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """The operators that come next, and why if not those in force."""
        reaches = self._reaches(order)
        best = min(reaches, key=lambda r: r.rank)
        if self.order[: len(order)] != tuple(order):
            return best.operators, ""
        present = next((r for r in reaches if r.operators[0] == self.order[len(order)]), None)
        if present is None:
            present = self._reach(order, (self.order[len(order)],))
        if best.operators[0] == present.operators[0]:
            return best.operators[:1], ""
        now, then = present.before(best), best.before(present)
        gain = (self._reach((), tuple(order)).fanout if order else 1.0) * (now - then)
        if then < self.alpha * now and gain >= self._upkeep_if_first([*order, *best.operators]):
            names = self.pipeline.names
            return best.operators, (
                f"{names[best.operators[-1]]} gives {best.fanout:.3g} rows for {best.work:.3g} units of work, "
                f"{names[present.operators[-1]]} {present.fanout:.3g} for {present.work:.3g}"
            )
        return present.operators[:1], ""

    def _upkeep_if_first(self, first: Sequence[int]) -> float:
        """What indexes may cost that only the order with these operators first needs, and the one in force does not."""
        changed = self.pipeline.closest([*first, *(op for op in self.order if op not in first)])
        return self._upkeep(self.order, changed.operators)

    def _reaches(self, order: Sequence[int]) -> list[_Reach]:
        """Every operator that may come next, and every one behind those with the path that leads to it."""
        key = tuple(order)
        if key not in self._reached:
            self._reached[key] = self._find_reaches(order)
        return self._reached[key]

    def _find_reaches(self, order: Sequence[int]) -> list[_Reach]:
        found: dict[int, tuple[int, ...]] = {op: (op,) for op in self.pipeline.eligible(order)}
        frontier = list(found.values())
        while frontier:
            path = frontier.pop(0)
            for op in self.pipeline.eligible([*order, *path]):
                if op not in found:
                    found[op] = (*path, op)
                    frontier.append(found[op])
        return [self._reach(order, path) for path in found.values()]

    def _reach(self, order: Sequence[int], path: tuple[int, ...]) -> _Reach:
        fanout, work = 1.0, 0.0
        visited = frozenset(order)
        matched = 0.0
        for op in path:
            f, w = self._belief(visited, op)
            work += fanout * w
            fanout *= f
            matched = fanout if self._stem[op] else 0.0
            visited |= {op}
        return _Reach(path, fanout, work, work - matched + (1.0 if self._stem[path[-1]] else 0.0))

    def _belief(self, visited: frozenset[int], op: int) -> tuple[float, float]:
        """Fan-out and work; an operator never met is taken to change nothing and to cost what the others cost."""
        belief = self.fanouts.believe(visited, op)
        if belief is not None:
            return belief.fanout, belief.work
        met = [b.work for _, _, b in self.fanouts]
        return 1.0, sum(met) / len(met) if met else 1.0

    def _units(self, order: Sequence[int]) -> float | None:
        """Expected work per tuple on an order, or None while something on it was never met."""
        rows, work = 1.0, 0.0
        for op, before in self._before(order).items():
            belief: Belief | None = self.fanouts.believe(before, op)
            if belief is None:
                return None
            work += rows * belief.work
            rows *= belief.fanout
        return work

    def estimate(self, order: Sequence[int]) -> float | None:
        """Expected seconds per tuple on an order."""
        units = self._units(order)
        return None if units is None else units * UNIT

    def why(self) -> str:
        if not self._choice:
            return "only one order is allowed"
        return (
            f"greedy by fan-out and work after {self.fanouts.round} rounds of scouts, "
            f"which cost {self.spent / max(self.useful + self.spent, 1e-9):.1%} of the work"
        )

    def explain(self) -> Explanation:
        views = []
        for op, name in enumerate(self.pipeline.names):
            belief = self.fanouts.believe(frozenset(), op)
            known = (None, None) if belief is None else (belief.fanout, belief.work * UNIT)
            views.append(OperatorView(name, *known))
        route = RouteView("", 1.0, self.plan.route, self.estimate(self.order))
        return Explanation(self.name, Reason.of(self.why()), (route,), tuple(views), Reason.of(self._to_change()))

    def _to_change(self) -> str:
        """The strongest rival of the operators in force."""
        closest: tuple[float, int, int] | None = None
        for k in range(len(self.order)):
            reaches = {r.operators[0]: r for r in self._reaches(self.order[:k]) if len(r.operators) == 1}
            present = reaches.get(self.order[k])
            for op, rival in reaches.items():
                if present is not None and op != self.order[k]:
                    ratio = rival.before(present) / max(present.before(rival), 1e-9)
                    if closest is None or ratio < closest[0]:
                        closest = (ratio, op, self.order[k])
        if closest is None:
            return ""
        names = self.pipeline.names
        return (
            f"{names[closest[1]]} before {names[closest[2]]} would cost {closest[0]:.2f} times as much; "
            f"it moves up below {self.alpha:g}"
        )

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "fanouts": self.fanouts.snapshot(),
            "ledger": [self.spent, self.useful, self.saved],
            "pacing": {name: getattr(self, name) for name in PACING},
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.fanouts.restore(record["fanouts"])
        self._reached.clear()
        self.spent, self.useful, self.saved = record["ledger"]
        for name in PACING:
            setattr(self, name, record["pacing"][name])
