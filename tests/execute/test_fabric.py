"""The filter fabric against brute force: answers, errors, guards, who is called with which row, profile bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import COUNTED, DROPPED, PASSED, ROWS_IN, ROWS_OUT, UNTRIED, WORK, Journey, Visits
from thalweg.errors import DefinitionError, PredicateError
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter, NoVerdict
from thalweg.execute.meter import RecordedMeter, WallMeter
from thalweg.lab.simulate import travel
from thalweg.plan import Operator, Pipeline, Route, Ruster
from thalweg.testing.chance import Seeded
from thalweg.testing.filters import FilterCase, Outcome, Refused, filter_cases, make_case, make_pipeline, make_rusters


def check_answer(case: FilterCase, rusters: Sequence[Ruster]) -> str:
    """Run a case and compare with brute force; says what came of it."""
    answer = case.answer()
    fabric = Fabric(case.pipeline, case.filters, RecordedMeter([1e-6] * len(case.predicates)))
    if answer.raised is None:
        kept, visits = fabric.filter(case.batch, rusters)
        assert tuple(np.flatnonzero(kept).tolist()) == answer.kept
        assert visits.rows == len(case.rows)
        return "kept" if answer.kept else "all dropped"
    row, predicate = answer.raised
    with pytest.raises(PredicateError) as caught:
        fabric.filter(case.batch, rusters)
    assert f"predicate '{case.predicates[predicate].name}' raised Refused" in str(caught.value)
    assert f"row {row} of its batch" in str(caught.value)
    assert isinstance(caught.value.__cause__, Refused)
    return "raised"


# --- answers and errors -----------------------------------------------------------------------------------------------


def test_answers_and_errors_are_those_of_brute_force_on_random_routes() -> None:
    met: Counter[str] = Counter()
    for seed in range(1000):
        case = make_case(seed, rows=16)
        met[check_answer(case, make_rusters(Seeded(seed), case.pipeline, len(case.rows)))] += 1
        met["guarded"] += not case.pipeline.free
    assert min(met[k] for k in ("kept", "all dropped", "raised", "guarded")) > 100, f"too one-sided: {met}"


def test_answers_and_errors_are_the_same_under_chaos() -> None:
    for seed in range(300):
        case = make_case(seed, rows=16)
        check_answer(case, optimize.make("chaos", case.pipeline, seed).route(case.batch))


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(filter_cases(), st.integers(0, 2**32))
def test_answers_and_errors_on_cases_that_shrink(case: FilterCase, seed: int) -> None:
    check_answer(case, [Ruster(None, case.pipeline.written)])
    check_answer(case, make_rusters(Seeded(seed), case.pipeline, len(case.rows)))


@pytest.mark.parametrize("name", optimize.names())
def test_every_policy_gives_the_answer(name: str) -> None:
    for seed in range(25):
        case = make_case(seed + 10_000)
        policy: Policy = optimize.make(name, case.pipeline, seed)
        check_answer(case, policy.route(case.batch))


# --- TLP --------------------------------------------------------------------------------------------------------------


def as_filter(case: FilterCase, predicate: int, wrap: Callable[[bool | None], bool | None]) -> Filter:
    judge = case.predicates[predicate]
    return Filter(judge.name, lambda *values: wrap(judge.by_row(*values)), judge.columns)


def test_p_and_not_p_and_p_is_null_partition_the_rows_under_chaos() -> None:
    parts: list[Callable[[bool | None], bool | None]] = [
        lambda v: v,
        lambda v: None if v is None else not v,
        lambda v: v is None,
    ]
    met = Counter[int]()
    for seed in range(200):
        case = make_case(seed, rows=20, raising=False)
        if not case.predicates or not case.rows:
            continue
        subject = seed % len(case.predicates)
        if any(subject in p.after for p in case.predicates):
            continue  # behind p, others are tried only where p holds: the parts are not those of one query
        chaos = optimize.make("chaos", case.pipeline, seed)
        found = []
        for wrap in parts:
            filters = case.filters
            filters[subject] = as_filter(case, subject, wrap)
            kept, _ = Fabric(case.pipeline, filters).filter(case.batch, chaos.route(case.batch))
            found.append(set(np.flatnonzero(kept).tolist()))
        others = [op for op in case.pipeline.written if op != subject]
        without = {
            r for r in range(len(case.rows))
            if all(case.outcome(r, op) == "pass" for op in others)
        }  # fmt: skip
        for i in range(3):
            met[i] += len(found[i])
            for j in range(i):
                assert not found[i] & found[j], f"seed {seed}: a row is in two parts"
        assert set().union(*found) == without, f"seed {seed}: the parts are not the whole"
    assert min(met.values()) > 50, f"a part was hardly ever met: {met}"


# --- who is called with which row, and what comes back ----------------------------------------------------------------


@dataclass
class Watched:
    """Filters over a known table of outcomes that write down each row they are called with."""

    pipeline: Pipeline
    table: Sequence[Sequence[Outcome]]
    calls: list[list[int]] = field(default_factory=list)

    def fabric(self, costs: Sequence[float] = ()) -> Fabric:
        self.calls = [[] for _ in self.pipeline.operators]
        filters = [Filter(op.name, self._judge(i), ("id",)) for i, op in enumerate(self.pipeline.operators)]
        return Fabric(self.pipeline, filters, RecordedMeter(costs) if costs else WallMeter())

    def _judge(self, op: int) -> Callable[[int], bool | None]:
        def judge(row: int) -> bool | None:
            self.calls[op].append(row)
            outcome = self.table[row][op]
            if outcome == "raise":
                raise Refused(f"{row}, {op}")
            return None if outcome == "null" else outcome == "pass"

        return judge

    @property
    def batch(self) -> Batch:
        return Batch(pa.record_batch({"id": pa.array(range(len(self.table)), pa.int64())}))

    def lives(self, ruster: Ruster) -> list[tuple[list[tuple[int, bool]], list[int], bool]]:
        """The life of each row of a ruster."""
        ids = np.zeros(len(ruster.rows), int) if ruster.ids is None else ruster.ids
        return [self.one(int(r), ruster, ruster.routes[k]) for r, k in zip(ruster.rows, ids, strict=True)]

    def one(self, row: int, ruster: Ruster, route: Route) -> tuple[list[tuple[int, bool]], list[int], bool]:
        """The life of one row: the operators tried (and whether on its way), its bits, whether it leaves."""
        tried: dict[int, Outcome] = {}
        told: list[tuple[int, bool]] = []
        alive, dropped_just_now = True, False
        for op in route:
            wanted = alive
            if ruster.purpose == "profile" and not alive:
                wanted = ruster.also == "all" or (dropped_just_now if ruster.also == "next" else op in ruster.also)
            dropped_just_now = False
            if not wanted or any(tried.get(g) != "pass" for g in self.pipeline.operators[op].after):
                continue
            tried[op] = self.table[row][op]
            told.append((op, alive))
            if alive and tried[op] in ("drop", "null"):
                alive, dropped_just_now = False, True
        said = {"pass": PASSED, "drop": DROPPED, "null": DROPPED, "raise": UNTRIED}
        return told, [int(said[tried[op]]) if op in tried else int(UNTRIED) for op in range(len(self.pipeline))], alive


def make_watched(seed: int, raising: float) -> Watched:
    chance = Seeded(seed)
    pipeline = make_pipeline(chance, chance.integer(1, 6))
    outcomes: tuple[Outcome, ...] = ("pass", "pass", "pass", "drop", "null")
    table = [
        ["raise" if chance.yes(raising) else chance.choice(outcomes) for _ in pipeline.operators]
        for _ in range(chance.integer(1, 25))
    ]
    return Watched(pipeline, table)


@pytest.mark.parametrize("raising", [0.0, 0.15])
def test_each_predicate_is_called_with_the_rows_due_to_it_and_no_other(raising: float) -> None:
    for seed in range(400):
        watched = make_watched(seed, raising)
        rusters = make_rusters(Seeded(seed + 1), watched.pipeline, len(watched.table))
        costs = [1.0 + i for i in range(len(watched.pipeline))]
        lives = [dict(zip(ruster.rows.tolist(), watched.lives(ruster), strict=True)) for ruster in rusters]
        surfaces = any(
            alive and any(watched.table[row][op] == "raise" for op, _ in told)
            for life in lives
            for row, (told, _, alive) in life.items()
        )
        fabric = watched.fabric(costs)
        if surfaces:
            with pytest.raises(PredicateError):
                fabric.filter(watched.batch, rusters)
        else:
            kept, visits = fabric.filter(watched.batch, rusters)
            leaving = {row for life in lives for row, (_, _, alive) in life.items() if alive}
            assert set(np.flatnonzero(kept).tolist()) == leaving
            check_visits(watched, rusters, visits, costs)
        for op in range(len(watched.pipeline)):
            due = sorted(row for life in lives for row, (told, _, _) in life.items() if op in [o for o, _ in told])
            assert sorted(watched.calls[op]) == due, f"seed {seed}, operator {op}: each row due, once"


def check_visits(watched: Watched, rusters: Sequence[Ruster], visits: Visits, costs: Sequence[float]) -> None:
    travelled = [r for r in rusters if len(r.rows)]
    assert [j.ruster for j in visits.journeys] == travelled, "empty rusters do not travel"
    for journey in visits.journeys:
        ruster = journey.ruster
        lives = watched.lives(ruster)
        assert journey.rows == len(lives)
        if ruster.purpose == "profile":
            assert journey.passed is not None
            assert journey.passed.tolist() == [bits for _, bits, _ in lives], "bits are the truth where tried"
        else:
            assert journey.passed is None
        told = {v.operator: v for v in journey.visits}
        assert [v.operator for v in journey.visits] == [op for op in ruster.route if op in told], (
            "in the order of the route"
        )
        for op in ruster.route:
            on_way = [r for r, (tried, _, _) in zip(ruster.rows, lives, strict=True) if (op, True) in tried]
            extra = [r for r, (tried, _, _) in zip(ruster.rows, lives, strict=True) if (op, False) in tried]
            if not on_way and not extra:
                assert op not in told or (told[op].rows_in, told[op].extra) == (0, 0)
                continue
            visit = told[op]
            left = sum(watched.table[r][op] in ("pass", "raise") for r in on_way)
            assert (visit.rows_in, visit.rows_out, visit.extra) == (len(on_way), left, len(extra))
            assert visit.work == len(on_way) + len(extra)
            assert visit.seconds == pytest.approx(costs[op] * len(on_way))
            assert visit.extra_seconds == pytest.approx(costs[op] * len(extra))
        if ruster.ids is not None:
            check_counts(watched, journey, lives)
    assert visits.seconds == pytest.approx(sum(v.seconds + v.extra_seconds for j in visits.journeys for v in j.visits))


def check_counts(watched: Watched, journey: Journey, lives: Sequence[Any]) -> None:
    """Counts by route are those of the rows on it."""
    ruster = journey.ruster
    assert ruster.ids is not None
    assert journey.begun.tolist() == np.bincount(ruster.ids, minlength=len(ruster.routes)).tolist()
    expected = np.zeros((len(ruster.routes), len(watched.pipeline), COUNTED), int)
    for row, k, (tried, _, _) in zip(ruster.rows, ruster.ids, lives, strict=True):
        for op, _ in tried:
            expected[k, op, [ROWS_IN, WORK]] += 1
            expected[k, op, ROWS_OUT] += watched.table[row][op] in ("pass", "raise")
    assert journey.counts.tolist() == expected.tolist()
    told = {label: (route, rows, visits) for route, label, rows, visits in journey.by_route()}
    assert sum(rows for _, rows, _ in told.values()) == journey.rows
    for visit in journey.visits:
        same = [v for _, _, visits in told.values() for v in visits if v.operator == visit.operator]
        assert sum(v.rows_out for v in same) == visit.rows_out
        assert sum(v.seconds for v in same) == pytest.approx(visit.seconds)
    for route, _, visits in told.values():
        assert [v.operator for v in visits] == [op for op in route if op in [v.operator for v in visits]]


def test_the_simulation_of_the_lab_agrees_with_the_fabric() -> None:
    for seed in range(250):
        random = np.random.default_rng(seed)
        n, rows = int(random.integers(1, 8)), int(random.integers(1, 60))
        bits = random.random((rows, n)) < random.random(n)
        costs = random.random(n) + 0.1
        pipeline = Pipeline("s", tuple(Operator(f"f{i}") for i in range(n)))
        table = {f"b{i}": pa.array(bits[:, i]) for i in range(n)}
        filters = [Filter(f"f{i}", lambda b: b, (f"b{i}",), "arrow") for i in range(n)]
        rusters = [r for r in make_rusters(Seeded(seed), pipeline, rows) if len(r.rows)]
        if seed % 5 == 0:
            rusters = [replace(rusters[0], rows=None, ids=None)]
        kept, visits = Fabric(pipeline, filters, RecordedMeter(costs)).filter(Batch(pa.record_batch(table)), rusters)
        assert kept.tolist() == bits.all(axis=1).tolist()
        for ruster, real in zip(rusters, visits.journeys, strict=True):
            simulated: Journey = travel(bits, costs, ruster)
            assert simulated.rows == real.rows
            assert (simulated.passed is None) == (real.passed is None)
            if real.passed is not None:
                assert simulated.passed.tolist() == real.passed.tolist()
            assert [v.operator for v in simulated.visits] == [v.operator for v in real.visits]
            for a, b in zip(simulated.visits, real.visits, strict=True):
                assert (a.rows_in, a.rows_out, a.extra, a.work) == (b.rows_in, b.rows_out, b.extra, b.work)
                assert (a.seconds, a.extra_seconds) == pytest.approx((b.seconds, b.extra_seconds))
            if ruster.ids is not None:
                assert simulated.counts.tolist() == real.counts.tolist()
                assert simulated.begun.tolist() == real.begun.tolist()


# --- single cases -----------------------------------------------------------------------------------------------------


def run_rows(
    filters: Sequence[Filter], data: dict[str, Any], route: Sequence[int], *, after: dict[int, set[int]] | None = None
) -> list[int]:
    operators = tuple(Operator(f.name, after=frozenset((after or {}).get(i, ()))) for i, f in enumerate(filters))
    kept, _ = Fabric(Pipeline("s", operators), filters).filter(
        Batch(pa.record_batch(data)), [Ruster(None, Route(tuple(route)))]
    )
    return np.flatnonzero(kept).tolist()


def refuse(x: int) -> bool:
    raise Refused(f"never {x}")


POSITIVE = Filter("positive", lambda x: x > 0, ("x",))
SMALL = Filter("small", lambda x: x < 3, ("x",))
REFUSES = Filter("refuses", refuse, ("x",))
INVERSE = Filter("inverse", lambda x: 1 / x < 1, ("x",))


@pytest.mark.parametrize("route", [(0, 1), (1, 0)])
def test_an_error_on_a_row_that_another_drops_is_forgiven(route: tuple[int, ...]) -> None:
    assert run_rows([POSITIVE, INVERSE], {"x": [0, 1, 2, -1, 0]}, route) == [2]


@pytest.mark.parametrize("route", [(0, 1), (1, 0)])
def test_an_error_on_a_row_that_all_others_pass_surfaces_with_everything_in_the_message(route: tuple[int, ...]) -> None:
    with pytest.raises(PredicateError) as caught:
        run_rows([SMALL, INVERSE], {"x": [5, 1, 0, 2]}, route)
    text = str(caught.value)
    assert "predicate 'inverse' raised ZeroDivisionError: division by zero" in text
    assert "row 2 of its batch: x=0" in text
    assert "after=" in text
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("route", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_of_several_errors_the_one_the_written_order_meets_first(route: tuple[int, ...]) -> None:
    with pytest.raises(PredicateError, match="'inverse' raised"):
        run_rows([INVERSE, SMALL, REFUSES], {"x": [9, 0]}, route)


def test_written_order_is_that_of_the_guards() -> None:
    # `refuses` is written first but waits for `inverse`, which raises: the written order never gets to `refuses`.
    with pytest.raises(PredicateError, match="'inverse' raised"):
        run_rows([REFUSES, INVERSE], {"x": [0]}, (1, 0), after={0: {1}})


@pytest.mark.parametrize("purpose", ["work", "profile"])
def test_a_predicate_behind_a_guard_that_raised_is_not_tried(purpose: Any) -> None:
    called: list[int] = []
    guarded = Filter("guarded", lambda x: called.append(x) or True, ("x",))
    further = Filter("further", lambda x: called.append(x) or True, ("x",))
    operators = (
        Operator("inverse"), Operator("guarded", after=frozenset({0})), Operator("further", after=frozenset({1})),
        Operator("positive"),
    )  # fmt: skip
    pipeline = Pipeline("s", operators)
    ruster = Ruster(None, Route((0, 1, 2, 3)), purpose, "all" if purpose == "profile" else frozenset())
    kept, _ = Fabric(pipeline, [INVERSE, guarded, further, POSITIVE]).filter(
        Batch(pa.record_batch({"x": [0, 2]})), [ruster]
    )
    assert kept.tolist() == [False, True]
    assert called == [2, 2], "row 0 is behind a guard that raised, also for what is guarded by the guarded"


def test_a_profiled_row_is_tried_behind_a_guard_only_where_the_guard_held() -> None:
    seen: list[int] = []
    guarded = Filter("guarded", lambda x: seen.append(x) or True, ("x",))
    pipeline = Pipeline("s", (Operator("small"), Operator("positive"), Operator("guarded", after=frozenset({1}))))
    ruster = Ruster(None, Route((0, 1, 2)), "profile", "all")
    _, visits = Fabric(pipeline, [SMALL, POSITIVE, guarded]).filter(Batch(pa.record_batch({"x": [1, 5, -5]})), [ruster])
    assert seen == [1, 5], "5 was dropped by `small`, tried on and passed by its guard; -5 was not passed by its guard"
    assert visits.journeys[0].passed.tolist() == [[1, 1, 1], [0, 1, 1], [1, 0, -1]]


def test_an_error_only_met_by_profiling_is_forgiven() -> None:
    pipeline = Pipeline("s", (Operator("positive"), Operator("refuses")))
    kept, visits = Fabric(pipeline, [POSITIVE, REFUSES]).filter(
        Batch(pa.record_batch({"x": [0, -3]})), [Ruster(None, Route((0, 1)), "profile", "all")]
    )
    assert kept.tolist() == [False, False]
    assert visits.journeys[0].passed.tolist() == [[0, -1], [0, -1]]


NOSY = Filter("nosy", lambda x: x if x == 7 else x > 1, ("x",))


@pytest.mark.parametrize("route", [(0, 1), (1, 0)])
def test_what_is_no_boolean_is_forgiven_and_surfaces_like_an_error(route: tuple[int, ...]) -> None:
    assert run_rows([SMALL, NOSY], {"x": [7, 1, 2]}, route) == [2]
    with pytest.raises(NoVerdict) as caught:
        run_rows([POSITIVE, NOSY], {"x": [-1, 2, 7]}, route)
    assert "predicate 'nosy' returned a int (7) where True, False or None was expected" in str(caught.value)
    assert "row 2 of its batch: x=7" in str(caught.value)


def test_of_several_rows_the_first_of_the_batch_raises_whatever_the_rusters() -> None:
    pipeline = Pipeline("s", (Operator("inverse"),))
    batch = Batch(pa.record_batch({"x": [1, 0, 2, 0]}))
    rusters = [Ruster(np.array([3, 2]), Route((0,))), Ruster(np.array([1, 0]), Route((0,)), "profile", "all")]
    with pytest.raises(PredicateError, match="row 1 of its batch"):
        Fabric(pipeline, [INVERSE]).filter(batch, rusters)


@pytest.mark.parametrize("purpose", ["work", "profile"])
@pytest.mark.parametrize("route", [(0, 1), (1,), (1, 0, 0), ()])
def test_a_route_that_is_not_allowed_is_refused_not_travelled(purpose: Any, route: tuple[int, ...]) -> None:
    """A guarded predicate before its guard would not be tried on profiled rows, and they would leave untried."""
    pipeline = Pipeline("s", (Operator("small", after=frozenset({1})), Operator("positive")))
    ruster = Ruster(None, Route(route), purpose, "all" if purpose == "profile" else frozenset())
    with pytest.raises(DefinitionError, match="is not allowed"):
        Fabric(pipeline, [SMALL, POSITIVE]).filter(Batch(pa.record_batch({"x": [1, 5]})), [ruster])


def test_long_values_are_cut_in_messages() -> None:
    judge = Filter("judge", refuse, ("x",))
    with pytest.raises(PredicateError) as caught:
        run_rows([judge], {"x": ["y" * 10_000]}, (0,))
    shown = next(line for line in str(caught.value).splitlines() if "of its batch" in line)
    assert len(shown) < 130


def test_nothing_to_do() -> None:
    some, none = Batch(pa.record_batch({"x": [1, 2]})), Batch(pa.record_batch({"x": pa.array([], pa.int64())}))
    empty = Fabric(Pipeline("s", ()), [])
    assert empty.filter(some, [Ruster(None, Route(()))])[0].tolist() == [True, True]
    assert empty.filter(some, [Ruster(None, Route(()), "profile", "all")])[0].tolist() == [True, True]
    called: list[int] = []
    one = Fabric(Pipeline("s", (Operator("p"),)), [Filter("p", lambda x: called.append(x) or True, ("x",))])
    kept, visits = one.filter(
        none, [Ruster(None, Route((0,))), Ruster(np.zeros(0, np.int64), Route((0,)), "profile", "all")]
    )
    assert (kept.tolist(), visits.rows, visits.journeys, called) == ([], 0, (), [])


def test_the_wall_meter_measures_something_and_the_recorded_one_only_rows() -> None:
    meter = WallMeter()
    assert meter.stop(meter.start(), 0, 10) >= 0
    assert RecordedMeter([2.0, 3.0]).stop(99.0, 1, 5) == 15.0
