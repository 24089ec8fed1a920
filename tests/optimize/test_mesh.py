"""Query mesh: finds classes of several attributes, defaults to one route, follows drift class by class, tells what it did."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.execute.batch import Batch
from thalweg.lab.simulate import best_order, run, travel
from thalweg.optimize.mesh import Mesh
from thalweg.optimize.meshsearch import STARTS
from thalweg.plan import Operator, Pipeline
from thalweg.profile.visits import Visits

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
    assert {policy.attributes.names[j] for j in policy.classifier.attributes()} == {"a", "b"}
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


def test_every_search_is_an_event_with_costs_and_tree():
    bits, _, columns = squares(60_000, seed=7)
    policy = Mesh(pipeline(3), seed=7)
    drive(policy, bits, columns)
    searches = [e for e in policy.drain() if e.kind == "search"]
    assert len(searches) >= 2
    first = searches[0]
    assert first.estimate_before > first.estimate_after > 0
    assert "a <= 0." in first.why
    assert "training tuples" in first.why
    assert first.before != first.after


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
    assert sum(len(r.rows) for r in policy.assign(Batch(nulls))) == 2
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
    assert "search" in told.to_change
