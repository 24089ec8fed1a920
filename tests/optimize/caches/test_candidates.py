"""Which caches a set of orders allows: example 5.5.1 of the thesis, and what always holds."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.optimize.caches.candidates import candidates, closed_sets, global_candidates, is_closed
from thalweg.plan.cached import Cached, Placed
from thalweg.plan.graph import JoinGraph

ORDERS = {1: (2, 3, 4, 5, 6), 2: (1, 3, 5, 4, 6), 3: (2, 1, 4, 5, 6), 4: (5, 1, 2, 3, 6), 5: (4, 2, 3, 1, 6)}
SIX = {**ORDERS, 6: (2, 1, 4, 5, 3)}


def on_one_key(inputs: int) -> JoinGraph:
    every = frozenset(range(inputs))
    return JoinGraph(tuple(f"r{i}" for i in every), (frozenset({0}),) * inputs, streams=every, stored=every)


def found(orders: dict[int, tuple[int, ...]]) -> set[tuple[int, frozenset[int]]]:
    return {(c.placed.input, c.inputs) for c in candidates(orders, on_one_key(7))}


def test_the_example_of_the_thesis():
    assert closed_sets(SIX) == {frozenset(s) for s in ({1, 2}, {4, 5}, {1, 2, 3}, {1, 2, 3, 4, 5})}
    sets = {(3, 12), (4, 12), (6, 12), (1, 45), (2, 45), (3, 45), (6, 45), (4, 123), (5, 123), (6, 12345)}
    assert found(SIX) == {(i, frozenset(map(int, str(z)))) for i, z in sets}


def test_another_order_of_the_sixth_loses_one():
    assert found(SIX) - found({**ORDERS, 6: (2, 3, 4, 5, 1)}) == {(6, frozenset({1, 2}))}
    assert len(found({**ORDERS, 6: (2, 3, 4, 5, 1)})) == 9


def test_the_counter_example():
    """A cache of R2 and R1 in the pipeline of R3, where the rows of R2 visit R3 first (example 5.4.3)."""
    assert not is_closed({1: (2, 3), 2: (3, 1), 3: (2, 1)}, frozenset({1, 2}))


@pytest.mark.parametrize("seed", range(200))
def test_candidates_of_one_pipeline_are_nested_or_apart(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 8))
    orders = {i: tuple(int(j) for j in random.permutation(count) if j != i) for i in range(count)}
    if seed % 2:
        orders = {i: tuple(j for j in range(count) if j != i) for i in range(count)}
    every = candidates(orders, on_one_key(count))
    for a in every:
        for b in every:
            assert not a.overlaps(b) or a == b or a.contains(b) or b.contains(a)


def test_tables_have_no_say():
    """The rows of a table never arrive: nothing has to be computed on their way."""
    graph = JoinGraph(("f", "p", "q"), (frozenset({0}), frozenset({0, 1}), frozenset({1})), streams=frozenset({0}),
                      stored=frozenset({1, 2}))  # fmt: skip
    assert [c.placed for c in candidates({0: (1, 2)}, graph)] == [Placed(0, Cached(frozenset({1, 2}), (0,)))]


def test_a_single_input_is_cached_by_value_where_a_predicate_has_no_index():
    graph = JoinGraph(("f", "b"), (frozenset(), frozenset()), (frozenset({0, 1}),), (frozenset({0, 1}),),
                      frozenset({0}), frozenset({1}))  # fmt: skip
    assert [c.placed.cached for c in candidates({0: (1,)}, graph)] == [Cached(frozenset({1}), (), (0,))]
    text = JoinGraph(("f", "b"), (frozenset(), frozenset()), (frozenset({0, 1}),), (frozenset({1}),), frozenset({0}),
                     frozenset({1}))  # fmt: skip
    assert candidates({0: (1,)}, text) == [], "a code of a text does not tell all texts apart"


def test_globally_consistent_ones_fill_the_quota():
    """Example 5.7.1: (R2 ⋈ R3) ⋉ R1 in the pipeline of R6."""
    orders = {i - 1: tuple(j - 1 for j in order) for i, order in {**ORDERS, 6: (2, 3, 4, 5, 1)}.items()}
    graph = on_one_key(6)
    prefix = candidates(orders, graph)
    assert global_candidates(orders, graph, quota=6)[: len(prefix)] == prefix
    every = global_candidates(orders, graph, quota=100)
    assert any(c.placed.input == 5 and c.inputs == {1, 2} and c.placed.cached.within == {0} for c in every)
    assert all(is_closed(orders, c.whole) or len(c.whole) == 6 for c in every)
    assert len(global_candidates(orders, graph, quota=12)) == 12
