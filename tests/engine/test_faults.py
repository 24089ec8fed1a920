"""What a stream may do to an engine: a hot key, a burst, a clock that jumps. DuckDB says what the answer is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
TEXT = "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.v = c.v AND a.v < 90 WINDOW 1 SECOND"
THEIRS = (
    "SELECT a.id, b.id, c.id FROM a, b, c WHERE a.k = b.k AND b.v = c.v AND a.v < 90 AND "
    "greatest(a.ts, b.ts, c.ts) - least(a.ts, b.ts, c.ts) <= 1000"
)


class Jumping:
    """A clock that leaps hours while an operator runs, as after a suspended machine, or stands still."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def start(self) -> None:
        return None

    def stop(self, started: Any, operator: int, rows: int) -> float:
        return self._draw.choice([0.0, 1e-6 * rows, 1e-5 * rows, 7200.0])

    def share(self, seconds: float, operators: Sequence[int], work: Sequence[float]) -> Sequence[float]:
        return [seconds / len(operators)] * len(operators)


def rows(random: np.random.Generator, batch: int, count: int, keys: Callable[[int], np.ndarray]) -> pa.Table:
    times = np.sort(random.integers(batch * 500, batch * 500 + 500, count))
    ids = batch * 1_000_000 + np.arange(count)
    return pa.table({"id": ids, "ts": times, "k": keys(count), "v": random.integers(0, 100, count)}, SCHEMA)


def agree(policy: str, sizes: Sequence[int], hot: float = 0.0, meter: Callable[[int], Any] | None = None) -> int:
    """Run batches of these sizes and compare with DuckDB; returns the number of results."""
    random = np.random.default_rng(11)

    def keys(count: int) -> np.ndarray:
        return np.where(random.random(count) < hot, 7, random.integers(0, 300, count))

    source = tw.Source(SCHEMA, time="ts", unit="ms")
    meters = {"meters": {alias: meter(n) for n, alias in enumerate("abc")}} if meter is not None else {}
    engine = tw.Engine(TEXT, dict.fromkeys("abc", source), policy=policy, seed=5, **meters)  # type: ignore[arg-type]
    said: list[tuple[int, ...]] = []
    held: dict[str, list[pa.Table]] = {name: [] for name in "abc"}
    for batch, count in enumerate(sizes):
        for name in "abc":
            held[name].append(rows(random, batch, count, keys))
            said += [tuple(r.values()) for r in engine.push(name, held[name][-1]).to_pylist()]
    said += [tuple(r.values()) for r in engine.close().to_pylist()]
    with duckdb.connect() as db:
        for name, tables in held.items():
            db.register(name, pa.concat_tables(tables))
        assert sorted(said) == sorted(db.sql(THEIRS).fetchall())
    return len(said)


POLICIES = pytest.mark.parametrize("policy", ["auto", "chaos", "mesh"])


@POLICIES
def test_a_hot_key(policy: str) -> None:
    assert agree(policy, [60] * 8, hot=0.5) > 10_000


@POLICIES
def test_a_burst_of_a_hundred_times_the_rows(policy: str) -> None:
    assert agree(policy, [10, 10, 1000, 10, 10, 10]) > 1000


@POLICIES
def test_a_clock_that_jumps_changes_no_answer(policy: str) -> None:
    assert agree(policy, [120] * 12, meter=Jumping) > 100
