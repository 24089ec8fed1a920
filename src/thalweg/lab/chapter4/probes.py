"""Filters that really probe: membership in a table of 10,000 ids, and real time (thesis 4.7, the set-up).

Each id of the domain has a pass vector drawn from the population; table i holds the ids that filter i passes, evened
out to its exact size, and the stream draws ids uniformly. A filter of cost c does c probes of its table. The filters
run through the same fabric as any query. Time is CPU time of the running thread, because wall time on a shared machine
measures other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter, thread_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import Journey, Visits
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter
from thalweg.execute.meter import Shared
from thalweg.lab.chapter4.generator import Population
from thalweg.lab.simulate import PassBits
from thalweg.optimize.orders.agreedy import AGreedy
from thalweg.plan import Operator, Pipeline
from thalweg.profile.rates.matrix import MatrixView
from thalweg.profile.rates.rates import Rates
from thalweg.profile.rates.window import Bits, ProfileWindow

ENTRIES = 10_000


def tables(population: Population, random: np.random.Generator) -> tuple[list[frozenset[int]], int]:
    """One table of 10,000 ids per filter, and the size of the domain. All filters have the same selectivity."""
    selectivity = population.selectivities[0]
    domain = round(ENTRIES / selectivity)
    bits = population.draw(domain, random)
    for i in range(len(population)):
        held, out = np.flatnonzero(bits[:, i]), np.flatnonzero(~bits[:, i])
        surplus = len(held) - ENTRIES
        if surplus > 0:
            bits[random.choice(held, surplus, replace=False), i] = False
        elif surplus < 0:
            bits[random.choice(out, -surplus, replace=False), i] = True
    return [frozenset(np.flatnonzero(bits[:, i]).tolist()) for i in range(len(population))], domain


def probe(table: frozenset[int], cost: int, domain: int) -> Callable[[int], bool]:
    """A predicate that looks `cost` times into its table; only the first look decides."""
    if cost == 1:
        return table.__contains__

    def probes(x: int) -> bool:
        for k in range(1, cost):
            (x + k * 7919) % domain in table  # noqa: B015 - the look itself is the cost
        return x in table

    return probes


class CpuMeter(Shared):
    """CPU time of this thread."""

    def start(self) -> float:
        return thread_time()

    def stop(self, started: float, operator: int, rows: int) -> float:
        return thread_time() - started


@dataclass(frozen=True)
class Spent:
    """Seconds of a run: total CPU, wall, CPU in filters on the tuples' way, CPU in filters only for profiling."""

    cpu: float
    wall: float
    way: float
    extra: float


@dataclass
class ProbeBench:
    """A stream and its filters, ready for a policy."""

    population: Population
    costs: Sequence[int]
    tuples: int
    seed: int
    batch: int = 1000

    def __post_init__(self) -> None:
        random = np.random.default_rng([self.seed, 42])
        self.tables, self.domain = tables(self.population, random)
        self.stream: NDArray[np.int64] = random.integers(0, self.domain, self.tuples)
        self.pipeline = Pipeline("s0", tuple(Operator(f"f{i + 1}") for i in range(len(self.tables))))
        self.filters = [
            Filter(op.name, probe(table, cost, self.domain), ("id",))
            for op, table, cost in zip(self.pipeline.operators, self.tables, self.costs, strict=True)
        ]

    @property
    def bits(self) -> PassBits:
        """The verdict of every filter on every tuple of the stream."""
        held = np.zeros((self.domain, len(self.tables)), np.bool_)
        for i, table in enumerate(self.tables):
            held[list(table), i] = True
        return held[self.stream]

    def seconds_per_row(self, rows: int = 3000) -> list[float]:
        """The cost of each filter on this machine."""
        batch = next(self.batches(0, rows)).data
        spent = []
        for judge in self.filters:
            started = thread_time()
            judge.evaluate(batch, None)
            spent.append((thread_time() - started) / len(batch))
        return spent

    def batches(self, first: int, last: int) -> Iterator[Batch]:
        for start in range(first, last, self.batch):
            data = pa.record_batch({"id": self.stream[start : min(start + self.batch, last)]})
            yield Batch(data, start // self.batch)

    def run(self, policy: Policy, first: int = 0, last: int | None = None) -> Spent:
        fabric = Fabric(self.pipeline, self.filters, CpuMeter())
        way = extra = 0.0
        batches = list(self.batches(first, self.tuples if last is None else last))
        started, by_the_wall = thread_time(), perf_counter()
        for batch in batches:
            _, visits = fabric.filter(batch, policy.route(batch))
            policy.observe(visits)
            policy.drain()
            for journey in visits.journeys:
                for v in journey.visits:
                    way += v.seconds
                    extra += v.extra_seconds
        return Spent(thread_time() - started, perf_counter() - by_the_wall, way, extra)


@dataclass
class Stopwatch:
    """Seconds by name. Time inside a nested charge belongs to the inner one only."""

    seconds: dict[str, float] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def charge(self, name: str) -> Iterator[None]:
        self._book()
        self._names.append(name)
        try:
            yield
        finally:
            self._book()
            self._names.pop()

    def _book(self) -> None:
        now = thread_time()
        if self._names:
            name = self._names[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


class TimedWindow(ProfileWindow):
    """A profile window whose upkeep is charged."""

    def __init__(self, filters: int, size: int, watch: Stopwatch) -> None:
        super().__init__(filters, size)
        self.watch = watch

    def push(self, passed: NDArray[np.int8]) -> tuple[Bits, Bits]:
        with self.watch.charge("window"):
            return super().push(passed)


class TimedCosts(Rates):
    """Running means of the filters' times, charged to the window they belong to."""

    def __init__(self, pipeline: Pipeline, watch: Stopwatch) -> None:
        super().__init__(pipeline)
        self.watch = watch

    def observe(self, visits: Visits) -> None:
        with self.watch.charge("window"):
            super().observe(visits)


class TimedView(MatrixView):
    """A matrix view whose updates are charged; rebuilding it is part of correcting a violation."""

    def __init__(self, order: Sequence[int], watch: Stopwatch) -> None:
        super().__init__(order)
        self.watch = watch
        self.part = "view"

    def insert(self, bits: Bits) -> None:
        with self.watch.charge(self.part):
            super().insert(bits)

    def delete(self, bits: Bits) -> None:
        with self.watch.charge(self.part):
            super().delete(bits)

    def rebuild(self, order: Sequence[int], bits: Bits) -> None:
        self.part = "violations"
        super().rebuild(order, bits)
        self.part = "view"


@dataclass
class TimedAGreedy(AGreedy):
    """A-Greedy that records where its time goes (the rows of Table 4.2).

    Whatever learning does besides window and view is finding and correcting violations.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.watch = Stopwatch()
        self.costs = TimedCosts(self.pipeline, self.watch)
        self.profile = TimedWindow(len(self.pipeline), self.window, self.watch)
        self.view = TimedView(self.order, self.watch)

    def learn(self, profiled: list[Journey]) -> None:
        with self.watch.charge("violations"):
            super().learn(profiled)
