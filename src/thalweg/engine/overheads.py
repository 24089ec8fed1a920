"""What it takes to send rows, ask policies, classify and call Python on this machine: the parts that run queries, timed.

Each is timed on a few made-up rows, so that what is left is the fixed cost. Processor time of this thread, the least of
a few passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.engine.filtercell import FilterCell
from thalweg.execute.filters import Filter
from thalweg.optimize import make
from thalweg.optimize.indexes.layoutcost import Workload
from thalweg.optimize.indexes.layoutsearch import select
from thalweg.plan import Operator, Pipeline
from thalweg.plan.tree import Comparison, Tree

Clock = Callable[[], int]
"""Nanoseconds."""
PASSES = 5
FEW = 64
"""Rows of a batch whose own cost does not show beside the fixed one."""
MANY = 4096
"""Rows of a batch whose cost by the row shows."""


def measure(clock: Clock) -> dict[str, float]:
    """Seconds by the names that `Prices` has for them."""
    rows = pa.record_batch({"a": np.arange(FEW), "b": np.arange(FEW)})
    calls: dict[str, Callable[[], Any]] = {
        "send": partial(_cell("written").feed, rows),
        "asked": partial(_cell("agreedy", p=1.0, follow=False).feed, rows),
        "call": partial(Filter("call", _nothing, ("a",)).evaluate, _many(), None),
        "classify": _classifying(),
        "select": partial(select, Workload(3, {0b100: 0.4, 0b010: 0.3, 0b111: 0.3}, 1e3, 1e3, 1e4), 10),
    }
    for call in calls.values():
        call()  # what is only done the first time does not count
    passes = [[_timed(call, clock) for call in calls.values()] for _ in range(PASSES)]
    spent = dict(zip(calls, (np.min(passes, axis=0) * 1e-9).tolist(), strict=True))
    return {
        "send": spent["send"],
        "ask": spent["asked"] - spent["send"],
        "call": spent["call"] / MANY,
        "classify": spent["classify"] / MANY,
        "select": spent["select"],
    }


def _timed(call: Callable[[], Any], clock: Clock) -> int:
    began = clock()
    call()
    return clock() - began


def _cell(policy: str, **options: Any) -> FilterCell:
    names = ("one", "two")
    pipeline = Pipeline("calibration", tuple(Operator(n) for n in names))
    filters = [Filter(n, partial(_true), (c,), "arrow") for n, c in zip(names, "ab", strict=True)]
    return FilterCell(pipeline, filters, make(policy, pipeline, 0, **options))


def _true(array: pa.Array) -> pa.Array:
    return pc.is_valid(array)


def _nothing(value: int) -> bool:
    return True


def _many() -> pa.RecordBatch:
    return pa.record_batch({"a": np.arange(MANY)})


def _classifying() -> Callable[[], Any]:
    leaf = Tree(test=Comparison(0, 0.5), yes=Tree(0), no=Tree(1))
    tree = Tree(test=Comparison(1, 0.5), yes=leaf, no=leaf)
    values = np.random.default_rng(0).random((2, MANY)).astype(np.float32)
    return partial(tree.classify, values.__getitem__, MANY)
