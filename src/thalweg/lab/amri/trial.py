"""One pass of the streams under one way to index, and results against the work that had been done by then.

The paper's measure is results in a fixed time. Here it is results for each million units of work, which has no noise:
buckets looked up, candidates examined, rows entered into an index (once for each index), rows moved. Profiling is
included. Routes are those of `auto`, which sends scouts on other routes all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.execute.engine import Engine
from thalweg.lab.amri.streams import Streams
from thalweg.lab.experiment import Value
from thalweg.optimize.amri import PAPER as PAPER
from thalweg.optimize.amri import Amri

SCOUTED = 100
"""Tuples of a micro-batch, at least: smaller ones have no scouts, and routes would stay as written."""
POINTS = 40
"""Points of a curve of results over work."""


@dataclass(frozen=True)
class Contender:
    """A name and what to build; picklable."""

    name: str
    tuner: Mapping[str, Any] | None = None
    layout: str = "hash"

    def make(self, window: int) -> Amri | None:
        if self.tuner is None:
            return None
        return Amri(**({"window": window, "period": 2 * window} | dict(self.tuner)))


@dataclass
class Course:
    """Running totals, one of each micro-batch."""

    results: list[int] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    bytes: int = 0
    moved: int = 0
    changes: int = 0


def course(streams: Streams, contender: Contender, seed: int) -> Course:
    engine = Engine(
        streams.query, policy="auto", seed=seed, layout=contender.layout, tuner=contender.make(streams.window),
        slice_rows=64,
    )  # fmt: skip
    went = Course()
    batch = max(streams.window // 20, SCOUTED)
    found = 0
    for start in range(0, streams.tuples, batch):
        for name, table in streams.data.items():
            found += engine.push(name, table.slice(start, batch)).num_rows
        engine.advance(start + batch)
        stats = engine.stats()["inputs"]
        moved = 0 if engine._tuning is None else engine._tuning.moved
        entered = sum(s.rows_built * _indexes(s.stem) for s in engine.stages)
        went.results.append(found)
        went.work.append(sum(v["work"] + v["profiling work"] for v in stats.values()) + entered + moved)
        went.bytes = max(went.bytes, sum(v["index bytes"] for v in stats.values()))
        went.moved = moved
    went.changes = sum(e.kind == "index" for e in engine.drain())
    return went


def _indexes(stem: Any) -> int:
    layout = stem.layout
    if layout.kind == "bits":
        return 1
    return len(layout.patterns) if layout.patterns is not None else max(len(r.indexes) for r in stem.runs or [[]])


def compare(
    make: Callable[..., Streams], arguments: Mapping[str, Any], contenders: Sequence[Contender], seed: int
) -> list[dict[str, Value]]:
    """All contenders on one draw. The budget is the work of the one that needs least: by then it has all results."""
    streams = make(seed=seed, **arguments)
    went = {c.name: course(streams, c, seed) for c in contenders}
    totals = {c.results[-1] for c in went.values()}
    assert len(totals) == 1, f"answers differ: {totals}"
    budget = min(c.work[-1] for c in went.values())
    rows: list[dict[str, Value]] = []
    for name, c in went.items():
        at = np.interp(np.linspace(0, budget, POINTS), [0.0, *c.work], [0, *c.results])
        rows.append(
            {
                "index": name, "seed": seed, "throughput": c.results[-1] / c.work[-1] * 1e6, "work": c.work[-1],
                "bytes": float(c.bytes), "moved": float(c.moved), "changes": float(c.changes),
                "curve": [float(v) for v in at], **{k: v for k, v in arguments.items() if k == "orders"},
            }
        )  # fmt: skip
    return rows
