"""One measured pass of a workload with one kind of index, and the layouts that hindsight would choose.

Routes are those of `benchmarks/joins`' oracle: each phase has the order that is best for it, the same for all
contenders, so that only layouts differ. Work is buckets looked up and candidates examined: no clock, no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.joins.thalweg_runs import Chooser, query_of
from benchmarks.joins.workloads import PHASE, Workload
from thalweg.engine.block import BlockEngine
from thalweg.optimize.indexes.layoutcost import Workload as Asked
from thalweg.optimize.indexes.layoutsearch import select
from thalweg.optimize.indexes.tuner import Facts, IndexTuner, IndexView
from thalweg.plan import Change, Event, Plan
from thalweg.plan.change import Part
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.sria import Sria
from thalweg.profile.patterns.stemfacts import Probe, StemFacts
from thalweg.profile.prices import Prices

BATCH = 500
"""Milliseconds per micro-batch; ten micro-batches make a phase."""
PHASES = 3
ORACLE = "bits, best of each phase (oracle)"
COUNTED = ("work", "candidates", "buckets", "hashes", "entries")


@dataclass(frozen=True)
class Pass:
    """The cost of one pass."""

    name: str
    results: int
    cpu: float
    tuning: float
    """Share of processor time spent in the tuner."""
    bytes: int
    """Peak bytes of directories and chains."""
    moved: int
    changes: int
    counted: Mapping[str, tuple[float, ...]]
    """Per micro-batch: work (buckets looked up, candidates examined, profiling), hashes, and rows entered into indexes."""

    @property
    def work(self) -> tuple[float, ...]:
        return self.counted["work"]

    def after(self, warm_up: int, what: str = "work", batch: int = BATCH) -> float:
        return sum(self.counted[what][warm_up // batch :])


def run(
    w: Workload, name: str, routes: Chooser, *, tuner: IndexTuner | None = None, layout: Layout | str = "hash",
    batch: int = BATCH,
) -> Pass:  # fmt: skip
    engine = BlockEngine(query_of(w), policy=routes, index=tuner or layout)
    spent = [0.0]
    if engine.flow.tuning is not None:
        engine.flow.tuning.observe = _timed(engine.flow.tuning.observe, spent)  # type: ignore[method-assign]
        engine.flow.tuning.tune = _timed(engine.flow.tuning.tune, spent)  # type: ignore[method-assign]
    results = 0

    def add(found: Any) -> None:
        nonlocal results
        results += found.num_rows

    counted: dict[str, list[float]] = {what: [] for what in COUNTED}
    before = dict.fromkeys(COUNTED, 0.0)
    most = 0
    cpu = 0.0
    for start in range(0, w.tuples, batch):
        began = process_time()
        if isinstance(tuner, Hindsight | Recorder):
            tuner.phase = start // PHASE % PHASES
        for s in w.streams:
            engine.push(s, w.data[s].slice(start, batch), into=add)
        engine.advance(start + batch, into=add)
        cpu += process_time() - began
        inputs = engine.stats()["inputs"].values()
        for what in COUNTED:
            now = sum(v[what] + (v["profiling work"] if what == "work" else 0.0) for v in inputs)
            counted[what].append(now - before[what])
            before[what] = now
        most = max(most, sum(v["index bytes"] for v in inputs))
    moved = engine.flow.tuning.moved if engine.flow.tuning is not None else 0
    changes = sum(e.kind == "index" for e in engine.events())
    return Pass(name, results, cpu, spent[0] / cpu, most, moved, changes, {k: tuple(v) for k, v in counted.items()})


def _timed(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """The first reading of the processor clock after a join takes microseconds, about as long as what we time. So we read
    the clock once in advance, and subtract the time of a reading."""

    def call(*arguments: Any) -> Any:
        process_time()
        began = process_time()
        try:
            return function(*arguments)
        finally:
            ended = process_time()
            spent[0] += 2 * ended - began - process_time()

    return call


@dataclass
class Recorder:
    """Changes nothing. Records the exact access patterns of each phase, and the stems at the end of it."""

    name: str = "recorder"
    part: Part = "layouts"
    grain: int = 0
    window: int = 0
    resting: bool = False
    tunings: int = 0
    phase: int = 0
    stems: dict[str, int] = field(default_factory=dict)
    prices: Prices = field(default_factory=Prices)
    asked: dict[tuple[int, str], Sria] = field(default_factory=dict)
    facts: dict[tuple[int, str], StemFacts] = field(default_factory=dict)

    def begin(self, attributes: dict[str, int], facts: Facts) -> dict[str, Layout]:
        self.stems, self.look = attributes, facts
        self.asked = {(p, s): Sria(n) for p in range(PHASES) for s, n in attributes.items()}
        return dict.fromkeys(attributes, Layout("bits"))

    def observe(self, probes: Sequence[Probe]) -> None:
        for p in probes:
            self.asked[self.phase, p.stem].observe(p.mask, p.requests)

    def propose(self, plan: Plan) -> Change | None:
        for stem in self.stems:
            known = self.look(stem)
            if known.rows > 1:
                # Read now, because at the end of the pass the stem holds another phase.
                self.facts[self.phase, stem] = replace(known, look=partial(tuple, known.evenness))
        return None

    def workload(self, phases: Sequence[int], stem: str) -> tuple[Asked, int]:
        """The access patterns of a stem in these phases, and the number of bits its size allows."""
        counted, known = Sria(self.stems[stem]), [self.facts[p, stem] for p in phases]
        for p in phases:
            for mask, count in self.asked[p, stem].counts.items():
                counted.observe(mask, count)
        evenness = np.mean([k.evenness for k in known], axis=0).tolist()
        rows = float(np.mean([k.rows for k in known]))
        asked = Asked(
            self.stems[stem], counted.frequencies(), float(counted.requests), rows, rows, self.prices, evenness
        )
        return asked, known[0].bits

    def best(self, phases: Sequence[int]) -> dict[str, Layout]:
        return {s: Layout("bits", select(*self.workload(phases, s)).bits) for s in self.stems}

    def explain(self, facts: Facts) -> dict[str, IndexView]:
        return {}

    def drain(self) -> list[Event]:
        return []

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, record: dict[str, Any]) -> None:
        """Nothing to restore: it lives for one pass."""


@dataclass
class Hindsight(Recorder):
    """The layouts of each phase, known in advance, for all slices from the first tuple of the phase."""

    name: str = "hindsight"
    layouts: Mapping[int, Mapping[str, Layout]] = field(default_factory=dict)

    def begin(self, attributes: dict[str, int], facts: Facts) -> dict[str, Layout]:
        self.stems, self.look = attributes, facts
        return dict(self.layouts[0])

    def observe(self, probes: Sequence[Probe]) -> None:
        """Nothing to learn."""

    def propose(self, plan: Plan) -> Change | None:
        for stem, layout in self.layouts[self.phase].items():
            if plan.layouts[stem] != layout:
                every = frozenset(p.number for p in self.look(stem).slices)
                return Change("layouts", stem, plan.layouts[stem], layout, slices=every)
        return None
