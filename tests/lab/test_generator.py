"""The correlated streams have the correlation they claim, and their true costs are those worked out by hand."""

from __future__ import annotations

from itertools import combinations, permutations
from math import sqrt

import numpy as np
import pytest

from thalweg.errors import DefinitionError
from thalweg.lab.chapter4.generator import AGREEMENT, Population, changing, mixing, spread
from thalweg.lab.simulate import order_work

SEED = 20261115


@pytest.mark.parametrize(("n", "gamma", "sigma"), [(8, 2, 0.5), (8, 4, 0.3), (5, 2, 0.7), (6, 6, 0.12), (4, 1, 0.5)])
def test_pairs_agree_as_claimed(n: int, gamma: int, sigma: float) -> None:
    count = 200_000
    population = Population.of(n, gamma, sigma)
    bits = population.draw(count, np.random.default_rng(SEED))
    five_errors = 5 * sqrt(0.25 / count)
    assert np.abs(bits.mean(axis=0) - sigma).max() < five_errors
    by_chance = sigma**2 + (1 - sigma) ** 2
    for i, j in combinations(range(n), 2):
        expected = AGREEMENT if population.groups[i] == population.groups[j] else by_chance
        assert abs((bits[:, i] == bits[:, j]).mean() - expected) < five_errors, (i, j)


def test_groups_are_as_large_as_gamma_and_the_last_may_be_smaller() -> None:
    assert Population.of(5, 2).groups == (0, 0, 1, 1, 2)
    assert Population.of(8, 3, [0.2, 0.4, 0.6]).selectivities == (0.2,) * 3 + (0.4,) * 3 + (0.6,) * 2


def test_mixing_of_the_digest() -> None:
    assert mixing(0.5) == pytest.approx(sqrt(0.6))
    assert mixing(0.3) == pytest.approx(mixing(0.7)) == pytest.approx(0.7237, abs=1e-4)
    assert mixing(0.2) == pytest.approx(0.612, abs=1e-3)


@pytest.mark.parametrize("sigma", [0.05, 0.95, 0.0, 1.0])
def test_selectivities_that_cannot_agree_on_so_few_are_refused(sigma: float) -> None:
    with pytest.raises(DefinitionError, match=r"between 0\.12 and 0\.88"):
        mixing(sigma)


def test_wrong_number_of_selectivities_is_refused() -> None:
    with pytest.raises(DefinitionError, match="4 groups"):
        Population.of(8, 2, [0.5, 0.5])


# n, Γ: best, mean of all orders, worst; all selectivities 0.5 and equal costs
REFERENCE = {
    (3, 1): (1.75, 1.75, 1.75),
    (3, 2): (1.75, 1.80, 1.90),
    (3, 3): (1.90, 1.90, 1.90),
    (4, 2): (1.95, 2.00, 2.10),
    (6, 2): (2.055, 2.142, 2.34),
}
BEST_AND_WORST = {(8, 1): (1.992, 1.992), (8, 2): (2.060, 2.436), (8, 4): (2.481, 2.948), (8, 8): (3.296, 3.296)}


@pytest.mark.parametrize(("size", "expected"), REFERENCE.items())
def test_reference_costs_over_all_orders(size: tuple[int, int], expected: tuple[float, float, float]) -> None:
    population, costs = Population.of(*size), [1.0] * size[0]
    priced = [population.cost(order, costs) for order in permutations(range(size[0]))]
    assert (min(priced), np.mean(priced), max(priced)) == pytest.approx(expected, abs=6e-4)
    assert population.best(costs)[1] == pytest.approx(min(priced))


@pytest.mark.parametrize(("size", "expected"), BEST_AND_WORST.items())
def test_reference_costs_of_eight_filters(size: tuple[int, int], expected: tuple[float, float]) -> None:
    population, costs = Population.of(*size), [1.0] * size[0]
    in_groups = tuple(range(size[0]))  # the dearest order takes one group after the other
    assert (population.best(costs)[1], population.cost(in_groups, costs)) == pytest.approx(expected, abs=6e-4)


def test_true_cost_is_what_a_long_stream_costs() -> None:
    random = np.random.default_rng(SEED)
    population = Population.of(6, 2, [0.3, 0.5, 0.8]).shuffled(random)
    bits = population.draw(300_000, random)
    costs = random.uniform(1, 10, 6).tolist()
    for _ in range(5):
        order = tuple(int(i) for i in random.permutation(6))
        assert order_work(bits, order, costs) / len(bits) == pytest.approx(population.cost(order, costs), rel=0.01)


def test_best_order_is_best_of_all_permutations_with_unequal_costs() -> None:
    random = np.random.default_rng(SEED + 1)
    for _ in range(10):
        population = Population.of(5, 2, spread(3)).shuffled(random)
        costs = random.uniform(1, 20, 5).tolist()
        order, cost = population.best(costs)
        assert cost == pytest.approx(min(population.cost(o, costs) for o in permutations(range(5))))
        assert population.cost(order, costs) == pytest.approx(cost)


def test_permuting_moves_costs_with_the_filters() -> None:
    population = Population.of(6, 2, [0.2, 0.5, 0.8])
    moved = population.permuted([5, 4, 3, 2, 1, 0])
    assert moved.cost((0, 1, 2, 3, 4, 5), [1.0] * 6) == pytest.approx(population.cost((5, 4, 3, 2, 1, 0), [1.0] * 6))


def test_a_changing_stream_goes_through_its_phases() -> None:
    low, high = Population.of(2, 1, 0.2), Population.of(2, 1, 0.8)
    bits = changing([low, high], 20_000, np.random.default_rng(SEED))
    assert bits[:20_000].mean() == pytest.approx(0.2, abs=0.02)
    assert bits[20_000:].mean() == pytest.approx(0.8, abs=0.02)
