"""Saving changes no decision, nor does going on from what was saved: every policy, filters and joins.

A run is saved at random steps, and in the second test goes on from there in fresh policies and a fresh engine. Events,
plans, rusters and rows stay the same.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from thalweg import optimize
from thalweg.testing import filtercourse, joincourse
from thalweg.testing.courses import Course, assert_same

COURSES: dict[str, Course] = {
    "filters": filtercourse.make_course(filtercourse.free(5), 21, batches=60, rows=600),
    "guarded filters": filtercourse.make_course(filtercourse.guarded(), 22, batches=40, rows=600),
    "kinds of rows": filtercourse.make_course(filtercourse.free(3), 23, batches=40, rows=600, kinds=3),
    "three streams": joincourse.meeting(),
    "tables": joincourse.lookups(1200, 30),
    "chain": joincourse.chained(60, 16),
}
CASES = [pytest.param(*case, id="-".join(case)) for case in itertools.product(optimize.names(), COURSES)]


@pytest.mark.parametrize(("policy", "course"), CASES)
def test_saving_changes_nothing(policy: str, course: str) -> None:
    make, chance = partial(optimize.make, policy), np.random.default_rng(31)
    whole, run, seen = COURSES[course].run(make).steps(), COURSES[course].run(make), []
    while run.taken < run.length:
        if chance.random() < 0.3:
            run.save()
        seen.append(run.step())
    assert_same(seen, whole, "saved and not")


@pytest.mark.parametrize(("policy", "course"), CASES)
def test_going_on_from_what_was_saved_changes_nothing(policy: str, course: str) -> None:
    make = partial(optimize.make, policy)
    whole = COURSES[course].run(make).steps()
    for seed in (32, 33):
        chance, run, seen = np.random.default_rng(seed), COURSES[course].run(make), []
        while run.taken < run.length:
            if run.taken == 1 or chance.random() < 0.3:
                saved, run = run.save(), COURSES[course].run(make)
                run.load(saved)
            seen.append(run.step())
        assert_same(seen, whole, "restored and not")
