"""Distinct, set operations, projections and filters against plain bags."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.course import (
    VALUES,
    Bag,
    Event,
    bag_changes,
    by_instant,
    check,
    emptied,
    random_events,
    random_instants,
    run,
)

from thalweg.language.algebra import Distinct, Keep, Node, Project, SetOperation
from thalweg.language.scalar.expression import Apply, Field
from thalweg.relate import operator

TYPES = list(VALUES)


def schema_of(chance: np.random.Generator) -> pa.Schema:
    types = [TYPES[int(chance.integers(len(TYPES)))] for _ in range(int(chance.integers(1, 4)))]
    return pa.schema([(f"c{k}", t) for k, t in enumerate(types)])


def two(chance: np.random.Generator, schema: pa.Schema) -> list[list[Event]]:
    instants = random_instants(chance, table=chance.random() < 0.3)
    return [random_events(chance, schema, instants) for _ in range(2)]


@pytest.mark.parametrize("seed", range(40))
def test_distinct(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = schema_of(chance)
    node = Distinct(schema, Node(schema))
    events = random_events(chance, schema, random_instants(chance, 20, table=seed % 3 == 0))
    check(lambda: operator(node), lambda bags: Counter(set(bags[0])), [events], [schema], chance)
    _, op = run(lambda: operator(node), [emptied(events, 200)], [schema], chance, [50, 201])
    assert op.size() == 0


def set_operation(kind: str, every: bool, left: Bag, right: Bag) -> Bag:
    if not every:
        a, b = set(left), set(right)
        return Counter({"union": a | b, "except": a - b, "intersect": a & b}[kind])
    return {"union": left + right, "except": left - right, "intersect": left & right}[kind]


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("kind", ["union", "except", "intersect"])
@pytest.mark.parametrize("seed", range(12))
def test_set_operations(seed: int, kind: str, every: bool) -> None:
    chance = np.random.default_rng([seed, len(kind), every])
    schema = schema_of(chance)
    other = pa.schema([(f"r{k}", f.type) for k, f in enumerate(schema)])
    node = SetOperation(schema, Node(schema), Node(other), kind, every)
    inputs = two(chance, schema)
    check(
        lambda: operator(node),
        lambda bags: set_operation(kind, every, *bags),
        inputs,
        [schema, other],
        chance,
    )
    ended = [emptied(events, 200) for events in inputs]
    _, op = run(lambda: operator(node), ended, [schema, other], chance, [20, 201])
    assert op.size() == 0


@pytest.mark.parametrize("seed", range(20))
def test_projections_cancel_rows_that_become_equal(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64())])
    out = pa.schema([("s", pa.string()), ("t", pa.string())])
    field = Field(pa.string(), "s")
    node = Project(out, Node(schema), {"s": field, "t": field})
    events = random_events(chance, schema, random_instants(chance), rate=6)

    def evaluate(bags: list[Bag]) -> Bag:
        found: Bag = Counter()
        for (_, s, _), n in bags[0].items():
            found[s, s] += n
        return found

    check(lambda: operator(node), evaluate, [events], [schema], chance)


def test_a_projection_without_columns_counts_rows() -> None:
    schema = pa.schema([("k", pa.int64())])
    node = Project(pa.schema([]), Node(schema), {})
    events = [((1,), 1, 3), ((2,), 2, 3), ((1,), -1, 4), ((5,), 1, 4)]
    whole, _ = run(lambda: operator(node), [events], [schema], np.random.default_rng(0), [10])
    assert by_instant(whole) == {3: Counter({(): 3})} == bag_changes(lambda b: Counter({(): b[0].total()}), [events])


@pytest.mark.parametrize("seed", range(10))
def test_a_filter_keeps_what_is_true(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = pa.schema([("b", pa.bool_()), ("k", pa.int64())])
    node = Keep(schema, Node(schema), Field(pa.bool_(), "b"))
    events = random_events(chance, schema, random_instants(chance))

    def evaluate(bags: list[Bag]) -> Bag:
        return Counter({row: n for row, n in bags[0].items() if row[0] is True})

    check(lambda: operator(node), evaluate, [events], [schema], chance)


def test_nothing_in_nothing_out() -> None:
    schema = pa.schema([("k", pa.int64())])
    nodes = [
        Distinct(schema, Node(schema)),
        Keep(schema, Node(schema), Apply(pa.bool_(), "is_null", (Field(pa.int64(), "k"),))),
        Project(schema, Node(schema), {"k": Field(pa.int64(), "k")}),
    ]
    for node in nodes:
        whole, op = run(lambda node=node: operator(node), [[]], [schema], np.random.default_rng(0), [1, 2, 3])
        assert not whole
        assert op.size() == 0
