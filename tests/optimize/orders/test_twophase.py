"""A-Greedy and its kin over the logical filters of a join, with drop probing (thesis 5.2)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.visits import Visits
from thalweg.engine.block import BlockEngine
from thalweg.errors import CheckpointError, DefinitionError
from thalweg.execute.meter import RecordedMeter
from thalweg.lab.simulate import order_work
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.orders.agreedy import AGreedy
from thalweg.optimize.orders.twophase import KIN, TwoPhase
from thalweg.plan import Operator, Pipeline, Route
from thalweg.profile.prices import RECORDED
from thalweg.profile.rates.matrix import MatrixView
from thalweg.testing import Check, checks

COLUMNS = ("a", "b", "c", "d")
STREAM = Source(pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in COLUMNS)]), "ts", "ms")
TABLE = Source(pa.schema([("p", pa.int64())]))
STAR = "SELECT s.ts AS ts FROM s [NOW], ta, tb, tc, td WHERE s.a = ta.p AND s.b = tb.p AND s.c = tc.p AND s.d = td.p"


EVERY = [check for make in (TwoPhase, partial(TwoPhase, by="sweep", options={"p": 0.2})) for check in checks(make)]


@pytest.mark.parametrize("check", EVERY, ids=lambda c: c.__name__)
def test_conforms(check: Check) -> None:
    check()


def star(
    shares: list[float], batches: int, rows: int = 500, *, policy: object, copies: tuple[int, ...] = (1, 1, 1, 1)
) -> tuple[BlockEngine, np.ndarray]:
    """A star of look-ups; table k has the first `shares[k]` of 100 keys, each `copies[k]` times. The second stream column
    repeats the first in four of five rows, so that the first two tables drop the same rows."""
    query = bind(STAR, {"s": STREAM, **{f"t{c}": TABLE for c in COLUMNS}}).query
    each = zip(COLUMNS, shares, copies, strict=True)
    tables = {f"t{c}": pa.table({"p": np.repeat(np.arange(int(100 * s)), n)}) for c, s, n in each}
    engine = BlockEngine(query, policy=policy, tables=tables, meters={"s": RecordedMeter([1e-8] * 4)})  # type: ignore[arg-type]
    random, bits = np.random.default_rng(3), []
    for n in range(batches):
        keys = random.integers(0, 100, (rows, 4))
        keys[:, 1] = np.where(random.random(rows) < 0.8, keys[:, 0], keys[:, 1])
        data = {"ts": np.arange(n * rows, (n + 1) * rows)} | {c: keys[:, k] for k, c in enumerate(COLUMNS)}
        engine.push("s", pa.table(data))
        bits.append(keys < 100 * np.array(shares))
    return engine, np.concatenate(bits)


def policy_of(engine: BlockEngine) -> TwoPhase:
    found = engine.stages[0].policy
    assert isinstance(found, TwoPhase)
    return found


FREE = replace(RECORDED, ask=0.0, send=0.0)
"""Nothing is lent, and a ruster more costs nothing."""
THESIS = {"follow": False, "p": 0.2, "window": 400}


def test_the_matrix_view_keeps_the_greedy_invariant_over_logical_filters() -> None:
    engine, bits = star([0.5, 0.5, 0.6, 0.7], 40, policy=partial(TwoPhase, regret=None, options=THESIS))
    policy = policy_of(engine)
    assert policy.stems is not None
    inner = policy.stems.policy
    assert isinstance(inner, AGreedy)
    assert len(inner.profile) == 400
    twin = MatrixView(inner.order)
    twin.insert(inner.profile.bits)
    assert inner.view.V.tolist() == twin.V.tolist()
    rank = twin.V / inner.costs.per_row[list(inner.order)]
    for i in range(4):
        assert (rank[i, i] >= 0.9 * rank[i, i:]).all()
    assert policy.order == inner.order
    least = min(order_work(bits, order, [1.0] * 4) for order in permutations(range(4)))
    assert order_work(bits, policy.order, [1.0] * 4) <= 1.02 * least
    assert policy.order[:2] not in ((0, 1), (1, 0)), "the first two drop the same rows: correlation was not seen"


@pytest.mark.parametrize("by", list(KIN))
def test_all_of_them_put_the_window_that_drops_most_first(by: str) -> None:
    options = {"p": 0.2} if by != "agreedy" else {}
    engine, _ = star([0.9, 0.9, 0.7, 0.1], 60, policy=partial(TwoPhase, by=by, regret=None, options=options))
    assert policy_of(engine).order[0] == 3
    assert any(e.change is not None and e.change.after[""][0] == "td" for e in engine.events())


def test_what_is_ordered_is_the_chance_of_no_match_not_how_many_there_are() -> None:
    """A window with many matches costs drop probing no more than one with a single match."""
    engine, _ = star(
        [0.9, 0.9, 0.9, 0.2], 40, policy=partial(TwoPhase, regret=None, options=THESIS), copies=(30, 1, 1, 1)
    )
    policy = policy_of(engine)
    assert policy.order[0] == 3
    assert policy.stems is not None
    inner = policy.stems.policy
    assert inner.costs.per_row[0] < 1.2 * inner.costs.per_row[1]


# --- trees and cycles -------------------------------------------------------------------------------------------------


def figure(*nears: set[int] | None) -> Pipeline:
    stems = (Operator(f"r{k + 2}", "stem", near=None if n is None else frozenset(n)) for k, n in enumerate(nears))
    return Pipeline("r1", tuple(stems))


def test_the_order_of_logical_filters_is_brought_to_an_allowed_route() -> None:
    """Figure 5.3(a): R3 join R4 first, then R3, R2, R3 join R5, ...: R3 is placed before R4, and nothing twice."""
    policy = TwoPhase(figure(None, None, {1}, {1}, {3}), options={"follow": False})
    assert policy.stems is not None
    inner = policy.stems.policy
    assert inner.pipeline.free, "logical filters are not bound to the join graph"
    inner.reorder((2, 1, 0, 3, 4), "as in the thesis")
    policy.observe(Visits(0, 0, ()))
    assert policy.order == (1, 2, 0, 3, 4)


def test_an_event_gives_the_route_not_the_logical_filters() -> None:
    policy = TwoPhase(figure(None, None, {1}, {1}, {3}))
    assert policy.stems is not None
    policy.stems.policy.reorder((2, 1, 0, 3, 4), "as in the thesis")
    policy.observe(Visits(0, 0, ()))
    (event,) = policy.drain()
    assert event.change is not None
    assert event.change.after == {"": ("r3", "r4", "r2", "r5", "r6")}
    assert str(event.why) == "as in the thesis"


def test_a_cycle_is_ordered_along_a_spanning_tree() -> None:
    """r1 - r2, r1 - r3, and r4 joins both: the path to r4 leads through r2; its edge to r3 is left to the join."""
    policy = TwoPhase(figure(None, None, {0, 1}))
    assert policy.stems is not None
    policy.stems.policy.reorder((2, 1, 0), "the far end first")
    policy.observe(Visits(0, 0, ()))
    assert policy.order == (0, 2, 1)
    assert policy.pipeline.allows(Route(policy.order))


def test_what_must_come_first_is_not_ordered() -> None:
    policy = TwoPhase(figure(None, {0}, {0}))
    assert policy.stems is not None
    assert policy.stems.operators == (1, 2)
    assert TwoPhase(figure(None, {0}, {1})).stems is None


# --- what it costs, and what it knows ---------------------------------------------------------------------------------


def filtered() -> Query:
    text = STAR + " AND odd(s.a) AND small(s.b)"
    functions = {"odd": lambda a: a % 2 == 1, "small": lambda b: b < 30}
    return bind(text, {"s": STREAM, **{f"t{c}": TABLE for c in COLUMNS}}, functions).query


def test_filters_come_first_and_are_ordered_on_the_same_profiled_rows() -> None:
    tables = {f"t{c}": pa.table({"p": np.arange(90)}) for c in COLUMNS}
    meters = {"s": RecordedMeter([1e-6, 1e-6, 1e-8, 1e-8, 1e-8, 1e-8])}
    make = partial(TwoPhase, regret=None, options=THESIS)
    engine = BlockEngine(filtered(), policy=make, tables=tables, meters=meters)
    random = np.random.default_rng(4)
    for n in range(20):
        data = {"ts": np.arange(500 * n, 500 * n + 500)} | dict(
            zip(COLUMNS, random.integers(0, 100, (4, 500)), strict=True)
        )
        engine.push("s", pa.table(data))
    policy = policy_of(engine)
    assert policy.filters is not None
    assert [policy.pipeline.names[op] for op in policy.order[:2]] == ["small(s.b)", "odd(s.a)"]
    assert sorted(policy.order[2:]) == [2, 3, 4, 5]


def test_the_ledger_says_how_much_goes_into_profiling() -> None:
    spent = {}
    for regret in (0.01, None):
        make = partial(TwoPhase, regret=regret, prices=FREE, options={"follow": False, "p": 0.5})
        engine, _ = star([0.9] * 4, 60, policy=make)
        ledger = policy_of(engine).ledger
        spent[regret] = ledger.spent
        if regret is not None:
            most = ledger.earned + ledger.loan
            assert ledger.spent < 1.5 * most, "a batch may go over, not more"
    assert spent[None] > 2 * spent[0.01]


def test_the_price_of_a_route_is_that_of_two_phases() -> None:
    engine, bits = star([0.5, 0.5, 0.6, 0.1], 40, policy=partial(TwoPhase, regret=None, options=THESIS))
    policy = policy_of(engine)
    prices = {order: policy.price(Route(order)) for order in permutations(range(4))}
    assert all(p is not None for p in prices.values())
    exact = {order: order_work(bits, order, [1.0] * 4) for order in prices}
    assert min(prices, key=lambda o: prices[o] or 0.0)[0] == min(exact, key=lambda o: exact[o])[0] == 3
    assert policy.estimate() == prices[policy.order]


def test_what_was_learned_survives_a_snapshot_and_does_not_fit_elsewhere() -> None:
    engine, _ = star([0.9, 0.9, 0.7, 0.1], 30, policy=partial(TwoPhase, regret=None))
    policy = policy_of(engine)
    record = json.loads(json.dumps(policy.snapshot()))
    again = TwoPhase(policy.pipeline, regret=None)
    again.restore(record)
    assert json.dumps(again.snapshot()) == json.dumps(policy.snapshot())
    assert again.order == policy.order != (0, 1, 2, 3)
    with pytest.raises(CheckpointError, match="another query"):
        TwoPhase(Pipeline("s", (*map(Operator, "abc"), Operator("d", "stem")))).restore(record | {"parts": []})


def test_a_kind_of_order_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(DefinitionError, match="did you mean 'sweep'"):
        TwoPhase(figure(None, None), by="sweeps")


def test_answers_are_those_of_one_phase() -> None:
    found = []
    for make in ("written", partial(TwoPhase, regret=None, options={"p": 0.3})):
        query = bind(STAR, {"s": STREAM, **{f"t{c}": TABLE for c in COLUMNS}}).query
        tables = {f"t{c}": pa.table({"p": np.repeat(np.arange(60), 2)}) for c in COLUMNS}
        engine = BlockEngine(query, policy=make, tables=tables)
        rows: Counter[int] = Counter()
        random = np.random.default_rng(9)
        for n in range(10):
            data = {"ts": np.arange(300 * n, 300 * n + 300)}
            data |= dict(zip(COLUMNS, random.integers(0, 100, (4, 300)), strict=True))
            rows.update(engine.push("s", pa.table(data)).column("ts").to_pylist())
        rows.update(engine.close().column("ts").to_pylist())
        found.append(rows)
    assert found[0] == found[1]
    assert found[0].total() > 0
