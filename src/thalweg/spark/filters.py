"""`where` on Spark: SQL stays in Spark, Python predicates share one mapInArrow, and each task adds a row as its report.

That row is a copy of the task's first row with the column STATS set, so it satisfies every nullability and type of the
schema. `observe` collects the column and a filter drops the row. Counts are exact under task retry, because a failed
attempt delivers nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from thalweg import optimize
from thalweg.contract.report import TaskReport
from thalweg.engine import machine
from thalweg.engine.chunks import Chunks
from thalweg.engine.filtercell import FilterCell
from thalweg.engine.report import of_filters
from thalweg.execute.faults import Faults
from thalweg.execute.filters import Filter
from thalweg.language.predicate import Predicate
from thalweg.plan import Pipeline, Route
from thalweg.spark.begin import begin
from thalweg.spark.control import Control
from thalweg.spark.fields import field_of, type_of
from thalweg.spark.obey import ignored, pinned
from thalweg.spark.quarantine import ARROW, COLUMN, array
from thalweg.spark.settle import settle
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number, partition
from thalweg.spark.values import reader

STATS = "__thalweg"
Batches = Iterator[pa.RecordBatch]

remembered: dict[str, dict[str, Any]] = {}
"""What this worker's last tasks learned, by query. Only a prior: it changes cost, never results."""


@dataclass(frozen=True)
class FilterTask:
    """Everything a worker needs to run the predicates of one query."""

    key: str
    pipeline: Pipeline
    predicates: Sequence[Predicate]
    policy: str
    seed: int
    schema: StructType
    timezone: str
    control: str
    on_error: str = "raise"

    def run(self, batches: Batches) -> Batches:
        """Filter a task's batches; the row with the report comes last."""
        watch = Stopwatch()
        cell = self._open()
        watch.lap("filter")
        sample: pa.RecordBatch | None = None
        for batch in batches:
            watch.lap("source")
            if not batch.num_rows:
                continue
            batch = batch.rename_columns(self.schema.names)
            if sample is None:
                sample = batch.slice(0, 1)
            kept = cell.feed(self.with_fields(batch)).select(range(len(self.schema.names)))
            watch.lap("filter")
            if kept.num_rows:
                yield _with_stats(self._judged(kept), None)
            if cell.bad:
                bad, cell.bad = cell.bad, []
                rows = batch.take(pa.array([at for at, _ in bad]))
                yield _with_stats(rows.append_column(COLUMN, array([f for _, f in bad])), None)
            watch.lap("write")
        watch.lap("source")
        if sample is not None:
            if not cell.frozen:
                remembered[self.key] = cell.learned()
            yield _with_stats(self._judged(sample), json.dumps(self._report(cell, watch).record()))

    def _judged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, with an empty column for quarantine where rows can go there."""
        if self.on_error != "quarantine":
            return batch
        return batch.append_column(COLUMN, pa.nulls(batch.num_rows, ARROW))

    def _open(self) -> FilterCell:
        control = Control(self.control, self.key)
        orders, problem = control.orders()
        frozen: Route | Literal["classes"] | None = None
        if orders.frozen:
            frozen = "classes"
            if "" in orders.routes:
                frozen, problem = pinned(orders.routes[""], self.pipeline)
        prices = machine.prices()
        seed = self.seed * 1009 + partition()
        begun = begin(
            lambda: optimize.make(self.policy, self.pipeline, seed, prices),
            remembered.get(self.key),
            control.learned(""),
        )
        events = [*begun.events, *ignored(problem, self.policy)]
        chunks = Chunks(prices=prices)
        return FilterCell(
            self.pipeline, self.filters(), begun.policy, chunks=chunks, frozen=frozen, events=events,
            faults=Faults.of(self.on_error), seen=begun.seen,
        )  # fmt: skip

    def with_fields(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch and, after its own columns, the fields inside structs that predicates take."""
        for path in dict.fromkeys(c for p in self.predicates for c in p.columns if c not in self.schema.names):
            batch = batch.append_column(path, field_of(batch, self.schema, path))
        return batch

    def filters(self) -> list[Filter]:
        """The predicates, each with what turns Arrow columns into its arguments."""
        return [self._filter(p) for p in self.predicates]

    def _filter(self, p: Predicate) -> Filter:
        assert p.function is not None
        readers = tuple(reader(p.kind, type_of(self.schema, c), self.timezone) for c in p.columns)
        return Filter(p.name, p.function, p.columns, p.kind, readers if any(readers) else ())

    def _report(self, cell: FilterCell, watch: Stopwatch) -> TaskReport:
        return TaskReport(
            "filter",
            batch_number(),
            partition(),
            (of_filters(cell, ""),),
            results=cell.tally.rows_out,
            events=tuple(cell.events),
            timing=watch.timing(),
            learned={} if cell.frozen else {"": cell.learned(light=True)},
        )


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
