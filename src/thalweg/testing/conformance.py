"""Conformance: what every policy must keep to, ours and those of others, as named checks that can fail.

    for check in thalweg.testing.checks(MyPolicy):
        check()

A check drives fresh policies over seeded streams of known pass bits, through the real fabric with recorded costs, and
raises AssertionError with what was broken. Nothing is timed; a check gives the same outcome on every machine.
"""

from __future__ import annotations

import inspect
import json
import pickle
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import PASSED, Visits
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter, Rows, Verdict
from thalweg.execute.meter import RecordedMeter
from thalweg.plan import Event, Operator, Pipeline, Routes, Ruster
from thalweg.testing.chance import Seeded
from thalweg.testing.filters import make_pipeline, make_rusters

Make = Callable[[Pipeline, int], Policy]
"""A policy class, or anything else that makes a policy of a pipeline and a seed."""


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


# --- streams ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """Batches of tuples whose pass bits are known, and the recorded cost of each operator."""

    pipeline: Pipeline
    pieces: tuple[NDArray[np.bool_], ...]
    costs: tuple[float, ...]
    kinds: tuple[NDArray[np.int64], ...] = ()
    """Content: what kind each tuple is of, where kinds have their own pass rates."""

    def batch(self, number: int) -> Batch:
        columns: dict[str, NDArray[Any]] = {"row": np.arange(len(self.pieces[number]))}
        if self.kinds:
            columns["kind"] = self.kinds[number]
        return Batch(pa.record_batch(columns), number)

    def visits(self, number: int, rusters: Sequence[Ruster]) -> Visits:
        """Through the real fabric, a filter for each operator; stems then get as many matches as a stem might find."""
        bits = self.pieces[number]
        filters = [Known(op.name, bits[:, i]) for i, op in enumerate(self.pipeline.operators)]
        kept, visits = Fabric(self.pipeline, filters, RecordedMeter(self.costs)).filter(self.batch(number), rusters)
        assert np.array_equal(kept, bits.all(axis=1)), "rows were lost or doubled on their routes"
        journeys = []
        for journey in visits.journeys:
            seen = tuple(
                replace(v, rows_out=3 * v.rows_out - v.rows_out // 2, survivors=v.rows_out)
                if self.pipeline.operators[v.operator].kind == "stem"
                else v
                for v in journey.visits
            )
            matches = None
            if journey.passed is not None:
                matches = np.where(journey.passed == PASSED, 2, journey.passed).astype(np.int64)
                journey.passed.flags.writeable = matches.flags.writeable = False  # visits are told, not lent
            joined = any(op.kind == "stem" for op in self.pipeline.operators)
            journeys.append(replace(journey, visits=seen, matches=matches if joined else None))
        return replace(visits, journeys=tuple(journeys))


class Known(Filter):
    """A filter that knows its verdict for each row, by the number in the column `row`."""

    def __init__(self, name: str, verdicts: NDArray[np.bool_]) -> None:
        super().__init__(name, verdicts.__getitem__, ("row",))

    def evaluate(self, batch: pa.RecordBatch, rows: Rows | None) -> Verdict:
        numbers = batch.column("row").to_numpy()
        return Verdict(self.function(numbers if rows is None else numbers[rows]))


def make_stream(
    pipeline: Pipeline,
    seed: int,
    *,
    batches: int = 20,
    rows: int | Sequence[int] = 2000,
    pass_rate: float | None = None,
    kinds: int = 1,
) -> Stream:
    """Correlated operators of unequal cost; in the middle of the stream their pass rates change places. With several
    kinds of tuples each kind has its own rates, and a column tells the kind."""
    random = np.random.default_rng([seed, len(pipeline)])
    n = len(pipeline)
    rates = np.linspace(0.95, 0.2, n) if pass_rate is None else np.full(n, pass_rate)
    costs = tuple(float(c) for c in random.choice([1e-6, 2e-6, 5e-6], n))
    sizes = [rows] * batches if isinstance(rows, int) else list(rows)
    pieces = []
    kind: list[NDArray[np.int64]] = []
    for k, size in enumerate(sizes):
        shared = random.random((size, 1))
        own = random.random((size, n))
        value = np.where(random.random((size, n)) < 0.4, shared, own)
        now = rates if k < len(sizes) // 2 else rates[::-1]
        if kinds > 1:
            kind.append(random.integers(0, kinds, size))
            now = np.array([np.roll(now, turn) for turn in range(kinds)])[kind[-1]]
        pieces.append(value < now)
    return Stream(pipeline, tuple(pieces), costs, tuple(kind))


def _filters(count: int) -> Pipeline:
    return Pipeline("s", tuple(Operator(f"f{i}") for i in range(count)))


GUARDED = Pipeline(
    "s",
    (
        Operator("f0", after=frozenset({3})),
        Operator("f1"),
        Operator("f2", after=frozenset({0})),
        Operator("f3"),
        Operator("f4"),
    ),
)
PRODUCT = Pipeline(
    "s",
    (
        Operator("s0", "stem", near=frozenset({1})),
        Operator("s1", "stem", near=frozenset({0})),
        Operator("s2", "stem", near=frozenset({3})),
        Operator("s3", "stem", near=frozenset({2})),
        Operator("f4"),
    ),
)
"""Two pairs of stems that nothing connects with the arriving input: a product with each, one pair after the other."""
JOINED = Pipeline(
    "s",
    (
        Operator("f0"),
        Operator("s1", "stem"),
        Operator("s2", "stem", near=frozenset({1})),
        Operator("s3", "stem", near=frozenset({1, 2})),
        Operator("f4", after=frozenset({0})),
    ),
)


def _streams() -> list[Stream]:
    """Enough tuples that a policy with the thesis' constants comes to decide something."""
    kinds = make_stream(_filters(4), 1, batches=24, kinds=3)
    return [make_stream(_filters(4), 1), make_stream(GUARDED, 2), make_stream(JOINED, 3), kinds]


# --- driving ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """What a policy did with one batch, as plain values."""

    rusters: tuple[tuple[Any, ...], ...]
    events: tuple[Event, ...]
    routes: tuple[tuple[str, tuple[int, ...]], ...]
    version: int


def drive(policy: Policy, stream: Stream, first: int = 0, last: int | None = None) -> list[Step]:
    """Send batches of a stream through a policy and record what it does."""
    steps = []
    for number in range(first, len(stream.pieces) if last is None else last):
        rusters = policy.route(stream.batch(number))
        policy.observe(stream.visits(number, rusters))
        routes = tuple((label, route.operators) for label, route in policy.plan.routes.items())
        told = tuple(
            (None if r.rows is None else r.rows.tobytes(), r.route.operators, r.purpose, r.also, r.label)
            for r in rusters
        )
        steps.append(Step(told, tuple(policy.drain()), routes, policy.plan.version))
    return steps


def _assert_same(one: Sequence[Step], two: Sequence[Step], what: str) -> None:
    for number, (a, b) in enumerate(zip(one, two, strict=True)):
        assert a.events == b.events, f"{what}: other events at batch {number}: {a.events} and {b.events}"
        assert a.routes == b.routes, f"{what}: another plan after batch {number}: {a.routes} and {b.routes}"
        assert a == b, f"{what}: other rusters at batch {number}"


def _assert_split(rusters: Sequence[Ruster], rows: int) -> None:
    parts = [np.arange(rows) if r.rows is None else np.asarray(r.rows) for r in rusters]
    for part in parts:
        assert (part.dtype.kind, part.ndim) == ("i", 1), f"rows are positions, not {part.dtype} of shape {part.shape}"
    together = np.sort(np.concatenate([*parts, np.zeros(0, np.int64)]))
    assert together.tolist() == list(range(rows)), f"{rows} rows were split into {[len(p) for p in parts]}"


def _assert_allowed(rusters: Sequence[Ruster], pipeline: Pipeline) -> None:
    for ruster in rusters:
        assert pipeline.allows(ruster.route), f"{ruster.route.operators} is not allowed in {pipeline}"
        if isinstance(ruster.also, frozenset):
            assert ruster.also <= set(range(len(pipeline))), f"also={ruster.also} names operators that are not there"


def _survives(make: Make, stream: Stream) -> None:
    policy = make(stream.pipeline, 0)
    for number in range(len(stream.pieces)):
        rusters = policy.route(stream.batch(number))
        _assert_split(rusters, len(stream.pieces[number]))
        _assert_allowed(rusters, stream.pipeline)
        policy.observe(stream.visits(number, rusters))
        policy.drain()
        policy.explain()
    json.dumps(policy.snapshot())


# --- the checks -------------------------------------------------------------------------------------------------------


def is_a_policy(make: Make) -> None:
    """It has the verbs of the contract, a name, and a plan in force from the start."""
    for stream in _streams():
        policy = make(stream.pipeline, 0)
        assert isinstance(policy, Policy), "a verb of the contract is missing"
        assert policy.name
        assert isinstance(policy.plan, Routes)
        for route in policy.plan.routes.values():
            assert stream.pipeline.allows(route)


def every_row_in_one_ruster(make: Make) -> None:
    """Each row of a batch is in exactly one ruster, whatever the size of the batch."""
    sizes = [1000, 1, 3, 0, 997, 2, 10_000, 64]
    for pipeline in (_filters(2), GUARDED, JOINED):
        stream = make_stream(pipeline, 4, rows=sizes)
        policy = make(pipeline, 0)
        for number, size in enumerate(sizes):
            rusters = policy.route(stream.batch(number))
            _assert_split(rusters, size)
            policy.observe(stream.visits(number, rusters))


def routes_are_allowed(make: Make) -> None:
    """Guards come before what they guard, stems after what connects them: on random pipelines, always."""
    drawn = [make_pipeline(Seeded(seed), 1 + seed % 10, stems=seed % 3 == 2) for seed in range(30)]
    for seed, pipeline in enumerate([GUARDED, JOINED, PRODUCT, *drawn]):
        stream = make_stream(pipeline, seed, batches=4, rows=4000)
        policy = make(pipeline, seed)
        for number in range(len(stream.pieces)):
            rusters = policy.route(stream.batch(number))
            _assert_allowed(rusters, pipeline)
            policy.observe(stream.visits(number, rusters))
            for route in policy.plan.routes.values():
                assert pipeline.allows(route), f"the plan has {route.operators}, not allowed in {pipeline}"


def same_inputs_same_decisions(make: Make) -> None:
    """Same seed, same batches, same recorded costs: same rusters, same events, same plans."""
    for stream in _streams():
        one, two = drive(make(stream.pipeline, 5), stream), drive(make(stream.pipeline, 5), stream)
        _assert_same(one, two, "run twice")


def no_clock_and_no_global_chance(make: Make) -> None:
    """Decisions depend neither on the time of day nor on anybody else's random numbers."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        runs = []
        for turn in (1, 2):
            random.seed(turn)
            np.random.seed(turn)  # noqa: NPY002
            clocks = {
                c: mock.Mock(return_value=turn * 1e9) for c in ("time", "perf_counter", "monotonic", "process_time")
            }
            with mock.patch.multiple(time, **clocks):
                runs.append([drive(make(s.pipeline, 5), s, last=6) for s in _streams()])
        for one, two in zip(*runs, strict=True):
            _assert_same(one, two, "another clock, other random numbers elsewhere")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


def a_snapshot_continues(make: Make) -> None:
    """A snapshot, through JSON, restored into a fresh policy: it goes on exactly as the original would have."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        records, whole = [], []
        for number in range(len(stream.pieces)):
            records.append(json.dumps(policy.snapshot()))
            whole += drive(policy, stream, number, number + 1)
        for stop in (0, 1, len(records) // 2 + 1, len(records) - 2):
            fresh = make(stream.pipeline, 5)
            fresh.restore(json.loads(records[stop]))
            _assert_same(drive(fresh, stream, stop), whole[stop:], f"restored after {stop} batches")


def restoring_keeps_what_was_learned(make: Make) -> None:
    """A policy of another seed takes up plan and version from a snapshot: a new worker starts where others are."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        drive(policy, stream)
        fresh = make(stream.pipeline, 6)
        fresh.restore(json.loads(json.dumps(policy.snapshot())))
        assert dict(fresh.plan.routes) == dict(policy.plan.routes), f"{fresh.plan} where {policy.plan} was learned"
        assert fresh.plan.version == policy.plan.version
        drive(fresh, stream, last=2)


def a_restored_plan_is_allowed(make: Make) -> None:
    """What was learned before a guard was added to the query never brings in a route that breaks the guard."""
    free = _filters(5)
    guarded = Pipeline("s", tuple(replace(op, after=GUARDED.operators[i].after) for i, op in enumerate(free.operators)))
    stream = make_stream(free, 1)
    policy = make(free, 5)
    for number in range(len(stream.pieces)):
        drive(policy, stream, number, number + 1)
        fresh = make(guarded, 5)
        fresh.restore(json.loads(json.dumps(policy.snapshot())))
        for route in fresh.plan.routes.values():
            assert guarded.allows(route), f"{route.operators} was restored into {guarded}"
        _assert_allowed(fresh.route(stream.batch(number)), guarded)


def survives_empty_batches(make: Make) -> None:
    """Batches without rows, first, between and last."""
    for pipeline in (_filters(3), GUARDED, JOINED):
        _survives(make, make_stream(pipeline, 6, rows=[0, 0, 500, 0, 500, 0, 0]))


def survives_single_rows(make: Make) -> None:
    """A stream that comes one row at a time."""
    for pipeline in (_filters(3), GUARDED, JOINED):
        _survives(make, make_stream(pipeline, 7, rows=[1] * 60))


def survives_all_rows_passing(make: Make) -> None:
    """No operator ever drops anything."""
    for pipeline in (_filters(3), GUARDED, JOINED):
        _survives(make, make_stream(pipeline, 8, pass_rate=1.0, batches=10))


def survives_all_rows_dropped(make: Make) -> None:
    """Every operator drops everything, so that later ones are met by profiling alone."""
    for pipeline in (_filters(3), GUARDED, JOINED):
        _survives(make, make_stream(pipeline, 9, pass_rate=0.0, batches=10))


def survives_one_operator(make: Make) -> None:
    """Nothing to choose."""
    _survives(make, make_stream(_filters(1), 10))
    _survives(make, make_stream(Pipeline("s", (Operator("s0", "stem"),)), 10))


def survives_no_operators(make: Make) -> None:
    """Nothing to do."""
    _survives(make, make_stream(_filters(0), 11, rows=[100, 0, 1, 1000]))


def observes_what_it_did_not_ask_for(make: Make) -> None:
    """After a restart, visits may come from routes of another plan, profiled in other ways: no harm comes of them."""
    for pipeline in (_filters(1), _filters(4), GUARDED, JOINED):
        stream = make_stream(pipeline, 12, batches=10, rows=1000, pass_rate=0.5 if len(pipeline) == 1 else None)
        policy = make(pipeline, 0)
        for number, bits in enumerate(stream.pieces):
            policy.observe(stream.visits(number, make_rusters(Seeded(number), pipeline, len(bits))))
        _survives(lambda *_, policy=policy: policy, stream)


def events_tell_of_every_change(make: Make) -> None:
    """Each change of the plan is an event with its version; versions only grow; a reorder has two different orders."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        version, tuples = policy.plan.version, 0
        for number, step in enumerate(drive(policy, stream)):
            news = version
            for event in step.events:
                assert event.by == policy.name, f"{event} is not signed by {policy.name}"
                assert str(event.why), f"{event} does not say why"
                assert event.tuples >= tuples, f"{event} goes back in the stream"
                json.dumps(event.record())
                assert event.version >= news, f"{event} after version {news}"
                if event.change is not None:
                    assert event.change.before != event.change.after, f"{event} changes nothing"
                    assert event.version > news, f"{event} changes the order without a new version"
                assert event.kind != "reorder" or event.change is not None, f"{event} changes nothing"
                news, tuples = event.version, event.tuples
            assert step.version == news, f"batch {number}: the plan is version {step.version}, events tell of {news}"
            version = news


def a_version_has_one_meaning(make: Make) -> None:
    """Plans of one version are one plan: what changed has a new version."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        known = {policy.plan.version: tuple((k, r.operators) for k, r in policy.plan.routes.items())}
        for step in drive(policy, stream):
            assert known.setdefault(step.version, step.routes) == step.routes, (
                f"version {step.version} has two meanings"
            )


def draining_empties(make: Make) -> None:
    """Events are handed over once."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        for number in range(len(stream.pieces)):
            policy.observe(stream.visits(number, policy.route(stream.batch(number))))
        policy.drain()
        assert policy.drain() == [], "events were handed over twice"


def explains_everything(make: Make) -> None:
    """All operators are named, each route is allowed, and the shares of the classes sum to 1: before, while, after."""
    for stream in [*_streams(), make_stream(_filters(0), 1, rows=[10]), make_stream(_filters(1), 1, rows=[10])]:
        policy = make(stream.pipeline, 5)
        for number in range(len(stream.pieces) + 1):
            told = policy.explain()
            assert told.policy == policy.name
            assert [o.name for o in told.operators] == stream.pipeline.names, f"operators {told.operators}"
            for op, view in zip(stream.pipeline.operators, told.operators, strict=True):
                most = 1 if op.kind == "filter" else np.inf  # a stem has matches, maybe several
                assert view.pass_rate is None or 0 <= view.pass_rate <= most, f"pass rate of {view}"
                assert view.cost is None or view.cost > 0, f"cost of {view}"
            assert abs(sum(r.share for r in told.routes) - 1) < 1e-9, f"shares {[r.share for r in told.routes]}"
            assert all(stream.pipeline.allows(r.route) for r in told.routes)
            assert str(told.why), "no reason is given"
            if number < len(stream.pieces):
                drive(policy, stream, number, number + 1)


def looking_changes_nothing(make: Make) -> None:
    """Explanations and snapshots are taken at any time and leave no trace in what is decided."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        watched = []
        for number in range(len(stream.pieces)):
            policy.explain()
            policy.snapshot()
            watched += drive(policy, stream, number, number + 1)
        _assert_same(watched, drive(make(stream.pipeline, 5), stream), "watched and not")


def pickles(make: Make) -> None:
    """A policy travels to workers by pickle, and goes on there as it would have here."""
    for stream in _streams():
        policy = make(stream.pipeline, 5)
        half = len(stream.pieces) * 3 // 4
        drive(policy, stream, last=half)
        twin = pickle.loads(pickle.dumps(policy))
        _assert_same(drive(twin, stream, half), drive(policy, stream, half), "pickled")


CHECKS: tuple[Callable[[Make], None], ...] = (
    is_a_policy,
    every_row_in_one_ruster,
    routes_are_allowed,
    same_inputs_same_decisions,
    no_clock_and_no_global_chance,
    a_snapshot_continues,
    restoring_keeps_what_was_learned,
    a_restored_plan_is_allowed,
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
    looking_changes_nothing,
    pickles,
)
