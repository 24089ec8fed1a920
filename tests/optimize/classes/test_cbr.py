"""Content-based routing: learns the classes of the paper's example, routes as its plain definition, spends nothing for nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.lab.simulate import best_order, run, travel
from thalweg.optimize.classes.cbr import CBR
from thalweg.plan import Operator, Pipeline, Route, Ruster

TABLE_1 = np.array([[0.32, 0.10, 0.55], [0.31, 0.20, 0.65], [0.27, 0.90, 0.60]])


def pipeline(n: int) -> Pipeline:
    return Pipeline("s", tuple(Operator(f"f{i + 1}") for i in range(n)))


def stream(rates: np.ndarray, rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Classes with their own pass rates, told by one column; the others say nothing."""
    random = np.random.default_rng(seed)
    label = random.integers(0, len(rates), rows)
    bits = random.random((rows, rates.shape[1])) < rates[label]
    noise = {f"noise{i}": random.integers(0, 1000, rows) for i in range(4)}
    return bits, {"ts": np.arange(rows), **noise, "attrC": label}


def routed(rusters: list[Ruster], rows: int) -> list[Route]:
    """The route of each row of a batch."""
    routes: list[Route | None] = [None] * rows
    for ruster in rusters:
        mine = range(rows) if ruster.rows is None else ruster.rows.tolist()
        ids = np.zeros(len(mine), int) if ruster.ids is None else ruster.ids
        for row, k in zip(mine, ids, strict=True):
            assert routes[row] is None
            routes[row] = ruster.routes[k]
    assert None not in routes
    return routes


def drive(policy: CBR, bits: np.ndarray, columns: dict[str, np.ndarray], costs: list[float], batch: int = 1000) -> None:
    table = pa.record_batch(columns)
    for number, start in enumerate(range(0, len(bits), batch)):
        piece = bits[start : start + batch]
        rusters = policy.route(Batch(table.slice(start, batch), number))
        policy.observe(Visits(number, len(piece), tuple(travel(piece, np.array(costs), r) for r in rusters)))


def test_example_3_1_finds_the_orders_of_the_paper():
    bits, columns = stream(TABLE_1, 60_000, seed=5)
    policy = CBR(pipeline(3), seed=5)
    drive(policy, bits, columns, [1.0] * 3)
    assert policy.attributes.names[policy.table.attribute[1]] == "attrC"
    orders = {}
    sample = Batch(pa.record_batch({k: v[:300] for k, v in columns.items()}))
    for row, route in enumerate(routed(policy.assign(sample), 300)):
        orders.setdefault(int(columns["attrC"][row]), set()).add(route.operators)
    assert orders == {0: {(1, 0, 2)}, 1: {(1, 0, 2)}, 2: {(0, 2, 1)}}
    told = {label: r.operators for label, r in policy.plan.routes.items()}
    assert told == {"attrC 0, 1": (1, 0, 2), "attrC 2": (0, 2, 1)}


def test_close_to_knowing():
    rates = np.full((4, 4), 0.9) - 0.85 * np.eye(4)
    bits, columns = stream(rates, 80_000, seed=6)
    done = run("cbr", bits, [1.0] * 4, seed=6, columns=columns)
    late, label = bits[40_000:], columns["attrC"][40_000:]
    knows = sum(best_order(late[label == c], [1.0] * 4)[1] for c in range(4))
    single = best_order(late, [1.0] * 4)[1]
    assert done.useful[40:].sum() < 1.12 * knows < 0.7 * single


def test_costs_count():
    # The second filter drops less, but is ten times cheaper.
    bits, columns = stream(np.array([[0.2, 0.5]]), 20_000, seed=7)
    policy = CBR(pipeline(2), seed=7)
    drive(policy, bits, columns, [10.0, 1.0])
    assert policy.plan.route == Route((1, 0))


def test_content_that_says_nothing_is_not_used():
    bits, columns = stream(np.array([[0.5, 0.4, 0.6]]), 80_000, seed=8)
    columns["attrC"] = np.random.default_rng(8).integers(0, 20, len(bits))
    policy = CBR(pipeline(3), seed=8)
    drive(policy, bits, columns, [1.0] * 3)
    assert policy.table.used == []
    assert list(policy.plan.routes) == [""]


def test_an_attribute_that_tells_and_does_not_pay_is_refused_by_the_benefit_test():
    # attrC tells all about f2, but f1 drops more of either class: the order never depends on it.
    bits, columns = stream(np.array([[0.05, 0.6], [0.05, 0.95]]), 60_000, seed=9)
    policy = CBR(pipeline(2), seed=9)
    drive(policy, bits, columns, [1.0, 20.0])
    notes = [e for e in policy.drain() if e.kind == "classifier"]
    assert {r.operators for r in policy.plan.routes.values()} == {(0, 1)}
    assert notes, "there was no trial"


def test_a_correlation_that_ends_is_given_up():
    bits, columns = stream(np.array([[0.1, 0.9], [0.9, 0.1]]), 60_000, seed=10)
    flat, more = stream(np.array([[0.5, 0.5]]), 60_000, seed=11)
    more["attrC"] = np.random.default_rng(11).integers(0, 2, len(flat))
    policy = CBR(pipeline(2), seed=10)
    drive(policy, bits, columns, [1.0, 1.0])
    assert len(policy.plan.routes) == 2
    drive(policy, flat, more, [1.0, 1.0])
    assert policy.table.used == []
    assert any("any more" in str(e.why) for e in policy.drain())


def learned(seed: int) -> tuple[CBR, np.ndarray, dict[str, np.ndarray]]:
    rates = np.random.default_rng(seed).choice([0.05, 0.5, 0.9], (6, 4))
    bits, columns = stream(rates, 60_000, seed)
    policy = CBR(pipeline(4), seed=seed)
    drive(policy, bits, columns, [1.0, 2.0, 1.0, 3.0])
    return policy, bits, columns


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_routing_a_batch_at_once_is_routing_each_row_by_the_rule(seed):
    """The plain reference: for one tuple, the operator order that its partitions' rates per cost give, with hysteresis
    kept in the table."""
    policy, _, columns = learned(seed)
    assert policy.table.used, "nothing learned: the comparison would be empty"
    batch = Batch(pa.record_batch({k: v[:2000] for k, v in columns.items()}))
    got = [route.operators for route in routed(policy.assign(batch), len(batch))]
    table, learning = policy.table, policy.learning
    rates_of = learning.rates.of(table)
    for row in range(0, len(batch), 97):
        parts = {}
        for j in table.used:
            value = np.array([columns[policy.attributes.names[j]][row]], np.float32)
            parts[j] = policy.content.partitions.parts(value, j, False)
        code = 0
        for j in table.used:
            code = code * (table.d + 1) + int(parts[j][0])
        place = table.codes.tolist().index(code)
        rates = [
            learning.rates.S[op, int(parts[j][0])] if j >= 0 else learning.rates.W[op]
            for op, j in enumerate(table.attribute)
        ]
        assert rates_of[place].tolist() == rates
        assert got[row] == tuple(table.orders[place].tolist())
        cost = policy.costs.per_row

        def expected(order, rates=rates, cost=cost):
            reach, total = 1.0, 0.0
            for op in order:
                total += reach * cost[op]
                reach *= rates[op]
            return total

        best = sorted(range(4), key=lambda op: -(1 - rates[op]) / cost[op])
        assert expected(got[row]) * (1 - policy.worthwhile) <= expected(best) + 1e-12


def test_all_classes_travel_together_each_on_its_own_route():
    """A class of a single row keeps its route: it costs no ruster of its own."""
    policy, _, columns = learned(21)
    assert len(policy.plan.routes) > 1
    for rows in (1, 31, 3000):
        batch = Batch(pa.record_batch({k: v[:rows] for k, v in columns.items()}))
        (ruster,) = policy.assign(batch)
        assert len(ruster.ids) == rows
        assert ruster.routes is policy.assign(batch)[0].routes, "the fabric prepares for a tuple of routes once"
        labels = [ruster.labels[k] for k in ruster.ids]
        assert all(policy.plan.routes[label] == ruster.routes[k] for label, k in zip(labels, ruster.ids, strict=True))


def test_nothing_is_steered_where_there_is_no_choice():
    policy = CBR(Pipeline("s", (Operator("a"), Operator("b", after=frozenset({0})))))
    batch = Batch(pa.record_batch({"x": np.arange(1000)}))
    assert [r.purpose for r in policy.route(batch)] == ["work"]


def test_the_plan_is_explained_by_class():
    policy, _, _ = learned(21)
    told = policy.explain()
    assert len(told.routes) == len(policy.plan.routes) > 1
    assert sum(r.share for r in told.routes) == pytest.approx(1)
    assert all(r.estimate and r.estimate > 0 for r in told.routes)
    assert "attrC" in str(told.why)
    assert told.tree.count("\n") == len(told.routes) - 1


def test_unknown_columns_change_nothing():
    policy, bits, _ = learned(21)
    batch = Batch(pa.record_batch({"other": np.arange(500)}))
    rusters = policy.route(batch)
    assert len(routed(rusters, 500)) == 500
    policy.observe(Visits(0, 500, tuple(travel(bits[:500], np.ones(4), r) for r in rusters)))


def test_a_trace_is_the_same_from_the_fabric_and_from_the_simulation():
    from thalweg.execute.fabric import Fabric
    from thalweg.execute.meter import RecordedMeter
    from thalweg.testing.filtercourse import Known

    bits = np.random.default_rng(1).random((500, 3)) < 0.6
    p = pipeline(3)
    fabric = Fabric(p, [Known(f"f{i}", bits[:, i]) for i in range(3)], RecordedMeter((1.0, 1.0, 1.0)))
    rows = np.flatnonzero(np.random.default_rng(2).random(500) < 0.5)
    for chosen in (rows, None):
        ruster = Ruster(chosen, Route((2, 0, 1)), trace=True)
        _, visits = fabric.filter(Batch(pa.record_batch({"row": np.arange(500)})), [ruster])
        real, simulated = visits.journeys[0], travel(bits, np.ones(3), ruster)
        assert real.dropped is not None
        assert simulated.dropped is not None
        assert real.dropped.tolist() == simulated.dropped.tolist()
        assert [int((real.dropped == v.operator).sum()) for v in real.visits] == [
            v.rows_in - v.rows_out for v in real.visits
        ]
    assert travel(bits, np.ones(3), Ruster(None, Route((0, 1, 2)))).dropped is None


def corners(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """A chessboard of two squares a side: neither attribute alone tells anything."""
    random = np.random.default_rng(seed)
    a, b = random.random((2, rows))
    label = ((a < 0.5) ^ (b < 0.5)).astype(int)
    bits = random.random((rows, 2)) < np.array([[0.05, 0.95], [0.95, 0.05]])[label]
    return bits, label, {"a": a, "b": b, "noise": random.random(rows)}


def test_two_attributes_tell_together_what_none_tells_alone():
    bits, label, columns = corners(40_000, seed=21)
    single, paired = (CBR(pipeline(2), seed=21, pairs=pairs) for pairs in (False, True))
    for policy in (single, paired):
        drive(policy, bits, columns, [1.0] * 2)
    assert single.table.used == []
    assert {paired.content.name(j) for j in paired.table.used} == {"a & b"}
    knowing = sum(best_order(bits[label == c], [1.0] * 2)[1] for c in (0, 1))
    late = run("cbr", bits, [1.0] * 2, seed=21, columns=columns, pairs=True).useful[20:].sum()
    assert late < 1.3 * knowing / 2, "the middle cells of the coarse grid lie across the border"
    assert run("cbr", bits, [1.0] * 2, seed=21, columns=columns).useful[20:].sum() > 1.35 * knowing / 2
    fresh = CBR(pipeline(2), seed=21, pairs=True)
    fresh.restore(paired.snapshot())
    assert fresh.explain() == paired.explain()


def test_a_single_attribute_is_preferred_to_a_pair_that_tells_no_more():
    bits, columns = stream(TABLE_1, 40_000, seed=22)
    policy = CBR(pipeline(3), seed=22, pairs=True)
    drive(policy, bits, columns, [1.0] * 3)
    assert policy.content.name(policy.table.attribute[1]) == "attrC"


def test_for_joins_the_variance_of_matches_tells():
    """Every tuple has a match with both stems, so passing tells nothing; kinds differ in how many matches they have."""
    random = np.random.default_rng(23)
    stems = Pipeline("s", (Operator("t", "stem"), Operator("u", "stem")))
    policy = CBR(stems, seed=23, benefit=False)
    for _ in range(12):
        kind = random.integers(0, 2, 60)
        rows = pa.record_batch({"noise": random.integers(0, 50, 60), "kind": kind})
        matches = np.where(kind[:, None] == 0, [1, 6], [6, 1]) + random.integers(0, 2, (60, 2))
        values = policy.look(Batch(rows))
        policy.consider(values, matches.astype(np.int8))
    assert {policy.attributes.names[j] for j in policy.table.used} == {"kind"}
    told = {label: r.operators for label, r in policy.plan.routes.items()}
    assert told == {"kind 0": (0, 1), "kind 1": (1, 0)}
    assert any("share of the variance" in str(e.why) for e in policy.drain())


def test_matches_that_content_does_not_tell_give_no_classes():
    random = np.random.default_rng(24)
    stems = Pipeline("s", (Operator("t", "stem"), Operator("u", "stem")))
    policy = CBR(stems, seed=24, benefit=False)
    for _ in range(40):
        values = policy.look(Batch(pa.record_batch({"a": random.integers(0, 50, 60), "b": random.random(60)})))
        policy.consider(values, random.poisson(2.0, (60, 2)).astype(np.int8))
    assert policy.table.used == []
