"""Shares: each result is made in exactly one cell, and no other cut copies fewer rows."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.placing import ByShares, spread
from thalweg.execute.shape import Shape
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.shares import choose, for_query
from thalweg.plan.shares import Shares

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64(), "y": pa.int32(), "z": pa.string()})
SOURCES = {name: Source(SCHEMA, time="ts", unit="ms") for name in ("a", "b", "c", "d")} | {"t": Source(SCHEMA)}
QUERIES = {
    "common key": "SELECT a.ts FROM a, b, c WHERE a.x = b.x AND b.x = c.x WINDOW 1 SECOND",
    "chain": "SELECT a.ts FROM a, b, c, d WHERE a.x = b.x AND b.y = c.y AND c.z = d.z WINDOW 1 SECOND",
    "triangle": "SELECT a.ts FROM a, b, c WHERE a.x = b.x AND b.y = c.y AND c.z = a.z WINDOW 1 SECOND",
    "star with a table": "SELECT a.ts FROM a, b, t WHERE a.x = b.x AND a.y = t.y WINDOW 1 SECOND",
}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("cells", [1, 2, 3, 4, 6, 12])
def test_every_result_is_made_in_exactly_one_cell(text, cells):
    query = bind(text, SOURCES).query
    shares, _ = for_query(query, cells)
    assert shares.cells == cells
    shape = Shape(query)
    random = np.random.default_rng(cells)
    for _ in range(50):
        keys = random.integers(0, 5, len(query.block.keys))
        row = {"ts": [0], "x": [0], "y": [0], "z": ["0"]}
        meeting = None
        for i in query.inputs:
            mine = dict(row)
            for k, key in enumerate(query.block.keys):
                for column in key.columns:
                    if column.input == i.alias:
                        mine[column.name] = [str(keys[k]) if column.name == "z" else int(keys[k])]
            placing = ByShares(shares).placing(shape, i.alias)
            base, kept = placing.base(pa.RecordBatch.from_pydict(mine, SCHEMA))
            assert kept is None or kept.all()
            goes = {int(base[0]) + int(o) for o in placing.offsets}
            assert len(goes) == shares.replication(shape.classes[shape.number[i.alias]])
            assert all(0 <= cell < cells for cell in goes)
            meeting = goes if meeting is None else meeting & goes
        assert len(meeting) == 1


@pytest.mark.parametrize("seed", range(30))
def test_no_other_cut_copies_fewer_rows(seed):
    random = np.random.default_rng(seed)
    keys, cells = int(random.integers(1, 4)), int(random.integers(1, 13))
    classes = [sorted(set(random.integers(0, keys, 2).tolist())) for _ in range(int(random.integers(2, 5)))]
    rates = random.integers(1, 100, len(classes)).tolist()

    def copied(sizes):
        return sum(r * cells // prod(sizes[c] for c in own) for own, r in zip(classes, rates, strict=True))

    brute = min(copied(s) for s in product(range(1, cells + 1), repeat=keys) if prod(s) == cells)
    assert copied(choose(classes, rates, keys, cells).sizes) == brute


def test_row_windows_stay_together():
    rows = bind("SELECT a.ts FROM a [ROWS 3], b [RANGE 1 SECOND] WHERE a.x = b.x", SOURCES).query
    assert for_query(rows, 4)[0].cells == 1
    apart = bind("SELECT a.ts FROM a [PARTITION BY x ROWS 3], b [RANGE 1 SECOND] WHERE a.x = b.x", SOURCES).query
    assert for_query(apart, 4)[0] == Shares((4,))
    other = bind("SELECT a.ts FROM a [PARTITION BY y ROWS 3], b [RANGE 1 SECOND] WHERE a.x = b.x", SOURCES).query
    assert for_query(other, 4)[0].cells == 1


def test_null_keys_go_nowhere_unless_a_row_window_counts_them():
    batch = pa.RecordBatch.from_pydict({"ts": [1, 2], "x": [None, 7], "y": [0, 0], "z": ["", ""]}, SCHEMA)
    for window, kept in (("RANGE 1 SECOND", [False, True]), ("PARTITION BY x ROWS 2", None)):
        query = bind(f"SELECT a.ts FROM a [{window}], b [RANGE 1 SECOND] WHERE a.x = b.x", SOURCES).query
        _, found = ByShares(Shares((2,))).placing(Shape(query), "a").base(batch)
        assert (None if found is None else found.tolist()) == kept


def test_cells_get_even_shares():
    """Runs, multiples and negatives spread alike: no cell is off by more than a tenth."""
    for codes in (np.arange(20_000), np.arange(20_000) * 1024, -np.arange(20_000)):
        counts = np.bincount((spread(codes.astype(np.int64)) % np.uint64(8)).astype(int), minlength=8)
        assert abs(counts / 2500 - 1).max() < 0.1
