"""Courses that the checks of a policy are run on: filters and joins, each kind small enough to be run many times."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from thalweg.testing import filtercourse, joincourse
from thalweg.testing.courses import Course, Make
from thalweg.testing.filtercourse import make_course


@cache
def courses() -> tuple[Course, ...]:
    """Filters that are free, guarded, and whose rates depend on content; joins of streams, of a chain, with tables."""
    return (
        make_course(filtercourse.free(4), 1),
        make_course(filtercourse.guarded(), 2),
        make_course(filtercourse.free(3), 3, batches=24, kinds=3),
        joincourse.meeting(),
        joincourse.chained(),
        joincourse.lookups(),
    )


def small(rows: list[int], *, keys: tuple[int, int] = (20, 60)) -> list[Course]:
    """The same kinds of courses with batches of these sizes."""
    shapes = (filtercourse.free(3), filtercourse.guarded())
    filters = [make_course(shape, 6, rows=rows) for shape in shapes]
    return [*filters, joincourse.meeting(rows, keys=keys), joincourse.chained(rows), joincourse.lookups(rows)]


def survives(make: Make, course: Course) -> None:
    """Drive a policy along a course, asking it to explain itself on the way."""
    run = course.run(make)
    while run.taken < run.length:
        run.step()
        for policy in run.policies.values():
            policy.explain()
    for policy in run.policies.values():
        json.dumps(policy.snapshot())


def rows_of(course: Course, make: Make) -> list[tuple[Any, ...]]:
    """The rows that come out of each step."""
    return [step.rows for step in course.run(make).steps()]
