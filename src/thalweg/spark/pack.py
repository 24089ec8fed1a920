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
from thalweg.contract.report import HeavyReport, InputReport, TaskReport
from thalweg.engine import machine
from thalweg.engine.filtercell import FilterCell
from thalweg.engine.gate import NOTHING, Gate
from thalweg.engine.placing import Division
from thalweg.engine.report import of_filters
from thalweg.execute.faults import Faults
from thalweg.execute.shape import Shape
from thalweg.execute.sheet import PART_BYTES
from thalweg.language.query import Query
from thalweg.plan import Operator, Pipeline
from thalweg.spark.begin import begin
from thalweg.spark.control import Control
from thalweg.spark.keys import cell_keys
from thalweg.spark.obey import ignored, pinned
from thalweg.spark.packed import GONE, packed_lines
from thalweg.spark.quarantine import BAD, blob, refused
from thalweg.spark.settle import settle
from thalweg.spark.shared import MEMBERS, Member, split
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number, partition
from thalweg.state.store import write_ipc
from thalweg.state.times import Clock

NOW = "__now"
"""The column with the clock of the batch: Spark writes it down with the offsets, so a replayed batch has it again."""
PARTS = 1 << 20
"""More than there are partitions: the blobs of one task for one cell have numbers that far apart."""
Batches = Iterator[pa.RecordBatch]

remembered: dict[str, dict[str, Any]] = {}
"""What this worker's filters knew when their last task ended; only a prior."""


@dataclass(frozen=True)
class Retired:
    """Cells of an old cut, which drop their state in one batch."""

    batch: int
    keys: tuple[int, ...]


@dataclass(frozen=True)
class PackTask:
    """Packs one source for all inputs that read it; the first of them names the result."""

    query: Query
    aliases: tuple[str, ...]
    tick: str
    division: Division
    policy: str
    seed: int
    control: str
    """The folder and name of the driver's orders."""
    key: str
    ahead: int | None = None
    """Microseconds by which a time may lie after the clock of its batch, which then is the last column."""
    retired: Retired | None = None
    on_error: str = "raise"
    beats: bool = False
    """Whether cells hear of a batch even from tasks without rows: a version of their state for every batch needs that."""

    def run(self, batches: Batches) -> Batches:
        watch = Stopwatch()
        shape = Shape(self.query, prefiltered=True, leave=True)
        numbers = [shape.number[alias] for alias in self.aliases]
        spec = shape.query.inputs[numbers[0]].spec
        gate = Gate(Clock(spec, self.tick), self.ahead) if spec.time is not None else None
        members = [Member(self._name(a), self.division.placing(shape, a), self._sieve(shape, a)) for a in self.aliases]
        columns = list(dict.fromkeys(c for i in numbers for c in shape.read(i)))
        columns += [MEMBERS] if len(members) > 1 else []
        columns += [NOW] if self.ahead is not None else []
        cells: list[list[pa.RecordBatch]] = [[] for _ in range(self.division.cells)]
        came = 0
        for batch in batches:
            watch.lap("source")
            if not batch.num_rows:
                continue
            batch, now = _timed(batch.rename_columns(columns))
            came += batch.num_rows
            if gate is not None:
                batch = gate.judge(batch, now)
            for cell, part in split(batch, members):
                cells[cell].append(part)
            watch.lap("pack")
        watch.lap("source")
        moves = False
        if self.retired is not None and batch_number() == self.retired.batch:
            moves = True  # the cells that take up the moved state need to hear of the batch
            yield _farewell(self.retired.keys)
        if not came and not self.beats and not moves:
            return
        for m in members:
            if m.sieve is not None and not m.sieve.frozen:
                remembered[self._key(m.name)] = m.sieve.learned()
        newest = NOTHING if gate is None else gate.newest
        if self.on_error == "quarantine":
            bad = [f for m in members if m.sieve is not None for _, f in m.sieve.bad]
            bad += [] if gate is None else refused(gate, self.aliases[0])
            if bad:
                yield packed_lines([(0, BAD, partition(), len(bad), NOTHING, blob(bad), None)])
        yield from self._packed(cells, newest, _report(members, cells, gate), watch)

    def _name(self, alias: str) -> str:
        """Of an input in the whole query, where another block may use the same alias."""
        return self.query.input(alias).source

    def _key(self, name: str) -> str:
        return f"{self.query.text}-{name}-{self.policy}"

    def _sieve(self, shape: Shape, alias: str) -> FilterCell | None:
        """An input's own predicates, if they may run before its window."""
        i = shape.number[alias]
        judges = shape.filters[i]
        if not judges or shape.query.inputs[i].window.ordered:
            return None
        name = self._name(alias)
        pipeline = Pipeline(name, tuple(Operator(j.name) for j in judges))
        control = Control(self.control, self.key)
        orders, problem = control.orders()
        frozen = None
        if orders.frozen and name in orders.filters:
            frozen, problem = pinned(orders.filters[name], pipeline)
        begun = begin(
            lambda: optimize.make(self.policy, pipeline, self.seed, machine.prices()),
            remembered.get(self._key(name)), control.learned(name),
        )  # fmt: skip
        events = [*begun.events, *ignored(problem, self.policy)]
        faults = Faults.of(self.on_error)
        return FilterCell(pipeline, judges, begun.policy, frozen=frozen, events=events, faults=faults, seen=begun.seen)

    def _packed(self, cells: list[list[pa.RecordBatch]], newest: int, report: TaskReport, watch: Stopwatch) -> Batches:
        lines: list[tuple[Any, ...]] = []
        name, size = self._name(self.aliases[0]), 0
        for key, parts in zip(cell_keys(self.division.cells), cells, strict=True):
            for number, some in enumerate(by_bytes(parts)):
                content = write_ipc(pa.Table.from_batches(some)) if some else None
                lines.append(
                    (key, name, partition() + number * PARTS, sum(b.num_rows for b in some), newest, content, None)
                )
                size += len(content or b"")
                if size >= PART_BYTES:
                    yield packed_lines(lines)
                    lines, size = [], 0
        watch.lap("pack")
        told = json.dumps(replace(report, timing=watch.timing()).record())
        lines.append((0, name, partition(), 0, newest, None, told))
        yield packed_lines(lines)


def by_bytes(parts: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Rows for one blob each: one, unless there are too many bytes."""
    held: list[pa.RecordBatch] = []
    for part in parts:
        if held and sum(b.nbytes for b in held) + part.nbytes > PART_BYTES:
            yield held
            held = []
        held.append(part)
    yield held


def _farewell(keys: Sequence[int]) -> pa.RecordBatch:
    return packed_lines([(key, GONE, partition(), 0, NOTHING, None, None) for key in keys])


def _timed(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int | None]:
    """A batch without its clock, and the clock in microseconds."""
    if NOW not in batch.schema.names:
        return batch, None
    return batch.drop_columns([NOW]), int(batch.column(NOW).cast(pa.int64())[0].as_py())


def _report(members: Sequence[Member], cells: list[list[pa.RecordBatch]], gate: Gate | None) -> TaskReport:
    inputs = []
    for m in members:
        own = of_filters(m.sieve, m.name) if m.sieve is not None else InputReport(m.name)
        timeless, ahead = (0, 0) if gate is None else (gate.timeless, gate.ahead_rows)
        inputs.append(replace(own, rows_in=m.came + timeless + ahead, rows_out=m.sent, timeless=timeless, ahead=ahead))
    return TaskReport(
        "pack",
        batch_number(),
        partition(),
        tuple(inputs),
        events=tuple(e for m in members if m.sieve is not None for e in m.sieve.events),
        sent=tuple(sum(b.num_rows for b in c) for c in cells),
        heavy=tuple(HeavyReport.of(h) for m in members for h in m.placing.heavy()),
        learned={m.name: m.sieve.learned(light=True) for m in members if m.sieve is not None and not m.sieve.frozen},
    )


def packer(task: PackTask) -> Callable[[Batches], Batches]:
    """A plain function for mapInArrow."""

    def run(batches: Batches) -> Batches:
        yield from task.run(batches)
        settle()

    return run
