"""Conformance: what every policy must keep to, ours and those of others, as named checks that can fail.

    for check in thalweg.testing.checks(MyPolicy):
        check()

A check drives fresh policies along courses of filters and of joins (`courses.py`) and raises AssertionError with what
was broken. Nothing is timed; a check has the same outcome on every machine.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import pickle
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, cast
from unittest import mock

import numpy as np

from thalweg import optimize
from thalweg.contract.policy import Classifying, Policy, Pricing, Priming
from thalweg.optimize.orders.chaos import Chaos
from thalweg.optimize.orders.written import Written
from thalweg.plan import Pipeline, Route, Routes
from thalweg.testing import filtercourse, joincourse
from thalweg.testing.chance import Seeded
from thalweg.testing.courses import Course, Make, Run, Step, assert_same
from thalweg.testing.filtercourse import FilterCourse, make_course
from thalweg.testing.filters import make_pipeline, make_rusters
from thalweg.testing.joinrun import run as run_case
from thalweg.testing.joins import make_case
from thalweg.testing.watched import Watched, assert_allowed, assert_split, watch


@dataclass(frozen=True)
class Check:
    """One thing a policy must keep to; call it to find out."""

    function: Callable[[Make], None]
    make: Make
    policy: str

    @property
    def __name__(self) -> str:
        return self.function.__name__

    @property
    def about(self) -> str:
        return inspect.getdoc(self.function) or ""

    def __call__(self) -> None:
        try:
            self.function(self.make)
        except Exception as error:
            error.add_note(f"policy {self.policy} fails the check {self.__name__}: {self.about}")
            raise

    def __repr__(self) -> str:
        return f"Check({self.__name__}, {self.policy})"


def checks(policy: str | Make) -> Iterator[Check]:
    """All checks for a policy, given by its registered name or by its class.

    >>> from thalweg.optimize.orders.written import Written
    >>> sum(check() is None for check in checks(Written)) == len(CHECKS)
    True
    """
    make: Make = partial(optimize.make, policy) if isinstance(policy, str) else policy
    label = policy if isinstance(policy, str) else getattr(policy, "__name__", repr(policy))
    for function in CHECKS:
        yield Check(function, make, label)


# --- courses ----------------------------------------------------------------------------------------------------------


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


def _small(rows: list[int], *, pass_rate: float | None = None, keys: tuple[int, int] = (20, 60)) -> list[Course]:
    """The same kinds of courses with batches of these sizes."""
    shapes = (filtercourse.free(3), filtercourse.guarded())
    filters = [make_course(shape, 6, rows=rows, pass_rate=pass_rate) for shape in shapes]
    return [*filters, joincourse.meeting(rows, keys=keys), joincourse.chained(rows), joincourse.lookups(rows)]


def _survives(make: Make, course: Course) -> None:
    run = course.run(make)
    while run.taken < run.length:
        run.step()
        for policy in run.policies.values():
            policy.explain()
    for policy in run.policies.values():
        json.dumps(policy.snapshot())


# --- what it is -------------------------------------------------------------------------------------------------------


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
    for course in _small([400, 1, 3, 0, 397, 2, 64]):
        course.run(make).steps()
    make_course(filtercourse.free(2), 4, rows=[10_000, 1, 5_000]).run(make).steps()


def routes_are_allowed(make: Make) -> None:
    """Guards come before what they guard, stems after what connects them: on random filters and joins, always."""
    for seed in range(20):
        course = make_course(make_pipeline(Seeded(seed), 1 + seed % 10), seed, batches=4, rows=4000)
        _assert_plans_allowed(course.run(make, seed))
    _assert_plans_allowed(joincourse.chained(150, 6).run(make))
    _assert_plans_allowed(joincourse.product().run(make))


def _assert_plans_allowed(run: Run) -> None:
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
        assert _rows(course, make) == _rows(course, Written), "other rows than in written order"


def _watched(make: Make) -> Make:
    return lambda pipeline, seed: watch(make(pipeline, seed), pipeline)


def _rows(course: Course, make: Make) -> list[tuple[Any, ...]]:
    return [step.rows for step in course.run(make).steps()]


# --- reproducible -----------------------------------------------------------------------------------------------------


def same_inputs_same_decisions(make: Make) -> None:
    """Same seed, same batches, same recorded costs: same rusters, same events, same plans."""
    for course in courses():
        assert_same(course.run(make).steps(), course.run(make).steps(), "run twice")


def no_clock_and_no_global_chance(make: Make) -> None:
    """Decisions depend neither on the time of day nor on anybody else's random numbers."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        runs = []
        for turn in (1, 2):
            random.seed(turn)
            np.random.seed(turn)  # noqa: NPY002
            names = ("time", "perf_counter", "monotonic", "process_time")
            clocks = {c: mock.Mock(return_value=turn * 1e9) for c in names}
            with mock.patch.multiple(time, **clocks):
                runs.append([course.run(make).steps(6) for course in courses()])
        for one, two in zip(*runs, strict=True):
            assert_same(one, two, "another clock, other random numbers elsewhere")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


def a_snapshot_continues(make: Make) -> None:
    """A snapshot, restored into a fresh policy: it goes on exactly as the original does."""
    for course in courses():
        run, whole, saved = course.run(make), [], []
        for _ in range(run.length):
            saved.append(run.save())
            whole.append(run.step())
        for stop in (0, 1, run.length // 2 + 1, run.length - 2):
            fresh = course.run(make)
            fresh.load(saved[stop])
            assert_same(fresh.steps(), whole[stop:], f"restored after {stop} steps")


def looking_changes_nothing(make: Make) -> None:
    """Explanations and snapshots are taken at any time and leave no trace in what is decided."""
    for course in courses():
        run, seen = course.run(make), []
        for _ in range(run.length):
            for policy in run.policies.values():
                policy.explain()
                policy.snapshot()
            run.save()
            seen.append(run.step())
        assert_same(seen, course.run(make).steps(), "looked at and not")


def pickles(make: Make) -> None:
    """A policy travels to workers by pickle and goes on there as it would have here."""
    for course in courses():
        run = course.run(make)
        run.steps(run.length * 3 // 4)
        for watched in run.policies.values():
            twin = pickle.loads(pickle.dumps(watched.policy))
            assert json.dumps(twin.snapshot()) == json.dumps(watched.snapshot()), "pickling lost something"
            if isinstance(course, FilterCourse):
                other = course.run(lambda *_, twin=twin: twin)
                other.taken = run.taken
                assert_same(other.steps(), run.steps(), "pickled")


# --- what is kept -----------------------------------------------------------------------------------------------------


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


# --- what it survives -------------------------------------------------------------------------------------------------


def survives_empty_batches(make: Make) -> None:
    """Batches without rows, first, between and last."""
    for course in _small([0, 0, 300, 0, 300, 0, 0]):
        _survives(make, course)


def survives_single_rows(make: Make) -> None:
    """A stream that comes one row at a time."""
    for course in _small([1] * 40):
        _survives(make, course)


def survives_all_rows_passing(make: Make) -> None:
    """No filter ever drops anything, and every row joins every other."""
    for course in _small([8] * 6, keys=(1, 1)):
        _survives(make, course)
    for shape in (filtercourse.free(3), filtercourse.guarded()):
        _survives(make, make_course(shape, 8, pass_rate=1.0, batches=10))


def survives_all_rows_dropped(make: Make) -> None:
    """Every filter drops everything, so that later ones are met by profiling alone; and no row finds a partner."""
    for shape in (filtercourse.free(3), filtercourse.guarded()):
        _survives(make, make_course(shape, 9, pass_rate=0.0, batches=10))
    _survives(make, joincourse.meeting(300, 6, keys=(10**9, 10**9)))


def survives_one_operator(make: Make) -> None:
    """Nothing to choose."""
    _survives(make, make_course(filtercourse.free(1), 10))
    _survives(make, joincourse.pair())


def survives_no_operators(make: Make) -> None:
    """Nothing to do."""
    _survives(make, make_course(filtercourse.free(0), 11, rows=[100, 0, 1, 1000]))


def observes_what_it_did_not_ask_for(make: Make) -> None:
    """After a restart, visits may come from routes of another plan, profiled in other ways: no harm comes of them."""
    for pipeline in (filtercourse.free(1), filtercourse.free(4), filtercourse.guarded()):
        course = make_course(pipeline, 12, batches=10, rows=1000, pass_rate=0.5 if len(pipeline) == 1 else None)
        policy = make(pipeline, 0)
        for number, bits in enumerate(course.pieces):
            policy.observe(course.visits(number, make_rusters(Seeded(number), pipeline, len(bits))))
        _survives(lambda *_, policy=policy: policy, course)
    wild, run = joincourse.meeting().run(Chaos), joincourse.meeting().run(make)
    for _ in range(wild.length):
        wild.step()
        for name, watched in run.policies.items():
            for visits in wild.notes[name].visits:
                watched.policy.observe(visits)
    run.steps()


# --- what it tells ----------------------------------------------------------------------------------------------------


def events_tell_of_every_change(make: Make) -> None:
    """Each change of the plan is an event with its version; versions only grow; a change has two different sides."""
    for course in courses():
        run = course.run(make)
        known = [(p.plan.version, 0) for p in run.policies.values()]
        for number, step in enumerate(run.steps()):
            for i, watched in enumerate(run.policies.values()):
                known[i] = _follow(watched, step, i, *known[i])
                told, now = known[i][0], step.versions[i]
                assert now == told, f"step {number}: the plan is version {now}, events tell of {told}"


def _follow(watched: Watched, step: Step, i: int, version: int, tuples: int) -> tuple[int, int]:
    for event in step.events[i]:
        assert event.by == watched.name, f"{event} is not signed by {watched.name}"
        assert str(event.why), f"{event} does not say why"
        assert event.tuples >= tuples, f"{event} goes back in the stream"
        json.dumps(event.record())
        assert event.version >= version, f"{event} after version {version}"
        if event.change is not None:
            assert event.change.before != event.change.after, f"{event} changes nothing"
            assert event.version > version, f"{event} changes the routes without a new version"
        version, tuples = event.version, event.tuples
    return version, tuples


def a_version_has_one_meaning(make: Make) -> None:
    """Routes of one version are the same routes: what changed has a new version."""
    for course in courses():
        run = course.run(make)
        known = {
            (i, p.plan.version): tuple((k, r.operators) for k, r in p.plan.routes.items())
            for i, p in enumerate(run.policies.values())
        }
        for step in run.steps():
            for i, (version, routes) in enumerate(zip(step.versions, step.routes, strict=True)):
                assert known.setdefault((i, version), routes) == routes, f"version {version} has two meanings"


def draining_empties(make: Make) -> None:
    """Events are handed over once."""
    for course in courses():
        run = course.run(make)
        run.steps()
        for policy in run.policies.values():
            policy.drain()
            assert policy.drain() == [], "events were handed over twice"


def explains_everything(make: Make) -> None:
    """All operators are named, each route is allowed, and the shares of the classes sum to 1: before, while, after."""
    for course in [*courses(), make_course(filtercourse.free(0), 1, rows=[10]), joincourse.pair()]:
        run = course.run(make)
        for _ in range(run.length + 1):
            for watched in run.policies.values():
                _assert_explained(watched)
            if run.taken < run.length:
                run.step()


def _assert_explained(watched: Watched) -> None:
    told, pipeline = watched.explain(), watched.pipeline
    assert told.policy == watched.name
    assert [o.name for o in told.operators] == pipeline.names, f"operators {told.operators}"
    for op, view in zip(pipeline.operators, told.operators, strict=True):
        most = 1 if op.kind == "filter" else math.inf  # a stem has matches, maybe several
        assert view.pass_rate is None or 0 <= view.pass_rate <= most, f"pass rate of {view}"
        least = (
            view.cost is None or view.cost > 0 or (op.kind == "stem" and view.cost == 0)
        )  # an empty window costs none
        assert least, f"cost of {view}"
    assert abs(sum(r.share for r in told.routes) - 1) < 1e-9, f"shares {[r.share for r in told.routes]}"
    assert all(pipeline.allows(r.route) for r in told.routes)
    assert str(told.why), "no reason is given"


# --- capabilities -----------------------------------------------------------------------------------------------------


def prices_routes_without_a_trace(make: Make) -> None:
    """Where it prices routes, every allowed route costs nothing less than zero, and asking decides nothing."""
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
        assert [s.rows for s in found] == _rows(course, Written), "other rows than in written order"


CHECKS: tuple[Callable[[Make], None], ...] = (
    is_a_policy,
    every_row_in_one_ruster,
    routes_are_allowed,
    the_answer_stays,
    same_inputs_same_decisions,
    no_clock_and_no_global_chance,
    a_snapshot_continues,
    looking_changes_nothing,
    pickles,
    restoring_keeps_what_was_learned,
    a_restored_plan_is_allowed,
    a_prior_starts_where_others_are,
    survives_empty_batches,
    survives_single_rows,
    survives_all_rows_passing,
    survives_all_rows_dropped,
    survives_one_operator,
    survives_no_operators,
    observes_what_it_did_not_ask_for,
    events_tell_of_every_change,
    a_version_has_one_meaning,
    draining_empties,
    explains_everything,
    prices_routes_without_a_trace,
    classes_are_assigned_without_a_trace,
    frozen_routes_stay,
)
