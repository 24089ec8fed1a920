"""`auto` over filters: some rows of a batch are tried on every filter, so the cost of each order on them is known.

The comparison is paired on the same rows, not a model. An order is followed only while sampled rows show that it costs
less than the written one; if the ledger allows no further look, only while the last look was clear and the total is a
gain. Routes by class learn from the same rows and are priced on each row before they learn from it (contest.py); they
come into force if they clearly save, the simplest first, and give way when they no longer do.

One class and one file: the order and the classes are judged on the same profiled rows and paid from one ledger, and
each decision reads the state of the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import DROPPED, Visits
from thalweg.optimize.auto.contest import conceivable
from thalweg.optimize.auto.lessons import CONFIDENCE, LESSON
from thalweg.optimize.orders.agreedy import BURST, CLUMP
from thalweg.optimize.orders.single import sampled
from thalweg.plan import Reason, Ruster
from thalweg.plan.reason import Fact

if TYPE_CHECKING:
    from thalweg.optimize.auto.auto import Auto


@dataclass
class State:
    """Plain JSON values."""

    adaptive: bool = False
    """Whether an order other than the written one, or classes, are in force."""
    unseen: int = 0
    """Rows on it since rows were last profiled."""
    followed: tuple[int, ...] = ()
    """Its order at that time."""
    rate: float = 0.0
    """Assumed saving of the classes in force, in seconds per row, until they are judged again."""
    owed: float = 0.0
    """Rows due for profiling and not sent yet."""
    unlooked: float = 0.0
    """Seconds of work since the last look."""
    rows: float = 1000.0
    """Moving average of rows per batch."""
    passing: int = 0
    """Rows since we last considered sampling."""
    worth: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """What A-Greedy's order saves per row, the standard error of that, and what the written order costs."""


class Sampled:
    """Looks at filters by profiling some rows of a batch."""

    rest = 0

    def __init__(self, auto: Auto) -> None:
        self.auto, self.greedy, self.ledger = auto, auto.greedy, auto.ledger
        self.state = State(followed=auto.order)
        self._probe: tuple[Ruster, Batch] | None = None
        self.look = auto.prices.ask + auto.prices.send
        """Seconds of one look: a ruster of profiled rows, and evaluating it."""

    def ahead(self, rows: int, sent: int) -> int:
        return 0

    def snapshot(self) -> dict[str, Any]:
        return asdict(self.state)

    def restore(self, record: dict[str, Any]) -> None:
        values = dict(record)
        self.state = State(**values | {"followed": tuple(values["followed"]), "worth": tuple(values["worth"])})

    # Routing

    def route(self, batch: Batch) -> list[Ruster]:
        auto, state = self.auto, self.state
        self._probe = None
        state.passing += len(batch)
        state.rows += 0.1 * (len(batch) - state.rows)
        if state.unlooked and not auto.classed:
            return [Ruster(None, auto.plan.route)]  # too little work since the last look to pay for a decision
        if auto.contested:
            auto.contest.batch(len(batch))
        if auto.classed:
            return self._route_classes(batch)
        sampling = self.greedy.sampling()
        if auto.contested and auto.contest.keen(LESSON):
            sampling = max(sampling, 10 * self.greedy.p)
        state.owed = min(state.owed + sampling * state.passing, BURST)
        state.passing = 0
        worth = self.greedy.clump()
        count = min(state.owed, self._affordable()) if state.owed >= worth else 0.0
        if count < worth:
            return [Ruster(None, auto.plan.route)]
        chosen = sampled(auto._random, len(batch), count / len(batch))
        state.owed = 0.0
        if not chosen.any():
            return [Ruster(None, auto.plan.route)]
        return [Ruster(np.flatnonzero(~chosen), auto.plan.route), self._profile(batch, chosen)]

    def _route_classes(self, batch: Batch) -> list[Ruster]:
        """Each class on its route; profiles the rows that the mesh wants, as far as the ledger allows."""
        auto, state = self.auto, self.state
        if auto.classed == "mesh":
            chosen = auto.contest.mesh.wish(batch)
        else:
            state.owed = min(state.owed + self.greedy.sampling() * len(batch), BURST)
            chosen = None
            if state.owed >= CLUMP:
                chosen, state.owed = sampled(auto._random, len(batch), state.owed / len(batch)), 0.0
        if chosen is not None:
            count, affordable = int(chosen.sum()), self._affordable()
            if count > affordable:
                chosen &= sampled(auto._random, len(batch), affordable / count)
            if affordable < CLUMP or not chosen.any():
                chosen = None
        rusters = auto.contest.contestants[auto.classed].work(batch, None if chosen is None else ~chosen)
        if chosen is not None:
            rusters.append(self._profile(batch, chosen))
        return rusters

    def _profile(self, batch: Batch, chosen: NDArray[np.bool_]) -> Ruster:
        rows = np.flatnonzero(chosen)
        ruster = Ruster(rows, self.auto.plan.route, "profile", "all")
        if self._dear():
            self._probe = (ruster, Batch(batch.data.take(rows), batch.number, batch.stream))
        return ruster

    def _affordable(self, more: float = 0.0) -> float:
        """The number of rows the ledger allows to profile now. Savings of unjudged classes are estimates too."""
        share = self.auto.regret + (self.auto.regret if self.state.adaptive else more)
        saved = self._saved()
        allowance = self.ledger.balance(min(saved, 0.5 * saved), share)
        if allowance <= 0.0:
            return 0.0
        everything = float(self.greedy.costs.per_row.sum())
        now = self.ledger.useful / max(self.auto.tuples, 1)
        return allowance / max(everything - now, 0.05 * everything)

    def _saved(self) -> float:
        return self.ledger.saved + self.state.unseen * self.state.rate

    def _dear(self) -> bool:
        """Whether rows take long enough for extra rusters and decisions to pay."""
        return conceivable(self.ledger.useful / max(self.auto.tuples, 1), self.auto.prices, self.state.rows)

    # Observing

    def observe(self, visits: Visits) -> None:
        auto, state = self.auto, self.state
        if state.unseen or state.adaptive:
            self._book(visits)
        if auto.classed:
            self._observe_classes(visits)
            return
        if not self._worth_a_look(visits):
            return
        self.greedy.observe(visits)
        self._enter(visits)
        judged = self._learn_classes(visits)
        decisions = self.greedy.drain()
        if auto.contested:
            auto.contest.drain()
        if any(e.kind == "change seen" for e in decisions):
            if auto.contested:
                auto.contest.forget()
            # A-Greedy's own order may not be in force.
            auto._events += [replace(e, by=auto.name, version=auto.plan.version, change=None) for e in decisions[:1]]
        if decisions or any(j.passed is not None for j in visits.journeys):
            state.worth = self._saving()
        self._weigh_order()
        if judged:
            self._climb()

    def _weigh_order(self) -> None:
        """Follow A-Greedy's order, adopt it, or go back to the written one."""
        auto, greedy = self.auto, self.greedy
        saving, error, cost = self.state.worth
        enough = len(greedy.profile) >= LESSON
        if self.state.adaptive:
            if enough and saving < 0:
                self._fall_back("A-Greedy's order no longer costs less than as written")
            elif self._affordable() < greedy.clump() and not self._clear():
                self._fall_back("following a changing stream has cost more than it saved")
            elif greedy.order != auto.order:
                auto.reorder(greedy.order, greedy.why(), before=self._cost_of(auto.order), after=greedy.estimate())
        elif (
            enough
            and saving > max(CONFIDENCE * error, auto.worthwhile * cost)
            and self._affordable(auto.regret) >= greedy.clump()
        ):
            self.state.adaptive = True
            greedy.change.reset()  # drop shares differ between orders
            why = "saves {share:.0%} against as written on {rows} sampled rows"
            reason = Reason.of(why, share=saving / cost, rows=len(greedy.profile))
            auto.reorder(greedy.order, reason, kind="adopt", before=cost, after=cost - saving)

    def _cost_of(self, order: tuple[int, ...]) -> float | None:
        profile = self.greedy.profile
        return profile.cost(order, self.greedy.costs.per_row) if len(profile) else None

    def _fall_back(self, why: str) -> None:
        saving, _, cost = self.state.worth
        self.state.adaptive = False
        self.greedy.change.reset()
        written = self.auto.pipeline.written.operators
        self.auto.reorder(written, why, kind="fall back", before=cost - saving, after=cost)

    def _climb(self) -> None:
        """Bring classes into force if they clearly save against the order in force."""
        auto = self.auto
        against = auto.classed or ("agreedy" if self.state.adaptive else "written")
        name = auto.contest.winner(against, LESSON, CONFIDENCE, auto.worthwhile)
        if name is None or self._affordable(auto.regret) < CLUMP:
            return
        saving = auto.contest.saving(name, against)
        self.state.adaptive, auto.classed = True, name
        self._rate_classes()
        self.greedy.change.reset()
        why = "{name}: {classes} classes save {share:.0%} against {against} on {rows} new sampled rows"
        facts: dict[str, Fact] = {
            "name": name,
            "classes": auto.contest.classes(name),
            "share": saving.mean / saving.cost,
        }
        told = Reason(
            why, facts | {"against": "as written" if against == "written" else against, "rows": saving.tuples}
        )
        routes = auto.contest.contestants[name].plan.routes
        auto.bring(routes, "adopt", told, saving.cost, saving.cost - saving.mean)

    def _rate_classes(self) -> None:
        saving = self.auto.contest.saving(self.auto.classed, "written")
        self.state.rate = max(saving.mean - saving.error, 0.0)

    def _observe_classes(self, visits: Visits) -> None:
        """Follow the classes in force, and give way to a simpler plan if that costs no more."""
        auto, contest = self.auto, self.auto.contest
        policy = contest.contestants[auto.classed]
        hidden = tuple(
            j if j.ruster.purpose != "work" else replace(j, ruster=replace(j.ruster, purpose="explore"))
            for j in visits.journeys
        )  # routes differ by class: their shares must not reach A-Greedy as those of one order
        self.greedy.observe(replace(visits, journeys=hidden))
        self._enter(visits)
        policy.observe(visits)
        judged = self._learn_classes(visits)
        self.greedy.drain()
        decisions = policy.drain()
        if any(e.kind == "drift" for e in decisions):
            contest.forget(follows=auto.classed)
            self.greedy.forget()
            self.state.rate = 0.0
        for other in contest.contestants.values():
            if other is not policy:
                other.drain()
        if dict(policy.plan.routes) != dict(auto.plan.routes):
            last = decisions[-1]
            auto.bring(policy.plan.routes, last.kind, last.why, last.cost_before, last.cost_after)
        elif decisions:
            auto.note(decisions[-1].kind, decisions[-1].why)
        if not judged:
            return
        written, greedy = (contest.saving(auto.classed, against) for against in ("written", "agreedy"))
        if written.tuples >= LESSON and written.mean < 0:
            self._step_down("written", "{name} no longer costs less than as written")
        elif contest.classes(auto.classed) < 2 or (greedy.tuples >= LESSON and greedy.mean < -greedy.error):
            self._step_down("agreedy", "one order costs no more than the classes of {name}")
        elif self.ledger.balance(self._saved(), 2 * auto.regret) < 0.0:
            self._step_down("written", "following a changing stream has cost more than it saved")
        else:
            self._climb()

    def _step_down(self, to: str, why: str) -> None:
        auto = self.auto
        saving, name = auto.contest.saving(auto.classed, to), auto.classed
        auto.classed, self.state.adaptive, self.state.rate = "", to == "agreedy", 0.0
        self.state.worth = self._saving()
        self.greedy.change.reset()
        route = self.greedy.plan.route if self.state.adaptive else auto.pipeline.written
        before, after = saving.cost - saving.mean or None, saving.cost or None
        auto.bring({"": route}, "fall back", Reason.of(why, name=name), before, after)

    # Learning

    def _learn_classes(self, visits: Visits) -> bool:
        """Collect profiled rows with their content, and teach them to the contestants, some dozens at a time; returns
        whether they were judged."""
        if self._probe is None:
            return False
        auto, lessons, contest = self.auto, self.auto.lessons, self.auto.contest
        ruster, sample = self._probe
        self._probe = None
        bits = next((j.passed for j in visits.journeys if j.ruster is ruster and j.passed is not None), None)
        if bits is None:
            return False
        content = contest.cbr.look(sample)
        if content is None or not content.shape[1] or not contest.cbr.attributes.usable.any():
            return False
        if lessons.add(content, bits) < LESSON and not auto.classed:
            return False
        if self.ledger.tuition + 0.25 * self.state.unseen * self.state.rate <= 0.0:
            lessons.keep_newest()
            return False
        looked = contest.mesh.looked
        gain = contest.enter(*lessons.take(), auto.pipeline.written.operators, self.greedy.order, auto.classed)
        if auto.classed and self.state.unseen:
            self.ledger.saved += gain * self.state.unseen
            self.state.unseen = 0
        self.ledger.taught += auto.prices.teach + auto.prices.ask * (contest.mesh.looked - looked)
        if auto.classed:
            self._rate_classes()
        return True

    def _clear(self) -> bool:
        """Whether the order in force can go unwatched for a while: since the last change it was seen to save, and so
        far it did."""
        saving, error, _ = self.state.worth
        sure = len(self.greedy.profile) >= LESSON and saving > CONFIDENCE * error
        return sure and self.ledger.balance(self.ledger.saved, self.auto.regret) > 0.0

    def _worth_a_look(self, visits: Visits) -> bool:
        """Whether the work since the last look pays for another, or rows were profiled."""
        seconds, state = visits.seconds, self.state
        state.unlooked += seconds
        often = self.auto.prices.ask / self.auto.regret
        settled = not state.adaptive and len(self.greedy.profile) >= 3 * BURST
        soon = state.unlooked < often or (state.unlooked < 4 * often and (settled or not self._dear()))
        if soon and all(j.passed is None for j in visits.journeys):
            self.ledger.useful += seconds
            return False
        state.unlooked = 0.0
        return True

    def _enter(self, visits: Visits) -> None:
        """Book useful work, and the extra cost of profiling: tries after a drop, and the look itself."""
        costs = self.greedy.costs.per_row
        for journey in visits.journeys:
            seconds = sum(v.seconds + v.extra_seconds for v in journey.visits)
            useful = seconds
            if journey.passed is not None:
                useful = min(seconds, float(sum(v.rows_in * costs[v.operator] for v in journey.visits)))
                self.ledger.spend(self.look)
            self.ledger.useful += useful
            self.ledger.spend(seconds - useful)

    def _book(self, visits: Visits) -> None:
        """Book what the route in force saved or lost against the written one since rows were last profiled."""
        state = self.state
        if state.adaptive:
            state.followed = self.auto.order
            state.unseen += visits.rows
        if not state.unseen or self.auto.classed:
            return  # the saving of classes is booked when they are priced
        written, costs = list(self.auto.pipeline.written), self.greedy.costs.per_row
        gains = []
        for journey in visits.journeys:
            if journey.passed is not None and journey.ruster.also == "all":
                drops = journey.passed == DROPPED
                gains.append(_cost(drops, written, costs) - _cost(drops, list(state.followed), costs))
        if gains:
            self.ledger.saved += float(np.concatenate(gains).mean()) * state.unseen
            state.unseen = 0

    def _saving(self) -> tuple[float, float, float]:
        """Per row: the saving of A-Greedy's order, its standard error, and the cost of the written order."""
        profile, costs = self.greedy.profile, self.greedy.costs.per_row
        if not len(profile):
            return 0.0, 0.0, 0.0
        total = len(profile) + profile.passed
        written, rival = self.auto.pipeline.written.operators, self.greedy.order
        cost = profile.cost(written, costs)
        if rival == written:
            return 0.0, 0.0, cost
        difference = profile.costs(written, costs) - profile.costs(rival, costs)
        fewer = profile.met(written) - profile.met(rival)
        saving = float(difference.sum() / total)
        by_chance = float(np.sqrt((difference**2).sum())) / total
        return saving, float(np.hypot(by_chance, saving * _doubt(fewer * costs, self.greedy.costs.error))), cost

    # Seen from outside

    def explain(self, believed: Explanation) -> Explanation:
        saving, _, cost = self._saving()
        now = cost - saving if self.state.adaptive else cost
        routes = (replace(believed.routes[0], route=self.auto.plan.route, estimate=now or None),)
        if self.state.adaptive:
            return replace(believed, routes=routes)
        why = "the best rival is {route}: it would save {share:.1%}, and must surely save more than {needed:.0%}"
        best = self.greedy.plan.route.named(self.auto.pipeline.names)
        to_change = Reason.of(why, route=best, share=saving / cost, needed=self.auto.worthwhile) if cost else Reason("")
        return replace(believed, routes=routes, to_change=to_change)

    def why(self) -> Reason:
        auto = self.auto
        if auto.classed:
            s, told = auto.contest.saving(auto.classed, "written"), auto.contest.contestants[auto.classed].why()
            if s.tuples < LESSON or not s.cost:
                return Reason.of("{name}: {told}", name=auto.classed, told=str(told))
            why = "{name}: {told}, saving {share:.0%} against as written"
            return Reason.of(why, name=auto.classed, told=str(told), share=s.mean / s.cost)
        saving, _, cost = self._saving()
        if self.state.adaptive:
            share = saving / cost if cost else 0.0
            return Reason.of("A-Greedy's order, saving {share:.0%} against as written", share=share)
        rows = len(self.greedy.profile) + self.greedy.profile.passed
        why = "as written: no order was shown to save more than {needed:.0%}, on {rows} sampled rows"
        return Reason.of(why, needed=auto.worthwhile, rows=rows)


def _doubt(changes: NDArray[np.float64], unsure: NDArray[np.float64]) -> float:
    """The number of standard errors of the costs that would reverse a saving.

    `changes` are seconds saved (negative: spent) at each operator. Errors of costs are factors, so we compare savings
    and extra costs as a ratio.
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
    """Cost of each row under an order: all filters through the first that drops it, or all."""
    placed = drops[:, order]
    first = np.where(placed.any(axis=1), placed.argmax(axis=1), len(order) - 1)
    return np.cumsum(costs[order])[first]
