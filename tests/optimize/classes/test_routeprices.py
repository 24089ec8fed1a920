"""Prices of tuples on orders against walking each tuple, and the best order against trying all of them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from thalweg.optimize.classes.routeprices import Prices
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.plan import Operator, Pipeline, Route


def walked(rows: np.ndarray, order: tuple[int, ...], prices: Prices) -> float:
    """What one tuple costs: each partial result visits the next operator by itself."""
    alive, total = 1.0, 0.0
    for op in order:
        total += alive * prices.costs[op] + alive * rows[op] * prices.examined[op]
        alive *= rows[op]
    return total


def drawn(seed: int, operators: int, tuples: int) -> tuple[np.ndarray, Prices]:
    random = np.random.default_rng(seed)
    bits = random.choice([-1, 0, 0, 1, 1, 2, 5], (tuples, operators)).astype(np.int8)
    examined = random.choice([0.0, 1.0], operators)
    return bits, Prices(random.uniform(0.2, 3, operators), examined, random.uniform(0.1, 3, operators))


@pytest.mark.parametrize("seed", range(6))
def test_prices_of_joins_are_those_of_walking_every_partial_result(seed):
    bits, prices = drawn(seed, 4, 30)
    order = tuple(np.random.default_rng(seed).permutation(4).tolist())
    rows = np.where(bits < 0, prices.fill, bits)
    assert prices.each(bits, order) == pytest.approx([walked(r, order, prices) for r in rows])


@pytest.mark.parametrize("seed", range(12))
def test_the_best_order_of_a_join_is_the_best_of_all_allowed_ones(seed):
    bits, prices = drawn(100 + seed, 4, 40)
    near = None if seed % 2 else frozenset({0})
    pipeline = Pipeline(
        "s", (Operator("a", "stem"), Operator("b", "stem"), Operator("c", "stem", near=near), Operator("d"))
    )
    route, total = RouteSearch(pipeline, prices).best(bits)
    every = [o for o in permutations(range(4)) if pipeline.allows(Route(o))]
    costs = {o: float(prices.each(bits, o).sum()) for o in every}
    assert total == pytest.approx(min(costs.values()))
    assert costs[route.operators] == pytest.approx(total)


def test_many_operators_are_ordered_greedily_and_priced_right():
    bits, prices = drawn(7, 10, 50)
    pipeline = Pipeline("s", tuple(Operator(f"s{i}", "stem") for i in range(10)))
    route, total = RouteSearch(pipeline, prices).best(bits)
    assert total == pytest.approx(float(prices.each(bits, route).sum()))
    random = np.random.default_rng(7)
    others = [float(prices.each(bits, random.permutation(10)).mean()) for _ in range(30)]
    assert total / 50 < np.median(others)
