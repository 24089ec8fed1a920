"""A check that can't fail checks nothing: for each one a policy that is broken in just that way, and caught.

The broken ones are made of `Fewest`, the policy of another package, and of `Drawing`, which adds chance to it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.thirdparty.src.thalweg_fewest import Fewest

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import Visits
from thalweg.plan import Event, Route, Routes, Ruster
from thalweg.testing import checks
from thalweg.testing.conformance import CHECKS


class Drawing(Fewest):
    """Sends some rows along routes drawn at random."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.chance = np.random.default_rng(self.seed)

    def draw(self) -> Route:
        wish = self.chance.permutation(len(self.pipeline)).tolist()
        return self.pipeline.closest(wish)

    def route(self, batch: Batch) -> list[Ruster]:
        profiled, rest = super().route(batch)
        return [profiled, replace(rest, route=self.draw(), purpose="explore")]

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"chance": self.chance.bit_generator.state}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.chance.bit_generator.state = record["chance"]


class NoPolicy:
    """Has no verb but route."""

    def __init__(self, pipeline: Any, seed: int = 0) -> None:
        self.name, self.plan = "none", Routes.single(pipeline.written)

    def route(self, batch: Batch) -> list[Ruster]:
        return [Ruster(None, self.plan.route)]


class Loses(Fewest):
    def route(self, batch: Batch) -> list[Ruster]:
        profiled, rest = super().route(batch)
        return [profiled, replace(rest, rows=rest.rows[:-1])]


class Doubles(Fewest):
    def route(self, batch: Batch) -> list[Ruster]:
        return [*super().route(batch), Ruster(np.arange(min(1, len(batch))), self.plan.route)]


class SendsTooManyScouts(Fewest):
    def ahead(self, rows: int, sent: int) -> int:
        return rows + 1 if sent < 3 else 0


class RestsBackwards(Fewest):
    rest = -1


class Strays(Drawing):
    """Takes any order, whatever the guards."""

    def draw(self) -> Route:
        return Route(tuple(self.chance.permutation(len(self.pipeline)).tolist()))


class Unseeded(Drawing):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.chance = np.random.default_rng()


class ReadsTheClock(Fewest):
    def route(self, batch: Batch) -> list[Ruster]:
        rusters = super().route(batch)
        return rusters[::-1] if int(time.time() / 1e9) % 2 else rusters


class TakesAnybodysChance(Drawing):
    def draw(self) -> Route:
        return self.pipeline.closest(random.sample(range(len(self.pipeline)), len(self.pipeline)))


class TakesNumpysChance(Drawing):
    def draw(self) -> Route:
        return self.pipeline.closest(np.random.permutation(len(self.pipeline)).tolist())  # noqa: NPY002


class ForgetsItsChance(Drawing):
    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record | {"chance": self.chance.bit_generator.state})


class ForgetsItsCounts(Fewest):
    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.tried, self.left = np.zeros((2, len(self.pipeline)))


class SnapshotIsNoJson(Fewest):
    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"tried": self.tried}


class SnapshotForgets(Fewest):
    """Starts its counts again whenever it is saved."""

    def snapshot(self) -> dict[str, Any]:
        record = super().snapshot()
        self.tried, self.left = np.zeros((2, len(self.pipeline)))
        return record


class StartsOver(Fewest):
    def restore(self, record: dict[str, Any]) -> None:
        self.tuples = int(record["tuples"])


class RestoresBlindly(Fewest):
    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.plan = Routes(self.plan.version, {"": Route(tuple(record["order"]))})


class PrimesWithNothing(Fewest):
    def prior(self) -> dict[str, Any]:
        return self.snapshot() | {"order": list(self.pipeline.written)}


class DividesByRows(Fewest):
    def observe(self, visits: Visits) -> None:
        self.share = 1 / visits.rows
        super().observe(visits)


class NeedsTwoRows(Fewest):
    def route(self, batch: Batch) -> list[Ruster]:
        if len(batch) == 1:
            np.arange(len(batch))[1]
        return super().route(batch)


class DividesByDrops(Fewest):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if visits.rows > 100:
            1 / sum(v.rows_in - v.rows_out for j in visits.journeys for v in j.visits)


class DividesByPasses(Fewest):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if visits.rows > 100:
            1 / sum(v.rows_out for j in visits.journeys for v in j.visits)


class NeedsTwoOperators(Fewest):
    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.pipeline) == 1:
            self.pipeline.operators[1]


class NeedsAnOperator(Fewest):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        self.first = self.pipeline.operators[0]


class ExpectsItsOwnRoutes(Fewest):
    def observe(self, visits: Visits) -> None:
        for journey in visits.journeys:
            assert journey.ruster.route == self.plan.route
        super().observe(visits)


class ChangesInTheDark(Fewest):
    def drain(self) -> list[Event]:
        return [e for e in super().drain() if e.change is None]


class TellsOfNothing(Fewest):
    def drain(self) -> list[Event]:
        return [replace(e, change=replace(e.change, after=e.change.before)) for e in super().drain() if e.change]


class CountsBackwards(Fewest):
    def drain(self) -> list[Event]:
        return [replace(e, version=-e.version) for e in super().drain()]


class SignsAsAnother(Fewest):
    def drain(self) -> list[Event]:
        return [replace(e, by="someone") for e in super().drain()]


class ChangesInPlace(Fewest):
    def reorder(self, order: Sequence[int], why: Any, **told: Any) -> None:
        super().reorder(order, why, **told)
        self.plan = Routes(0, self.plan.routes)


class HandsOverTwice(Fewest):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.told: list[Event] = []

    def drain(self) -> list[Event]:
        self.told += super().drain()
        return list(self.told)


class HidesAnOperator(Fewest):
    def explain(self) -> Explanation:
        told = super().explain()
        return replace(told, operators=told.operators[1:])


class SharesTooMuch(Fewest):
    def explain(self) -> Explanation:
        told = super().explain()
        return replace(told, routes=told.routes * 2)


class ExplainsByTrying(Drawing):
    def explain(self) -> Explanation:
        self.draw()
        return super().explain()


class PricesBelowZero(Fewest):
    def price(self, route: Route) -> float | None:
        return -1.0


class LearnsFromQuestions(Fewest):
    def price(self, route: Route) -> float | None:
        self.left[route.operators[0]] += 1000
        return None


class AssignsElsewhere(Fewest):
    def assign(self, batch: Batch) -> list[Ruster]:
        return [Ruster(None, self.pipeline.closest(self.order[::-1]))]


class AssignsAndLearns(Fewest):
    def assign(self, batch: Batch) -> list[Ruster]:
        self.tried[:] = 0
        return [Ruster(None, self.plan.route)]


class TurnsWhileFrozen(Fewest):
    """Has two classes, and changes its plan when it is asked for them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.plan = Routes(0, {"even": self.pipeline.written, "odd": self.pipeline.written})

    def reorder(self, order: Sequence[int], why: Any, **told: Any) -> None:
        pass

    def assign(self, batch: Batch) -> list[Ruster]:
        self.plan = self.plan.with_routes(self.plan.routes)
        return [Ruster(None, self.plan.route)]


class HoldsALambda(Fewest):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.rank = lambda op: self.rates[op]


class WritesIntoVisits(Fewest):
    def observe(self, visits: Visits) -> None:
        for journey in visits.journeys:
            if journey.passed is not None:
                journey.passed[:] = 1
        super().observe(visits)


BROKEN: list[tuple[type, str]] = [
    (NoPolicy, "is_a_policy"),
    (Loses, "every_row_in_one_ruster"),
    (Doubles, "every_row_in_one_ruster"),
    (SendsTooManyScouts, "every_row_in_one_ruster"),
    (RestsBackwards, "every_row_in_one_ruster"),
    (Strays, "routes_are_allowed"),
    (Loses, "the_answer_stays"),
    (Unseeded, "same_inputs_same_decisions"),
    (WritesIntoVisits, "same_inputs_same_decisions"),
    (ReadsTheClock, "no_clock_and_no_global_chance"),
    (TakesAnybodysChance, "no_clock_and_no_global_chance"),
    (TakesNumpysChance, "no_clock_and_no_global_chance"),
    (ForgetsItsChance, "a_snapshot_continues"),
    (ForgetsItsCounts, "a_snapshot_continues"),
    (SnapshotIsNoJson, "a_snapshot_continues"),
    (SnapshotForgets, "looking_changes_nothing"),
    (ExplainsByTrying, "looking_changes_nothing"),
    (HoldsALambda, "pickles"),
    (StartsOver, "restoring_keeps_what_was_learned"),
    (RestoresBlindly, "a_restored_plan_is_allowed"),
    (PrimesWithNothing, "a_prior_starts_where_others_are"),
    (DividesByRows, "survives_empty_batches"),
    (NeedsTwoRows, "survives_single_rows"),
    (DividesByDrops, "survives_all_rows_passing"),
    (DividesByPasses, "survives_all_rows_dropped"),
    (NeedsTwoOperators, "survives_one_operator"),
    (NeedsAnOperator, "survives_no_operators"),
    (ExpectsItsOwnRoutes, "observes_what_it_did_not_ask_for"),
    (ChangesInTheDark, "events_tell_of_every_change"),
    (TellsOfNothing, "events_tell_of_every_change"),
    (CountsBackwards, "events_tell_of_every_change"),
    (SignsAsAnother, "events_tell_of_every_change"),
    (ChangesInPlace, "a_version_has_one_meaning"),
    (HandsOverTwice, "draining_empties"),
    (HidesAnOperator, "explains_everything"),
    (SharesTooMuch, "explains_everything"),
    (PricesBelowZero, "prices_routes_without_a_trace"),
    (LearnsFromQuestions, "prices_routes_without_a_trace"),
    (AssignsElsewhere, "classes_are_assigned_without_a_trace"),
    (AssignsAndLearns, "classes_are_assigned_without_a_trace"),
    (TurnsWhileFrozen, "frozen_routes_stay"),
]


@pytest.mark.parametrize(("policy", "name"), BROKEN, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_broken_policy_is_caught(policy: type, name: str) -> None:
    check = next(c for c in checks(policy) if c.__name__ == name)
    with pytest.raises(Exception) as caught:
        check()
    assert f"policy {policy.__name__} fails the check {name}" in caught.value.__notes__[0]


def test_every_check_has_a_policy_that_fails_it() -> None:
    assert {c.__name__ for c in CHECKS} == {name for _, name in BROKEN}


@pytest.mark.parametrize("check", list(checks(Drawing)), ids=lambda c: c.__name__)
def test_what_they_are_made_of_passes(check: Any) -> None:
    """So that a broken policy fails for what was broken in it. (`Fewest` itself: `thirdparty/`.)"""
    check()
