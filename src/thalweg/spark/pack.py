"""Pack: the rows of one source, filtered, placed and put into one Arrow blob for each cell.

The shuffle and the stateful operator then handle a few blobs instead of rows. Every task sends its newest time to each
cell, even one without rows, so all cells run in every batch and agree on the watermark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from thalweg import optimize
from thalweg.contract import learned
from thalweg.contract.report import HeavyReport, InputReport, TaskReport
from thalweg.engine import machine
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
from thalweg.spark.shared import MEMBERS, Member, split
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
"""What this worker's filters knew when their last task ended; only a prior."""


@dataclass(frozen=True)
class PackTask:
    """Packs one source for all inputs that read it; the first of them names the result."""

    query: Query
    aliases: tuple[str, ...]
    tick: str
    shares: Shares
    policy: str
    seed: int
    control: str
    """The folder and name of the driver's orders."""
    key: str

    def run(self, batches: Batches) -> Batches:
        watch = Stopwatch()
        shape = Shape(self.query, prefiltered=True, leave=True)
        numbers = [shape.number[alias] for alias in self.aliases]
        spec = shape.query.inputs[numbers[0]].spec
        clock = Clock(spec, self.tick) if spec.time is not None else None
        members = [Member(a, Placing(shape, a, self.shares), self._sieve(shape, a)) for a in self.aliases]
        columns = list(dict.fromkeys(c for i in numbers for c in shape.read(i)))
        columns += [MEMBERS] if len(members) > 1 else []
        cells: list[list[pa.RecordBatch]] = [[] for _ in range(self.shares.cells)]
        newest = NOTHING
        for batch in batches:
            watch.lap("source")
            if not batch.num_rows:
                continue
            batch = batch.select(columns)
            if clock is not None:
                times, valid = clock.read(batch.column(str(spec.time)))
                known = times if valid is None else times[valid]
                newest = max(newest, int(known.max())) if len(known) else newest
            for cell, part in split(batch, members):
                cells[cell].append(part)
            watch.lap("pack")
        watch.lap("source")
        if not any(m.came for m in members):
            return
        for m in members:
            if m.sieve is not None and not m.sieve.frozen:
                _learned[self._key(m.alias)] = learned.record(m.sieve.policy)
        yield self._packed(cells, newest, _report(members, cells), watch)

    def _key(self, alias: str) -> str:
        return f"{self.query.text}-{alias}-{self.policy}"

    def _sieve(self, shape: Shape, alias: str) -> FilterCell | None:
        """An input's own predicates, if they may run before its window."""
        i = shape.number[alias]
        judges = shape.filters[i]
        if not judges or shape.query.inputs[i].window.ordered:
            return None
        pipeline = Pipeline(alias, tuple(Operator(j.name) for j in judges))
        policy = optimize.make(self.policy, pipeline, self.seed, machine.prices())
        orders, problem = Control(self.control, self.key).orders()
        frozen = None
        if orders.frozen and alias in orders.filters:
            frozen, problem = pinned(orders.filters[alias], pipeline)
        prior = _learned.get(self._key(alias))
        events = learned.take_up(policy, prior) if prior is not None else []
        events += ignored(problem, self.policy)
        return FilterCell(pipeline, judges, policy, frozen=frozen, events=events)

    def _packed(
        self, cells: list[list[pa.RecordBatch]], newest: int, report: TaskReport, watch: Stopwatch
    ) -> pa.RecordBatch:
        lines: list[tuple[Any, ...]] = []
        for key, parts in zip(cell_keys(self.shares.cells), cells, strict=True):
            content = write_ipc(pa.Table.from_batches(parts)) if parts else None
            lines.append((key, self.aliases[0], partition(), sum(b.num_rows for b in parts), newest, content, None))
        watch.lap("pack")
        told = json.dumps(replace(report, timing=watch.timing()).record())
        lines.append((0, self.aliases[0], partition(), 0, newest, None, told))
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*lines, strict=True), PACKED, strict=True)],
            schema=PACKED,
        )


def _report(members: Sequence[Member], cells: list[list[pa.RecordBatch]]) -> TaskReport:
    inputs = []
    for m in members:
        own = of_filters(m.sieve, m.alias) if m.sieve is not None else InputReport(m.alias)
        inputs.append(replace(own, rows_in=m.came, rows_out=m.sent))
    return TaskReport(
        "pack",
        batch_number(),
        partition(),
        tuple(inputs),
        events=tuple(e for m in members if m.sieve is not None for e in m.sieve.events),
        sent=tuple(sum(b.num_rows for b in c) for c in cells),
        heavy=tuple(HeavyReport.of(h) for m in members for h in m.placing.heavy()),
    )


def packer(task: PackTask) -> Callable[[Batches], Batches]:
    """A plain function for mapInArrow."""

    def run(batches: Batches) -> Batches:
        yield from task.run(batches)
        settle()

    return run
