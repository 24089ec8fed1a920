"""The engine of a query that is more than a join block: its blocks, and the tree above them. No Spark.

Every block has its own adaptive engine (`leaves.py`). What leaves them are results with lifetimes. Above, a tree either
compares whole histories (`results.py`) or is a relation, whose changes come once the frontier, the least watermark of all
streams, has passed them (`relations.py`). Rows leave as `answer.py` says. Invariant: how rows are batched, and what
blocks decide, changes no row; taking a snapshot changes nothing.

One class: the door of a tree, with the same methods as that of a block.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from thalweg.contract.explanation import Explanation
from thalweg.contract.scheduler import Scheduler
from thalweg.engine import schedule
from thalweg.engine.answer import Answer
from thalweg.engine.block import BlockEngine
from thalweg.engine.leaves import RECORD, Leaves, Options, under
from thalweg.engine.output import Sink
from thalweg.engine.relations import Relations
from thalweg.engine.results import Results
from thalweg.engine.sources import Watermark
from thalweg.errors import CheckpointError, ThalwegError
from thalweg.execute import meter
from thalweg.language.algebra import Bound
from thalweg.language.durations import Duration
from thalweg.language.show import show
from thalweg.plan import Reason
from thalweg.state.format import FORMAT, check_format
from thalweg.state.slice import ALWAYS, FOREVER

IDLE = Reason("a stream that may fall silent takes idle=")


class TreeEngine:
    """Runs a query's tree. `Engine` describes the parameters."""

    def __init__(
        self, query: Bound, options: Options, *, idle: Mapping[str, Duration] | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:  # fmt: skip
        self.query = query
        self.leaves = Leaves(query, options, idle)
        if scheduler is not None:
            self.leaves.scheduler = scheduler
        self.answer = Answer(query)
        self.schema = self.answer.schema
        self.results: Results | None = None
        self.relations: Relations | None = None
        if query.root.kind == "results" and not self.answer.static:
            self.results = Results(query.root.child, self.leaves)
        else:
            self.relations = Relations([query.root.child], self.leaves)
        self.begun = self.closed = False
        self.count = 0
        self.seconds_above = 0.0
        self.steering, self.clocks = self.leaves.steering, self.leaves.clocks

    # Data in

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, into: Sink | None = None) -> pa.Table:
        self._check_open()
        if self._take(source, batch) and self.results is not None:
            return self._given(into)
        return self._none()

    def _take(self, source: str, batch: pa.RecordBatch | pa.Table) -> bool:
        """Hand rows to the blocks; whether they belong to a stream."""
        stream = source in self.leaves.clocks.groups
        if stream:
            self._begin()
        elif self.begun and self.leaves.readers(source):
            raise ThalwegError(
                f"table '{source}' grew after the first row of a stream", hint="load tables before pushing to streams"
            )
        self.leaves.push(source, batch)
        return stream

    def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            self.leaves.begin()

    def take_batch(
        self, tables: Mapping[str, pa.Table], *, newest: Mapping[str, int] | None = None, into: Sink | None = None
    ) -> pa.Table:
        self._check_open()
        self._begin()
        chunks: list[pa.Table] = []
        clocks = self.leaves.clocks
        clocks.hear(newest or {})
        marks = clocks.marks() if newest is not None else {}
        spans = [block.flow.shortest for block in self.blocks if block.shape.streams]
        ordered = any(block.shape.ordered for block in self.blocks)
        length = None if ordered else min((s for s in spans if s is not None), default=None)
        times = {f.name: f.clock for f in clocks.streams if f.clock is not None}
        for turn in schedule.turns(tables, times, length, self.leaves.scheduler):
            for name, rows in turn.rows:
                self._take(name, rows)
            clocks.advance(marks if turn.until is None else {n: min(m, turn.until) for n, m in marks.items()})
            self.leaves.move_on()
            chunks.append(self._given(into))
        return pa.concat_tables([self._none(), *chunks])

    def _check_open(self) -> None:
        if self.closed:
            raise ThalwegError("the engine is closed", hint="make a new one, or restore a snapshot taken before")

    # Time

    def advance(self, watermark: Watermark = None, *, into: Sink | None = None) -> pa.Table:
        self._check_open()
        self._begin()
        self.leaves.clocks.advance(self.leaves.clocks.read_marks(watermark))
        self.leaves.move_on()
        return self._given(into)

    def close(self, *, into: Sink | None = None) -> pa.Table:
        if self.closed:
            return self._none()
        self._begin()
        self.leaves.close()
        found = self._given(into)
        self.closed = True
        return found

    def _given(self, into: Sink | None) -> pa.Table:
        """The rows that can leave by now."""
        began = meter.now()
        rows = self._made()
        self.seconds_above += meter.now() - began
        self.count += rows.num_rows
        if into is None:
            return rows
        for batch in rows.to_batches():
            into(batch)
        return self._none()

    def _made(self) -> pa.Table:
        if self.results is not None:
            return self.answer.of_results(self.results.step(self.begun).opened)
        assert self.relations is not None
        (changes,) = self.relations.advance(self.frontier)
        if self.answer.static:
            return self.answer.of_tables(changes)
        return self.answer.of_changes(changes, self.frontier)

    @property
    def frontier(self) -> int:
        """The least watermark of all streams: no row before it will come."""
        return self.leaves.clocks.least if self.begun else ALWAYS

    @property
    def passed(self) -> int:
        """Every change of the relation before this instant has left."""
        return ALWAYS if self.relations is None else self.relations.frontier

    def _none(self) -> pa.Table:
        return self.schema.empty_table()

    # What is known

    @property
    def blocks(self) -> tuple[BlockEngine, ...]:
        return self.leaves.blocks

    @property
    def left(self) -> list[str]:
        """None: what stands above a block needs all of its predicates."""
        return []

    def stats(self) -> dict[str, Any]:
        """What blocks tell, rows kept by operator, rows that wait, and what they wait for."""
        program = self.results or self.relations
        assert program is not None
        told = {"results": self.count, **self.leaves.stats(), "operators": program.sizes()}
        return told | {"waiting": program.waiting(), "frontier": self._frontier(), "held back by": self.slowest()}

    def _frontier(self) -> Any:
        if self.frontier in (ALWAYS, FOREVER):
            return None
        return self.frontier // self.answer.scale

    def slowest(self) -> list[str]:
        """The streams whose watermarks hold the frontier back."""
        streams = self.leaves.clocks.streams
        return [f.name for f in streams if f.watermark == self.frontier < FOREVER]

    def explain(self) -> dict[str, Explanation]:
        """The routes in force, by input; and by operator what waits, and for what."""
        told = self.leaves.explain()
        program = self.results or self.relations
        assert program is not None
        held = ", ".join(self.slowest()) or "no stream"
        waits = program.waits()
        for name, rows in program.waiting().items():
            why = Reason.of("{rows} rows wait for time to pass; {held} holds it back", rows=rows, held=held)
            if name in waits:
                why = why.then(waits.pop(name))
            told[name] = Explanation("frontier", why, (), (), IDLE)
        for name, wait in waits.items():
            why = Reason.of("{held} holds time back", held=held).then(wait)
            told[name] = Explanation("frontier", why, (), (), IDLE)
        return told

    # State

    def _identity(self) -> list[str]:
        """What the state depends on: the tree below the root, not its text."""
        root = self.query.root
        return [f"{root.kind} every {root.every}", *show(root.child).splitlines()]

    def snapshot(self) -> dict[str, bytes]:
        program = self.results or self.relations
        assert program is not None
        record = {"format": FORMAT, "query": self._identity(), "counts": [self.count, self.begun, self.closed]}
        parts = {RECORD: json.dumps(record).encode(), **self.leaves.snapshot()}
        parts |= {f"node/{name}": part for name, part in program.snapshot().items()}
        return parts | {f"emit/{name}": part for name, part in self.answer.snapshot().items()}

    def compared(self, content: bytes | None) -> dict[str, Any]:
        """The record of a state, if this query may take it up."""
        record: dict[str, Any] = {"query": ["a query of one block"]} if content is None else json.loads(content)
        if content is not None:
            check_format(record.get("format", 1))  # first: another format may show the same query otherwise
        own = self._identity()
        if record["query"] != own:
            lines = [line for line in difflib.ndiff(record["query"], own) if line[0] in "+-"]
            raise CheckpointError(
                "the state belongs to another query: - is what it was, + what it is", where="\n".join(lines),
                hint="start from a new checkpoint, or go back to that query",
            )  # fmt: skip
        return record

    def restore(self, parts: Mapping[str, bytes]) -> None:
        program = self.results or self.relations
        assert program is not None
        record = self.compared(parts.get(RECORD))
        self.count, self.begun, self.closed = record["counts"]
        self.leaves.restore(parts)
        program.restore(under("node/", parts))
        self.answer.restore(under("emit/", parts))
