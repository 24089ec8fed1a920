"""Pipelines: which orders are allowed, against the definition tried out on all permutations."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings

from thalweg.errors import DefinitionError
from thalweg.plan import Operator, Pipeline, Route
from thalweg.testing.chance import Seeded
from thalweg.testing.filters import make_pipeline, make_route, pipelines


def ready(pipeline: Pipeline, i: int, visited: tuple[int, ...]) -> bool:
    op = pipeline.operators[i]
    return op.after <= set(visited) and (op.near is None or bool(op.near & set(visited)))


def allowed_by_definition(pipeline: Pipeline, order: tuple[int, ...]) -> bool:
    """Guards before what they guard; a stem when connected, or when no operator that is left can be connected yet."""
    for k, op in enumerate(order):
        visited = order[:k]
        if not pipeline.operators[op].after <= set(visited):
            return False
        if not ready(pipeline, op, visited) and any(ready(pipeline, other, visited) for other in order[k:]):
            return False
    return True


@pytest.mark.parametrize("seed", range(60))
def test_allows_is_the_definition_on_every_permutation(seed: int) -> None:
    pipeline = make_pipeline(Seeded(seed), seed % 6, stems=seed % 2 == 1)
    orders = list(permutations(range(len(pipeline))))
    allowed = {o for o in orders if allowed_by_definition(pipeline, o)}
    assert {o for o in orders if pipeline.allows(Route(o))} == allowed
    assert pipeline.written.operators in allowed
    assert pipeline.free == all(not op.after and op.near is None for op in pipeline.operators)
    # Taking eligible operators one by one reaches all allowed orders and no others.
    reached = {()}
    for _ in range(len(pipeline)):
        reached = {(*r, i) for r in reached for i in pipeline.eligible(r)}
    assert reached == allowed


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(pipelines(stems=True))
def test_closest_is_allowed_and_leaves_allowed_wishes_alone(pipeline: Pipeline) -> None:
    for seed in range(3):
        wish = make_route(Seeded(seed), pipeline)
        assert pipeline.allows(wish)
        assert pipeline.closest(wish.operators) == wish
        backwards = pipeline.closest(wish.operators[::-1])
        assert pipeline.allows(backwards)
    written = pipeline.closest(range(len(pipeline)))
    assert written == pipeline.written


def test_written_moves_an_operator_behind_its_guard_and_no_further() -> None:
    p = Pipeline("s", (Operator("a", after=frozenset({2})), Operator("b"), Operator("c"), Operator("d")))
    assert p.written.named(p.names) == "b → c → a → d"


def test_a_route_visits_every_operator_once() -> None:
    p = Pipeline("s", (Operator("a"), Operator("b")))
    assert not p.allows(Route((0,)))
    assert not p.allows(Route((0, 0)))
    assert not p.allows(Route((0, 1, 2)))
    assert p.allows(Route((1, 0)))


def test_guards_in_a_circle_are_refused_by_name() -> None:
    p = Pipeline("s", (Operator("a", after=frozenset({1})), Operator("b", after=frozenset({0})), Operator("c")))
    with pytest.raises(DefinitionError, match="'a', 'b' wait for each other"):
        _ = p.written


def test_a_product_is_allowed_once_nothing_is_connected() -> None:
    # s1 and s2 are reached only through each other: one of them must be entered unconnected, after all others.
    p = Pipeline(
        "s", (Operator("s1", "stem", near=frozenset({1})), Operator("s2", "stem", near=frozenset({0})), Operator("f"))
    )
    assert p.eligible(()) == [2]
    assert p.eligible((2,)) == [0, 1]
    assert p.allows(Route((2, 1, 0)))
    assert not p.allows(Route((1, 0, 2)))


def test_no_operators() -> None:
    p = Pipeline("s", ())
    assert p.allows(Route(()))
    assert p.written == Route(())
    assert p.eligible(()) == []
