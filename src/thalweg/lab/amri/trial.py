"""One pass of the streams under one way to index, and results against the work that had been done by then.

The paper's measure is results in a fixed time. Here it is results for each million units of work, which has no noise:
buckets looked up, candidates examined, rows entered into an index (once for each index, and again when they move).
Profiling is included. Routes are those of `auto`, which sends scouts on other routes all the time. A course is run once
for all figures that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.execute.engine import Engine
from thalweg.lab.amri.streams import ORDERS, Streams
from thalweg.lab.experiment import Value
from thalweg.optimize.amri import PAPER as PAPER
from thalweg.optimize.amri import Amri

SCOUTED = 100
"""Tuples of a micro-batch, at least: smaller ones have no scouts, and routes would stay as written."""
COUNTED = ("candidates", "buckets", "profiling work", "entries", "hashes")
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
    counted: dict[str, float] = field(default_factory=dict)
    """What the work is made of, and hashes."""


_COURSES: dict[str, Course] = {}
"""Those of this process, by what determines them."""


def course(make: Callable[..., Streams], arguments: Mapping[str, Any], contender: Contender, seed: int) -> Course:
    tuner = None if contender.tuner is None else sorted(contender.tuner.items())
    known = repr((make.__name__, sorted({"orders": ORDERS, **arguments}.items()), tuner, contender.layout, seed))
    if known not in _COURSES:
        _COURSES[known] = _run(make(seed=seed, **arguments), contender, seed)
    return _COURSES[known]


def _run(streams: Streams, contender: Contender, seed: int) -> Course:
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
        went.results.append(found)
        went.work.append(sum(v["work"] + v["profiling work"] + v["entries"] for v in stats.values()))
        went.bytes = max(went.bytes, sum(v["index bytes"] for v in stats.values()))
        went.moved = moved
    went.changes = sum(e.kind == "index" for e in engine.drain())
    went.counted = {k: float(sum(v[k] for v in engine.stats()["inputs"].values())) for k in COUNTED}
    return went


def compare(
    make: Callable[..., Streams], arguments: Mapping[str, Any], contenders: Sequence[Contender], seed: int
) -> list[dict[str, Value]]:
    """All contenders on one draw. The budget is the work of the one that needs least: by then it has all results."""
    went = {c.name: course(make, arguments, c, seed) for c in contenders}
    totals = {c.results[-1] for c in went.values()}
    assert len(totals) == 1, f"answers differ: {totals}"
    budget = min(c.work[-1] for c in went.values())
    rows: list[dict[str, Value]] = []
    for name, c in went.items():
        at = np.interp(np.linspace(0, budget, POINTS), [0.0, *c.work], [0, *c.results])
        rows.append(
            {
                "index": name, "seed": seed, "throughput": c.results[-1] / c.work[-1] * 1e6, "work": c.work[-1],
                **c.counted, "bytes": float(c.bytes), "moved": float(c.moved), "changes": float(c.changes),
                "curve": [float(v) for v in at], **{k: v for k, v in arguments.items() if k == "orders"},
            }
        )  # fmt: skip
    return rows
