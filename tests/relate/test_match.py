"""Matches of two relations against nested loops: every kind, with and without keys and a condition, with NULLs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.course import Bag, Row, check, emptied, random_events, random_instants, run

from thalweg.language.algebra import Match, MatchKind, Node
from thalweg.language.scalar.expression import Apply, Expression, Field
from thalweg.relate import operator

INT = pa.int64()
LEFT = pa.schema([("a", INT), ("s", pa.string()), ("x", pa.float64())])
RIGHT = pa.schema([("b", INT), ("t", pa.string()), ("y", pa.float64())])
LESS = Apply(pa.bool_(), "<", (Field(INT, "a"), Field(INT, "b")))


def below(left: Row, right: Row) -> bool | None:
    return None if left[0] is None or right[0] is None else left[0] < right[0]


def equal(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else a == b


def verdict(keys: list[tuple[int, int]], condition: bool, aware: bool, left: Row, right: Row) -> bool | None:
    """True, false, or unknown: only for the last key of IN."""
    found = [equal(left[i], right[j]) for i, j in keys]
    last = found.pop() if aware else True
    if not all(found) or (condition and not below(left, right)):
        return False
    return last if aware else True


def matched(kind: MatchKind, keys: list[tuple[int, int]], condition: bool, aware: bool, bags: list[Bag]) -> Bag:
    left, right = bags
    out: Bag = Counter()
    verdicts = {(a, b): verdict(keys, condition, aware, a, b) for a in left for b in right}
    if kind in ("inner", "left", "right", "full"):
        for (a, b), v in verdicts.items():
            if v:
                out[a + b] += left[a] * right[b]
        if kind in ("left", "full"):
            for a in left:
                if not any(verdicts[a, b] for b in right):
                    out[(*a, None, None, None)] += left[a]
        if kind in ("right", "full"):
            for b in right:
                if not any(verdicts[a, b] for a in left):
                    out[(None, None, None, *b)] += right[b]
        return out
    for a, n in left.items():
        mine = [verdicts[a, b] for b in right]
        status = True if True in mine else (None if None in mine else False)
        if kind == "mark":
            out[(*a, status)] += n
        elif status is (kind == "semi"):
            out[a] += n
    return out


def node_of(kind: MatchKind, keys: list[tuple[int, int]], condition: Expression | None, aware: bool) -> Match:
    schema = {"semi": LEFT, "anti": LEFT, "mark": LEFT.append(pa.field("m", pa.bool_()))}.get(
        kind, pa.schema([*LEFT, *RIGHT])
    )
    names = tuple((LEFT.names[i], RIGHT.names[j]) for i, j in keys)
    return Match(schema, Node(LEFT), Node(RIGHT), kind, names, condition, aware)


KEYS: list[list[tuple[int, int]]] = [[], [(0, 0)], [(1, 1)], [(2, 2)], [(0, 0), (2, 2)], [(2, 2), (1, 1)]]


@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "semi", "anti", "mark"])
@pytest.mark.parametrize("seed", range(12))
def test_matches(seed: int, kind: MatchKind, condition: bool) -> None:
    chance = np.random.default_rng([seed, len(kind), condition, *kind.encode()])
    keys = KEYS[seed % len(KEYS)]
    aware = bool(keys) and kind in ("semi", "anti", "mark") and seed >= len(KEYS)
    node = node_of(kind, keys, LESS if condition else None, aware)
    instants = random_instants(chance, 14, table=seed % 3 == 0)
    inputs = [random_events(chance, schema, instants, rate=2) for schema in (LEFT, RIGHT)]
    check(
        lambda: operator(node), lambda bags: matched(kind, keys, condition, aware, bags), inputs, [LEFT, RIGHT], chance
    )
    ended = [emptied(events, 200 + k) for k, events in enumerate(inputs)]
    _, op = run(lambda: operator(node), ended, [LEFT, RIGHT], chance, [30, 201, 202])
    assert op.size() == 0


def test_keys_of_different_numeric_types_are_compared_as_numbers() -> None:
    left, right = pa.schema([("a", pa.int32())]), pa.schema([("b", pa.float64())])
    node = Match(left, Node(left), Node(right), "semi", (("a", "b"),))
    out, _ = run(
        lambda: operator(node), [[((3,), 1, 1)], [((3.0,), 1, 2)]], [left, right], np.random.default_rng(0), [5]
    )
    assert out == [((3,), 1, 2)]
