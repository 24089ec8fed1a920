"""Checks of what a policy tells: events, versions and explanations."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from thalweg.testing import filtercourse, joincourse
from thalweg.testing.courses import Make, Step
from thalweg.testing.filtercourse import make_course
from thalweg.testing.policychecks.setting import courses
from thalweg.testing.watched import Watched


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


CHECKS: tuple[Callable[[Make], None], ...] = (
    events_tell_of_every_change,
    a_version_has_one_meaning,
    draining_empties,
    explains_everything,
)
