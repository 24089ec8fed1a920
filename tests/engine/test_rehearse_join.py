"""A rehearsal of a join tells the work of both ways, and what Spark's binary joins would have to keep."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.rehearse_join import rehearse_join, times_of
from thalweg.language.bind import bind
from thalweg.language.query import Source

SECOND = 1_000_000
SEED = 7


def streams(rows=400, keys=20):
    """Three streams with a row each second; `c` has few partners in `a` and `b`."""
    chance = np.random.default_rng(SEED)
    print("seed", SEED)
    ts = pa.array(np.arange(rows) * SECOND, pa.timestamp("us"))
    return {
        "a": pa.table({"ts": ts, "k": chance.integers(0, keys, rows), "v": np.arange(rows)}),
        "b": pa.table({"ts": ts, "k": chance.integers(0, keys, rows)}),
        "c": pa.table({"ts": ts, "k": chance.integers(0, 50 * keys, rows), "m": chance.integers(0, keys, rows)}),
    }


def rehearsed(text, rows, functions=None, policy="auto"):
    sources = {n: Source(t.schema, time="ts" if "ts" in t.schema.names else None) for n, t in rows.items()}
    query = bind(text, sources, functions or {}).query
    times = {i.alias: times_of(rows[i.alias]["ts"]) for i in query.streams}
    return rehearse_join(query, rows, times, policy, seed=SEED)


def lives(table, span):
    ts = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    return [(int(t), int(t) + span + 1) for t in ts]


def peak(intervals):
    """By hand: the most intervals that hold one instant; it can only begin where one of them begins."""
    return max((sum(s <= at < e for s, e in intervals) for at in {s for s, _ in intervals}), default=0)


def pairs(left, right, span):
    """Intermediate results by hand: both rows in each other's windows, from the newer one until the older one leaves."""
    found = []
    for t, k in zip(left["ts"].to_pylist(), left["k"].to_pylist(), strict=True):
        for u, m in zip(right["ts"].to_pylist(), right["k"].to_pylist(), strict=True):
            a, b = (round(x.timestamp() * SECOND) for x in (t, u))
            if k == m and abs(a - b) <= span:
                found.append((max(a, b), min(a, b) + span + 1))
    return found


THREE = """SELECT a.v FROM a [RANGE 60 SECONDS], b [RANGE 60 SECONDS], c [RANGE 60 SECONDS]
           WHERE a.k = b.k AND b.k = c.k"""


def test_spark_keeps_both_sides_of_every_binary_join():
    rows, span = streams(), 60 * SECOND
    found = rehearsed(THREE, rows)
    first, second = found.spark
    assert (first.left, first.right) == (("a",), "b")
    assert first.rows == peak(lives(rows["a"], span)) + peak(lives(rows["b"], span)) == 122
    assert (second.left, second.right) == (("a", "b"), "c")
    assert second.rows == peak(pairs(rows["a"], rows["b"], span)) + peak(lives(rows["c"], span))
    assert found.spark_stored == first.rows + second.rows
    assert found.stored == 3 * 61 < found.spark_stored


def test_a_policy_that_knows_better_does_less_work():
    found = rehearsed(THREE, streams(4000), policy="agreedy")
    assert found.learned.work < found.written.work
    assert found.rows == {"a": 4000, "b": 4000, "c": 4000}
    assert found.learned.orders["b"] == ("c", "a")
    assert found.written.orders["b"] == ("a", "c")


def test_tables_and_filters_count():
    rows = streams() | {"t": pa.table({"k": [1, 2, 3]})}
    text = THREE.replace("WHERE", ", t WHERE t.k = a.k AND low(a.v) AND")
    found = rehearsed(text, rows, {"low": lambda v: v < 200})
    assert [(s.left, s.right) for s in found.spark] == [(("a",), "b"), (("a", "b"), "c")]
    assert found.spark[0].rows == 122
    assert found.results == rehearsed(text, rows, {"low": lambda v: v < 200}, policy="chaos").results


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (THREE.replace("b [RANGE 60 SECONDS]", "b [ROWS 5]"), "count rows"),
        (THREE.replace("a.k = b.k AND b.k = c.k", "a.k = c.k AND b.k = c.m"), "without an equality"),
    ],
)
def test_where_spark_has_no_plan_the_reason_is_told(text, why):
    found = rehearsed(text, streams(100))
    assert found.spark == ()
    assert why in found.refused


def test_no_rows():
    found = rehearsed(THREE, {n: t.slice(0, 0) for n, t in streams().items()})
    assert (found.results, found.stored, found.spark_stored) == (0, 0, 0)
