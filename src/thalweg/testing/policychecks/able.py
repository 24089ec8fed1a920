"""Checks of what a policy can do beyond the three verbs: price routes, assign classes, stay frozen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import cast

import numpy as np

from thalweg.contract.policy import Classifying, Pricing
from thalweg.optimize.orders.written import Written
from thalweg.plan import Pipeline, Route
from thalweg.testing import joincourse
from thalweg.testing.courses import Make, assert_same
from thalweg.testing.filtercourse import FilterCourse
from thalweg.testing.policychecks.setting import courses, rows_of
from thalweg.testing.watched import assert_split


def prices_routes_without_a_trace(make: Make) -> None:
    """Where it prices routes, no allowed route costs less than nothing, and asking decides nothing."""
    for course in courses():
        run, seen = course.run(make), []
        able = [p for p in run.policies.values() if isinstance(p.policy, Pricing)]
        if not able:
            continue
        for _ in range(run.length):
            for watched, route in [(p, r) for p in able for r in _allowed(p.pipeline)]:
                price = cast("Pricing", watched.policy).price(route)
                assert price is None or 0 <= price < math.inf, f"{route.operators} costs {price}"
            seen.append(run.step())
        assert_same(seen, course.run(make).steps(), "asked for prices and not")


def _allowed(pipeline: Pipeline) -> list[Route]:
    """Some allowed routes."""
    orders = map(Route, itertools.islice(itertools.permutations(range(len(pipeline))), 30))
    return [route for route in orders if pipeline.allows(route)]


def classes_are_assigned_without_a_trace(make: Make) -> None:
    """Where it has classes, each row has one and its route is in force, and asking decides nothing."""
    for course in courses():
        if not isinstance(course, FilterCourse):
            continue
        run, seen = course.run(make), []
        policy = run.policies["s"].policy
        if not isinstance(policy, Classifying):
            continue
        for number in range(run.length):
            rusters = policy.assign(course.batch(number))
            assert_split(rusters, len(course.pieces[number]))
            used = {r.routes[i] for r in rusters for i in ([0] if r.ids is None else np.unique(r.ids))}
            assert used <= set(run.policies["s"].plan.routes.values()), "a route that is not in force"
            seen.append(run.step())
        assert_same(seen, course.run(make).steps(), "asked for classes and not")


def frozen_routes_stay(make: Make) -> None:
    """While a join is frozen its plan stays and its rows are the same; thawed, it goes on."""
    for course in (joincourse.meeting(), joincourse.lookups()):
        run = course.run(make)
        found = run.steps(run.length // 3)
        run.engine.freeze()
        before = {name: p.plan for name, p in run.policies.items()}
        found += run.steps(2 * run.length // 3)
        assert {name: p.plan for name, p in run.policies.items()} == before, "the plan changed while frozen"
        run.engine.thaw()
        found += run.steps()
        assert [s.rows for s in found] == rows_of(course, Written), "other rows than in written order"


CHECKS: tuple[Callable[[Make], None], ...] = (
    prices_routes_without_a_trace,
    classes_are_assigned_without_a_trace,
    frozen_routes_stay,
)
