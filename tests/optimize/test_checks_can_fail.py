"""A check that can't fail checks nothing: for each one a policy that is broken in just that way, and caught."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import Visits
from thalweg.optimize.orders.agreedy import AGreedy
from thalweg.optimize.orders.chaos import Chaos
from thalweg.plan import Route, Routes, Ruster
from thalweg.testing import checks
from thalweg.testing.conformance import CHECKS


class NoPolicy:
    """Has no verb but route."""

    def __init__(self, pipeline: Any, seed: int = 0) -> None:
        self.name, self.plan = "none", Routes.single(pipeline.written)

    def route(self, batch: Batch) -> list[Ruster]:
        return [Ruster(None, self.plan.route)]


class Loses(AGreedy):
    def route(self, batch: Batch) -> list[Ruster]:
        return [replace(r, rows=None if r.rows is None else r.rows[:-1]) for r in super().route(batch)]


class Doubles(AGreedy):
    def route(self, batch: Batch) -> list[Ruster]:
        rusters = super().route(batch)
        return [*rusters, Ruster(np.arange(min(1, len(batch))), self.plan.route)]


class Strays(Chaos):
    """Takes any order, whatever the guards."""

    def _route(self) -> Route:
        return Route(tuple(self._random.permutation(len(self.pipeline)).tolist()))


class Unseeded(Chaos):
    def __post_init__(self) -> None:
        super().__post_init__()
        self._random = np.random.default_rng()


class ReadsTheClock(AGreedy):
    def route(self, batch: Batch) -> list[Ruster]:
        rusters = super().route(batch)
        return rusters[::-1] if int(time.time() / 1e9) % 2 else rusters


class TakesAnybodysChance(AGreedy):
    def sampling(self) -> float:
        return 0.01 + random.random() / 100


class TakesNumpysChance(AGreedy):
    def sampling(self) -> float:
        return 0.01 + float(np.random.random()) / 100  # noqa: NPY002


class ForgetsItsChance(AGreedy):
    def restore(self, record: dict[str, Any]) -> None:
        fresh = self._random.bit_generator.state
        super().restore(record)
        self._random.bit_generator.state = fresh


class ForgetsItsWindow(AGreedy):
    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.profile.keep_newest(0)
        self.view.rebuild(self.order, self.profile.bits)


class SnapshotIsNoJson(AGreedy):
    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"tried": self._tried}


class StartsOver(AGreedy):
    def restore(self, record: dict[str, Any]) -> None:
        self.tuples = int(record["tuples"])


class RestoresBlindly(AGreedy):
    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.plan = Routes(self.plan.version, {"": Route(tuple(record["order"]))})


class DividesByRows(AGreedy):
    def observe(self, visits: Visits) -> None:
        self.share = 1 / visits.rows
        super().observe(visits)


class NeedsTwoRows(AGreedy):
    def route(self, batch: Batch) -> list[Ruster]:
        if len(batch) == 1:
            np.arange(len(batch))[1]
        return super().route(batch)


class DividesByDrops(AGreedy):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if visits.rows > 100:
            assert len(self.profile), "none was dropped"


class DividesByPasses(AGreedy):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if visits.rows > 100:
            1 / sum(v.rows_out for j in visits.journeys for v in j.visits)


class NeedsTwoOperators(AGreedy):
    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.pipeline) == 1:
            self.pipeline.operators[1]


class NeedsAnOperator(AGreedy):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        self.first = self.pipeline.operators[0]


class ExpectsItsOwnRoutes(AGreedy):
    def observe(self, visits: Visits) -> None:
        for journey in visits.journeys:
            assert journey.ruster.route == self.plan.route
        super().observe(visits)


class ChangesInTheDark(AGreedy):
    def drain(self) -> list[Any]:
        return [e for e in super().drain() if e.kind != "reorder"]


class TellsOfNothing(AGreedy):
    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        self._events = [replace(e, change=None) for e in self._events]


class CountsBackwards(AGreedy):
    def drain(self) -> list[Any]:
        return [replace(e, version=-e.version) for e in super().drain()]


class SignsAsAnother(AGreedy):
    def drain(self) -> list[Any]:
        return [replace(e, by="someone") for e in super().drain()]


class ChangesInPlace(AGreedy):
    def reorder(self, order: Any, why: str, **told: Any) -> None:
        super().reorder(order, why, **told)
        self.plan = Routes(0, self.plan.routes)


class HandsOverTwice(AGreedy):
    def drain(self) -> list[Any]:
        return list(self._events)


class HidesAnOperator(AGreedy):
    def explain(self) -> Explanation:
        told = super().explain()
        return replace(told, operators=told.operators[1:])


class SharesTooMuch(AGreedy):
    def explain(self) -> Explanation:
        told = super().explain()
        return replace(told, routes=told.routes * 2)


class ExplainsByTrying(Chaos):
    def explain(self) -> Explanation:
        self._route()
        return super().explain()


@dataclass
class HoldsALambda(AGreedy):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.rank = lambda op: self.costs.per_row[op]


class WritesIntoVisits(AGreedy):
    def observe(self, visits: Visits) -> None:
        for journey in visits.journeys:
            if journey.passed is not None:
                journey.passed[:] = 1
        super().observe(visits)


BROKEN: list[tuple[type, str]] = [
    (NoPolicy, "is_a_policy"),
    (Loses, "every_row_in_one_ruster"),
    (Doubles, "every_row_in_one_ruster"),
    (Strays, "routes_are_allowed"),
    (Unseeded, "same_inputs_same_decisions"),
    (ReadsTheClock, "no_clock_and_no_global_chance"),
    (TakesAnybodysChance, "no_clock_and_no_global_chance"),
    (TakesNumpysChance, "no_clock_and_no_global_chance"),
    (ForgetsItsChance, "a_snapshot_continues"),
    (ForgetsItsWindow, "a_snapshot_continues"),
    (SnapshotIsNoJson, "a_snapshot_continues"),
    (StartsOver, "restoring_keeps_what_was_learned"),
    (RestoresBlindly, "a_restored_plan_is_allowed"),
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
    (ExplainsByTrying, "looking_changes_nothing"),
    (HoldsALambda, "pickles"),
    (WritesIntoVisits, "same_inputs_same_decisions"),
]


@pytest.mark.parametrize(("policy", "name"), BROKEN, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_broken_policy_is_caught(policy: type, name: str) -> None:
    check = next(c for c in checks(policy) if c.__name__ == name)
    with pytest.raises(Exception) as caught:
        check()
    assert f"policy {policy.__name__} fails the check {name}" in caught.value.__notes__[0]


def test_every_check_has_a_policy_that_fails_it() -> None:
    assert {c.__name__ for c in CHECKS} == {name for _, name in BROKEN}


@pytest.mark.parametrize("name", sorted({name for _, name in BROKEN}))
def test_what_they_are_made_of_passes(name: str) -> None:
    """So that a broken policy fails for what was broken in it (Chaos is among the registered ones)."""
    next(c for c in checks(AGreedy) if c.__name__ == name)()
