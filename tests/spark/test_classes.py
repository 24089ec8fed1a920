"""Routes by class on Spark: the same rows, fewer calls, and explain tells the classes."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tw

pytestmark = pytest.mark.spark


def low(kind: int, x: int) -> bool:
    """Drops nearly all tuples of kind 0."""
    return kind == 1 or x % 20 == 0


def high(kind: int, x: int) -> bool:
    """Drops nearly all tuples of kind 1."""
    return kind == 0 or x % 20 == 1


@pytest.mark.parametrize("policy", ["mesh", "cbr"])
def test_classes_are_found_and_told(spark, policy):
    random = np.random.default_rng(1)
    rows = 40_000
    kinds, xs = random.integers(0, 2, rows).tolist(), random.integers(0, 1000, rows).tolist()
    made = [(i, k, x) for i, (k, x) in enumerate(zip(kinds, xs, strict=True))]
    data = spark.createDataFrame(made, "id long, kind long, x long").coalesce(1)
    name = f"classes_{policy}"
    out = tw.where(data, tw.pred(low, "kind", "x"), tw.pred(high, "kind", "x"), policy=policy, name=name)
    got = sorted(r.id for r in out.collect())
    assert got == [i for i, k, x in made if low(k, x) and high(k, x)]
    handle = tw.query(name)
    told = handle.explain()
    assert len(handle.plan().routes) == 2, told
    assert "kind" in str(told)
    assert "share" in str(told)
    assert "<svg" in told._repr_html_()
    assert sum(p.calls for p in told.summary.predicates) < 1.4 * rows  # one order for all needs 1.5


def test_freeze_keeps_the_routes_of_all_classes_and_thaw_resumes(spark):
    random = np.random.default_rng(2)
    kinds, xs = random.integers(0, 2, 30_000).tolist(), random.integers(0, 1000, 30_000).tolist()
    data = spark.createDataFrame(list(zip(kinds, xs, strict=True)), "kind long, x long").coalesce(1).cache()

    def run() -> int:
        return tw.where(
            data, tw.pred(low, "kind", "x"), tw.pred(high, "kind", "x"), policy="mesh", name="pinned"
        ).count()

    passing = sum(low(k, x) and high(k, x) for k, x in zip(kinds, xs, strict=True))
    assert run() == passing
    q = tw.query("pinned")
    pinned = q.freeze()
    assert len(pinned.routes) == 2
    assert run() == passing
    newest = q.stats().tail(2)
    assert newest["extra"].tolist() == [0, 0], "nothing is sampled while frozen"
    assert newest["calls"].sum() < 1.15 * 30_000, "every kind keeps its own order"
    assert dict(q.plan().routes) == dict(pinned.routes)
    assert "frozen" in str(q.explain())
    q.thaw()
    assert run() == passing
    assert "frozen" not in str(q.explain()).split("why")[-1]
    assert [k for k in q.events().kind if k in ("freeze", "thaw")] == ["freeze", "thaw"]
