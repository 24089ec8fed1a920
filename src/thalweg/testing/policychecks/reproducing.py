"""Checks that decisions are reproducible: same inputs, same decisions, whether saved, restored, pickled or looked at."""

from __future__ import annotations

import json
import pickle
import random
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

from thalweg.testing.courses import Make, assert_same
from thalweg.testing.filtercourse import FilterCourse
from thalweg.testing.policychecks.setting import courses


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


CHECKS: tuple[Callable[[Make], None], ...] = (
    same_inputs_same_decisions,
    no_clock_and_no_global_chance,
    a_snapshot_continues,
    looking_changes_nothing,
    pickles,
)
