"""`where` on Spark: SQL stays in Spark, all Python predicates go through one mapInArrow, statistics ride along as one
row per task.

The statistics row is a copy of the task's first row with the column STATS set, so it satisfies every nullability and
type of the schema;
`observe` collects that column and a filter drops the row. Exact under task retry, because a failed attempt delivers
nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from thalweg import optimize
from thalweg.contract import learned
from thalweg.engine.filtercell import FilterCell
from thalweg.execute.filters import Filter
from thalweg.language.predicate import Predicate
from thalweg.plan import Pipeline, Route
from thalweg.spark.control import Control
from thalweg.spark.settle import settle
from thalweg.spark.values import reader

STATS = "__thalweg"
Batches = Iterator[pa.RecordBatch]

_learned: dict[str, dict[str, Any]] = {}
"""What this worker's cells had learned when their last task ended. Only ever a prior: it changes cost, never
results."""


@dataclass(frozen=True)
class FilterTask:
    """All that a worker needs to run the predicates of one query."""

    key: str
    pipeline: Pipeline
    predicates: Sequence[Predicate]
    policy: str
    seed: int
    schema: StructType
    timezone: str
    control: str

    def run(self, batches: Batches) -> Batches:
        """Filter a task's batches; last comes the statistics row."""
        cell = self._open()
        sample: pa.RecordBatch | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if sample is None:
                sample = batch.slice(0, 1)
            kept = cell.feed(batch)
            if kept.num_rows:
                yield _with_stats(kept, None)
        if sample is not None:
            if not cell.frozen:
                _learned[self.key] = learned.record(cell.policy)
            yield _with_stats(sample, json.dumps(self._report(cell)))

    def _open(self) -> FilterCell:
        orders = Control(self.control, self.key).read()
        frozen = orders.get("frozen")
        policy = optimize.make(self.policy, self.pipeline, self._seed())
        prior = _learned.get(self.key) or orders.get("learned")
        events = learned.take_up(policy, prior) if prior else []
        return FilterCell(
            self.pipeline, [self._filter(p) for p in self.predicates], policy,
            frozen="classes" if frozen == "classes" else Route(tuple(frozen)) if frozen else None, events=events,
        )  # fmt: skip

    def _seed(self) -> int:
        task = TaskContext.get()
        return self.seed * 1009 + (task.partitionId() if task else 0)

    def _filter(self, p: Predicate) -> Filter:
        assert p.function is not None
        readers = tuple(reader(p.kind, self.schema[c].dataType, self.timezone) for c in p.columns)
        return Filter(p.name, p.function, p.columns, p.kind, readers if any(readers) else ())

    def _report(self, cell: FilterCell) -> dict[str, Any]:
        task = TaskContext.get()
        batch = task.getLocalProperty("streaming.sql.batchId") if task else None
        return {
            "batch": int(batch) if batch is not None else None,
            "partition": task.partitionId() if task else 0,
            "pid": os.getpid(),
            **cell.record(),
            "learned": None if cell.frozen else learned.record(cell.policy, light=True),
        }


def _with_stats(batch: pa.RecordBatch, text: str | None) -> pa.RecordBatch:
    column = pa.array([text] * batch.num_rows, pa.string()) if text else pa.nulls(batch.num_rows, pa.string())
    fields = [*batch.schema, pa.field(STATS, pa.string())]
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=pa.schema(fields))


def runner(task: FilterTask) -> Callable[[Batches], Batches]:
    """A plain function for mapInArrow, which accepts no bound method over Connect."""

    def run(batches: Batches) -> Batches:
        yield from task.run(batches)
        settle()

    return run
