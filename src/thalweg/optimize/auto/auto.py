"""`auto`: as written until something else is shown to pay; back to as written when it no longer does.

Invariant, the no-regret bound: a ledger holds all work, what profiling cost, and what adopted orders saved against the
written one or lost. Profiling may cost `regret` of all work and half of what was saved, and a `LOAN` of milliseconds
that lets it learn before there is much work to take a share of. An order is followed only while sampled tuples show it
to cost less than the written one; where the ledger does not allow to look again, only while the last look was clear and
the sum of all is a gain. Losses count against profiling, up to `LOSS` more. Learning classes has an account of its own
(`TEACHING`, `TUITION`). So where adapting can't pay, the price is `regret`, `TEACHING` and the loans, once; where a
stream keeps changing against every choice, it is `LOSS` more and what is lost until the latest change is noticed.
Nothing is spent where only one order is possible.

A profiled tuple was tried on every filter, so its cost under the written order and under A-Greedy's is known, not
modelled: the comparison is a paired one on the same tuples. Routes by class, `cbr` and `mesh`, learn from the same
tuples and are priced on each before they learn from it (contest.py); they come in force where they clearly save against
the single order in force, the simplest first, and give way when they no longer do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, RouteView
from thalweg.contract.visits import DROPPED, Visits
from thalweg.optimize.auto.contest import Contest
from thalweg.optimize.classes.classed import Bits
from thalweg.optimize.orders.agreedy import BURST, CLUMP, AGreedy
from thalweg.optimize.orders.single import SingleRoute, sampled
from thalweg.plan import Reason, Routes, Ruster
from thalweg.profile.content.attributes import Values

LEAST = 40
"""Profiled tuples before any verdict."""
STILL, IDLE = 0.01, 0.005
"""What profiling may cost in place of `regret` where enough was seen and nothing in it pays; the second where tuples take
so little time that thinking about them shows."""
LOSS = 0.005
"""What an adopted order may lose against the written one, as a share of all work, on top of what profiling may cost."""
LOOK = 0.008
"""Seconds of work between two looks at it. A look takes some 0.1 ms, which shows where predicates take nanoseconds a row."""
LOAN = 0.02
"""Seconds that profiling may be ahead of its share, so that a hundred tuples can be seen at the start or after a change..."""
EAGER, CAREFUL = 0.1, 0.005
"""...but no more than this share of the work done so far: a query over in a moment has nothing to learn for. The second
holds where a tuple takes so little time that thinking about it shows."""
LEARNING, THINKING = 0.0003, 0.001
"""Seconds that learning from one ruster of profiled tuples takes, beside profiling them; the second where tuples take
nanoseconds, so that a ruster of their own shows. More..."""
LEARNING_CLASSES = 0.002
"""...and where there is content to learn classes from, for each `LESSON` tuples."""
LESSON = 48
SELDOM = 4
"""Of so many rusters of profiled tuples one is looked at for classes, once a search has found none."""
SEARCH = 0.01
"""Seconds of one search for a mesh."""
PRICING = 0.00015
"""Seconds to price one solution of it."""
TEACHING, TUITION = 0.005, 0.03
"""Learning classes may cost this share of all work, a quarter of what was saved, and a loan of so many seconds, once."""
CONFIDENCE = 3.0
"""Standard errors by which the saving must be above nothing."""


@dataclass
class Auto(SingleRoute):
    """Weighs `written`, `agreedy`, `cbr` and `mesh`.

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((50_000, 3)) < [0.9, 0.5, 0.1]
    >>> r = run("auto", rows, costs=[1.0, 1.0, 1.0], seed=7)
    >>> r.final_order, [e.kind for e in r.events if e.change][0]
    ((2, 1, 0), 'adopt')
    """

    regret: float = 0.02
    worthwhile: float = 0.03
    name = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.greedy = AGreedy(self.pipeline, self.seed)
        written = self.pipeline.written.operators
        self._choice = any(len(self.pipeline.eligible(written[:k])) > 1 for k in range(len(written)))
        self.contest = Contest(self.pipeline, self.seed, self.greedy.costs)
        self.adaptive = False
        self.classed = ""
        """The contestant with classes that is in force, if one is."""
        self._turn = 0
        self._rate = 0.0
        """What the classes in force are taken to save per tuple until they are judged again."""
        self._probe: tuple[Ruster, Batch] | None = None
        self._lesson: tuple[Values, Bits] = (np.zeros((0, 0), np.float32), np.zeros((0, len(self.pipeline)), np.int8))
        self.spent = 0.0
        self.useful = 0.0
        self.saved = 0.0
        self.taught = 0.0
        self._followed = self.order
        self._unseen = 0
        self._owed = 0.0
        self._worth = (0.0, 0.0, 0.0)
        self._unlooked = 0.0
        """Seconds of work since the last look."""
        self._passing = 0
        """Tuples since sampling was last thought of."""
        self._lessons = 0

    @property
    def choice(self) -> bool:
        """Whether there is anything to choose: more than one allowed order."""
        return self._choice

    def route(self, batch: Batch) -> list[Ruster]:
        self._probe = None
        if not self.choice or not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        self._passing += len(batch)
        if self._unlooked and not self.classed:
            return [Ruster(None, self.plan.route)]  # too little was done since the last look to pay for a thought
        self.contest.batch(len(batch))
        if self.classed:
            return self._route_classes(batch)
        sampling = self.greedy.sampling()
        if self.contest.keen(LEAST):
            sampling = max(sampling, 10 * self.greedy.p)
        self._owed = min(self._owed + sampling * self._passing, BURST)
        self._passing = 0
        worth = self.greedy.clump()
        count = min(self._owed, self._affordable()) if self._owed >= worth else 0.0
        if count < worth:
            return [Ruster(None, self.plan.route)]
        chosen = sampled(self._random, len(batch), count / len(batch))
        self._owed = 0.0
        if not chosen.any():
            return [Ruster(None, self.plan.route)]
        return [Ruster(np.flatnonzero(~chosen), self.plan.route), self._profile(batch, chosen)]

    def _route_classes(self, batch: Batch) -> list[Ruster]:
        """Each class on its route; profiled are the rows that the mesh would, as far as the ledger allows."""
        if self.classed == "mesh":
            chosen = self.contest.mesh.wish(batch)
        else:
            self._owed = min(self._owed + self.greedy.sampling() * len(batch), BURST)
            chosen = None
            if self._owed >= CLUMP:
                chosen, self._owed = sampled(self._random, len(batch), self._owed / len(batch)), 0.0
        if chosen is not None:
            count, affordable = int(chosen.sum()), self._affordable()
            if count > affordable:
                chosen &= sampled(self._random, len(batch), affordable / count)
            if affordable < CLUMP or not chosen.any():
                chosen = None
        rusters = self.contest.contestants[self.classed].work(batch, None if chosen is None else ~chosen)
        if chosen is not None:
            rusters.append(self._profile(batch, chosen))
        return rusters

    def _profile(self, batch: Batch, chosen: NDArray[np.bool_]) -> Ruster:
        rows = np.flatnonzero(chosen)
        ruster = Ruster(rows, self.plan.route, "profile", "all")
        self._turn = (self._turn + 1) % SELDOM
        if (self._turn and self.contest.hopeless) or not self._dear():
            return ruster
        self._probe = (ruster, Batch(batch.data.take(rows), batch.number, batch.stream))
        return ruster

    def _affordable(self, more: float = 0.0) -> float:
        """How many tuples the ledger allows to profile now. Of what was saved only half counts: it is an estimate."""
        share = self.regret
        if self._settled():
            share = STILL if self._dear() else IDLE
        share += LOSS if self.adaptive else more
        saved = self.saved + self._unseen * self._rate
        allowance = self._balance(share, min(saved, 0.5 * saved))
        if allowance <= 0.0:
            return 0.0
        everything = float(self.greedy.costs.per_row.sum())
        now = self.useful / max(self.tuples, 1)
        return allowance / max(everything - now, 0.05 * everything)

    def _balance(self, share: float, saved: float) -> float:
        work = self.useful + self.spent
        eager, learning = (EAGER, LEARNING) if self._dear() else (CAREFUL, THINKING)
        return share * work + min(LOAN, eager * work) + saved - self.spent - learning * self._lessons

    def _settled(self) -> bool:
        """Whether enough was seen, and nothing in it pays."""
        return not self.adaptive and len(self.greedy.profile) >= 3 * BURST

    def _dear(self) -> bool:
        """Whether tuples take long enough that rusters and thoughts of their own could pay."""
        return self.contest.conceivable(self.useful / max(self.tuples, 1))

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if not self.choice:
            return
        if self._unseen or self.adaptive:
            self._book(visits)
        if self.classed:
            self._observe_classes(visits)
            return
        if not self._worth_a_look(visits):
            return
        self.greedy.observe(visits)
        self._enter(visits)
        judged = self._learn_classes(visits)
        self.contest.drain()
        decisions = self.greedy.drain()
        if any(e.kind == "change seen" for e in decisions):
            self.contest.forget()
            # A-Greedy's own order need not be in force.
            self._events += [replace(e, by=self.name, version=self.plan.version, change=None) for e in decisions[:1]]
        if decisions or any(j.passed is not None for j in visits.journeys):
            self._worth = self._saving()
        saving, error, cost = self._worth
        if self.adaptive:
            if len(self.greedy.profile) >= LEAST and saving < 0:
                self._fall_back("A-Greedy's order no longer costs less than as written", cost, cost - saving)
            elif self._affordable() < self.greedy.clump() and not self._clear():
                self._fall_back("following a changing stream has cost more than it saved", cost, cost - saving)
            else:
                if self.greedy.order != self.order:
                    last = decisions[-1] if decisions else None
                    self.reorder(
                        self.greedy.order, last.why if last else "A-Greedy's order moved",
                        before=last.cost_before if last else None, after=last.cost_after if last else None,
                    )  # fmt: skip
        elif (
            len(self.greedy.profile) >= LEAST
            and saving > max(CONFIDENCE * error, self.worthwhile * cost)
            and self._affordable(LOSS) >= self.greedy.clump()
        ):
            self._adopt(cost, cost - saving)
        if judged:
            self._climb()

    def _climb(self) -> None:
        """Bring classes in force where they clearly save against the order in force."""
        against = self.classed or ("agreedy" if self.adaptive else "written")
        name = self.contest.winner(against, LEAST, CONFIDENCE, self.worthwhile)
        if name is None or self._affordable(LOSS) < CLUMP:
            return
        saving = self.contest.saving(name, against)
        self.adaptive, self.classed = True, name
        against_written = self.contest.saving(name, "written")
        self._rate = max(against_written.mean - against_written.error, 0.0)
        self.greedy.change.reset()
        self.bring(
            self.contest.contestants[name].plan.routes, "adopt",
            f"{name}: {self.contest.classes(name)} classes save {saving.mean / saving.cost:.0%} against "
            f"{'as written' if against == 'written' else against} on {saving.tuples} new sampled tuples",
            saving.cost, saving.cost - saving.mean,
        )  # fmt: skip

    def _observe_classes(self, visits: Visits) -> None:
        """Follow the classes in force, and give way to a simpler plan where that costs no more."""
        policy = self.contest.contestants[self.classed]
        hidden = tuple(
            j if j.ruster.purpose != "work" else replace(j, ruster=replace(j.ruster, purpose="explore"))
            for j in visits.journeys
        )  # routes differ by class, so A-Greedy must not take shares on them for those of one order
        self.greedy.observe(replace(visits, journeys=hidden))
        self._enter(visits)
        policy.observe(visits)
        judged = self._learn_classes(visits)
        self.greedy.drain()
        decisions = policy.drain()
        if any(e.kind == "drift" for e in decisions):
            self.contest.forget(follows=self.classed)
            self.greedy.forget()
            self._rate = 0.0
        for other in self.contest.contestants.values():
            if other is not policy:
                other.drain()
        if dict(policy.plan.routes) != dict(self.plan.routes):
            last = decisions[-1]
            self.bring(policy.plan.routes, last.kind, last.why, last.cost_before, last.cost_after)
        elif decisions:
            self.note(decisions[-1].kind, decisions[-1].why)
        if not judged:
            return
        written, greedy = (self.contest.saving(self.classed, against) for against in ("written", "agreedy"))
        if written.tuples >= LEAST and written.mean < 0:
            self._step_down("written", f"{self.classed} no longer costs less than as written")
        elif self.contest.classes(self.classed) < 2 or (greedy.tuples >= LEAST and greedy.mean < -greedy.error):
            self._step_down("agreedy", f"one order costs no more than the classes of {self.classed}")
        elif self._balance(self.regret + LOSS, self.saved + self._unseen * self._rate) < 0.0:
            self._step_down("written", "following a changing stream has cost more than it saved")
        else:
            self._climb()

    def _step_down(self, to: str, why: str) -> None:
        saving = self.contest.saving(self.classed, to)
        self.classed, self.adaptive, self._rate = "", to == "agreedy", 0.0
        self._worth = self._saving()
        self.greedy.change.reset()
        route = self.greedy.plan.route if self.adaptive else self.pipeline.written
        self.bring({"": route}, "fall back", why, saving.cost - saving.mean or None, saving.cost or None)

    def _may_teach(self) -> bool:
        work = self.useful + self.spent
        earned = 0.25 * max(self.saved + self._unseen * self._rate, 0.0)
        share = TEACHING / SELDOM if self.contest.hopeless and self._settled() else TEACHING
        return self.taught < share * work + min(TUITION, EAGER * work) + earned

    def _learn_classes(self, visits: Visits) -> bool:
        """Collect profiled tuples with their content, and let the contestants have them, some dozens at a time; whether
        they were judged."""
        if self._probe is None:
            return False
        ruster, sample = self._probe
        self._probe = None
        bits = next((j.passed for j in visits.journeys if j.ruster is ruster and j.passed is not None), None)
        if bits is None:
            return False
        content = self.contest.cbr.look(sample)
        if content is None or not content.shape[1] or not self.contest.cbr.attributes.usable.any():
            return False
        values, earlier = self._lesson
        if values.shape[1] != content.shape[1]:
            values, earlier = content[:0], bits[:0]
        values, bits = np.concatenate([values, content]), np.concatenate([earlier, bits])
        if len(bits) < LESSON and not self.classed:
            self._lesson = (values, bits)
            return False
        if not self._may_teach():
            self._lesson = (values[-LESSON:], bits[-LESSON:])
            return False
        self._lesson = (values[:0], bits[:0])
        looked = self.contest.mesh.looked
        gain = self.contest.enter(values, bits, self.pipeline.written.operators, self.greedy.order, self.classed)
        if self.classed and self._unseen:
            self.saved += gain * self._unseen
            self._unseen = 0
        searches = sum(e.kind == "search" for e in self.contest.mesh.pending())
        self.taught += LEARNING_CLASSES + SEARCH * searches + PRICING * (self.contest.mesh.looked - looked)
        if self.classed:
            saving = self.contest.saving(self.classed, "written")
            self._rate = max(saving.mean - saving.error, 0.0)
        return True

    def _clear(self) -> bool:
        """Whether the order in force can do unwatched for a while: since the last change it was seen to save, and so far
        it did."""
        saving, error, _ = self._worth
        sure = len(self.greedy.profile) >= LEAST and saving > CONFIDENCE * error
        return sure and self._balance(self.regret, self.saved) > 0.0

    def _worth_a_look(self, visits: Visits) -> bool:
        """Whether enough was done since the last look to pay for another, or tuples were profiled."""
        seconds = visits.seconds
        self._unlooked += seconds
        soon = self._unlooked < LOOK or (self._unlooked < 8 * LOOK and (self._settled() or not self._dear()))
        if soon and all(j.passed is None for j in visits.journeys):
            self.useful += seconds
            return False
        self._unlooked = 0.0
        return True

    def _enter(self, visits: Visits) -> None:
        """Enter what was useful, and what profiling took beyond it: tries after a drop, the price of a small ruster."""
        costs = self.greedy.costs.per_row
        for journey in visits.journeys:
            seconds = sum(v.seconds + v.extra_seconds for v in journey.visits)
            useful = seconds
            if journey.passed is not None:
                useful = min(seconds, float(sum(v.rows_in * costs[v.operator] for v in journey.visits)))
                self._lessons += 1
            self.useful += useful
            self.spent += seconds - useful

    def _book(self, visits: Visits) -> None:
        """Enter what the route in force saved against the written one, or lost, since tuples were last profiled."""
        if self.adaptive:
            self._followed = self.order
            self._unseen += visits.rows
        if not self._unseen or self.classed:
            return  # what classes save is known when their prices are
        written, costs = list(self.pipeline.written), self.greedy.costs.per_row
        gains = []
        for journey in visits.journeys:
            if journey.passed is not None and journey.ruster.also == "all":
                drops = journey.passed == DROPPED
                gains.append(_cost(drops, written, costs) - _cost(drops, list(self._followed), costs))
        if gains:
            gain = np.concatenate(gains)
            self.saved += float(gain.mean()) * self._unseen
            self._unseen = 0

    def _saving(self) -> tuple[float, float, float]:
        """Per tuple: what A-Greedy's order saves against the written one, its standard error, the written order's cost."""
        profile, costs = self.greedy.profile, self.greedy.costs.per_row
        if not len(profile):
            return 0.0, 0.0, 0.0
        total = len(profile) + profile.passed
        written, rival = self.pipeline.written.operators, self.greedy.order
        cost = profile.cost(written, costs)
        if rival == written:
            return 0.0, 0.0, cost
        difference = profile.costs(written, costs) - profile.costs(rival, costs)
        fewer = profile.met(written) - profile.met(rival)
        saving = float(difference.sum() / total)
        by_chance = float(np.sqrt((difference**2).sum())) / total
        return saving, float(np.hypot(by_chance, saving * _doubt(fewer * costs, self.greedy.costs.error))), cost

    def _adopt(self, before: float, after: float) -> None:
        self.adaptive = True
        self.greedy.change.reset()  # on another order the same operators drop other shares
        self.reorder(
            self.greedy.order, f"saves {1 - after / before:.0%} against as written on {len(self.greedy.profile)} sampled tuples",
            kind="adopt", before=before, after=after,
        )  # fmt: skip

    def _fall_back(self, why: str, before: float, after: float) -> None:
        self.adaptive = False
        self.greedy.change.reset()
        self.reorder(
            self.pipeline.written.operators, why,
            kind="fall back", before=after, after=before,
        )  # fmt: skip

    def explain(self) -> Explanation:
        believed = self.greedy.explain()
        if self.classed:
            told = self.contest.explain(self.classed, self.plan)
            return replace(told, policy=self.name, why=Reason.of(self.why()), operators=believed.operators)
        saving, _, cost = self._saving()
        now = cost - saving if self.adaptive else cost
        return Explanation(
            self.name, Reason.of(self.why()), (RouteView("", 1.0, self.plan.route, now or None),), believed.operators,
            believed.to_change if self.adaptive else Reason.of(self._what_it_takes(saving, cost)),
        )  # fmt: skip

    def why(self) -> str:
        if not self.choice:
            return "only one order is possible: nothing to choose, nothing profiled"
        if self.classed:
            s = self.contest.saving(self.classed, "written")
            share = f", saving {s.mean / s.cost:.0%} against as written" if s.tuples >= LEAST and s.cost else ""
            return f"{self.classed}: {self.contest.contestants[self.classed].why()}{share}"
        saving, _, cost = self._saving()
        if self.adaptive:
            return f"A-Greedy's order, saving {saving / cost:.0%} against as written" if cost else "A-Greedy's order"
        sampled_so_far = len(self.greedy.profile) + self.greedy.profile.passed
        return f"as written: no order was shown to save {self.worthwhile:.0%} on {sampled_so_far} sampled tuples"

    def _what_it_takes(self, saving: float, cost: float) -> str:
        if not cost:
            return ""
        best = self.greedy.plan.route.named(self.pipeline.names)
        return f"best rival: {best}, saving {saving / cost:.1%}; it is adopted above {self.worthwhile:.0%} when certain"

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "greedy": self.greedy.snapshot(),
            "contest": self.contest.snapshot(),
            "classed": self.classed,
            "rate": self._rate,
            "turn": self._turn,
            "taught": self.taught,
            "routes": [[label, list(route)] for label, route in self.plan.routes.items()],
            "lesson": [self._lesson[0].tolist(), self._lesson[1].tolist()],
            "adaptive": self.adaptive,
            "ledger": [self.spent, self.useful, self.saved, self._unseen],
            "followed": list(self._followed),
            "owed": self._owed,
            "unlooked": self._unlooked,
            "passing": self._passing,
            "lessons": self._lessons,
            "worth": list(self._worth),
        }

    def prior(self) -> dict[str, Any]:
        """What a new worker begins with: plan, costs, classes and the ledger; it samples anew."""
        return self.snapshot() | {"contest": self.contest.prior(), "lesson": [[], []]}

    def assign(self, batch: Batch) -> list[Ruster]:
        """The rows of a batch on the routes in force; pure."""
        if not self.classed:
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        return self.contest.contestants[self.classed].assign(batch)

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.greedy.restore(record["greedy"])
        self.contest.restore(record["contest"])
        self.classed = record["classed"]
        self._rate = record["rate"]
        self._turn = int(record["turn"])
        self.taught = record["taught"]
        routes = {label: self.pipeline.closest(order) for label, order in record["routes"]}
        self.plan = Routes(int(record["version"]), routes)
        values, bits = record["lesson"]
        columns = len(self.contest.cbr.attributes)
        self._lesson = (
            np.array(values, np.float32).reshape(len(bits), columns),
            np.array(bits, np.int8).reshape(len(bits), len(self.pipeline)),
        )
        self.adaptive = bool(record["adaptive"])
        self.spent, self.useful, self.saved, self._unseen = record["ledger"]
        self._followed = tuple(record["followed"])
        self._owed = record["owed"]
        self._unlooked = record["unlooked"]
        self._passing = int(record["passing"])
        self._lessons = record["lessons"]
        saving, error, cost = record["worth"]
        self._worth = (saving, error, cost)


def _doubt(changes: NDArray[np.float64], unsure: NDArray[np.float64]) -> float:
    """How many standard errors of the costs it takes to turn a saving round, as one part of it.

    `changes` are seconds saved (or, below nothing, spent) at each operator. Costs are unsure by factors: what is saved
    and what is spent more are weighed as a ratio.
    """
    more, less = changes > 0, changes < 0
    gain, loss = changes[more].sum(), -changes[less].sum()
    if gain <= loss or loss == 0:
        return 0.0
    doubt = np.hypot(
        np.sqrt(((changes * unsure)[more] ** 2).sum()) / gain, np.sqrt(((changes * unsure)[less] ** 2).sum()) / loss
    )
    return float(doubt / np.log(gain / loss))


def _cost(drops: NDArray[np.bool_], order: list[int], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cost of each tuple under an order: all filters up to and with the first that drops it, or all."""
    placed = drops[:, order]
    first = np.where(placed.any(axis=1), placed.argmax(axis=1), len(order) - 1)
    return np.cumsum(costs[order])[first]
