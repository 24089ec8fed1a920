"""Checks of what a policy is and where it sends rows: every row once, on an allowed route, with the same answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from thalweg.contract.policy import Policy
from thalweg.optimize.orders.written import Written
from thalweg.plan import Routes
from thalweg.testing import filtercourse, joincourse
from thalweg.testing.chance import Seeded
from thalweg.testing.courses import Drive, Make
from thalweg.testing.filtercourse import make_course
from thalweg.testing.filters import make_pipeline
from thalweg.testing.joinrun import run as run_case
from thalweg.testing.joins import make_case
from thalweg.testing.policychecks.setting import courses, rows_of, small
from thalweg.testing.watched import watch


def is_a_policy(make: Make) -> None:
    """It has the verbs of the contract, a name, and routes in force from the start."""
    for course in courses():
        for watched in course.run(make).policies.values():
            assert isinstance(watched.policy, Policy), "a verb of the contract is missing"
            assert watched.name
            assert isinstance(watched.plan, Routes)
            for route in watched.plan.routes.values():
                assert watched.pipeline.allows(route)


def every_row_in_one_ruster(make: Make) -> None:
    """Each row of a batch is in exactly one ruster, whatever the size of the batch."""
    for course in small([400, 1, 3, 0, 397, 2, 64]):
        course.run(make).steps()
    make_course(filtercourse.free(2), 4, rows=[10_000, 1, 5_000]).run(make).steps()


def routes_are_allowed(make: Make) -> None:
    """Guards come before what they guard, stems after what connects them: on random filters and joins, always."""
    for seed in range(20):
        course = make_course(make_pipeline(Seeded(seed), 1 + seed % 10), seed, batches=4, rows=4000)
        _assert_plans_allowed(course.run(make, seed))
    _assert_plans_allowed(joincourse.chained(150, 6).run(make))
    _assert_plans_allowed(joincourse.product().run(make))


def _assert_plans_allowed(run: Drive) -> None:
    for _ in range(run.length):
        run.step()
        for watched in run.policies.values():
            for route in watched.plan.routes.values():
                assert watched.pipeline.allows(route), f"the plan has {route.operators}, not allowed"


def the_answer_stays(make: Make) -> None:
    """Whatever it decides, random joins give the rows that the written order gives, and so does a course of each kind."""
    for seed in range(300_000, 300_008):
        case = make_case(seed, policies=("written",), layouts=("hash",), long=seed % 4 == 0)
        found, wanted = run_case(case, policy=_watched(make)), run_case(case)
        assert Counter(map(repr, found.rows)) == Counter(map(repr, wanted.rows)), f"other rows for seed {seed}"
    for course in (joincourse.meeting(), joincourse.lookups(), joincourse.product()):
        assert rows_of(course, make) == rows_of(course, Written), "other rows than in written order"


def _watched(make: Make) -> Make:
    return lambda pipeline, seed: watch(make(pipeline, seed), pipeline)


CHECKS: tuple[Callable[[Make], None], ...] = (
    is_a_policy,
    every_row_in_one_ruster,
    routes_are_allowed,
    the_answer_stays,
)
