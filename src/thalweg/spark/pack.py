"""Pack: the rows of one input, filtered, placed and put into one Arrow blob for each cell.

So the shuffle and the stateful operator handle a few blobs instead of rows. Every task sends each cell, even one that
gets no rows, the newest time it saw, so that all cells run in every batch and agree on the watermark.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from thalweg import optimize
from thalweg.engine.filtercell import FilterCell
from thalweg.engine.placing import Placing
from thalweg.execute.shape import Shape
from thalweg.language.query import Query
from thalweg.plan import Operator, Pipeline, Route
from thalweg.plan.shares import Shares
from thalweg.spark.control import Control
from thalweg.spark.keys import cell_keys
from thalweg.spark.settle import settle
from thalweg.spark.stopwatch import Stopwatch
from thalweg.state.stem import write_ipc
from thalweg.state.times import Clock

NOTHING = -(1 << 63)
PACKED = pa.schema(
    [
        ("key", pa.int32()), ("input", pa.string()), ("part", pa.int32()), ("rows", pa.int64()), ("newest", pa.int64()),
        ("blob", pa.binary()), ("stats", pa.string()),
    ]
)  # fmt: skip
PACKED_DDL = "key int, input string, part int, rows long, newest long, blob binary, stats string"
Batches = Iterator[pa.RecordBatch]

_learned: dict[str, dict[str, Any]] = {}
"""What this worker's filters had learned when their last task ended; a prior, nothing more."""


@dataclass(frozen=True)
class PackTask:
    """Packs one input."""

    query: Query
    alias: str
    tick: str
    shares: Shares
    policy: str
    seed: int
    control: str
    """Where orders from the driver are found, and under what name."""
    key: str

    def run(self, batches: Batches) -> Batches:
        watch = Stopwatch()
        shape = Shape(self.query, prefiltered=True, leave=True)
        i = shape.number[self.alias]
        spec = shape.query.inputs[i].spec
        clock = Clock(spec, self.tick) if spec.time is not None else None
        placing = Placing(shape, self.alias, self.shares)
        columns = shape.read(i)
        sieve = self._sieve(shape, i)
        cells: list[list[pa.RecordBatch]] = [[] for _ in range(self.shares.cells)]
        newest, rows = NOTHING, 0
        for batch in batches:
            watch.lap("source")
            if not batch.num_rows:
                continue
            rows += batch.num_rows
            batch = batch.select(columns)
            if clock is not None:
                times, valid = clock.read(batch.column(str(spec.time)))
                known = times if valid is None else times[valid]
                newest = max(newest, int(known.max())) if len(known) else newest
            if sieve is not None:
                batch = sieve.feed(batch)
            for cell, part in split(batch, placing):
                cells[cell].append(part)
            watch.lap("pack")
        watch.lap("source")
        if not rows:
            return
        report: dict[str, Any] = {
            "stage": "pack", "batch": batch_number(), "input": self.alias, "rows": rows,
            "sent": sum(b.num_rows for c in cells for b in c),
        }  # fmt: skip
        report["heavy"] = placing.heavy()
        report["cells"] = [sum(b.num_rows for b in c) for c in cells]
        if sieve is not None:
            if not sieve.frozen:
                _learned[self._key] = sieve.policy.snapshot()
            report |= {"filters": sieve.pipeline.names, **sieve.record()}
        yield self._packed(cells, newest, report, watch)

    @property
    def _key(self) -> str:
        return f"{self.query.text}-{self.alias}-{self.policy}"

    def _sieve(self, shape: Shape, i: int) -> FilterCell | None:
        """The input's own predicates, where they may come before its window."""
        judges = shape.filters[i]
        if not judges or shape.query.inputs[i].window.ordered:
            return None
        pipeline = Pipeline(self.alias, tuple(Operator(j.name) for j in judges))
        policy = optimize.make(self.policy, pipeline, self.seed)
        if self._key in _learned:
            policy.restore(_learned[self._key])
        frozen = Control(self.control, self.key).read().get("filters", {}).get(self.alias)
        return FilterCell(pipeline, judges, policy, frozen=Route(tuple(frozen)) if frozen else None)

    def _packed(
        self, cells: list[list[pa.RecordBatch]], newest: int, stats: dict[str, Any], watch: Stopwatch
    ) -> pa.RecordBatch:
        task = TaskContext.get()
        part = task.partitionId() if task else 0
        lines: list[tuple[Any, ...]] = []
        for key, parts in zip(cell_keys(self.shares.cells), cells, strict=True):
            content = write_ipc(pa.Table.from_batches(parts)) if parts else None
            lines.append((key, self.alias, part, sum(b.num_rows for b in parts), newest, content, None))
        watch.lap("pack")
        lines.append((0, self.alias, part, 0, newest, None, json.dumps(stats | watch.record())))
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*lines, strict=True), PACKED, strict=True)],
            schema=PACKED,
        )


def batch_number() -> int | None:
    """The micro-batch this task belongs to; None in a batch job."""
    task = TaskContext.get()
    number = task.getLocalProperty("streaming.sql.batchId") if task else None
    return int(number) if number is not None else None


def split(batch: pa.RecordBatch, placing: Placing) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a batch by cell; rows that go to several cells come several times."""
    base, kept = placing.base(batch)
    if kept is not None and not kept.all():
        rows = np.flatnonzero(kept)
        batch, base = batch.take(pa.array(rows)), base[rows]
    if not batch.num_rows:
        return
    if (base == base[0]).all():
        groups = [(int(base[0]), batch)]
    else:
        order = np.argsort(base, kind="stable")
        cuts = np.flatnonzero(np.diff(base[order])) + 1
        sorted_batch = batch.take(pa.array(order))
        starts = [0, *cuts.tolist(), batch.num_rows]
        groups = [(int(base[order[a]]), sorted_batch.slice(a, b - a)) for a, b in itertools.pairwise(starts)]
    for cell, part in groups:
        for offset in placing.offsets.tolist():
            yield cell + offset, part


def packer(task: PackTask) -> Callable[[Batches], Batches]:
    """A plain function for mapInArrow."""

    def run(batches: Batches) -> Batches:
        yield from task.run(batches)
        settle()

    return run
