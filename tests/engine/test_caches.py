"""Caches in the engine: the examples of the thesis, what keeps them right, and what they may cost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.execute.operators.cache import Cache
from thalweg.optimize.caches.tuner import Chosen
from thalweg.plan.cached import Cached, Placed
from thalweg.state.cache import CacheStore

TEXT = """SELECT r1.n AS n1, r2.n AS n2, r3.n AS n3 FROM r1 [RANGE 100 SECONDS], r2 [RANGE 100 SECONDS], r3 [RANGE 100 SECONDS]
WHERE r1.a = r2.a AND r2.b = r3.b"""
PLACED = Placed(0, Cached(frozenset({1, 2}), (0,)))


def source(*columns: str, dtype: str = "int64") -> tw.Source:
    return tw.Source(pa.schema([("ts", "int64"), *((c, dtype) for c in columns), ("n", "int64")]), "ts", "s")


SOURCES = {"r1": source("a"), "r2": source("a", "b"), "r3": source("b")}


def engine(text: str = TEXT, sources=SOURCES, placed=PLACED, **options) -> tw.Engine:
    return tw.Engine(text, sources, policy="written", caches=Chosen([placed]) if placed else "off", **options)


def cache_of(engine: tw.Engine) -> Cache:
    caching = engine.blocks[0].flow.caching
    assert caching is not None
    (cache,) = caching.caches.caches.values()
    return cache


def push(e: tw.Engine, name: str, ts: int, rows: list[tuple], n: int = 0) -> list[tuple]:
    names = [f for f in (SOURCES.get(name) or e.blocks[0].query.input(name).spec).schema.names if f not in ("ts", "n")]
    table = pa.table({"ts": [ts] * len(rows), **{c: [r[k] for r in rows] for k, c in enumerate(names)},
                      "n": list(range(n, n + len(rows)))})  # fmt: skip
    return sorted(tuple(d.values()) for d in e.push(name, table).to_pylist())


def test_the_examples_of_the_thesis():
    """Examples 5.4.1, 5.4.2 and 5.4.4."""
    e = engine()
    push(e, "r2", 1, [(1, 2), (1, 3), (2, 3)])
    push(e, "r3", 1, [(2,)])
    assert push(e, "r1", 2, [(1,)]) == [(0, 0, 0)]
    assert (cache_of(e).met.probes, cache_of(e).met.misses) == (1, 1)
    assert push(e, "r1", 2, [(1,)], n=1) == [(1, 0, 0)]
    assert (cache_of(e).met.probes, cache_of(e).met.misses) == (2, 1)
    before = cache_of(e).met.upkeep
    push(e, "r3", 3, [(3,)], n=1)
    assert cache_of(e).met.upkeep - before == 2, "(1, 3, 3) and (2, 3, 3)"
    assert cache_of(e).met.inserted == 1, "the key 1 is there, the key 2 is not"
    assert push(e, "r1", 3, [(1,)], n=2) == [(2, 0, 0), (2, 1, 1)]
    assert cache_of(e).met.misses == 1


def test_nothing_found_is_remembered_too():
    e = engine()
    push(e, "r2", 1, [(1, 2)])
    assert push(e, "r1", 1, [(5,), (5,), (6,)]) == []
    assert push(e, "r1", 2, [(5,), (6,)]) == []
    assert (cache_of(e).met.probes, cache_of(e).met.misses) == (5, 2)
    push(e, "r2", 2, [(5, 9)], n=1)
    push(e, "r3", 2, [(9,)])
    assert push(e, "r1", 3, [(5,)]) == [(0, 1, 0)]
    assert cache_of(e).met.misses == 2


def test_rows_out_of_their_window_are_not_found():
    e = engine()
    push(e, "r2", 0, [(1, 2)])
    push(e, "r3", 50, [(2,)])
    assert push(e, "r1", 100, [(1,)]) == [(0, 0, 0)]
    assert push(e, "r1", 101, [(1,)]) == []
    assert push(e, "r1", 40, [(1,)]) == [(0, 0, 0)], "an older row that comes later sees what lived then"
    push(e, "r2", 130, [(1, 2)], n=1)
    assert push(e, "r1", 151, [(1,)]) == [], "the row of r3 left at 150"


def test_a_cache_can_be_dropped_at_any_moment():
    e = engine()
    push(e, "r2", 1, [(1, 2)])
    push(e, "r3", 1, [(2,)])
    push(e, "r1", 1, [(1,)])
    cache_of(e).drop()
    assert cache_of(e).store.entries == 0
    assert push(e, "r1", 1, [(1,)]) == [(0, 0, 0)]


def runs(e: tw.Engine, seed: int, rounds: int = 40) -> list[list[tuple]]:
    random, found = np.random.default_rng(seed), []
    for t in range(rounds):
        for name, spec in SOURCES.items():
            rows = [tuple(random.integers(0, 4, len(spec.schema) - 2).tolist()) for _ in range(random.integers(0, 4))]
            found.append(push(e, name, 3 * t, rows, n=100 * t))
        if t % 4 == 0:
            e.advance()
    return found


@pytest.mark.parametrize("where", ["insert", "follow", "where"])
def test_what_keeps_a_cache_right_is_needed(monkeypatch, where):
    """The differential tests can fail: without upkeep, or with rows looked for where they no longer are."""
    wanted = runs(engine(placed=None), 1)
    assert runs(engine(slice_rows=4), 1) == wanted
    if where == "insert":
        monkeypatch.setattr("thalweg.state.cache.CacheStore.insert", lambda *_: 0)
    elif where == "follow":
        monkeypatch.setattr("thalweg.execute.operators.lookup.Lookups.follow", lambda *_: None)
    else:
        real = CacheStore.where
        monkeypatch.setattr(CacheStore, "where", lambda self: self._where or real(self))
    assert runs(engine(slice_rows=4), 1) != wanted


def test_a_predicate_inside_the_segment_that_raises_is_not_cached():
    def risky(x: int, y: int) -> bool:
        if x == 13:
            raise ValueError("unlucky")
        return True

    text = TEXT + " AND risky(r2.b, r3.n)"
    for placed in (None, PLACED):
        e = engine(text, placed=placed, functions={"risky": risky})
        push(e, "r2", 1, [(1, 2), (2, 13)])
        push(e, "r3", 1, [(2,), (13,)])
        assert push(e, "r1", 1, [(1,)]) == [(0, 0, 0)], "the unlucky pair is no part of any result"
        with pytest.raises(tw.ThalwegError, match="unlucky"):
            push(e, "r1", 1, [(2,)])
        assert push(e, "r1", 2, [(1,)]) == [(0, 0, 0)]


def test_by_value_a_predicate_is_judged_once_for_equal_arguments():
    calls = []

    def near(x: int, lo: int, hi: int) -> bool:
        calls.append(x)
        return x is not None and lo <= x < hi

    text = "SELECT f.n AS fn, b.n AS bn FROM f [NOW] AS f, b WHERE near(f.x, b.lo, b.hi)"
    bands = pa.table({"lo": [0, 10, 20], "hi": [10, 20, 30], "n": [0, 1, 2]})
    sources = {"f": source("x"), "b": tw.Source(bands.schema)}
    counts = []
    for placed in (None, Placed(0, Cached(frozenset({1}), (), (0,)))):
        calls.clear()
        e = tw.Engine(text, sources, functions={"near": near}, tables={"b": bands}, policy="written",
                      caches=Chosen([placed]) if placed else "off")  # fmt: skip
        found = [push(e, "f", t, [(x,) for x in (5, 15, 15, 25, None)]) for t in range(4)]
        assert found == [[(0, 0), (1, 1), (2, 1), (3, 2)]] * 4
        counts.append(len(calls))
    assert counts == [4 * 5 * 3, 4 * 3], "four batches of five rows and three bands; four distinct arguments"


def test_text_keys_with_equal_codes_stay_apart(monkeypatch):
    monkeypatch.setattr("thalweg.state.keys.hash_values", lambda array: np.zeros(len(array), np.int64))
    sources = {"r1": source("a", dtype="string"), "r2": source("a", "b", dtype="string"),
               "r3": source("b", dtype="string")}  # fmt: skip
    for placed in (None, PLACED):
        e = engine(sources=sources, placed=placed)
        push(e, "r2", 1, [("x", "u"), ("y", "u"), ("y", "v")])
        push(e, "r3", 1, [("u",), ("w",)])
        assert push(e, "r1", 1, [("x",), ("y",), ("z",)]) == [(0, 0, 0), (1, 1, 0)]
        assert push(e, "r1", 2, [("y",), ("x",), ("z",)]) == [(0, 1, 0), (1, 0, 0)]
