"""A-Caching: it uses what pays, leaves alone what does not, follows a change, and gives way at once."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.optimize.caches.adaptive import AdaptiveCaches
from thalweg.plan import Event
from thalweg.profile.prices import RECORDED
from thalweg.profile.rates.distinct import DistinctKeys

TEXT = """SELECT f.n AS n FROM f [RANGE 1 MILLISECONDS] AS f, s [RANGE 20 MILLISECONDS] AS s, t [RANGE 20 MILLISECONDS] AS t
WHERE f.k = s.k AND s.j = t.j"""


def source(*columns: str) -> tw.Source:
    return tw.Source(pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in columns)]), "ts", "us")


SOURCES = {"f": source("k", "n"), "s": source("k", "j"), "t": source("j")}


def rows(random: np.random.Generator, since: int, span: int, count: int, **domains: int) -> pa.Table:
    times = np.sort(random.integers(since, since + span, count))
    return pa.table({"ts": times, **{c: random.integers(0, d, count) for c, d in domains.items()}})


def run(engine: tw.Engine, seed: int, rounds: int, keys: int, since: int = 0) -> int:
    """A fact stream; s has about 2,000 / keys rows a key, of which one in fifty has a partner in t."""
    random = np.random.default_rng(seed)
    return sum(batch(engine, random, k, keys) for k in range(since, since + rounds))


def batch(engine: tw.Engine, random: np.random.Generator, k: int, keys: int) -> int:
    at = 1000 * k
    found = engine.push("s", rows(random, at, 1000, 100, k=keys, j=100_000)).num_rows
    found += engine.push("t", rows(random, at, 1000, 100, j=100_000)).num_rows
    found += engine.push("f", rows(random, at, 1000, 1000, k=keys, n=9)).num_rows
    engine.advance()
    return found


def make(caches: str = "auto", **options) -> tw.Engine:
    return tw.Engine(TEXT, SOURCES, policy="written", caches=caches, prices=RECORDED, **options)


def tuner_of(engine: tw.Engine) -> AdaptiveCaches:
    caching = engine.blocks[0].flow.caching
    assert caching is not None
    assert isinstance(caching.tuner, AdaptiveCaches)
    return caching.tuner


def used(engine: tw.Engine) -> list[str]:
    return sorted(engine.plan().caches)


def test_a_cache_that_pays_comes_into_force_and_changes_no_answer():
    engine = make()
    assert run(engine, 1, 60, keys=20) == run(make("off"), 1, 60, keys=20)
    assert used(engine) == ["f: s ⋈ t"]
    events = [e for e in engine.events() if e.kind == "place cache"]
    assert events[-1].by == "auto"
    assert events[-1].change is not None
    assert events[-1].cost_after < events[-1].cost_before
    assert "saves more than it costs" in str(events[-1].why)


def test_keys_that_do_not_come_back_are_not_cached():
    engine = make()
    run(engine, 1, 60, keys=1 << 40)
    assert used(engine) == []


def test_a_cache_that_no_longer_pays_gives_way():
    engine = make()
    run(engine, 1, 60, keys=20)
    assert used(engine) == ["f: s ⋈ t"]
    run(engine, 2, 60, keys=1 << 40, since=60)
    assert used(engine) == []
    reasons = [str(e.why) for e in engine.events() if e.kind == "drop cache"]
    assert any("costs more than it saves" in r or "others save more" in r for r in reasons)


def test_a_reorder_removes_the_caches_of_its_pipeline():
    engine = make()
    run(engine, 1, 60, keys=20)
    tuner = tuner_of(engine)
    tuner.orders({0: (2, 1), 1: (2, 0), 2: (1, 0)})
    assert all(s.state == "profiled" for s in tuner.views() if s.candidate.placed.input == 0)


def test_decisions_are_the_same_again():
    first, second = make(), make()
    run(first, 3, 60, keys=20)
    run(second, 3, 60, keys=20)
    events = [json.dumps(e.record()) for e in first.events()]
    assert events == [json.dumps(e.record()) for e in second.events()]
    placed = [Event.of(json.loads(e)).change for e in events if "place cache" in e]
    assert placed[-1].after == first.plan().caches["f: s ⋈ t"]


def test_after_a_restart_it_goes_on_with_the_same_caches():
    engine = make()
    run(engine, 1, 60, keys=20)
    again = make()
    again.restore(engine.snapshot())
    assert tuner_of(again).snapshot() == tuner_of(engine).snapshot(), "it listens next when the other would"
    assert used(again) == used(engine) == ["f: s ⋈ t"]
    assert run(again, 5, 5, keys=20, since=60) == run(engine, 5, 5, keys=20, since=60)


def test_an_engine_restarted_after_every_batch_goes_on():
    """It begins with empty caches each time, so it may decide otherwise. It lost its estimates and gave up."""
    random, engine, found = np.random.default_rng(1), make(), 0
    plain_random, plain, expected = np.random.default_rng(1), make("off"), 0
    for k in range(80):
        found += batch(engine, random, k, keys=20)
        expected += batch(plain, plain_random, k, keys=20)
        saved, engine = engine.snapshot(), make()
        engine.restore(saved)
    assert found == expected


def test_memory_is_a_limit_that_may_shrink_while_it_runs():
    engine = make(cache_bytes=1 << 20)
    run(engine, 1, 60, keys=20)
    caching = engine.blocks[0].flow.caching
    assert caching is not None
    assert caching.caches.pages.used > 0
    caching.limit(1 << 10)
    assert caching.caches.pages.used <= 1 << 10
    assert run(engine, 6, 10, keys=20, since=60) == run_plain(6)


def run_plain(seed: int) -> int:
    engine = make("off")
    run(engine, 1, 60, keys=20)
    return run(engine, seed, 10, keys=20, since=60)


@pytest.mark.parametrize(("distinct", "rows"), [(100, 4000), (2000, 4000), (20_000, 20_000)])
def test_distinct_keys_are_counted_within_a_few_per_cent(distinct, rows):
    random, seen = np.random.default_rng(1), DistinctKeys()
    keys = random.permutation(np.resize(np.arange(distinct), rows)) * 7919
    found = sum(seen.see(part.reshape(-1, 1)) for part in np.array_split(keys, 9))
    assert found == pytest.approx(distinct, rel=0.05)
