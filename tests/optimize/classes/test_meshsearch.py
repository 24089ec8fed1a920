"""The searches against exhaustive ones written plainly: partitions by recursion, orders by permutation."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import pytest

from thalweg.optimize.classes import meshsearch as ms
from thalweg.optimize.classes.routeprices import Prices
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.plan import Operator, Pipeline
from thalweg.plan.tree import Comparison, Tree


def pipeline(n: int) -> Pipeline:
    return Pipeline("s", tuple(Operator(f"f{i}") for i in range(n)))


def random_tree(leaves: list[int], random: np.random.Generator) -> Tree:
    if len(leaves) == 1:
        return Tree(leaves[0])
    cut = int(random.integers(1, len(leaves)))
    test = Comparison(int(random.integers(3)), float(random.random()))
    return Tree(test=test, yes=random_tree(leaves[:cut], random), no=random_tree(leaves[cut:], random))


def instance(seed: int, tuples: int, operators: int) -> ms.Model:
    random = np.random.default_rng(seed)
    rates = random.choice([0.05, 0.3, 0.6, 0.95], (tuples, operators))
    bits = [(random.random((int(random.integers(5, 40)), operators)) < r).astype(np.int8) for r in rates]
    costs = random.choice([1.0, 2.0, 5.0], operators)
    tree = random_tree(list(range(tuples)), random)
    return ms.Model(
        RouteSearch(pipeline(operators), Prices.of_filters(costs)),
        tree,
        bits,
        test=0.02,
        overhead=float(random.choice([0.02, 0.1, 0.3])),
    )


def plain_cost(model: ms.Model, solution: tuple[int, ...]) -> float:
    """Equation (2), by hand."""
    costs, n = model.search.prices.costs, len(model.search.prices.costs)
    rows = sum(len(b) for b in model.bits)
    total = 0.0
    for s in set(solution):
        own = np.concatenate([b for b, t in zip(model.bits, solution, strict=True) if t == s])
        prices = []
        for order in permutations(range(n)):
            price = 0.0
            for bits in own:
                for op in order:
                    price += costs[op]
                    if not bits[op]:
                        break
            prices.append(price)
        total += min(prices) / rows + model.overhead

    def tests(tree: Tree) -> tuple[set[int], float]:
        if tree.test is None:
            return {solution[tree.label]}, 0.0
        (a, x), (b, y) = tests(tree.yes), tests(tree.no)
        below = sum(len(model.bits[leaf]) for leaf, _ in tree.leaves()) / rows
        return a | b, 0.0 if len(a | b) == 1 else x + y + below

    return total + model.test * tests(model.tree)[1]


def every_partition(items: list[int]):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in every_partition(rest):
        yield [[first], *smaller]
        for k in range(len(smaller)):
            yield [*smaller[:k], [first, *smaller[k]], *smaller[k + 1 :]]


@pytest.mark.parametrize("seed", range(4))
def test_opt_qm_is_the_best_of_all_partitions(seed):
    model = instance(seed, tuples=4, operators=3)
    prices = {}
    for parts in every_partition([0, 1, 2, 3]):
        labels = [0] * 4
        for k, own in enumerate(parts):
            for t in own:
                labels[t] = k
        prices[ms.numbered(labels)] = plain_cost(model, tuple(labels))
    assert len(prices) == 15
    for solution, price in prices.items():
        assert model.cost(solution) == pytest.approx(price)
    assert model.cost(ms.opt_qm(model)) == pytest.approx(min(prices.values()))


def test_bell_numbers():
    assert [sum(1 for _ in ms.partitions(n)) for n in range(1, 9)] == [1, 2, 5, 15, 52, 203, 877, 4140]
    assert len(set(ms.partitions(6))) == 203


@cache
def best_of(seed: int) -> tuple[ms.Model, float]:
    # n = 8 has 4,140 partitions: a few of them, more of the smaller ones.
    model = instance(seed, tuples=8 if seed % 20 == 0 else 3 + seed % 4, operators=3 + seed % 2)
    return model, model.cost(ms.opt_qm(model))


@pytest.mark.parametrize("strategy", ["ii", "sa"])
def test_the_walks_come_close_to_the_best_on_200_instances(strategy):
    over = []
    for seed in range(200):
        random = np.random.default_rng([seed, 1])
        model, best = best_of(seed)
        start = list(ms.STARTS.values())[seed % 5](model, random)
        found = model.tidied((ms.sa_qm if strategy == "sa" else ms.ii_qm)(model, start, random))
        assert model.cost(found) <= model.cost(start) + 1e-12
        over.append(model.cost(found) / best)
    assert min(over) > 1 - 1e-9
    assert np.mean(over) < 1.05, f"{strategy}: {np.mean(over):.3f} of the best on average, {max(over):.3f} at worst"


@pytest.mark.parametrize("start", ms.STARTS)
def test_every_start_is_a_partition_and_can_be_improved(start):
    random = np.random.default_rng(3)
    better = 0
    for seed in range(12):
        model = instance(100 + seed, tuples=7, operators=4)
        solution = ms.STARTS[start](model, random)
        assert ms.numbered(solution) == solution
        assert len(solution) == 7
        found = ms.ii_qm(model, solution, random)
        better += model.cost(found) < model.cost(solution)
    assert better > 0


def test_route_driven_puts_equal_routes_together():
    model = instance(5, tuples=6, operators=3)
    solution = ms.route_driven(model, np.random.default_rng(1))
    routes = [model.best([t])[0] for t in range(6)]
    assert all((routes[a] == routes[b]) == (solution[a] == solution[b]) for a in range(6) for b in range(6))


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_are_one_split_or_merge_away(seed):
    random = np.random.default_rng(seed)
    solution = ms.numbered(random.integers(0, 4, 7).tolist())
    for _ in range(20):
        there = ms.neighbour(solution, random)
        a, b = {frozenset(s) for s in ms.members(solution)}, {frozenset(s) for s in ms.members(there)}
        assert abs(len(a) - len(b)) == 1
        assert len(a - b) + len(b - a) == 3
        solution = there


def test_the_route_search_keeps_guards_and_is_exact():
    guarded = Pipeline("s", (Operator("a", after=frozenset({2})), Operator("b"), Operator("c")))
    random = np.random.default_rng(4)
    for _ in range(10):
        bits = (random.random((60, 3)) < random.random(3)).astype(np.int8)
        costs = random.choice([1.0, 3.0], 3)
        route, total = RouteSearch(guarded, Prices.of_filters(costs)).best(bits)
        assert guarded.allows(route)
        allowed = [o for o in permutations(range(3)) if o.index(2) < o.index(0)]
        prices = [sum(_price(row, order, costs) for row in bits) for order in allowed]
        assert total == pytest.approx(min(prices))
        assert sum(_price(row, route, costs) for row in bits) == pytest.approx(total)


def test_many_operators_are_ordered_greedily():
    bits = (np.random.default_rng(5).random((300, 10)) < np.linspace(0.95, 0.1, 10)).astype(np.int8)
    route, total = RouteSearch(pipeline(10), Prices.of_filters(np.ones(10))).best(bits)
    assert route.operators[0] == 9
    assert total == sum(_price(row, route, np.ones(10)) for row in bits)


def _price(row, order, costs) -> float:
    price = 0.0
    for op in order:
        price += costs[op]
        if not row[op]:
            break
    return price
