"""Thalweg on a workload: read Parquet, push micro-batches in time order, collect the results, count and sum them.

Streams take turns, one batch each, and the watermark follows the batches. A policy is a name, a fixed route, or routes
that know the phase of each tuple. The last is the oracle, whose table comes from trying every order on every phase
(`hindsight`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.joins.measure import WrongAnswer
from benchmarks.joins.workloads import PHASE, Workload
from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import Visits
from thalweg.engine.block import BlockEngine
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Pipeline, Route, Ruster

BATCH = 2_500
"""Milliseconds per micro-batch, which is also the number of tuples per stream."""
Chooser = str | Callable[[Pipeline, int], Policy]
Order = tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One pass over a workload."""

    count: int
    checksum: int
    work: float
    """Buckets looked up and candidates examined, on the way to results."""
    profiling: float
    """The same, for learning only."""
    stored: int
    """Peak number of rows stored at the end of a batch."""
    events: int

    @property
    def total_work(self) -> float:
        return self.work + self.profiling


def query_of(w: Workload) -> Query:
    sources = {n: Source(t.schema, "ts" if n in w.streams else None, "ms") for n, t in w.data.items()}
    return bind(w.sql, sources).query


def run(w: Workload, folder: Path, policy: Chooser = "auto", *, batch: int = BATCH, seed: int = 0) -> Run:
    """End to end, from files to one table of results."""
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in w.data}
    return feed(w, tables, policy, batch=batch, seed=seed)


def feed(
    w: Workload, tables: Mapping[str, pa.Table], policy: Chooser = "auto", *, batch: int = BATCH, seed: int = 0,
    layout: str = "hash",
) -> Run:  # fmt: skip
    engine = BlockEngine(query_of(w), policy=policy, seed=seed, index=layout, tables={t: tables[t] for t in w.tables})
    found: list[pa.RecordBatch] = []
    stored = 0
    for start in range(0, w.tuples, batch):
        for s in w.streams:
            engine.push(s, tables[s].slice(start, batch), into=found.append)
        engine.advance(start + batch, into=found.append)
        stored = max(stored, sum(x.stem.rows for x in engine.stages if x.stem is not None and x.input.is_stream))
    engine.close(into=found.append)
    results = pa.Table.from_batches(found, engine.schema)
    inputs = engine.stats()["inputs"].values()
    return Run(
        results.num_rows, checksum(w, results), sum(i["work"] for i in inputs),
        sum(i["profiling work"] for i in inputs), stored, len(engine.events()),
    )  # fmt: skip


def checksum(w: Workload, results: pa.Table) -> int:
    return sum(k * (pc.sum(results[f"{s}_ts"]).as_py() or 0) for s, k in w.weights().items())


def side_by_side(
    w: Workload, policies: Sequence[Chooser], *, batch: int = BATCH, turn: int = 0
) -> tuple[NDArray[np.float64], list[float]]:
    """Processor seconds and probe work of engines that get the same batches, one after the other.

    Separate passes do not meet the same load: pairs of them differed by a quarter where this was first run. Here each
    batch goes to all engines in turn, and another engine comes first each time, so they meet the same load.
    """
    query, clock = query_of(w), time.process_time
    engines: list[BlockEngine] = []
    seconds, results = np.zeros(len(policies)), [0] * len(policies)
    gc.collect()
    for k, policy in enumerate(policies):
        started = clock()
        engines.append(BlockEngine(query, policy=policy, tables={t: w.data[t] for t in w.tables}))
        seconds[k] += clock() - started

    def each(step: Callable[[BlockEngine], pa.Table]) -> None:
        nonlocal turn
        turn += 1
        for k in in_turn(len(engines), turn):
            started = clock()
            found = step(engines[k])
            seconds[k] += clock() - started
            results[k] += found.num_rows

    for start in range(0, w.tuples, batch):
        for s in w.streams:
            rows = w.data[s].slice(start, batch)
            each(lambda engine, s=s, rows=rows: engine.push(s, rows))  # type: ignore[misc]
        each(lambda engine, end=start + batch: engine.advance(end))  # type: ignore[misc]
    each(lambda engine: engine.close())
    if len(set(results)) > 1:
        raise WrongAnswer(f"results differ: {results}")
    stats = [engine.stats()["inputs"].values() for engine in engines]
    return seconds, [sum(i["work"] + i["profiling work"] for i in inputs) for inputs in stats]


def in_turn(count: int, turn: int) -> Sequence[int]:
    """All engines, with another one first each time, alternating forwards and backwards."""
    order = [(turn // 2 + k) % count for k in range(count)]
    return order if turn % 2 else order[::-1]


# --- orders that are known, not learned -------------------------------------------------------------------------------


@dataclass
class Fixed(SingleRoute):
    """One route, and a record of its cost in each phase of the data."""

    ledger: dict[int, float] = field(default_factory=dict)
    name = "fixed"

    def route(self, batch: Batch) -> list[Ruster]:
        return by_phase(batch, lambda phase: self.plan.route)

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        for journey in visits.journeys:
            phase, spent = int(journey.ruster.label), sum(v.work for v in journey.visits)
            self.ledger[phase] = self.ledger.get(phase, 0.0) + spent


@dataclass
class Knowing(SingleRoute):
    """The oracle: a route for each phase of the data, known in advance."""

    table: Mapping[int, Order] = field(default_factory=dict)
    name = "oracle"

    def route(self, batch: Batch) -> list[Ruster]:
        return by_phase(batch, lambda phase: Route(self.table[phase]))


def by_phase(batch: Batch, route: Callable[[int], Route]) -> list[Ruster]:
    """One ruster for each phase of the data in a batch, labelled with the phase."""
    phases = batch.data.column("ts").to_numpy(zero_copy_only=False) // PHASE
    if len(phases) and phases[0] == phases[-1]:
        return [Ruster(None, route(int(phases[0])), label=str(phases[0]))]
    return [Ruster(np.flatnonzero(phases == p), route(int(p)), label=str(p)) for p in np.unique(phases)]


@dataclass(frozen=True)
class Hindsight:
    """The cost of every order in every phase, by stream."""

    costs: Mapping[str, Mapping[Order, Mapping[int, float]]]

    def best(self, stream: str) -> dict[int, Order]:
        """The cheapest order of each phase."""
        orders = self.costs[stream]
        phases = next(iter(orders.values()))
        return {p: min(orders, key=lambda o: orders[o].get(p, 0.0)) for p in phases}

    def oracle(self) -> Callable[[Pipeline, int], Policy]:
        return lambda pipeline, seed: Knowing(pipeline, seed, table=self.best(pipeline.stream))

    def best_fixed(self) -> Callable[[Pipeline, int], Policy]:
        """The single order that would have been cheapest over all phases."""
        return self._fixed(min)

    def worst_fixed(self) -> Callable[[Pipeline, int], Policy]:
        return self._fixed(max)

    def _fixed(self, choose: Any) -> Callable[[Pipeline, int], Policy]:
        def make(pipeline: Pipeline, seed: int) -> Policy:
            orders = self.costs[pipeline.stream]
            return fixed(choose(orders, key=lambda o: sum(orders[o].values())))(pipeline, seed)

        return make

    @property
    def least_work(self) -> float:
        return sum(
            min(costs.get(p, 0.0) for costs in orders.values())
            for orders in self.costs.values()
            for p in next(iter(orders.values()))
        )


def fixed(order: Order) -> Callable[[Pipeline, int], Fixed]:
    def make(pipeline: Pipeline, seed: int) -> Fixed:
        policy = Fixed(pipeline, seed)
        policy.plan = policy.plan.with_routes({"": Route(order)})
        return policy

    return make


def hindsight(w: Workload, tables: Mapping[str, pa.Table], *, batch: int = BATCH, most: int = 120) -> Hindsight:
    """Try every allowed order on all data. The number of runs is that of the stream with the most orders."""
    pipelines: dict[str, Pipeline] = {}

    def look(pipeline: Pipeline, seed: int) -> Policy:
        pipelines[pipeline.stream] = pipeline
        return SingleRoute(pipeline, seed)

    BlockEngine(query_of(w), policy=look, tables={t: tables[t] for t in w.tables})
    allowed = {
        s: [o for o in permutations(range(len(p))) if p.allows(Route(o))][:most] for s, p in pipelines.items()
    }  # fmt: skip
    costs: dict[str, dict[Order, dict[int, float]]] = {s: {} for s in pipelines}
    for turn in range(max(map(len, allowed.values()))):
        made: dict[str, Fixed] = {}

        def choose(pipeline: Pipeline, seed: int, turn: int = turn, made: dict[str, Fixed] = made) -> Policy:
            orders = allowed[pipeline.stream]
            made[pipeline.stream] = fixed(orders[turn % len(orders)])(pipeline, seed)
            return made[pipeline.stream]

        feed(w, tables, choose, batch=batch)
        for s, policy in made.items():
            costs[s][policy.order] = dict(policy.ledger)
    return Hindsight(costs)
