"""Source-based routing: routes are drawn for every row, inversely proportional to selectivities."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.lab.simulate import travel
from thalweg.optimize.classes.sbr import SBR
from thalweg.plan import Operator, Pipeline


def pipeline(n: int) -> Pipeline:
    return Pipeline("s", tuple(Operator(f"f{i}") for i in range(n)))


def drawn(policy: SBR, rows: int) -> Counter[tuple[int, ...]]:
    (ruster,) = policy.route(Batch(pa.record_batch({"x": np.arange(rows)})))
    return Counter(ruster.routes[k].operators for k in ruster.ids)


def chance(order: tuple[int, ...], selectivities: list[float]) -> float:
    """By the paper's rule, operator after operator."""
    left, product = list(range(len(selectivities))), 1.0
    for op in order:
        product *= (1 / selectivities[op]) / sum(1 / selectivities[o] for o in left)
        left.remove(op)
    return product


def test_routes_are_drawn_inversely_proportional_to_selectivities():
    policy, selectivities, rows = SBR(pipeline(3), seed=4), [0.9, 0.3, 0.1], 60_000
    policy.rates.W = np.array(selectivities)
    found = drawn(policy, rows)
    for order in permutations(range(3)):
        expected = chance(order, selectivities)
        assert found[order] / rows == pytest.approx(expected, abs=4 * np.sqrt(expected / rows))


def test_selectivities_follow_the_stream():
    policy, random = SBR(pipeline(3), seed=5), np.random.default_rng(5)
    for number in range(20):
        bits = random.random((1000, 3)) < ([0.2, 0.5, 0.8] if number < 10 else [0.8, 0.5, 0.2])
        rusters = policy.route(Batch(pa.record_batch({"x": np.arange(1000)}), number))
        policy.observe(Visits(number, 1000, tuple(travel(bits, np.ones(3), r) for r in rusters)))
        if number == 9:
            assert pytest.approx([0.2, 0.5, 0.8], abs=0.1) == policy.rates.W
    assert pytest.approx([0.8, 0.5, 0.2], abs=0.1) == policy.rates.W


def test_guards_are_kept_and_many_operators_are_drawn_too():
    guarded = Pipeline("s", (Operator("a"), Operator("b", after=frozenset({0})), Operator("c")))
    assert set(drawn(SBR(guarded, seed=6), 5000)) == {(0, 1, 2), (0, 2, 1), (2, 0, 1)}
    many = drawn(SBR(pipeline(9), seed=7), 500)
    assert len(many) > 490
    assert all(sorted(order) == list(range(9)) for order in many)
