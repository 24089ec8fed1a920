"""Courses of filters: rows whose verdicts are known, sent through the filter fabric along the routes of a policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract import learned
from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter, Rows, Verdict
from thalweg.execute.meter import RecordedMeter
from thalweg.plan import Operator, Pipeline, Ruster
from thalweg.testing.courses import Drive, Make


@dataclass(frozen=True)
class FilterCourse:
    """Batches of rows with known verdicts, and the recorded cost of each filter."""

    pipeline: Pipeline
    pieces: tuple[NDArray[np.bool_], ...]
    costs: tuple[float, ...]
    kinds: tuple[NDArray[np.int64], ...] = ()
    """Content: of what kind each row is, where kinds have pass rates of their own."""

    def batch(self, number: int) -> Batch:
        columns: dict[str, NDArray[Any]] = {"row": np.arange(len(self.pieces[number]))}
        if self.kinds:
            columns["kind"] = self.kinds[number]
        return Batch(pa.record_batch(columns), number)

    def visits(self, number: int, rusters: Sequence[Ruster]) -> Visits:
        """What comes of a batch on the given routes."""
        bits = self.pieces[number]
        filters = [Known(op.name, bits[:, i]) for i, op in enumerate(self.pipeline.operators)]
        kept, visits = Fabric(self.pipeline, filters, RecordedMeter(self.costs)).filter(self.batch(number), rusters)
        assert np.array_equal(kept, bits.all(axis=1)), "rows were lost or doubled on their routes"
        return visits

    def run(self, make: Make, seed: int = 5) -> FilterRun:
        return FilterRun(self, make, seed)


class FilterRun(Drive):
    def __init__(self, course: FilterCourse, make: Make, seed: int) -> None:
        super().__init__(make, seed)
        self.course = course
        self.policy = self.make(course.pipeline, seed)

    @property
    def length(self) -> int:
        return len(self.course.pieces)

    def feed(self, step: int) -> tuple[Any, ...]:
        self.policy.observe(self.course.visits(step, self.policy.route(self.course.batch(step))))
        self.policy.drain()
        return ()

    def save(self) -> str:
        return json.dumps([self.taken, learned.record(self.policy)])

    def load(self, saved: str) -> None:
        self.taken, record = json.loads(saved)
        learned.take_up(self.policy, record)


class Known(Filter):
    """A filter that knows its verdict for each row, by the number in the column `row`."""

    def __init__(self, name: str, verdicts: NDArray[np.bool_]) -> None:
        super().__init__(name, verdicts.__getitem__, ("row",))

    def evaluate(self, batch: pa.RecordBatch, rows: Rows | None) -> Verdict:
        numbers = batch.column("row").to_numpy()
        return Verdict(self.function(numbers if rows is None else numbers[rows]))


def make_course(
    pipeline: Pipeline,
    seed: int,
    *,
    batches: int = 20,
    rows: int | Sequence[int] = 2000,
    pass_rate: float | None = None,
    kinds: int = 1,
) -> FilterCourse:
    """Correlated filters of unequal cost, whose pass rates change places in the middle. With several kinds of rows each
    kind has its own rates, and a column tells the kind."""
    random = np.random.default_rng([seed, len(pipeline)])
    n = len(pipeline)
    rates = np.linspace(0.95, 0.2, n) if pass_rate is None else np.full(n, pass_rate)
    costs = tuple(float(c) for c in random.choice([1e-6, 2e-6, 5e-6], n))
    sizes = [rows] * batches if isinstance(rows, int) else list(rows)
    pieces = []
    kind: list[NDArray[np.int64]] = []
    for k, size in enumerate(sizes):
        shared = random.random((size, 1))
        own = random.random((size, n))
        value = np.where(random.random((size, n)) < 0.4, shared, own)
        now = rates if k < len(sizes) // 2 else rates[::-1]
        if kinds > 1:
            kind.append(random.integers(0, kinds, size))
            now = np.array([np.roll(now, turn) for turn in range(kinds)])[kind[-1]]
        pieces.append(value < now)
    return FilterCourse(pipeline, tuple(pieces), costs, tuple(kind))


def free(count: int) -> Pipeline:
    """Filters in any order."""
    return Pipeline("s", tuple(Operator(f"f{i}") for i in range(count)))


def guarded() -> Pipeline:
    """Five filters, two of them behind guards."""
    after = {0: frozenset({3}), 2: frozenset({0})}
    return Pipeline("s", tuple(replace(op, after=after.get(i, op.after)) for i, op in enumerate(free(5).operators)))
