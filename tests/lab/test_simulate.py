"""The simulation counts what it says it counts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from thalweg.lab.simulate import best_order, order_work, run

SEED = 20261116


def plain_work(bits: np.ndarray, order: tuple[int, ...], costs: list[float]) -> float:
    """Tuple by tuple, filter by filter."""
    total = 0.0
    for row in bits:
        for op in order:
            total += costs[op]
            if not row[op]:
                break
    return total


def test_order_work_equals_a_plain_loop() -> None:
    random = np.random.default_rng(SEED)
    for n in (1, 2, 4, 6):
        bits = random.random((200, n)) < random.random(n)
        costs = random.uniform(0.5, 5, n).tolist()
        order = tuple(int(i) for i in random.permutation(n))
        assert order_work(bits, order, costs) == pytest.approx(plain_work(bits, order, costs))


def test_best_order_equals_brute_force_over_permutations() -> None:
    random = np.random.default_rng(SEED)
    for case in range(25):
        n = int(random.integers(1, 7))
        bits = random.random((300, n)) < random.random(n)
        if case % 2 and n > 1:
            bits[:, 0] = bits[:, -1] ^ (random.random(300) < 0.1)  # correlated
        costs = random.uniform(0.5, 10, n).tolist()
        order, work = best_order(bits, costs)
        least = min(order_work(bits, o, costs) for o in permutations(range(n)))
        assert work == pytest.approx(least), (SEED, case)
        assert order_work(bits, order, costs) == pytest.approx(least), (SEED, case)


def test_work_as_written_is_the_written_orders_work() -> None:
    bits = np.random.default_rng(SEED).random((5000, 4)) < [0.9, 0.5, 0.7, 0.2]
    costs = [1.0, 2.0, 3.0, 4.0]
    went = run("written", bits, costs)
    assert went.work == pytest.approx(order_work(bits, (0, 1, 2, 3), costs))
    assert went.extra.sum() == 0
    assert went.orders == [(0, 1, 2, 3)] * 5


@pytest.mark.parametrize("policy", ["agreedy", "sweep", "independent", "localswaps", "auto", "lottery"])
def test_evaluations_are_useful_and_extra_work_at_unit_cost(policy: str) -> None:
    bits = np.random.default_rng(SEED).random((20_000, 5)) < [0.9, 0.5, 0.7, 0.2, 0.6]
    went = run(policy, bits, [1.0] * 5, seed=3)
    assert went.evaluations.sum() == pytest.approx(went.useful.sum() + went.extra.sum())
    assert len(went.orders) == len(went.useful) == 20
    again = run(policy, bits, [1.0] * 5, seed=3)
    assert again.events == went.events
    assert (again.useful == went.useful).all()


def test_useful_work_is_that_of_the_orders_in_force() -> None:
    """Policies with one order at a time: each batch costs what its order costs."""
    bits = np.random.default_rng(SEED).random((30_000, 5)) < [0.9, 0.5, 0.7, 0.2, 0.6]
    went = run("agreedy", bits, [1.0] * 5, seed=4)
    assert len(set(went.orders)) > 1
    for i, order in enumerate(went.orders):
        assert went.useful[i] == pytest.approx(order_work(bits[i * 1000 : (i + 1) * 1000], order, [1.0] * 5))
