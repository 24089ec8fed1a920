"""Query mesh: finds classes of several attributes, defaults to one route, follows drift class by class, tells what it did."""

from __future__ import annotations

import json
import pickle
import threading
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.lab.simulate import best_order, run, travel
from thalweg.optimize.classes import meshfind
from thalweg.optimize.classes.mesh import Mesh
from thalweg.optimize.classes.meshfind import find
from thalweg.optimize.classes.meshsearch import STARTS
from thalweg.plan import Operator, Pipeline, Route
from thalweg.plan.uncertain import Uncertain
from thalweg.testing import checks

CHESS = np.array([[0.05, 0.9, 0.8], [0.9, 0.05, 0.8]])


def pipeline(n: int) -> Pipeline:
    return Pipeline("s", tuple(Operator(f"f{i + 1}") for i in range(n)))


def squares(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Two classes that two attributes tell together: the corner where both are small, and the rest."""
    random = np.random.default_rng(seed)
    a, b = random.random((2, rows))
    label = ((a < 0.6) & (b < 0.6)).astype(int)
    bits = random.random((rows, 3)) < CHESS[label]
    word = np.array(["red", "blue", "green"])[random.integers(0, 3, rows)]
    return bits, label, {"ts": np.arange(rows), "a": a, "b": b, "word": word}


def drive(policy: Mesh, bits: np.ndarray, columns: dict[str, np.ndarray], batch: int = 1000) -> list[float]:
    table, work = pa.record_batch(columns), []
    costs = np.ones(bits.shape[1])
    for number, start in enumerate(range(0, len(bits), batch)):
        piece = bits[start : start + batch]
        rusters = policy.route(Batch(table.slice(start, batch), number))
        visits = Visits(number, len(piece), tuple(travel(piece, costs, r) for r in rusters))
        policy.observe(visits)
        work.append(visits.seconds)
    return work


def class_oracle(bits: np.ndarray, label: np.ndarray) -> float:
    return sum(best_order(bits[label == c], [1.0] * bits.shape[1])[1] for c in np.unique(label))


@pytest.mark.parametrize("strategy", ["ii", "sa", "opt"])
@pytest.mark.parametrize("start", ["route-driven", "extreme-1"])
def test_classes_of_two_attributes_are_found(strategy, start):
    bits, label, columns = squares(30_000, seed=3)
    policy = Mesh(pipeline(3), seed=3, strategy=strategy, start=start, training=8)
    work = drive(policy, bits, columns)
    late = sum(work[15:])
    assert late < 1.12 * class_oracle(bits[15_000:], label[15_000:])
    assert late < 0.9 * best_order(bits[15_000:], [1.0] * 3)[1]
    assert {policy.attributes.names[j] for j in policy.classifier.used} == {"a", "b"}
    assert len(policy.plan.routes) == 2


@pytest.mark.parametrize("start", STARTS)
def test_every_start_solution_works(start):
    bits, label, columns = squares(12_000, seed=4)
    done = run("mesh", bits, [1.0] * 3, seed=4, columns=columns, start=start)
    assert done.useful[6:].sum() < 1.2 * class_oracle(bits[6000:], label[6000:])


def test_a_word_tells_a_class():
    random = np.random.default_rng(5)
    word = np.array(["tcp", "udp", "icmp", "sctp"])[random.integers(0, 4, 20_000)]
    bits = random.random((20_000, 3)) < CHESS[(word == "udp").astype(int)]
    policy = Mesh(pipeline(3), seed=5)
    drive(policy, bits, {"noise": random.random(20_000), "proto": word})
    assert set(policy.plan.routes) == {"proto = udp", "proto ≠ udp"}
    assert [line[:16] for line in policy.tree().splitlines()] == ["proto = udp: f2 ", "proto ≠ udp: f1 "]


def test_uniform_data_gets_one_route():
    single = 0
    for seed in range(5):
        random = np.random.default_rng(seed)
        bits = random.random((40_000, 4)) < [0.8, 0.6, 0.4, 0.2]
        policy = Mesh(pipeline(4), seed=seed)
        drive(policy, bits, {"a": random.random(40_000), "b": random.integers(0, 9, 40_000)})
        single += len(policy.plan.routes) == 1
        assert policy.plan.route.operators[0] == 3
    assert single >= 4


def test_drift_of_one_class_is_followed_and_leaves_the_other_alone():
    random = np.random.default_rng(6)
    kind = random.integers(0, 2, 40_000)
    rates = np.where((np.arange(40_000) < 20_000)[:, None, None], [[0.05, 0.9, 0.9], [0.9, 0.05, 0.9]],
                     [[0.9, 0.9, 0.05], [0.9, 0.05, 0.9]])  # fmt: skip
    bits = random.random((40_000, 3)) < rates[np.arange(40_000), kind]
    policy = Mesh(pipeline(3), seed=6)
    work = drive(policy, bits, {"kind": kind})
    drifts = [e for e in policy.drain() if e.kind == "drift"]
    assert drifts
    assert min(e.tuples for e in drifts) <= 22_000
    assert [s.route.operators[0] for s in policy.states] in ([2, 1], [1, 2])
    assert sum(work[23:]) < 1.1 * class_oracle(bits[23_000:], kind[23_000:])


def test_a_drift_that_changes_no_order_is_told_once_and_samples_grow_again():
    """Fewer pass everywhere from the middle on; the order stays what it was."""
    random = np.random.default_rng(16)
    bits = random.random((60_000, 3)) < np.where(
        (np.arange(60_000) < 30_000)[:, None], [0.3, 0.7, 0.9], [0.1, 0.5, 0.7]
    )
    policy = Mesh(pipeline(3), seed=16)
    drive(policy, bits, {"a": random.random(60_000)})
    drifts = [e.tuples for e in policy.drain() if e.kind == "drift"]
    assert 1 <= len(drifts) <= 4
    assert 30_000 < drifts[0] <= 33_000
    assert len(policy.sampling) > 150


def test_every_search_is_an_event_with_costs_and_tree():
    bits, _, columns = squares(60_000, seed=7)
    policy = Mesh(pipeline(3), seed=7)
    drive(policy, bits, columns)
    searches = [e for e in policy.drain() if e.kind == "search"]
    assert len(searches) >= 2
    first = searches[0]
    assert first.cost_before > first.cost_after > 0
    assert "a <= 0." in str(first.why)
    assert "training rows" in str(first.why)
    assert first.change is not None


def test_where_content_told_nothing_the_sample_is_searched_again_as_it_grows():
    random = np.random.default_rng(22)
    policy = Mesh(pipeline(4), seed=22, p=0.05, sample=300)
    drive(policy, random.random((80_000, 4)) < 0.5, {"a": random.random(80_000)})
    searches = [e.tuples for e in policy.drain() if e.kind == "search"]
    assert len(searches) >= 5
    assert searches[3] <= 20_000, "a sample half as large again may show what a smaller one did not"
    gaps = np.diff(searches[3:])
    assert len(gaps) <= 3, f"what the whole sample does not show is looked for ever more seldom: {searches}"
    assert (gaps[1:] > 1.5 * gaps[:-1]).all()


def test_profiling_falls_off_where_nothing_changes():
    bits, _, columns = squares(60_000, seed=8)
    done = run("mesh", bits, [1.0] * 3, seed=8, columns=columns)
    assert done.extra[30:].sum() < 0.03 * done.useful[30:].sum()


def test_uncertain_content_is_no_trouble():
    bits, _, columns = squares(20_000, seed=9)
    policy = Mesh(pipeline(3), seed=9)
    drive(policy, bits, columns)
    nulls = pa.record_batch(
        {"ts": [1, 2], "a": pa.array([None, 0.1]), "b": [0.1, 0.1], "word": pa.array([None, "red"])}
    )
    assert sum(len(r.ids) for r in policy.assign(Batch(nulls))) == 2
    other = policy.route(Batch(pa.record_batch({"z": np.arange(50)})))
    assert sum(50 if r.rows is None else len(r.rows) for r in other) == 50


def test_explanation_has_the_tree_shares_and_estimates():
    bits, _, columns = squares(20_000, seed=10)
    policy = Mesh(pipeline(3), seed=10)
    drive(policy, bits, columns)
    told = policy.explain()
    assert len(told.routes) == 2
    assert max(r.share for r in told.routes) == pytest.approx(0.64, abs=0.08)
    assert all(1 <= r.estimate < 2 for r in told.routes)
    assert told.tree.count("→") >= 4
    assert "search" in str(told.to_change)


def tied(rows: int, seed: int) -> np.ndarray:
    """The first filter drops most; of the two behind it none is better."""
    return np.random.default_rng(seed).random((rows, 3)) < [0.2, 0.5, 0.5]


def test_operators_that_tie_are_left_to_the_lottery():
    policy = Mesh(pipeline(3), seed=11, uncertain=0.1)
    rng = np.random.default_rng(11)
    table = pa.record_batch({"x": rng.random(40_000)})
    bits = tied(40_000, 11)
    orders: dict[tuple[int, ...], int] = {}
    for number, start in enumerate(range(0, 40_000, 500)):
        rusters = policy.route(Batch(table.slice(start, 500), number))
        piece = bits[start : start + 500]
        policy.observe(Visits(number, 500, tuple(travel(piece, np.ones(3), r) for r in rusters)))
        if policy.states[0].token is not None:
            order = rusters[0].route.operators
            orders[order] = orders.get(order, 0) + 1
    assert policy.states[0].token == Uncertain(((0,), tuple(policy.states[0].route.operators[1:])))
    assert "f1 → f2|f3" in policy.why() or "f1 → f3|f2" in policy.why()
    assert min(orders[0, 1, 2], orders[0, 2, 1]) > 0.25 * sum(orders.values()), orders
    assert set(orders) == {(0, 1, 2), (0, 2, 1)}, "what is decided stays decided"


def test_the_wheel_turns_to_the_operator_that_drops_more():
    policy = Mesh(pipeline(2), seed=12, uncertain=0.1)
    policy.states[0].token = Uncertain(((0, 1),))
    policy.states[0].route = Route((0, 1))
    bits = np.random.default_rng(12).random((40_000, 2)) < [0.95, 0.4]
    first = []
    for number, start in enumerate(range(0, 40_000, 400)):
        rusters = policy.work(Batch(pa.record_batch({"x": np.zeros(400)})), None)
        first.append(rusters[0].route.operators[0])
        policy.observe(Visits(number, 400, tuple(travel(bits[start : start + 400], np.ones(2), r) for r in rusters)))
    assert 0 in first[:20], "equal slices to begin with"
    assert first[20:].count(1) > 0.8 * len(first[20:])


def test_without_the_option_nothing_is_drawn():
    policy = Mesh(pipeline(3), seed=11)
    drive(policy, tied(20_000, 11), {"x": np.random.default_rng(11).random(20_000)})
    assert all(s.token is None for s in policy.states)


@dataclass
class Undecided(Mesh):
    """Leaves nearly everything to the lottery."""

    uncertain: float = 0.9


@pytest.mark.parametrize(
    "check", [c for c in checks(Undecided) if any(w in c.__name__ for w in ("snapshot", "allowed", "split", "pure", "same"))],
    ids=lambda c: c.__name__,
)  # fmt: skip
def test_uncertain_routes_conform(check):
    check()


def test_a_class_of_few_rows_has_its_own_route():
    """Rows of all classes travel together, so that a class of one row costs no ruster."""
    bits, label, columns = squares(30_000, seed=3)
    policy = Mesh(pipeline(3), seed=3)
    drive(policy, bits, columns)
    assert len(policy.plan.routes) == 2
    table = pa.record_batch(columns)
    one, other = (np.flatnonzero(label == k) for k in (0, 1))
    for few in (1, 80, 120):
        rows = np.concatenate([one[:900], other[:few]])
        (routed,) = policy.assign(Batch(table.take(pa.array(rows)), 99))
        assert len(routed.ids) == len(rows)
        own = [routed.routes[k] for k in routed.ids]
        share = np.mean(
            [route == policy.plan.routes[routed.labels[k]] for route, k in zip(own, routed.ids, strict=True)]
        )
        assert share == 1
        assert len({own[r] for r in range(len(rows))}) == 2 or few == 1, "the tree is wrong about some"


def searching(policy: Mesh) -> bool:
    """Whether a search is under way."""
    return policy.snapshot()["search"] is not None


def test_a_search_beside_execution_ends_in_the_same_classes(monkeypatch):
    """Execution goes on meanwhile, and takes what was found after so many batches, however long the search took."""
    bits, _, columns = squares(30_000, seed=3)
    table = pa.record_batch(columns)
    searched: list[int] = []

    def slow(task, random):
        searched.append(threading.get_ident())
        time.sleep(0.05)
        return find(task, random)

    def run() -> tuple[list[float], list[int], list]:
        policy, work, waited = Mesh(pipeline(3), seed=3), [], []
        for number, start in enumerate(range(0, 30_000, 1000)):
            rusters = policy.route(Batch(table.slice(start, 1000), number))
            piece = bits[start : start + 1000]
            visits = Visits(number, 1000, tuple(travel(piece, np.ones(3), r) for r in rusters))
            if searching(policy):
                waited.append(number)
                assert len(policy.plan.routes) == 1
            policy.observe(visits)
            work.append(visits.seconds)
            if len(policy.plan.routes) > 1:
                break
        assert len(policy.plan.routes) == 2
        return work, waited, [str(e.why) for e in policy.drain()]

    quick = run()
    assert quick[1]
    monkeypatch.setattr(meshfind, "find", slow)
    assert run() == quick
    assert threading.get_ident() not in searched


def test_a_search_under_way_outlives_its_policy():
    bits, _, columns = squares(30_000, seed=3)
    table, policy, start = pa.record_batch(columns), Mesh(pipeline(3), seed=3), 0

    def step(each: Mesh, start: int) -> None:
        rusters = each.route(Batch(table.slice(start, 1000), start))
        each.observe(Visits(start, 1000, tuple(travel(bits[start : start + 1000], np.ones(3), r) for r in rusters)))

    while not searching(policy):
        step(policy, start)
        start += 1000
    again = Mesh(pipeline(3), seed=3)
    again.restore(json.loads(json.dumps(policy.snapshot())))
    others = [policy, again, pickle.loads(pickle.dumps(policy))]
    for each in others:
        assert searching(each)
        step(each, start)
        assert not searching(each)
        assert each.looked > 0
    assert len({(each.looked, str(each.plan.routes)) for each in others}) == 1
