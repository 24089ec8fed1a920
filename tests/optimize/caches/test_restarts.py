"""A restarted tuner of caches runs on as if nothing had happened: the same events and plans, batch by batch.

Only the tuner is replaced, by a fresh one that takes up what the old one wrote. What is cached stays, as an engine that
begins with empty caches meets other misses.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.engine.block import BlockEngine
from thalweg.optimize.caches import tuner
from thalweg.profile.prices import RECORDED

TEXT = """SELECT f.n AS n FROM f [RANGE 1 MILLISECONDS] AS f, s [RANGE 20 MILLISECONDS] AS s, t [RANGE 20 MILLISECONDS] AS t,
u [RANGE 2 MILLISECONDS] AS u WHERE f.k = s.k AND s.j = t.j AND f.n = u.n"""


def source(*columns: str) -> tw.Source:
    return tw.Source(pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in columns)]), "ts", "us")


SOURCES = {"f": source("k", "n"), "s": source("k", "j"), "t": source("j"), "u": source("n")}
CHANGE = 50
"""Keys come back before this batch, and don't after it."""


def rows(random: np.random.Generator, at: int, count: int, **domains: int) -> pa.Table:
    times = np.sort(random.integers(at, at + 1000, count))
    return pa.table({"ts": times, **{c: random.integers(0, d, count) for c, d in domains.items()}})


def feed(engine: tw.Engine, random: np.random.Generator, k: int) -> int:
    keys, at = 20 if k < CHANGE else 1 << 40, 1000 * k
    found = engine.push("s", rows(random, at, 100, k=keys, j=100_000)).num_rows
    found += engine.push("t", rows(random, at, 100, j=100_000)).num_rows
    found += engine.push("u", rows(random, at, 20, n=500)).num_rows
    found += engine.push("f", rows(random, at, 1000, k=keys, n=500)).num_rows
    engine.advance()
    return found


def make(caches: str) -> tw.Engine:
    return tw.Engine(TEXT, SOURCES, policy="written", caches=caches, prices=RECORDED)


def block_of(engine: tw.Engine) -> BlockEngine:
    (block,) = engine.blocks
    return block


def restart(engine: tw.Engine, caches: str) -> None:
    """A fresh tuner takes up what the old one wrote."""
    caching = block_of(engine).flow.caching
    assert caching is not None
    assert not caching.tuner.drain(), "events are told at once"
    record = json.loads(json.dumps(caching.tuner.snapshot(), allow_nan=False))
    fresh = tuner.make(caches, seed=1, prices=RECORDED)
    assert fresh is not None
    fresh.begin(caching.shape.graph)
    fresh.restore(record)
    assert json.loads(json.dumps(fresh.snapshot())) == record
    caching.tuner = fresh


def run(caches: str, often: float, rounds: int = 90) -> tuple[list[str], list[str]]:
    """Events and plans; the tuner is restarted after about this share of the batches."""
    engine, random, chance = make(caches), np.random.default_rng(1), np.random.default_rng(2)
    plans = list[str]()
    for k in range(rounds):
        feed(engine, random, k)
        plans.append(json.dumps(sorted(engine.plan().caches)))
        if chance.random() < often:
            restart(engine, caches)
    return [json.dumps(e.record()) for e in engine.events() if "cache" in e.kind], plans


@pytest.mark.parametrize("often", [0.2, 1.0])
@pytest.mark.parametrize("caches", ["auto", "all", "chaos"])
def test_a_restarted_tuner_runs_on(caches: str, often: float) -> None:
    events, plans = run(caches, 0.0)
    again, same = run(caches, often)
    assert any("place cache" in e for e in events), "the tuner decides something"
    assert caches == "all" or any("drop cache" in e for e in events)
    assert next((k for k, (a, b) in enumerate(zip(plans, same, strict=True)) if a != b), None) is None
    assert again == events


@pytest.mark.parametrize("caches", ["all", "chaos"])
def test_an_engine_that_goes_on_from_a_snapshot_keeps_its_caches(caches: str) -> None:
    """These decide whatever is cached, so the whole engine may restart."""
    found = []
    for often in (0, 1):
        engine, random, plans, count = make(caches), np.random.default_rng(3), list[list[str]](), 0
        for k in range(20):
            count += feed(engine, random, k)
            plans.append(sorted(engine.plan().caches))
            if often:
                saved, engine = engine.snapshot(), make(caches)
                engine.restore(saved)
        found.append((count, plans))
    assert found[0] == found[1]
    assert any(found[0][1])
