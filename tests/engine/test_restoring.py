"""Neither taking nor restoring a snapshot changes a decision: row windows, self-joins, and indexes that follow probes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.execute.meter import RecordedMeter
from thalweg.language.bind import bind

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("l", pa.int64()), ("v", pa.int64())])
TEXTS = {
    "three windows": "SELECT a.ts, b.ts AS t, c.ts AS u FROM a [RANGE 300 MILLISECONDS], b [RANGE 200 MILLISECONDS], "
    "c [RANGE 400 MILLISECONDS] WHERE a.k = b.k AND a.l = c.l AND even(a.v) AND small(a.v)",
    "row windows": "SELECT a.ts, b.ts AS t, c.ts AS u FROM a [ROWS 300], b [PARTITION BY k ROWS 10], "
    "c [RANGE 300 MILLISECONDS] WHERE a.k = b.k AND b.l = c.l",
    "self-join": "SELECT a.ts, b.ts AS t, c.ts AS u FROM a [RANGE 100 MILLISECONDS] AS a, a [RANGE 300 MILLISECONDS] AS b, "
    "c [RANGE 200 MILLISECONDS] WHERE a.k = b.k AND b.l = c.l AND even(b.v)",
}


def even(v: int) -> bool:
    return v % 2 == 0


def small(v: int) -> bool:
    return v < 60


def make(text: str, policy: str, index: str) -> tw.Engine:
    query = bind(
        TEXTS[text], {n: tw.Source(SCHEMA, time="ts", unit="ms") for n in "abc"}, {"even": even, "small": small}
    ).query
    meters = {alias: RecordedMeter([3e-6, 1e-6, 2e-7, 2e-7, 2e-7]) for alias in "abc"}
    return tw.Engine(query, policy=policy, index=index, seed=3, slice_rows=64, meters=meters)


def run(text: str, policy: str, index: str, how: str, seed: int) -> tuple[list[Any], Any, list[Any]]:
    """Events, the plan at the end, and the results, with snapshots taken or restored after random batches."""
    random, chance = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    engine = make(text, policy, index)
    events: list[Any] = []
    found: list[Any] = []
    for batch in range(60):
        many = 30 if batch < 25 else 5  # what is selective changes
        for name in engine.streams:
            wide = 2 if (name == "b") == (batch < 30) else 40
            keys = {"k": random.integers(0, many * wide, 100), "l": random.integers(0, 60, 100)}
            times = np.sort(random.integers(batch * 50, batch * 50 + 50, 100))
            values = random.integers(0, 100, 100)
            found += engine.push(name, pa.table({"ts": times, **keys, "v": values})).to_pylist()
        found += engine.advance(max(batch * 50 - 60, 0)).to_pylist()
        events += [e.record() for e in engine.events()]
        if how != "plain" and chance.random() < 0.3:
            state = engine.snapshot()
            if how == "restored":
                engine = make(text, policy, index)
                engine.restore(state)
    return events, engine.plan(), sorted(map(repr, found))


CHOICES = [("auto", "hash"), ("agreedy", "hash"), ("chaos", "hash"), ("written", "amri recorded"), ("auto", "bits")]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("policy", "index"), CHOICES)
def test_snapshots_change_no_decision(text: str, policy: str, index: str) -> None:
    plain = run(text, policy, index, "plain", 7)
    assert len(plain[2]) > 100
    for how in ("taken", "restored"):
        again = run(text, policy, index, how, 7)
        for before, after in zip(plain[0], again[0], strict=False):
            assert before == after, how
        assert len(plain[0]) == len(again[0]), how
        assert plain[1] == again[1], how
        assert plain[2] == again[2], how


def test_a_self_join_stores_its_stream_once() -> None:
    engine = make("self-join", "written", "hash")
    times = np.arange(50)
    engine.push("a", pa.table({"ts": times, "k": times % 5, "l": times, "v": times}))
    stats = engine.stats()["inputs"]
    assert (stats["a"]["stored"], stats["b"]["stored"], stats["a"]["built"], stats["b"]["built"]) == (50, 0, 50, 25)
    assert set(engine.plan().layouts) == {"a+b", "c"}


def test_an_empty_table_can_be_restored() -> None:
    def fresh() -> tw.Engine:
        source = tw.Source(pa.schema([("k", pa.int64())]))
        return tw.Engine("SELECT a.k FROM t a, u b WHERE a.k = b.k", {"t": source, "u": source})

    engine, again = fresh(), fresh()
    engine.push("t", pa.table({"k": pa.array([], pa.int64())}))
    engine.push("u", pa.table({"k": [1]}))
    again.restore(engine.snapshot())
    again.push("t", pa.table({"k": [1, 2]}))
    assert again.close().to_pylist() == [{"k": 1}]
