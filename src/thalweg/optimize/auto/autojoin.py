"""`auto` for joins: as written until scouts show an order with less probe work; routes by class where they pay more.

A-Greedy for joins (mjoin.py) keeps the single order. The tuples that it sends ahead as scouts are counted against every
stem that may come first, so they also tell `cbr` and `mesh` what content says about matches (contest.py: priced first,
then learned from). Invariant: classes come in force only if they were estimated to take clearly less work than the single
order, on new tuples, and then measured to: half of the tuples of the same batches went by class and half did not. In
force, some batches are split again, and classes that no longer take less give way; so do they where a ruster is called
back. A quick look (screen.py) comes first: where no attribute tells anything, nothing is searched, nor where tuples are so
cheap that classes could not pay. The first search is a loan; what follows must be earned by work done since. Prices
multiply the matches of a tuple with each stem alone; where stems are also linked with each other that is far from what
the scouts took, and classes are left alone. All in units of work: no clock has a say, filters apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import Journey, Visits
from thalweg.optimize.auto.contest import Contest, conceivable
from thalweg.optimize.classes.classed import Bits, outcomes
from thalweg.optimize.orders.agreedy import CHANGE, AGreedy
from thalweg.optimize.orders.single import SingleRoute, sampled
from thalweg.plan import Reason, Routes, Ruster
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.screen import tells
from thalweg.profile.prices import RECORDED, Prices

LEAST = 40
"""Scouts that must have judged classes before they are tried."""
FIRST = 112
"""Scouts that are looked at for classes..."""
LESSON = 48
"""...and, where content tells something, that are learned from at a time."""
ROUNDS = 6
"""Rounds of scouts sent for the sake of classes before these are put off."""
EPISODE, GLANCE = 0.16, 0.01
"""Seconds of work that must have been done before classes are searched for, or looked for, again..."""
SELDOM = 6
"""...and a glance is put off twice as long each time that it shows nothing, so many times."""
TEACHING, LOAN = 0.02, 0.01
"""What learning classes may cost, as a share of the work and before any is done, on an account of its own: A-Greedy, which
has to answer changes, must not find its own spent."""
THOUGHT = 0.002
"""Seconds that it takes the contestants to learn from a lesson, searches included."""
CONFIDENCE = 3.0
"""Standard errors by which the estimated saving must be above nothing."""
TRIAL = 400
"""Tuples by class and as many on one order that decide."""
CHECK, CONTROL = 16, 0.125
"""Every so many batches this share of the tuples takes the single order, to see whether classes still pay."""
TRUST = 1.5
"""How many times what the scouts took prices may be off before classes are left alone."""
ONE = "one order"


@dataclass
class Side:
    """Tuples on one side of a trial, and the work they took."""

    tuples: float = 0.0
    work: float = 0.0

    @property
    def mean(self) -> float:
        return self.work / max(self.tuples, 1.0)

    def add(self, rows: int, seconds: float) -> None:
        self.tuples += rows
        self.work += seconds


@dataclass
class AutoJoin(SingleRoute):
    """Weighs `written`, `agreedy`, `cbr` and `mesh` where a pipeline has stems.

    >>> from thalweg.plan import Operator, Pipeline
    >>> policy = AutoJoin(Pipeline("a", (Operator("b", "stem"), Operator("c", "stem"))))
    >>> policy.why()
    'as written: nothing scouted yet'
    """

    worthwhile: float = 0.05
    prices: Prices = RECORDED
    sides: dict[str, Side] = field(init=False, default_factory=dict)
    name = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.greedy = AGreedy(self.pipeline, self.seed, prices=self.prices)
        self._contest: Contest | None = None
        self._content = len(self.pipeline.eligible(())) > 1
        """Whether a tuple alone can be tried on more than one operator: only then can its content choose."""
        self.classed = ""
        """The contestant that is in force, if one is."""
        self.trial = ""
        """The one that is being measured."""
        self._off = 0.0
        """Mean logarithm of what prices say the scouts should take over what they took."""
        self._judged = self._batches = 0
        self._promising = False
        """Whether content was seen to tell something about matches."""
        self._rounds = 0
        """Rounds of scouts sent for the sake of classes."""
        self.taught = 0.0
        """What they cost."""
        self._extra = 0.0
        """Share of the scouts under way that A-Greedy did not want."""
        self._until = 0.0
        """Work before which content is not looked at."""
        self._vain = 0
        """Glances in a row that showed nothing."""
        self._lesson: tuple[Values, Bits] = (np.zeros((0, 0), np.float32), np.zeros((0, len(self.pipeline)), np.int8))
        self._probe: tuple[Ruster, Batch] | None = None
        self._fresh()

    def _fresh(self) -> None:
        self.sides = {ONE: Side(), "classes": Side()}

    # Routing

    def ahead(self, rows: int, sent: int) -> int:
        """How many of the tuples left go ahead as scouts: those that A-Greedy wants, and some to learn classes from."""
        wanted = self.greedy.ahead(rows, sent)
        self._extra = 0.0
        if sent or not self._awake or self.trial or self.greedy.scouting.pace.alarmed:
            return wanted  # while the data changes, A-Greedy is not to be kept from what it wants to know
        self.contest.batch(rows)
        if not self._promising:
            return self._more(wanted, FIRST) if 0 < wanted < FIRST and rows >= 4 * FIRST else wanted
        if wanted >= LESSON or rows < 4 * LESSON or not self._curious():
            return wanted
        self._rounds += not self.classed
        if self._rounds > ROUNDS:
            self._put_off(EPISODE)
            return wanted
        self.greedy.scouting.pace.looking = True
        return self._more(wanted, LESSON)

    def _more(self, wanted: int, scouts: int) -> int:
        self._extra = 1.0 - wanted / scouts
        return scouts

    @property
    def _awake(self) -> bool:
        """Whether content is looked at now: not soon after it told nothing, nor where tuples are so cheap that it can't pay, nor
        beyond what that may cost."""
        if self.classed:
            return True
        useful = self.greedy.ledger.useful
        if not self._content or useful < self._until or self.taught > TEACHING * useful + LOAN:
            return False
        return conceivable(self.greedy.scouting.pace.now, self.greedy.scouting.pace.rows, joins=True)

    def _curious(self) -> bool:
        """Whether more scouts would tell something about classes now."""
        if self.classed:
            return self.classed == "mesh" and self.contest.mesh.wanting
        return not self.contest.mesh.searched or self.contest.keen(LEAST)

    @property
    def contest(self) -> Contest:
        """Made when first asked for: most inputs never come to that."""
        if self._contest is None:
            self._contest = Contest(self.pipeline, self.seed, self.greedy.costs, self.greedy.scouting.pace.rows)
        return self._contest

    @property
    def rest(self) -> int:
        """For how many batches the engine need not ask."""
        return 0 if self.classed or self.trial or self._promising else self.greedy.rest

    @property
    def trusted(self) -> bool:
        return abs(self._off) < log(TRUST)

    def route(self, batch: Batch) -> list[Ruster]:
        self._probe = None
        if self.greedy.scouting.pace.looking:
            rusters = self.greedy.route(batch)
            if self._awake and not self.trial:
                self._probe = (rusters[0], batch)
            return rusters
        name = self.classed or self.trial
        if not name or not len(batch):
            return self.greedy.route(batch)
        self.contest.batch(len(batch))
        self._batches += 1
        one = None
        if self.trial:
            one = sampled(self._random, len(batch), 0.5)
        elif self._batches % CHECK == 0:
            one = sampled(self._random, len(batch), CONTROL)
        rusters = self.contest.contestants[name].work(batch, None if one is None else ~one)
        limit = self._limit()
        rusters = [replace(r, limit=limit, trace=False) for r in rusters]
        if one is not None and one.any():
            rusters.append(Ruster(np.flatnonzero(one), self.greedy.plan.route, label=ONE))
        return rusters

    def _limit(self) -> float | None:
        """Work per row at which a class is called back: several times what the single order should take a tuple."""
        expected, unit = self.greedy.estimate(), self.greedy.costs.unit
        return None if expected is None else CHANGE * (expected / unit + 1.0)

    def assign(self, batch: Batch) -> list[Ruster]:
        """The rows of a batch on the routes in force; pure."""
        if not self.classed:
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        return self.contest.contestants[self.classed].assign(batch)

    # Observing

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if not self.greedy.choice:
            return
        name = self.classed or self.trial
        if not (name or self.greedy.scouting.pace.looking or self._promising):
            self.greedy.observe(visits)
            self._follow_greedy()
            return
        by_class = tuple(
            j for j in visits.journeys if name and j.ruster.purpose == "work" and j.ruster.label != ONE
        ) if not self.greedy.scouting.pace.looking else ()  # fmt: skip
        if self._awake:
            self.greedy.costs.observe(visits)
        spent = self.greedy.ledger.spent
        self.greedy.observe(
            visits if not by_class else replace(visits, journeys=tuple(j for j in visits.journeys if j not in by_class))
        )
        for_classes = self._extra * (self.greedy.ledger.spent - spent)
        self.greedy.ledger.spent -= for_classes
        self.taught += for_classes
        self._extra = 0.0
        self._follow_greedy()
        if by_class:
            self._follow_classes(name, by_class, visits)
        if self._probe is not None:
            self._learn(visits)

    def _follow_greedy(self) -> None:
        """A-Greedy's decisions are ours where no classes are in force."""
        for event in self.greedy.drain():
            if self.classed:
                continue
            self.plan = self.plan.with_routes({"": self.greedy.plan.route})
            self._events.append(replace(event, by=self.name, version=self.plan.version, tuples=self.tuples))

    def _follow_classes(self, name: str, by_class: tuple[Journey, ...], visits: Visits) -> None:
        policy = self.contest.contestants[name]
        self.greedy.ledger.useful += sum(map(self.greedy.costs.spent, by_class))
        if any(j.recalled for j in by_class):
            self._step_down(f"a class of {name} took more than {CHANGE:g} times the work of one order")
            return
        policy.observe(replace(visits, journeys=by_class, rows=sum(j.rows for j in by_class)))
        decisions = policy.drain()
        one = [j for j in visits.journeys if j.ruster.label == ONE]
        if one:
            for j in one:
                self.sides[ONE].add(j.rows, self.greedy.costs.spent(j))
            for j in by_class:
                self.sides["classes"].add(j.rows, self.greedy.costs.spent(j))
        if self.trial:
            self._decide_trial()
        elif dict(policy.plan.routes) != dict(self.plan.routes):
            last = decisions[-1] if decisions else None
            self.bring(
                policy.plan.routes, last.kind if last else "reorder", last.why if last else "the routes of a class moved",
                last.cost_before if last else None, last.cost_after if last else None,
            )  # fmt: skip
            self._fresh()
        elif one:
            self._check()

    def _decide_trial(self) -> None:
        before, after = self.sides[ONE], self.sides["classes"]
        if min(before.tuples, after.tuples) < TRIAL:
            return
        name, self.trial = self.trial, ""
        if self.contest.classes(name) > 1 and after.mean + self._overhead(name) < (1 - self.worthwhile) * before.mean:
            self.classed = name
            self.bring(
                self.contest.contestants[name].plan.routes, "adopt",
                f"{name}: {self.contest.classes(name)} classes take {1 - after.mean / max(before.mean, 1e-9):.0%} less work "
                f"than one order, measured on {after.tuples:.0f} tuples beside as many",
                before.mean, after.mean,
            )  # fmt: skip
            return
        why = "{name}: classes took {more:+.0%} work against one order; not adopted"
        self.note("trial", Reason.of(why, name=name, more=after.mean / max(before.mean, 1e-9) - 1))
        self._put_off(EPISODE)

    def _check(self) -> None:
        """Do classes still take less? Older halves count half."""
        before, after = self.sides[ONE], self.sides["classes"]
        if min(before.tuples, after.tuples) < TRIAL / 4:
            return
        if after.mean + self._overhead(self.classed) > before.mean:
            self._step_down(f"one order takes no more work than the classes of {self.classed}")
            return
        for side in (before, after):
            side.tuples, side.work = side.tuples / 2, side.work / 2

    def _overhead(self, name: str) -> float:
        """Seconds per tuple that classes take beside their probes."""
        return self.contest.overhead(name)

    def _put_off(self, work: float) -> None:
        """Leave classes alone until so much work has been done."""
        self._until = self.greedy.ledger.useful + work
        self._rounds, self._promising = 0, False
        self._lesson = (self._lesson[0][:0], self._lesson[1][:0])
        self._contest = None
        self._fresh()

    def _glanced_in_vain(self) -> None:
        """Look again after twice the work, should it be in vain again."""
        self._put_off(GLANCE * 2.0 ** min(self._vain, SELDOM))
        self._vain += 1

    def _step_down(self, why: str) -> None:
        before, after = self.sides["classes"].mean, self.sides[ONE].mean
        self.classed = self.trial = ""
        self.bring({"": self.greedy.plan.route}, "fall back", why, before or None, after or None)
        self._put_off(EPISODE)

    # Learning

    def _learn(self, visits: Visits) -> None:
        """Price scouts on everybody's routes, let the contestants learn from them, and try the one that would pay."""
        assert self._probe is not None
        ruster, sample = self._probe
        self._probe = None
        journey = next((j for j in visits.journeys if j.ruster is ruster and j.passed is not None), None)
        if journey is None or journey.recalled:
            return
        bits = outcomes(journey)
        self._judge_prices(journey, bits)
        content = self.contest.cbr.look(sample) if self.trusted else None
        usable = self.contest.cbr.attributes.usable
        if content is None or not usable.any():
            if not self.classed:
                self._glanced_in_vain()
            return
        values, earlier = self._lesson
        if values.shape[1] != content.shape[1]:
            values, earlier = content[:0], bits[:0]
        values, bits = np.concatenate([values, content]), np.concatenate([earlier, bits])
        if len(bits) < (LESSON if self._promising else FIRST):
            self._lesson = (values, bits)
            return
        if not self._promising:
            self._promising = tells(values, usable, self.contest.mesh.prices().rows(bits))
            if not self._promising:
                self._glanced_in_vain()
                return
            self._vain = 0
        self._lesson = (values[:0], bits[:0])
        self.contest.enter(values, bits, self.pipeline.written.operators, self.greedy.order, self.classed)
        self.taught += THOUGHT
        self._judged += len(bits)
        if not (self.classed or self.trial):
            self.contest.drain()
        self._try()

    def _judge_prices(self, journey: Journey, bits: Bits) -> None:
        """How far prices are from the work that the scouts took on their way."""
        told = float(self.contest.mesh.prices().each(bits, journey.ruster.route).sum())
        took = self.greedy.costs.spent(journey)
        if told > 0 and took > 0:
            self._off += (log(told / took) - self._off) * (0.3 if self._judged else 1.0)

    def _try(self) -> None:
        """Measure the simplest contestant that is estimated to save clearly."""
        against = self.classed or ("agreedy" if self.greedy.order != self.pipeline.written.operators else "written")
        name = self.contest.winner(against, LEAST, CONFIDENCE, self.worthwhile)
        if name is None or name == self.classed:
            if not self.classed and self.contest.settled(LEAST):
                self._put_off(EPISODE)
            return
        if self.classed:  # a more elaborate one must beat the simpler one; both then face one order again
            self.bring(
                {"": self.greedy.plan.route}, "trial", f"{name} is estimated to save against {self.classed}", None, None
            )
            self.classed = ""
        self.trial = name
        self._fresh()

    # Seen from outside

    def explain(self) -> Explanation:
        believed = self.greedy.explain()
        if not self.classed:
            return replace(believed, policy=self.name, why=Reason.of(self.why()))
        told = self.contest.explain(self.classed, self.plan)
        return replace(told, policy=self.name, why=Reason.of(self.why()), operators=believed.operators)

    def why(self) -> str:
        if not self.greedy.choice:
            return "only one order is allowed"
        if self.classed:
            one, classes = self.sides[ONE], self.sides["classes"]
            share = f", measured to take {1 - classes.mean / one.mean:.0%} less work than one order" if one.work else ""
            return f"{self.classed}: {self.contest.contestants[self.classed].why()}{share}"
        if not self.greedy.scouting.pace.rounds:
            return "as written: nothing scouted yet"
        if self.greedy.order == self.pipeline.written.operators:
            return f"as written: {self.greedy.scouting.pace.rounds} rounds of scouts showed no order with clearly less work"
        now, written = self.greedy.estimate(), self.greedy.price(self.pipeline.written)
        saves = f", estimated to take {1 - now / written:.0%} less work than as written" if now and written else ""
        return f"A-Greedy's order{saves}: {self.greedy.why()}"

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "greedy": self.greedy.snapshot(),
            "contest": None if self._contest is None else self._contest.snapshot(),
            "lesson": [self._lesson[0].tolist(), self._lesson[1].tolist()],
            "classed": self.classed,
            "trial": self.trial,
            "routes": [[label, list(route)] for label, route in self.plan.routes.items()],
            "sides": {name: [s.tuples, s.work] for name, s in self.sides.items()},
            "learning": [
                self._off,
                self._judged,
                self._batches,
                self._until,
                self._rounds,
                self.taught,
                self._vain,
                self._extra,
            ],
            "promising": self._promising,
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.greedy.restore(record["greedy"])
        self._contest = None
        if record["contest"] is not None:
            self.contest.restore(record["contest"])
        values, bits = record["lesson"]
        self._lesson = (
            np.array(values, np.float32).reshape(len(bits), -1 if len(bits) else 0),
            np.array(bits, np.int8).reshape(len(bits), len(self.pipeline)),
        )
        self.classed, self.trial = record["classed"], record["trial"]
        routes = {label: self.pipeline.closest(order) for label, order in record["routes"]}
        self.plan = Routes(int(record["version"]), routes)
        self.sides = {name: Side(*s) for name, s in record["sides"].items()}
        learning = record["learning"]
        self._off, self._judged, self._batches, self._until, self._rounds, self.taught, self._vain, self._extra = (
            learning
        )
        self._promising = bool(record["promising"])
