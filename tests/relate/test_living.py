"""The changes of a relation, added up, are what the windows' contents join to, at every instant behind the frontier."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.test_delta import SCHEMA, Row, content, text_of, window

import thalweg as tw
from thalweg.contract.relation import FOREVER, Changes, Closings, Deltas, Relation
from thalweg.relate.living import Living

OUT = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def added(total: Counter[tuple[int, ...]], changes: Changes, until: int) -> None:
    """Take changes with a time up to `until` into the running sum."""
    rows = [tuple(r.values()) for r in changes.rows.to_pylist()]
    for row, sign, time in zip(rows, changes.sign.tolist(), changes.time.tolist(), strict=True):
        if time <= until:
            total[row] += sign
            assert total[row] >= 0, "a row left that was not there"


@pytest.mark.parametrize("seed", range(40))
def test_the_running_sum_is_the_relation(seed: int) -> None:
    random = np.random.default_rng(seed)
    windows = {n: window(random, ordered=seed % 2 == 1) for n in "ab"}
    froms = ", ".join(f"{n} {text_of(*windows[n])}" for n in "ab")
    text = f"SELECT a.k AS a, b.k AS b FROM {froms} WHERE a.k = b.k"
    sources = {n: tw.Source(SCHEMA, time="ts", unit="us") for n in "ab"}
    living = Living(OUT)
    assert isinstance(living, Relation)
    engine = tw.Engine(text, sources, policy="chaos", seed=seed, slice_rows=4, deltas=living)
    rows: dict[str, list[Row]] = {n: [] for n in "ab"}
    total: Counter[tuple[int, ...]] = Counter()
    clock = 0
    for _ in range(10):
        for n in "ab":
            times = np.sort(random.integers(clock, clock + 6, int(random.integers(0, 6))))
            new = [(int(t), int(random.integers(0, 2)), 0) for t in times]
            rows[n] += new
            engine.push(n, pa.table({c: [r[at] for r in new] for at, c in enumerate(SCHEMA.names)}, schema=SCHEMA))
        clock += 6
        engine.advance(clock)
        if random.random() < 0.3:
            fresh = Living(OUT)
            fresh.restore(living.snapshot())
            state = engine.snapshot()
            living = fresh
            engine = tw.Engine(text, sources, policy="chaos", seed=seed, slice_rows=4, deltas=living)
            engine.restore(state)
        added(total, living.advance(clock), clock)
        instant = clock - 1
        contents = [content(rows[n], *windows[n], instant) for n in "ab"]
        wanted = Counter((x[1], y[1]) for x, y in product(*contents) if x[1] == y[1])
        assert +total == wanted, f"seed {seed}, instant {instant}: {text}"


def test_equal_rows_that_leave_and_enter_at_once_are_no_change() -> None:
    """`a [ROWS 1]` with three equal rows is one row, and stays one."""
    living = Living(pa.schema([("k", pa.int64())]))
    rows = pa.record_batch({"k": [4, 4, 4]})
    living.opened(Deltas(rows, np.arange(3), np.array([1, 2, 3]), np.array([2, 3, FOREVER])))
    given = living.advance(10)
    assert (given.rows["k"].to_pylist(), given.sign.tolist(), given.time.tolist()) == ([4], [1], [1])


def test_what_has_ended_is_not_kept() -> None:
    living = Living(pa.schema([("k", pa.int64())]))
    for at in range(0, 10_000, 100):
        rows = pa.record_batch({"k": np.arange(100)})
        living.opened(Deltas(rows, np.arange(at, at + 100), np.full(100, at), np.full(100, at + 150)))
        living.advance(at)
    assert living.size() < 500
    assert sum(map(len, living.snapshot().values())) < 50_000


def test_results_that_are_closed_later_are_not_kept() -> None:
    living = Living(pa.schema([("k", pa.int64())]))
    for at in range(0, 10_000, 100):
        rows, number = pa.record_batch({"k": np.arange(100)}), np.arange(at, at + 100)
        living.opened(Deltas(rows, number, np.full(100, at), np.full(100, FOREVER)))
        if at:
            living.closed(Closings(number - 100, np.full(100, at + 50)))
        living.advance(at + 100)
    assert living.size() == 100, "those of the last step are open"
    assert sum(map(len, living.snapshot().values())) < 50_000


def test_what_tables_join_to_lives_from_the_beginning() -> None:
    source = tw.Source(pa.schema([("k", pa.int64())]))
    living = Living(pa.schema([("k", pa.int64())]))
    engine = tw.Engine("SELECT a.k FROM t a, u b WHERE a.k = b.k", {"t": source, "u": source}, deltas=living)
    for name in "tu":
        engine.push(name, pa.table({"k": [1, 2]}))
    engine.close()
    assert sorted(living.advance(10).rows["k"].to_pylist()) == [1, 2]
    assert living.advance(20).rows.num_rows == 0
