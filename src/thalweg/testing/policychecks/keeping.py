"""Checks of what a record of a policy brings to another one."""

from __future__ import annotations

import json
from collections.abc import Callable

from thalweg.contract.policy import Priming
from thalweg.testing import filtercourse
from thalweg.testing.courses import Make
from thalweg.testing.filtercourse import make_course
from thalweg.testing.policychecks.setting import courses
from thalweg.testing.watched import assert_allowed


def restoring_keeps_what_was_learned(make: Make) -> None:
    """A policy of another seed takes up plan and version from a snapshot: a new worker starts where others are."""
    for course in courses():
        run = course.run(make)
        run.steps(run.length - 2)
        fresh = course.run(make, seed=6)
        fresh.load(run.save())
        for name, policy in run.policies.items():
            new = fresh.policies[name]
            assert dict(new.plan.routes) == dict(policy.plan.routes), f"{new.plan} where {policy.plan} was learned"
            assert new.plan.version == policy.plan.version
        fresh.steps()


def a_restored_plan_is_allowed(make: Make) -> None:
    """What was learned before a guard was added to the query never brings in a route that breaks the guard."""
    course = make_course(filtercourse.free(5), 1)
    guarded = filtercourse.guarded()
    run = course.run(make)
    for number in range(run.length):
        run.step()
        fresh = make(guarded, 5)
        fresh.restore(json.loads(json.dumps(run.policies["s"].snapshot())))
        for route in fresh.plan.routes.values():
            assert guarded.allows(route), f"{route.operators} was restored into {guarded}"
        assert_allowed(fresh.route(course.batch(number)), guarded)


def a_prior_starts_where_others_are(make: Make) -> None:
    """Where it has a smaller record for new workers, that brings the same routes in force."""
    for course in courses():
        run = course.run(make)
        run.steps()
        for name, watched in run.policies.items():
            if isinstance(watched.policy, Priming):
                fresh = course.run(make, seed=6).policies[name]
                fresh.restore(json.loads(json.dumps(watched.policy.prior())))
                assert dict(fresh.plan.routes) == dict(watched.plan.routes), "the prior brings other routes"


CHECKS: tuple[Callable[[Make], None], ...] = (
    restoring_keeps_what_was_learned,
    a_restored_plan_is_allowed,
    a_prior_starts_where_others_are,
)
