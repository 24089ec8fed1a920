"""State is as large as the windows: after a hundred of them the engine holds what it held after three."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from thalweg.execute.engine import Engine
from thalweg.query.bind import bind
from thalweg.query.query import Source

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


def batch(random, start):
    times = np.arange(start, start + BATCH)
    keys = random.integers(0, 200, BATCH)
    return pa.table([times, keys, pa.array([f"value {k % 40}" for k in keys])], schema=SCHEMA)


def held(name, windows, policy="auto", layout="hash"):
    """Rows and bytes that the engine stores, at the end of each window, and the tuples that wait."""
    sources = {n: Source(SCHEMA, "ts") for n in "abc"}
    engine = Engine(bind(QUERIES[name], sources), policy=policy, layout=layout, slice_rows=64)
    random = np.random.default_rng(11)
    seen = []
    for start in range(0, windows * WINDOW, BATCH):
        for n in "abc":
            engine.push(n, batch(random, start))
        engine.advance(start + BATCH)
        if (start + BATCH) % WINDOW == 0:
            stats = engine.stats()
            inputs = stats["inputs"].values()
            waiting = sum(s["waiting"] for s in stats["sources"].values())
            seen.append((sum(i["stored"] for i in inputs), sum(i["bytes"] for i in inputs), waiting))
    return seen


@pytest.mark.parametrize("layout", ["hash", "bits"])
@pytest.mark.parametrize("name", QUERIES)
def test_memory_after_a_hundred_windows_is_that_after_three(name, layout):
    seen = held(name, 100, layout=layout)
    early, late = seen[2:12], seen[90:100]
    for what, k in (("rows", 0), ("bytes", 1), ("waiting", 2)):
        most = max(s[k] for s in early)
        assert max(s[k] for s in late) <= most * 1.1, f"{what}: {most} early, {[s[k] for s in late]} late"
    assert min(s[0] for s in late) > 0


def test_a_stream_that_goes_quiet_keeps_what_may_still_match():
    """Nothing can be dropped on account of one stream's clock alone."""
    sources = {n: Source(SCHEMA, "ts") for n in "abc"}
    engine = Engine(bind(QUERIES["range"], sources), slice_rows=64)
    random = np.random.default_rng(12)
    for start in range(0, 4 * WINDOW, BATCH):
        engine.push("a", batch(random, start))
        engine.advance({"a": start + BATCH})
    assert engine.stats()["inputs"]["a"]["stored"] == 4 * WINDOW
    engine.advance({"b": 3 * WINDOW, "c": 3 * WINDOW})
    assert WINDOW <= engine.stats()["inputs"]["a"]["stored"] < 4 * WINDOW


RSS = """
import gc, psutil, sys
from tests.joins.test_memory import held
import tests.joins.test_memory as m
m.WINDOW, m.BATCH = 20_000, 5_000
sizes = []
class Watch:
    def integers(self, *a): return self.r.integers(*a)
import numpy as np
real = np.random.default_rng
def measured(seed):
    g, calls = real(seed), [0]
    class Random:
        def integers(self, low, high, n):
            calls[0] += 1
            if calls[0] % (3 * m.WINDOW // m.BATCH) == 0:
                gc.collect(); sizes.append(psutil.Process().memory_info().rss)
            return g.integers(low, 40_000, n)
    return Random()
np.random.default_rng = measured
m.QUERIES["range"] = m.QUERIES["range"].replace("400", "20000").replace("200", "10000")
held("range", 100)
print(max(sizes[2:6]), max(sizes[-4:]))
"""


@pytest.mark.long
def test_resident_memory_does_not_creep():
    done = subprocess.run([sys.executable, "-c", RSS], capture_output=True, text=True, check=True)
    early, late = map(int, done.stdout.split())
    assert late <= early * 1.05, f"{early / 2**20:.0f} MiB after three windows, {late / 2**20:.0f} after a hundred"
