"""What it takes to send rows, ask policies, classify and call Python on this machine: the parts that run queries, timed.

Timed on made-up rows. Processor time of this thread, the least of
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
from thalweg.optimize.auto.contest import Contest
from thalweg.optimize.auto.lessons import LESSON
from thalweg.optimize.indexes.layoutcost import Workload
from thalweg.optimize.indexes.layoutsearch import select
from thalweg.plan import Operator, Pipeline
from thalweg.plan.tree import Comparison, Tree
from thalweg.profile.rates.rates import Rates

Clock = Callable[[], int]
"""Nanoseconds."""


def measure(clock: Clock, passes: int, many: int) -> dict[str, float]:
    """Seconds by the names that `Prices` has for them: what is fixed on a single row, what goes by the row on many."""
    one = pa.record_batch({"a": [0], "b": [0]})
    calls: dict[str, Callable[[], Any]] = {
        "send": partial(_cell("written").feed, one),
        "asked": partial(_cell("agreedy", p=1.0, follow=False).feed, one),
        "call": partial(Filter("call", _nothing, ("a",)).evaluate, pa.record_batch({"a": np.arange(many)}), None),
        "classify": _classifying(many),
        "select": partial(select, Workload(3, {0b100: 0.4, 0b010: 0.3, 0b111: 0.3}, 1e3, 1e3, 1e4), 10),
        "teach": _teach,
    }
    for call in calls.values():
        call()  # what is only done the first time does not count
    times = [[_timed(call, clock) for call in calls.values()] for _ in range(passes)]
    spent = dict(zip(calls, (np.min(times, axis=0) * 1e-9).tolist(), strict=True))
    return {
        "send": spent["send"],
        "ask": spent["asked"] - spent["send"],
        "call": spent["call"] / many,
        "classify": spent["classify"] / many,
        "select": spent["select"],
        "teach": spent["teach"] / 2,
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


def _teach() -> None:
    """Two lessons: classes are searched in every other one, about."""
    pipeline, random = Pipeline("calibration", (Operator("one"), Operator("two"))), np.random.default_rng(0)
    contest = Contest(pipeline, 0, Rates(pipeline))
    for _ in range(2):
        values = contest.cbr.attributes.look(pa.record_batch({"a": random.random(LESSON), "b": random.random(LESSON)}))
        contest.enter(values, random.integers(0, 2, (LESSON, 2), np.int8), (0, 1), (1, 0))


def _classifying(many: int) -> Callable[[], Any]:
    leaf = Tree(test=Comparison(0, 0.5), yes=Tree(0), no=Tree(1))
    tree = Tree(test=Comparison(1, 0.5), yes=leaf, no=leaf)
    values = np.random.default_rng(0).random((2, many)).astype(np.float32)
    return partial(tree.classify, values.__getitem__, many)
