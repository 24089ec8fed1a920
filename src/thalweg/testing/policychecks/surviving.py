"""Checks that a policy survives batches, pipelines and visits of every kind."""

from __future__ import annotations

from collections.abc import Callable

from thalweg.optimize.orders.chaos import Chaos
from thalweg.testing import filtercourse, joincourse
from thalweg.testing.chance import Seeded
from thalweg.testing.courses import Make
from thalweg.testing.filtercourse import make_course
from thalweg.testing.filters import make_rusters
from thalweg.testing.policychecks.setting import small, survives


def survives_empty_batches(make: Make) -> None:
    """Batches without rows, first, between and last."""
    for course in small([0, 0, 300, 0, 300, 0, 0]):
        survives(make, course)


def survives_single_rows(make: Make) -> None:
    """A stream that comes one row at a time."""
    for course in small([1] * 40):
        survives(make, course)


def survives_all_rows_passing(make: Make) -> None:
    """No filter ever drops anything, and every row joins every other."""
    for course in small([8] * 6, keys=(1, 1)):
        survives(make, course)
    for shape in (filtercourse.free(3), filtercourse.guarded()):
        survives(make, make_course(shape, 8, pass_rate=1.0, batches=10))


def survives_all_rows_dropped(make: Make) -> None:
    """Every filter drops everything, so that later ones are met by profiling alone; and no row finds a partner."""
    for shape in (filtercourse.free(3), filtercourse.guarded()):
        survives(make, make_course(shape, 9, pass_rate=0.0, batches=10))
    survives(make, joincourse.meeting(300, 6, keys=(10**9, 10**9)))


def survives_one_operator(make: Make) -> None:
    """Nothing to choose."""
    survives(make, make_course(filtercourse.free(1), 10))
    survives(make, joincourse.pair())


def survives_no_operators(make: Make) -> None:
    """Nothing to do."""
    survives(make, make_course(filtercourse.free(0), 11, rows=[100, 0, 1, 1000]))


def observes_what_it_did_not_ask_for(make: Make) -> None:
    """After a restart, visits may come from routes of another plan, profiled in other ways: no harm comes of them."""
    for pipeline in (filtercourse.free(1), filtercourse.free(4), filtercourse.guarded()):
        course = make_course(pipeline, 12, batches=10, rows=1000, pass_rate=0.5 if len(pipeline) == 1 else None)
        policy = make(pipeline, 0)
        for number, bits in enumerate(course.pieces):
            policy.observe(course.visits(number, make_rusters(Seeded(number), pipeline, len(bits))))
        survives(lambda *_, policy=policy: policy, course)
    wild, run = joincourse.meeting().run(Chaos), joincourse.meeting().run(make)
    for _ in range(wild.length):
        wild.step()
        for name, watched in run.policies.items():
            for visits in wild.notes[name].visits:
                watched.policy.observe(visits)
    run.steps()


CHECKS: tuple[Callable[[Make], None], ...] = (
    survives_empty_batches,
    survives_single_rows,
    survives_all_rows_passing,
    survives_all_rows_dropped,
    survives_one_operator,
    survives_no_operators,
    observes_what_it_did_not_ask_for,
)
