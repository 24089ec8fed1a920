"""Pack: the rows of one input, filtered, placed and put into one Arrow blob for each cell.

So the shuffle and the stateful operator handle a few blobs instead of rows. Every task sends each cell, even one that
gets no rows, the newest time it saw, so that all cells run in every batch and agree on the watermark.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg import optimize
from thalweg.contract import learned
from thalweg.contract.report import HeavyReport, InputReport, TaskReport
from thalweg.engine.filtercell import FilterCell
from thalweg.engine.placing import Placing
from thalweg.engine.report import of_filters
from thalweg.execute.shape import Shape
from thalweg.language.query import Query
from thalweg.plan import Operator, Pipeline
from thalweg.plan.shares import Shares
from thalweg.spark.control import Control
from thalweg.spark.keys import cell_keys
from thalweg.spark.obey import ignored, pinned
from thalweg.spark.settle import settle
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number, partition
from thalweg.state.store import write_ipc
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
        if sieve is not None and not sieve.frozen:
            _learned[self._key] = learned.record(sieve.policy)
        yield self._packed(cells, newest, self._report(sieve, placing, cells, rows), watch)

    def _report(
        self, sieve: FilterCell | None, placing: Placing, cells: list[list[pa.RecordBatch]], rows: int
    ) -> TaskReport:
        sent = tuple(sum(b.num_rows for b in c) for c in cells)
        own = of_filters(sieve, self.alias) if sieve is not None else InputReport(self.alias)
        return TaskReport(
            "pack",
            batch_number(),
            partition(),
            (replace(own, rows_in=rows, rows_out=sum(sent)),),
            events=tuple(sieve.events) if sieve is not None else (),
            sent=sent,
            heavy=tuple(HeavyReport.of(h) for h in placing.heavy()),
        )

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
        orders, problem = Control(self.control, self.key).orders()
        frozen = None
        if orders.frozen and self.alias in orders.filters:
            frozen, problem = pinned(orders.filters[self.alias], pipeline)
        prior = _learned.get(self._key)
        events = learned.take_up(policy, prior) if prior is not None else []
        events += ignored(problem, self.policy)
        return FilterCell(pipeline, judges, policy, frozen=frozen, events=events)

    def _packed(
        self, cells: list[list[pa.RecordBatch]], newest: int, report: TaskReport, watch: Stopwatch
    ) -> pa.RecordBatch:
        lines: list[tuple[Any, ...]] = []
        for key, parts in zip(cell_keys(self.shares.cells), cells, strict=True):
            content = write_ipc(pa.Table.from_batches(parts)) if parts else None
            lines.append((key, self.alias, partition(), sum(b.num_rows for b in parts), newest, content, None))
        watch.lap("pack")
        told = json.dumps(replace(report, timing=watch.timing()).record())
        lines.append((0, self.alias, partition(), 0, newest, None, told))
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*lines, strict=True), PACKED, strict=True)],
            schema=PACKED,
        )


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
