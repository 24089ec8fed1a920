"""State is bounded by what lives: after a hundred windows it is as large as after a few. Snapshots change little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.relation import Changes, Deltas
from thalweg.language.algebra import (
    Aggregate,
    Distinct,
    Emit,
    Group,
    Hop,
    Match,
    Node,
    Over,
    Restream,
    SetOperation,
    Single,
)
from thalweg.language.query import Window
from thalweg.relate import operator
from thalweg.relate.living import Living

INT, TEXT = pa.int64(), pa.string()
SCHEMA = pa.schema([("k", TEXT), ("x", INT)])
OTHER = pa.schema([("k2", TEXT), ("x2", INT)])
BOTH = pa.schema([*SCHEMA, *OTHER])
TIME = pa.timestamp("us", tz="UTC")
HOPPED = SCHEMA.append(pa.field("w", pa.struct([("start", TIME), ("end", TIME)])))
WINDOW = 2
ROWS = 40


def group(function: str, result: Any = INT, **more: Any) -> Group:
    return Group(
        pa.schema([("k", TEXT), ("v", result)]), Node(SCHEMA), ("k",), {"v": Aggregate(function, ("x",), **more)}
    )


NODES: dict[str, Any] = {
    "distinct": Distinct(SCHEMA, Node(SCHEMA)),
    "union": SetOperation(SCHEMA, Node(SCHEMA), Node(OTHER), "union"),
    "except all": SetOperation(SCHEMA, Node(SCHEMA), Node(OTHER), "except", True),
    "sum": group("sum"),
    "avg": group("avg", pa.float64()),
    "min": group("min"),
    "count distinct": group("count", distinct=True),
    "collect_list": group("collect_list", pa.list_(INT)),
    "stddev": group("stddev_pop", pa.float64()),
    "inner": Match(BOTH, Node(SCHEMA), Node(OTHER), "inner", (("k", "k2"),)),
    "full": Match(BOTH, Node(SCHEMA), Node(OTHER), "full", (("k", "k2"),)),
    "anti": Match(SCHEMA, Node(SCHEMA), Node(OTHER), "anti", (("k", "k2"),)),
    "not in": Match(SCHEMA, Node(SCHEMA), Node(OTHER), "anti", (("k", "k2"), ("x", "x2")), null_aware=True),
    "hop": Hop(HOPPED, Node(SCHEMA), "w", 2 * WINDOW, WINDOW),
    "over": Over(SCHEMA.append(pa.field("n", INT)), Node(SCHEMA), ("k",), "range", WINDOW, {"n": Aggregate("count")}),
    "istream every": Emit(SCHEMA, Node(SCHEMA), "istream", (("k", "k"), ("x", "x")), 3),
    "rstream every": Emit(SCHEMA, Node(SCHEMA), "rstream", (("k", "k"), ("x", "x")), 3),
    "restream": Restream(SCHEMA, Node(SCHEMA), "dstream", None, Window("range", WINDOW)),
    "restream rows": Restream(SCHEMA, Node(SCHEMA), "istream", None, Window("rows", rows=7)),
}


def sliding(step: int, schema: pa.Schema, shift: int) -> Changes:
    """New keys in every step, which leave a window later."""

    def rows(at: int) -> list[tuple[str, int]]:
        return [(f"key {at} {k % 9 + shift}", k % 4 + at) for k in range(ROWS)]

    fresh, old = rows(step), rows(step - WINDOW) if step >= WINDOW else []
    table = pa.table([pa.array([r[c] for r in [*old, *fresh]], schema.field(c).type) for c in range(2)], schema=schema)
    sign = np.r_[np.full(len(old), -1), np.ones(len(fresh), np.int64)]
    return Changes(table, sign, np.full(len(sign), step))


@pytest.mark.parametrize("name", NODES)
def test_state_after_a_hundred_windows_is_that_after_three(name: str) -> None:
    node = NODES[name]
    op, sizes, held, written = operator(node), [], [], []
    for step in range(100 * WINDOW):
        inputs = [sliding(step, SCHEMA, 0), sliding(step, OTHER, 3)][: len(node.children)]
        op.step(inputs, step + 1)
        if step % WINDOW == 0:
            sizes.append(op.size())
            held.append(op.nbytes)
            written.append(sum(map(len, op.snapshot().values())))
    assert 0 < max(sizes[8:]) <= 1.3 * max(sizes[2:8]), "rows that left are kept"
    assert max(held) <= 2 * max(held[2:8]), "arrays grow"
    assert max(written[10:]) <= 1.6 * max(written[2:8]), "snapshots grow"


def test_groups_of_closed_windows_are_not_kept() -> None:
    keys = ("w", "k")
    out = pa.schema([HOPPED.field("w"), HOPPED.field("k"), ("n", INT), ("m", INT), ("l", pa.list_(INT))])
    hop = Hop(HOPPED, Node(SCHEMA), "w", WINDOW, WINDOW)
    aggregates = {
        "n": Aggregate("count", ("x",), True),
        "m": Aggregate("max", ("x",)),
        "l": Aggregate("collect_list", ("x",)),
    }
    below, above = operator(hop), operator(Group(out, hop, keys, aggregates))
    total = 0
    for step in range(300):
        changes = sliding(step, SCHEMA, 0)
        found = above.step([below.step([changes], step + 1)], step + 1)
        assert (found.sign == 1).all(), "a window's group changes once"
        total += len(found.sign)
        assert above.size() == 0
    assert total == 9 * 300 - 9 * (WINDOW - 1) - 9, "a row for each key of each window that has closed"
    fresh = operator(Group(out, hop, keys, aggregates))
    fresh.restore(above.snapshot())
    assert fresh.size() == 0


def test_a_living_relation_keeps_what_lives() -> None:
    living = Living(SCHEMA)
    held = []
    for step in range(400):
        rows = pa.record_batch([pa.array([f"row {step}"] * ROWS), pa.array(range(ROWS))], schema=SCHEMA)
        number = np.arange(ROWS) + step * ROWS
        living.opened(Deltas(rows, number, np.full(ROWS, step), np.full(ROWS, step + 7)))
        living.advance(step + 1)
        held.append(living.nbytes)
    assert living.size() == 7 * ROWS
    assert max(held) <= 2 * held[20]


def test_a_scalar_subquery_keeps_one_row() -> None:
    op = operator(Single(SCHEMA, Node(SCHEMA)))
    for step in range(50):
        rows = pa.table([[f"r{step}", f"r{step - 1}"], [step, step - 1]], schema=SCHEMA).slice(0, 2 if step else 1)
        op.step([Changes(rows, np.array([1, -1])[: len(rows)], np.full(len(rows), step))], step + 1)
        assert op.size() == 1


def test_steps_cost_their_changes_not_the_state() -> None:
    """Counted, not timed: how many rows are encoded and decoded does not depend on how many live."""
    asked: list[int] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Any, words: Any, *more: Any) -> Any:
            asked.append(len(words) if isinstance(words, np.ndarray) else more[0])
            return function(self, words, *more)

        return wrapped

    from thalweg.relate.rows.words import Layout

    costs = []
    for state in (100, 10_000):
        ops = [operator(NODES[name]) for name in ("distinct", "sum", "min", "anti", "full")]
        many = pa.table([[f"k{i}" for i in range(state)], range(state)], schema=SCHEMA)
        few = pa.table([[f"new {i}" for i in range(5)], range(5)], schema=SCHEMA)
        encode, decode = Layout.encode, Layout.decode
        for op, two in zip(ops, (False, False, False, True, True), strict=True):
            nothing = Changes(OTHER.empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))
            rest = [nothing] if two else []
            op.step([Changes(many, np.ones(state, np.int64), np.zeros(state, np.int64)), *rest], 1)
            try:
                Layout.encode, Layout.decode = counted(encode), counted(decode)  # type: ignore[method-assign]
                op.step([Changes(few, np.ones(5, np.int64), np.ones(5, np.int64)), *rest], 2)
            finally:
                Layout.encode, Layout.decode = encode, decode  # type: ignore[method-assign]
        costs.append(sum(asked))
        asked.clear()
    assert costs[0] == costs[1] > 0
