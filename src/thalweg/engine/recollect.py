"""What a cache costs on this machine: its kernels, timed on made-up keys. Part of `calibrate.py`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.engine.block import BlockEngine
from thalweg.engine.overheads import Clock
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.caches.tuner import CacheTuner, Chosen
from thalweg.plan.cached import Cached, Placed
from thalweg.profile.prices import RECORDED
from thalweg.state.cache import CacheStore, SegmentInput
from thalweg.state.ids import ids_of
from thalweg.state.kernels import cache as kernels
from thalweg.state.kernels.layout import EXPIRY, FOREVER, KEYS, MEMBERS
from thalweg.state.slice import Window
from thalweg.state.stem import Stem

EACH = 8
"""Size: records of an entry."""


def measure(clock: Clock, passes: int, rows: int) -> dict[str, float]:
    """Nanoseconds to look up a key, to write a row from a record, and to store a record."""
    stem = Stem("calibration", 1, {}, [Window(1)], length=1)
    cells = np.zeros((rows, KEYS + 1), np.int64)
    cells[:, MEMBERS] = 1
    ids = ids_of(stem.build(cells, {}, np.arange(rows)))
    keys = np.arange(rows // EACH).reshape(-1, 1)
    bounds = np.arange(0, rows + 1, EACH)
    records = np.stack([np.zeros(rows, np.int64), np.full(rows, FOREVER), ids], axis=1)
    asked = np.random.default_rng(0).permutation(np.repeat(keys[:, 0], EACH)).reshape(-1, 1)
    partial = np.zeros((rows, KEYS + 2), np.int64)
    partial[:, EXPIRY] = FOREVER
    out, adds = np.empty((rows * EACH, partial.shape[1]), np.int64), np.empty((0, 2), np.int64)
    at, count, first = np.empty((3, rows), np.int64)
    best = dict.fromkeys(("lookup", "recall", "keep"), float("inf"))
    for _ in range(passes):
        store = CacheStore(1, KEYS + 1, [SegmentInput(stem, 0, KEYS, KEYS + 1)])
        began = clock()
        store.create(keys, bounds, records)
        kept = clock()
        kernels.find(asked, store.table, at, count, first)
        found = clock()
        where = store.where()
        _, looked = kernels.expand(
            partial, at, count, store.heap, adds, where.members, where.starts, out, np.zeros(2, np.int64)
        )
        written = clock()
        spent = ((found - kept) / rows, (written - found) / max(looked, 1), (kept - began) / rows)
        best = {name: min(b, s) for (name, b), s in zip(best.items(), spent, strict=True)}
    return {**best, "visit": _visits(clock, passes)}


def _visits(clock: Clock, passes: int) -> float:
    """Nanoseconds that a visit takes whatever it meets: batches of one row, with a cache and without."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    tables = {"b": pa.table({"k": [1], "j": [1]}), "c": pa.table({"j": [1]})}
    sources = {"a": Source(schema, "ts", "us"), **{name: Source(t.schema) for name, t in tables.items()}}
    query = bind("SELECT a.k FROM a [NOW] AS a, b, c WHERE a.k = b.k AND b.j = c.j", sources, {})
    caches: list[str | CacheTuner] = ["off", Chosen([Placed(0, Cached(frozenset({1, 2}), (0,)))])]
    engines = [BlockEngine(query, policy="written", tables=tables, prices=RECORDED, caches=c) for c in caches]
    row = pa.RecordBatch.from_pydict({"ts": [1], "k": [1]}, schema)
    for engine in engines:
        engine.push("a", row)  # what is only done the first time does not count
        engine.push("a", row)
    times = np.empty((passes, 2))
    for line in times:
        for k, engine in enumerate(engines):
            began = clock()
            for _ in range(passes):
                engine.push("a", row)
            line[k] = (clock() - began) / passes
    without, cached = times.min(axis=0)
    return float(cached - without)
