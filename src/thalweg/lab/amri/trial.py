"""One pass of the streams with one kind of index: results against the work done so far.

The paper measures results in a fixed time. We measure results per million units of work, which has no noise: buckets
looked up, candidates examined, rows entered into an index (once per index, and again when they move), including
profiling. We also keep results over CPU time, as the paper draws them. The first window is for training, like the
paper's first 15 minutes, and does not count. Routes are those of `auto`, which keeps sending scouts on other routes. A
pass that several figures show runs only once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np

from thalweg.engine.block import BlockEngine
from thalweg.lab.amri.streams import ORDERS, Streams
from thalweg.lab.experiment import Value
from thalweg.optimize.indexes.amri import PAPER as PAPER
from thalweg.optimize.indexes.amri import Amri
from thalweg.plan import Change, Plan

SCOUTED = 100
"""Minimum number of tuples in a micro-batch. Smaller ones have no scouts, and routes would stay as written."""
WORK = ("candidates", "buckets", "profiling work", "entries")
POINTS = 40
"""Points of a curve of results over work."""


class Trainee(Amri):
    """Chooses layouts until it is told to stop."""

    stopped = False

    def propose(self, plan: Plan) -> Change | None:
        return None if self.stopped else super().propose(plan)


@dataclass(frozen=True)
class Contender:
    """A name and what to build; picklable."""

    name: str
    tuner: Mapping[str, Any] | None = None
    layout: str = "hash"
    static: bool = False
    """Keep the layouts from the end of training."""

    def make(self, window: int) -> Trainee | None:
        if self.tuner is None:
            return None
        return Trainee(**({"window": window, "period": 2 * window} | dict(self.tuner)))


@dataclass
class Totals:
    """Running totals since training, one per micro-batch."""

    results: list[int] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """CPU seconds, the only noisy totals."""
    bytes: int = 0
    changes: int = 0
    counted: dict[str, float] = field(default_factory=dict)
    """The parts of the work, plus hashes and rows moved."""


_COURSES: dict[str, Totals] = {}
"""The passes of this process, by everything that determines them."""


def course(make: Callable[..., Streams], arguments: Mapping[str, Any], contender: Contender, seed: int) -> Totals:
    tuner = None if contender.tuner is None else sorted(contender.tuner.items())
    known = repr(
        (
            make.__name__,
            sorted({"orders": ORDERS, **arguments}.items()),
            tuner,
            contender.layout,
            contender.static,
            seed,
        )
    )
    if known not in _COURSES:
        _COURSES[known] = _run(make(seed=seed, **arguments), contender, seed)
    return _COURSES[known]


def _run(streams: Streams, contender: Contender, seed: int) -> Totals:
    tuner = contender.make(streams.window)
    engine = BlockEngine(streams.query, policy="auto", seed=seed, index=tuner or contender.layout, slice_rows=64)
    went, trained = Totals(), _totals(engine)
    batch = max(streams.window // 20, SCOUTED)
    found, spent = 0, 0.0
    for start in range(0, streams.tuples, batch):
        if start >= streams.window and not went.results:
            trained, found, spent = _totals(engine), 0, 0.0
            engine.events()
            if tuner is not None:
                tuner.stopped = contender.static
        started = process_time()
        for name, table in streams.data.items():
            found += engine.push(name, table.slice(start, batch)).num_rows
        engine.advance(start + batch)
        spent += process_time() - started
        if start >= streams.window:
            now = _totals(engine)
            went.counted = {k: now[k] - trained[k] for k in now}
            went.results.append(found)
            went.seconds.append(spent)
            went.work.append(sum(went.counted[k] for k in WORK))
            went.bytes = max(went.bytes, sum(v["index bytes"] for v in engine.stats()["inputs"].values()))
    went.changes = sum(e.kind == "index" for e in engine.events())
    return went


def _totals(engine: BlockEngine) -> dict[str, float]:
    stats = engine.stats()["inputs"].values()
    moved = 0 if engine.flow.tuning is None else engine.flow.tuning.moved
    return {k: float(sum(v[k] for v in stats)) for k in (*WORK, "hashes")} | {"moved": float(moved)}


def compare(
    make: Callable[..., Streams], arguments: Mapping[str, Any], contenders: Sequence[Contender], seed: int
) -> list[dict[str, Value]]:
    """All contenders on one draw. Curves end where the median contender is done: half of them then have all results."""
    went = {c.name: course(make, arguments, c, seed) for c in contenders}
    totals = {c.results[-1] for c in went.values()}
    assert len(totals) == 1, f"answers differ: {totals}"
    work = float(np.median([c.work[-1] for c in went.values()]))
    seconds = float(np.median([c.seconds[-1] for c in went.values()]))
    rows: list[dict[str, Value]] = []
    for name, c in went.items():
        rows.append(
            {
                "index": name, "seed": seed, "throughput": c.results[-1] / c.work[-1] * 1e6, "work": c.work[-1],
                **c.counted, "bytes": float(c.bytes), "changes": float(c.changes),
                "seconds": c.seconds[-1], "curve": _curve(c.results, c.work, work),
                "time curve": _curve(c.results, c.seconds, seconds),
                **{k: v for k, v in arguments.items() if k == "orders"},
            }
        )  # fmt: skip
    return rows


def _curve(results: Sequence[int], spent: Sequence[float], budget: float) -> list[float]:
    """Results found by the time each part of the budget is spent."""
    at = np.interp(np.linspace(0, budget, POINTS), [0.0, *spent], [0, *results])
    return [float(v) for v in at]
