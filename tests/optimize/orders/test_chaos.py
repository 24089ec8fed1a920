"""Chaos: every row once, classes by content, and no two rows of equal content apart where a tree decides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.contract.batch import Batch
from thalweg.optimize.orders.chaos import Chaos
from thalweg.plan import Operator, Pipeline

PIPELINE = Pipeline("s", tuple(Operator(n) for n in "abc"))


def batch(rows: int, seed: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    return pa.record_batch(
        {
            "n": pa.array([None if x == 3 else int(x) for x in random.integers(0, 6, rows)], pa.int64()),
            "word": pa.array([["red", "blue", None][k] for k in random.integers(0, 3, rows)]),
            "flag": random.random(rows) < 0.5,
            "raw": [b"x"] * rows,
        }
    )


def test_random_trees_cut_batches_by_content() -> None:
    chaos, classed, cut = Chaos(PIPELINE, seed=5), 0, 0
    for seed in range(40):
        data = batch(80, seed)
        rusters = chaos.route(Batch(data))
        assert sorted(i for r in rusters for i in r.rows.tolist()) == list(range(80)), seed
        assert all(PIPELINE.allows(r.route) for r in rusters)
        if not rusters[0].label:
            continue
        classed += 1
        cut += len(rusters) > 1
        content = [tuple(row.values()) for row in data.to_pylist()]
        home = {i: r.label for r in rusters for i in r.rows.tolist()}
        for row in range(80):
            assert home[row] == home[content.index(content[row])], f"seed {seed}: equal rows went apart"
    assert classed >= 12
    assert cut >= 10, "trees of one class only would test nothing"


def test_content_without_attributes_is_one_class() -> None:
    chaos = Chaos(PIPELINE, seed=2)
    for _ in range(20):
        rusters = chaos.route(Batch(pa.record_batch({"raw": [b"x", b"y", b"z"]})))
        assert sorted(i for r in rusters for i in r.rows.tolist()) == [0, 1, 2]
