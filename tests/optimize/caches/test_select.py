"""Selection of caches against the exhaustive search, on random costs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optimize.caches.test_candidates import SIX, on_one_key

from thalweg.optimize.caches.candidates import Orders, candidates
from thalweg.optimize.caches.select import (
    Choice,
    Plain,
    apart,
    exhaustive,
    greedy,
    randomized,
    recursive,
    select,
    shared,
    total,
)


def instance(seed: int, orders: Orders, *, alone: bool = False) -> tuple[list[Choice], Plain]:
    """Random costs of the candidates of some orders; `alone`: no two share a store."""
    random = np.random.default_rng(seed)
    plain = {(i, k): float(random.exponential(4.0)) for i, order in orders.items() for k in range(len(order))}
    costs: dict[object, float] = {}
    choices = []
    for c in candidates(orders, on_one_key(7)):
        if alone and c.placed.cached in costs:
            continue
        segment = sum(plain[c.placed.input, k] for k in range(c.first, c.last + 1))
        cost = costs.setdefault(c.placed.cached, float(random.exponential(3.0)))
        choices.append(Choice(c, segment * float(random.uniform(0.1, 1.1)), cost))
    return choices, plain


@pytest.mark.parametrize("seed", range(150))
def test_the_recursion_is_optimal_without_sharing(seed):
    choices, plain = instance(seed, SIX, alone=True)
    assert not shared(choices)
    found = recursive(choices, plain)
    assert apart(found)
    assert total(found, plain) == pytest.approx(total(exhaustive(choices, plain), plain))
    assert select(choices, plain) == found


@pytest.mark.parametrize(("algorithm", "mean", "worst"), [(greedy, 1.02, 1.2), (randomized, 1.01, 1.1)])
def test_approximations_are_near_the_optimum(algorithm, mean, worst):
    ratios = []
    for seed in range(120):
        choices, plain = instance(seed, SIX)
        found = algorithm(choices, plain)
        assert apart(found)
        ratios.append(total(found, plain) / total(exhaustive(choices, plain), plain))
    assert min(ratios) >= 1 - 1e-9
    assert np.mean(ratios) < mean
    assert max(ratios) < worst


def test_a_store_is_paid_once():
    """Two uses that do not pay alone pay together."""
    choices, plain = instance(0, SIX)
    pair = [c for c in choices if c.candidate.inputs == {4, 5}][:2]
    plain = dict.fromkeys(plain, 1.0)
    pair = [Choice(c.candidate, 0.5, 2.0) for c in pair]
    assert exhaustive(pair[:1], plain) == []
    assert len(exhaustive(pair, plain)) == len(greedy(pair, plain)) == 2


def test_nothing_to_choose_from():
    assert select([], {(0, 0): 1.0}) == greedy([], {(0, 0): 1.0}) == randomized([], {(0, 0): 1.0}) == []
