"""`auto` over joins: as written until scouts show a cheaper order; routes by class if they are measured to save more.

A-Greedy keeps the single order. Its scouts are counted against every stem that may come first, so they also tell `cbr`
and `mesh` how content relates to matches (contest.py: priced first, then learned from). Invariant: classes come into
force only if new rows estimate them clearly cheaper than the single order and a trial confirms it: half of the rows of
the same batches go by class, half do not. In force, some batches are split again, and classes give way when they no
longer cost less or a ruster is called back. A quick screen (screen.py) comes first: we search nothing if no attribute
shows a signal or rows are too cheap for classes to pay. Prices multiply a row's matches with each stem alone; if stems
are also linked with each other, that is far from the scouts' work, and classes are left alone.

One class and one file: scouts serve the single order and the classes at once, and a trial, its check and its end
share one state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import Journey, Visits
from thalweg.optimize.auto.contest import SAMPLE, conceivable
from thalweg.optimize.auto.lessons import CONFIDENCE, LESSON
from thalweg.optimize.classes.classed import Bits, outcomes
from thalweg.optimize.orders.agreedy import BURST
from thalweg.optimize.orders.scouting import SURPRISE, beyond_doubt
from thalweg.optimize.orders.single import sampled
from thalweg.plan import Reason, Ruster
from thalweg.plan.reason import Fact
from thalweg.profile.content.screen import tells

if TYPE_CHECKING:
    from thalweg.optimize.auto.auto import Auto

ROUNDS = -(-SAMPLE // LESSON)
"""Rounds of scouts sent for classes before we postpone them: they fill the sample that classes are searched in."""
ONE = "one order"


@dataclass
class Side:
    """Rows on one side of a trial, and their seconds."""

    tuples: float = 0.0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return self.seconds / max(self.tuples, 1.0)

    def halve(self) -> None:
        self.tuples, self.seconds = self.tuples / 2, self.seconds / 2


@dataclass
class State:
    """Plain JSON values."""

    trial: str = ""
    """The contestant on trial."""
    one: Side = field(default_factory=Side)
    classes: Side = field(default_factory=Side)
    off: float = 0.0
    """Mean logarithm of the scouts' predicted over actual work."""
    judged: int = 0
    unchecked: int = 0
    """Rows by class since some last took the single order, to see whether classes still pay."""
    promising: bool = False
    """Whether content was seen to say something about matches."""
    rounds: int = 0
    """Rounds of scouts sent for classes."""
    extra: float = 0.0
    """Share of the scouts under way beyond what A-Greedy requested."""
    until: float = 0.0
    """Seconds of work before we look at content again."""
    vain: int = 0
    """Consecutive looks that showed nothing."""


class Scouted:
    """Looks at joins by scouts."""

    def __init__(self, auto: Auto) -> None:
        self.auto, self.greedy, self.ledger = auto, auto.greedy, auto.ledger
        self.state = State()
        self._content = len(auto.pipeline.eligible(())) > 1
        """Whether a single row can start with more than one operator: only then can its content choose."""
        self._probe: tuple[Ruster, Batch] | None = None

    def snapshot(self) -> dict[str, Any]:
        return asdict(self.state)

    def restore(self, record: dict[str, Any]) -> None:
        self.state = State(**{**record, "one": Side(**record["one"]), "classes": Side(**record["classes"])})

    # Routing

    @property
    def rest(self) -> int:
        """For how many batches the engine need not ask."""
        return 0 if self.auto.classed or self.state.trial or self.state.promising else self.greedy.rest

    def ahead(self, rows: int, sent: int) -> int:
        """The number of remaining rows to send as scouts: those A-Greedy wants, and some to learn classes from."""
        wanted, state = self.greedy.ahead(rows, sent), self.state
        state.extra = 0.0
        if sent or not self.awake or state.trial or self.greedy.scouting.pace.alarmed:
            return wanted  # while the data changes, A-Greedy must get the scouts it wants
        self.auto.contest.batch(rows)
        if not state.promising:
            return self._more(wanted, BURST) if 0 < wanted < BURST and rows >= 4 * BURST else wanted
        if wanted >= LESSON or rows < 4 * LESSON or not self._curious():
            return wanted
        state.rounds += not self.auto.classed
        if state.rounds > ROUNDS:
            self._put_off()
            return wanted
        self.greedy.scouting.pace.looking = True
        return self._more(wanted, LESSON)

    def _more(self, wanted: int, scouts: int) -> int:
        self.state.extra = 1.0 - wanted / scouts
        return scouts

    @property
    def awake(self) -> bool:
        """Whether to look at content now: not soon after it showed nothing, nor if rows are so cheap that it can't pay,
        nor beyond its budget."""
        if self.auto.classed:
            return True
        if not self._content or self.ledger.useful < self.state.until or self.ledger.tuition <= 0.0:
            return False
        pace = self.greedy.scouting.pace
        return conceivable(pace.now, self.auto.prices)

    def _curious(self) -> bool:
        """Whether more scouts would help judge classes now."""
        if self.auto.classed:
            return self.auto.classed == "mesh" and self.auto.contest.mesh.wanting
        return not self.auto.contest.mesh.searched or self.auto.contest.keen(LESSON)

    @property
    def trusted(self) -> bool:
        return abs(self.state.off) < log(SURPRISE)

    def route(self, batch: Batch) -> list[Ruster]:
        auto, state = self.auto, self.state
        self._probe = None
        if self.greedy.scouting.pace.looking:
            rusters = self.greedy.route(batch)
            if self.awake and not state.trial:
                self._probe = (rusters[0], batch)
            return rusters
        name = auto.classed or state.trial
        if not name:
            return self.greedy.route(batch)
        auto.contest.batch(len(batch))
        state.unchecked += len(batch)
        one = None
        if state.trial:
            one = sampled(auto._random, len(batch), 0.5)
        elif self.ledger.regret * state.unchecked >= BURST:
            one, state.unchecked = sampled(auto._random, len(batch), min(BURST / len(batch), 0.5)), 0
        rusters = auto.contest.contestants[name].work(batch, None if one is None else ~one)
        limit = self._limit()
        rusters = [replace(r, limit=limit, trace=False) for r in rusters]
        if one is not None and one.any():
            rusters.append(Ruster(np.flatnonzero(one), self.greedy.plan.route, label=ONE))
        return rusters

    def _limit(self) -> float | None:
        """Work per row at which a class is called back: several times the expected work on the single order."""
        expected = self.greedy.estimate()
        return None if expected is None else beyond_doubt() * (expected / self.greedy.costs.unit + 1.0)

    # Observing

    def observe(self, visits: Visits) -> None:
        state, looking = self.state, self.greedy.scouting.pace.looking
        name = self.auto.classed or state.trial
        if not (name or looking or state.promising):
            self.greedy.observe(visits)
            self._follow_greedy()
            return
        by_class = tuple(
            j for j in visits.journeys if name and not looking and j.ruster.purpose == "work" and j.ruster.label != ONE
        )
        if self.awake:
            self.greedy.costs.observe(visits)
        spent = self.ledger.spent
        others = tuple(j for j in visits.journeys if j not in by_class)
        self.greedy.observe(replace(visits, journeys=others) if by_class else visits)
        for_classes = state.extra * (self.ledger.spent - spent)
        self.ledger.spent -= for_classes
        self.ledger.taught += for_classes
        state.extra = 0.0
        self._follow_greedy()
        if by_class:
            self._follow_classes(name, by_class, visits)
        if self._probe is not None:
            self._learn(visits)

    def _follow_greedy(self) -> None:
        """Adopt A-Greedy's decisions if no classes are in force."""
        auto = self.auto
        for event in self.greedy.drain():
            if not auto.classed:
                auto.plan = auto.plan.with_routes({"": self.greedy.plan.route})
                auto._events.append(replace(event, by=auto.name, version=auto.plan.version, tuples=auto.tuples))

    def _follow_classes(self, name: str, by_class: tuple[Journey, ...], visits: Visits) -> None:
        auto, state = self.auto, self.state
        policy = auto.contest.contestants[name]
        self.ledger.useful += sum(map(self.greedy.costs.spent, by_class))
        if any(j.recalled for j in by_class):
            why = "a class of {name} took more than {times:g} times the work of one order"
            self._step_down(Reason.of(why, name=name, times=beyond_doubt()))
            return
        policy.observe(replace(visits, journeys=by_class, rows=sum(j.rows for j in by_class)))
        decisions = policy.drain()
        one = [j for j in visits.journeys if j.ruster.label == ONE]
        if one:
            self._add(state.one, one)
            self._add(state.classes, by_class)
        if state.trial:
            self.decide_trial()
        elif dict(policy.plan.routes) != dict(auto.plan.routes):
            if decisions:
                last = decisions[-1]
                auto.bring(policy.plan.routes, last.kind, last.why, last.cost_before, last.cost_after)
            else:
                auto.bring(policy.plan.routes, "reorder", "the routes of a class moved", None, None)
            self._fresh()
        elif one:
            self._check()

    def _add(self, side: Side, journeys: Iterable[Journey]) -> None:
        for j in journeys:
            side.tuples += j.rows
            side.seconds += self.greedy.costs.spent(j)

    def _fresh(self) -> None:
        self.state.one, self.state.classes = Side(), Side()

    def decide_trial(self) -> None:
        """Adopt the classes on trial, or record that they lost, once both sides have enough rows."""
        auto, state = self.auto, self.state
        before, after = state.one, state.classes
        if min(before.tuples, after.tuples) < SAMPLE:
            return
        name, state.trial = state.trial, ""
        more = after.mean / max(before.mean, 1e-15) - 1
        cost = after.mean + auto.contest.overhead(name)
        if auto.contest.classes(name) > 1 and cost < (1 - auto.worthwhile) * before.mean:
            auto.classed = name
            why = "{name}: {classes} classes take {less:.0%} less work than one order, measured on {rows} rows of each"
            facts: dict[str, Fact] = {
                "name": name,
                "classes": auto.contest.classes(name),
                "less": -more,
                "rows": round(after.tuples),
            }
            auto.bring(auto.contest.contestants[name].plan.routes, "adopt", Reason(why, facts), before.mean, after.mean)
            return
        why = "{name}: classes took {more:+.0%} work against one order; not adopted"
        auto.note("trial", Reason.of(why, name=name, more=more))
        self._put_off()

    def _check(self) -> None:
        """Check whether classes still cost less. Older halves count half."""
        before, after = self.state.one, self.state.classes
        if min(before.tuples, after.tuples) < LESSON:
            return
        if after.mean + self.auto.contest.overhead(self.auto.classed) > before.mean:
            why = "one order takes no more work than the classes of {name}"
            self._step_down(Reason.of(why, name=self.auto.classed))
            return
        before.halve()
        after.halve()

    def _put_off(self, searched: bool = True) -> None:
        """Leave classes alone until the work done since could pay for another search or look; each look that shows
        nothing doubles the wait."""
        state, prices = self.state, self.auto.prices
        price = prices.teach if searched else prices.ask
        state.until = self.ledger.useful + price / self.ledger.regret * 2.0**state.vain
        state.rounds, state.promising = 0, False
        self.auto.end_contest()
        self._fresh()

    def _looked_in_vain(self) -> None:
        self._put_off(searched=False)
        self.state.vain = min(self.state.vain + 1, ROUNDS)

    def _step_down(self, why: Reason) -> None:
        before, after = self.state.classes.mean, self.state.one.mean
        self.auto.classed = self.state.trial = ""
        self.auto.bring({"": self.greedy.plan.route}, "fall back", why, before or None, after or None)
        self._put_off()

    # Learning

    def _learn(self, visits: Visits) -> None:
        """Price scouts on every contestant's routes, let the contestants learn from them, and try one that would
        pay."""
        assert self._probe is not None
        auto, state, contest = self.auto, self.state, self.auto.contest
        ruster, sample = self._probe
        self._probe = None
        journey = next((j for j in visits.journeys if j.ruster is ruster and j.passed is not None), None)
        if journey is None or journey.recalled:
            return
        bits = outcomes(journey)
        self._judge_prices(journey, bits)
        content = contest.cbr.look(sample) if self.trusted else None
        usable = contest.cbr.attributes.usable
        if content is None or not usable.any():
            if not auto.classed:
                self._looked_in_vain()
            return
        if auto.lessons.add(content, bits) < (LESSON if state.promising else BURST):
            return
        values, bits = auto.lessons.take()
        if not state.promising:
            state.promising = tells(values, usable, contest.mesh.prices().rows(bits))
            if not state.promising:
                self._looked_in_vain()
                return
            state.vain = 0
        contest.enter(values, bits, auto.pipeline.written.operators, self.greedy.order, auto.classed)
        self.ledger.taught += auto.prices.teach
        state.judged += len(bits)
        if not (auto.classed or state.trial):
            contest.drain()
        self._try()

    def _judge_prices(self, journey: Journey, bits: Bits) -> None:
        """How far prices are from the scouts' actual work."""
        told = float(self.auto.contest.mesh.prices().each(bits, journey.ruster.route).sum())
        took, state = self.greedy.costs.spent(journey), self.state
        if told > 0 and took > 0:
            state.off += (log(told / took) - state.off) * (0.3 if state.judged else 1.0)

    def _try(self) -> None:
        """Start a trial of the simplest contestant with a clear estimated saving."""
        auto, contest = self.auto, self.auto.contest
        against = auto.classed or ("agreedy" if self.greedy.order != auto.pipeline.written.operators else "written")
        name = contest.winner(against, LESSON, CONFIDENCE, auto.worthwhile)
        if name is None or name == auto.classed:
            if not auto.classed and contest.settled(LESSON):
                self._put_off()
            return
        if auto.classed:  # a more elaborate one must beat the simpler one; both then face one order again
            why = Reason.of("{name} is estimated to save against {other}", name=name, other=auto.classed)
            auto.bring({"": self.greedy.plan.route}, "trial", why, None, None)
            auto.classed = ""
        self.state.trial = name
        self._fresh()

    # Seen from outside

    def explain(self, believed: Explanation) -> Explanation:
        return believed

    def why(self) -> Reason:
        auto, greedy = self.auto, self.greedy
        if auto.classed:
            one, classes = self.state.one, self.state.classes
            told = str(auto.contest.contestants[auto.classed].why())
            if not one.seconds:
                return Reason.of("{name}: {told}", name=auto.classed, told=told)
            why = "{name}: {told}, measured to take {less:.0%} less work than one order"
            return Reason.of(why, name=auto.classed, told=told, less=1 - classes.mean / one.mean)
        rounds = greedy.scouting.pace.rounds
        if not rounds:
            return Reason("as written: nothing scouted yet")
        if greedy.order == auto.pipeline.written.operators:
            why = "as written: {rounds} rounds of scouts showed no order with clearly less work"
            return Reason.of(why, rounds=rounds)
        now, written = greedy.estimate(), greedy.price(auto.pipeline.written)
        if not now or not written:
            return Reason.of("A-Greedy's order: {told}", told=str(greedy.why()))
        why = "A-Greedy's order, estimated to take {less:.0%} less work than as written: {told}"
        return Reason.of(why, less=1 - now / written, told=str(greedy.why()))
