"""State is as large as the windows: after a hundred of them the engine holds what it held after three."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.engine import Engine
from thalweg.language.bind import bind
from thalweg.language.query import Source

WINDOW = 400
BATCH = 100
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
QUERIES = {
    "range": "SELECT a.ts FROM a [RANGE 400 MILLISECONDS], b [RANGE 400 MILLISECONDS], c [RANGE 200 MILLISECONDS] "
    "WHERE a.k = b.k AND b.k = c.k",
    "now": "SELECT a.ts FROM a [NOW], b [RANGE 400 MILLISECONDS], c [NOW] WHERE a.k = b.k AND b.k = c.k",
    "rows": "SELECT a.ts FROM a [ROWS 400], b [ROWS 50], c [RANGE 400 MILLISECONDS] WHERE a.k = b.k AND b.k = c.k",
    "partition": "SELECT a.ts FROM a [PARTITION BY k ROWS 1], b [PARTITION BY s ROWS 20], c [RANGE 100 MILLISECONDS] "
    "WHERE a.k = b.k AND b.k = c.k",
    "strings": "SELECT a.ts, b.s FROM a [RANGE 400 MILLISECONDS], b [RANGE 400 MILLISECONDS], c [ROWS 100] "
    "WHERE a.s = b.s AND b.k = c.k",
}  # fmt: skip


def batch(random, start, size=BATCH, keys=200):
    times = np.arange(start, start + size)
    drawn = random.integers(0, keys, size)
    return pa.table([times, drawn, pa.array([f"value {k % 40}" for k in drawn])], schema=SCHEMA)


def windows(text, count, *, window=WINDOW, size=BATCH, keys=200, layout="hash"):
    """Run a query; after each window's worth of tuples, the engine's counts."""
    engine = Engine(bind(text, {n: Source(SCHEMA, "ts", "ms") for n in "abc"}), index=layout, slice_rows=64)
    random = np.random.default_rng(11)
    for start in range(0, count * window, size):
        for n in "abc":
            engine.push(n, batch(random, start, size, keys))
        engine.advance(start + size)
        if (start + size) % window == 0:
            yield engine.stats()


def held(stats):
    """Rows and bytes stored, and tuples that wait."""
    inputs = stats["inputs"].values()
    waiting = sum(s["waiting"] for s in stats["sources"].values())
    return sum(i["stored"] for i in inputs), sum(i["bytes"] for i in inputs), waiting


@pytest.mark.parametrize("layout", ["hash", "bits"])
@pytest.mark.parametrize("name", QUERIES)
def test_memory_after_a_hundred_windows_is_that_after_three(name, layout):
    seen = [held(stats) for stats in windows(QUERIES[name], 100, layout=layout)]
    early, late = seen[2:12], seen[90:100]
    for what, k in (("rows", 0), ("bytes", 1), ("waiting", 2)):
        most = max(s[k] for s in early)
        assert max(s[k] for s in late) <= most * 1.1, f"{what}: {most} early, {[s[k] for s in late]} late"
    assert min(s[0] for s in late) > 0


def test_a_stream_that_goes_quiet_keeps_what_may_still_match():
    """Nothing can be dropped on account of one stream's clock alone."""
    sources = {n: Source(SCHEMA, "ts", "ms") for n in "abc"}
    engine = Engine(bind(QUERIES["range"], sources), slice_rows=64)
    random = np.random.default_rng(12)
    for start in range(0, 4 * WINDOW, BATCH):
        engine.push("a", batch(random, start))
        engine.advance({"a": start + BATCH})
    assert engine.stats()["inputs"]["a"]["stored"] == 4 * WINDOW
    engine.advance({"b": 3 * WINDOW, "c": 3 * WINDOW})
    assert WINDOW <= engine.stats()["inputs"]["a"]["stored"] < 4 * WINDOW


CREEP = """
import gc, psutil
from tests.engine.joins.test_memory import windows
text = "SELECT a.ts FROM a, b, c [RANGE 10 SECONDS] WHERE a.k = b.k AND b.k = c.k WINDOW 20 SECONDS"
sizes = []
for _ in windows(text, 100, window=20_000, size=5_000, keys=40_000):
    gc.collect()
    sizes.append(psutil.Process().memory_info().rss)
print(*sizes)
"""


@pytest.mark.long
def test_resident_memory_does_not_creep():
    done = subprocess.run([sys.executable, "-c", CREEP], capture_output=True, text=True, check=True)
    sizes = [int(s) for s in done.stdout.split()]
    early, late = max(sizes[2:6]), max(sizes[-4:])
    assert len(sizes) == 100
    assert late <= early * 1.05, f"MiB after each window: {[s >> 20 for s in sizes]}"
