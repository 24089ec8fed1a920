"""The engine of one join block: its stems, routes and policies; batches in, results out. No Spark.

What it computes. A result is one row of every input such that all predicates hold; τ is the newest time among its
stream rows, and each stream row must be in its input's window at τ:
    RANGE ω        its time is in [τ - ω, τ]
    NOW            its time is τ
    UNBOUNDED      always
    ROWS n         it is among the last n rows of its input with time <= τ
    PARTITION BY   the same among the rows that agree with it on the partition columns (NULLs agree)
"Last" is by (time, order of arrival). Row windows count all rows of the stream, also those that WHERE drops. Tables
are always in view. Each result appears once. Late rows are counted, never joined (`sources.py`).

Without row windows a result comes out of the `push` that brings its last row, in whatever order rows come. With them,
rows wait until the watermarks of all streams have passed their time and come out of `advance` or `close`. A row is
dropped once no row that may still come can share its window: its last moment is before the least watermark of the other
streams (thesis 5.1).

One class: the door of a block, whose methods pass on to sources, flow, steering and snapshot. Its options are those
of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thalweg.contract.monitor import MakeMonitor
from thalweg.contract.relation import DeltaSink
from thalweg.contract.scheduler import Scheduler
from thalweg.engine import schedule, snapshot
from thalweg.engine.flow import Flow, MakePolicy
from thalweg.engine.output import Kind, Sink
from thalweg.engine.sources import Sources, Watermark
from thalweg.engine.steering import Steering
from thalweg.errors import ThalwegError
from thalweg.execute.faults import Faults
from thalweg.execute.meter import Meter
from thalweg.execute.operators.stem import BUFFER
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.durations import Duration
from thalweg.language.query import Query
from thalweg.optimize import schedules
from thalweg.plan import Event, Plan, Route
from thalweg.plan.layout import Layout
from thalweg.plan.reason import Fact
from thalweg.profile.prices import Prices
from thalweg.state.slice import ALWAYS
from thalweg.state.stem import SLICE_ROWS

if TYPE_CHECKING:
    from thalweg.contract.explanation import Explanation
    from thalweg.engine.counts import ByClass
    from thalweg.optimize.caches.tuner import CacheTuner
    from thalweg.optimize.indexes.tuner import IndexTuner, IndexView


class BlockEngine:
    """Runs one block. `Engine` describes the parameters; `deltas` takes every result with its lifetime
    (`contract/relation.py`), beside the plain results; `tick` is the unit of time where the streams do not decide."""

    def __init__(
        self, query: Query | Bound, *, policy: str | MakePolicy = "auto", seed: int = 0,
        index: str | Layout | Mapping[str, Layout | str] | IndexTuner = "hash",
        tables: Mapping[str, pa.Table] | None = None, idle: Mapping[str, Duration] | None = None, output: Kind | None = None,
        prefiltered: bool = False, leave: bool = False, slice_rows: int = SLICE_ROWS, buffer: int = BUFFER,
        meters: Mapping[str, Meter] | None = None, prices: Prices | None = None,
        monitors: Sequence[MakeMonitor] = (), scheduler: Scheduler | None = None,
        deltas: DeltaSink | None = None, caches: str | CacheTuner = "off", cache_bytes: int | None = None,
        tick: str | None = None,
    ) -> None:  # fmt: skip
        self.query = query.query if isinstance(query, Bound) else query
        self.seed = seed
        self.shape = Shape(self.query, prefiltered=prefiltered, leave=leave)
        self.sources = self.clocks = Sources(self.shape, idle, tick)
        layouts, tuner = _layouts_and_tuner(index)
        self.flow = Flow(
            self.shape, self.sources, policy=policy, seed=seed, layouts=layouts, tuner=tuner, output=output,
            slice_rows=slice_rows, buffer=buffer, meters=meters, prices=prices, caches=caches, cache_bytes=cache_bytes,
        )  # fmt: skip
        self.stages = self.flow.stages
        if deltas is not None:
            self.flow.tell_lifetimes(deltas)
        self.feeds = self.sources.feeds
        self.schema = self.flow.output.schema
        self.steering = Steering({s.alias: s.dispatch for s in self.stages if s.dispatch is not None})
        self.scheduler = scheduler or schedules.of(policy if isinstance(policy, str) else "", seed)
        for stage in self.stages:
            stage.monitors = [make(stage.alias) for make in monitors] if stage.input.is_stream else []
        self.begun = self.closed = False
        self.faults: Faults | None = None
        self.aliases_before: dict[str, str] = {}
        """Aliases that inputs had in the query that wrote the state, where it was a similar one."""
        self.given: set[str] = set()
        """Tables that came with the engine and are no part of its state."""
        for name, table in (tables or {}).items():
            self.flow.load(self.sources.feed(name), table)
            self.given.add(name)

    # Data in

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, into: Sink | None = None) -> pa.Table:
        """Take in rows of a source and return the results they complete.

        With `into`, results go there chunk by chunk instead, so that a flood of them never has to be in memory at once.
        """
        self._check_open()
        feed, output = self.sources.feed(source), self.flow.output
        if feed.clock is None:
            if self.begun:
                raise ThalwegError(
                    f"table '{source}' grew after the first row of a stream",
                    hint="load tables before pushing to streams",
                )
            self.flow.load(feed, batch)
            return output.nothing
        self.begun = True
        times, data = feed.take(batch)
        self.flow.batches += 1
        for i in feed.inputs:
            for monitor in self.stages[i].monitors:
                monitor.arrived(times, data)
        if not len(times):
            return output.nothing
        output.into(into)
        self.flow.enter(feed, times, data)
        return output.collect()

    def take_batch(
        self, tables: Mapping[str, pa.Table], *, newest: Mapping[str, int] | None = None, into: Sink | None = None
    ) -> pa.Table:
        """Take in rows of several streams at once, in spans of time (`schedule.py`), and advance the watermarks.

        `newest` is the newest time of each stream as known elsewhere, in ticks. Without it the input is finite: nothing
        is late, and watermarks stay where they are until `close`.
        """
        self._check_open()
        chunks: list[pa.RecordBatch] = []
        sink = chunks.append if into is None else into
        self.sources.hear(newest or {})
        marks = self.sources.marks() if newest is not None else {}
        clocks = {f.name: f.clock for f in self.sources.streams if f.clock is not None}
        length = None if self.shape.ordered else self.flow.shortest
        for turn in schedule.turns(tables, clocks, length, self.scheduler):
            for name, rows in turn.rows:
                self.push(name, rows, into=sink)
            self.sources.advance(marks if turn.until is None else {n: min(m, turn.until) for n, m in marks.items()})
            self.move_on(sink)
        return pa.Table.from_batches(chunks, self.schema)

    def _check_open(self) -> None:
        if self.closed:
            raise ThalwegError("the engine is closed", hint="make a new one, or restore a snapshot taken before")

    # Time

    def advance(self, watermark: Watermark = None, *, into: Sink | None = None) -> pa.Table:
        """Promise that no row with a time before the watermark will come; drop what can't be needed any more.

        One watermark for all streams, or one by source, in what the source's time column counts, or a datetime. None
        stands for the watermarks that the newest times seen allow. Returns the results that row windows held back.
        """
        self._check_open()
        self.sources.advance(self.sources.read_marks(watermark))
        return self.move_on(into)

    def move_on(self, into: Sink | None) -> pa.Table:
        """Do what the watermarks allow by now."""
        self.flow.output.into(into)
        if self.shape.ordered:
            self.flow.release(self.sources.least)
        self.flow.evict()
        return self.flow.output.collect()

    def close(self, *, into: Sink | None = None) -> pa.Table:
        """End of input: everything that waits comes out, and a query over tables only gives its answer."""
        if self.closed:
            return self.flow.output.nothing
        if self.shape.streams:
            self.sources.end()
            found = self.move_on(into)
        else:
            self.flow.output.into(into)
            self.flow.join_tables()
            found = self.flow.output.collect()
        self.closed = True
        return found

    def set_aside(self, faults: Faults) -> None:
        """Give rows and combinations on which a predicate raises to a collector, instead of raising."""
        self.faults = faults
        for fabric in self.flow.fabrics:
            fabric.filters.faults = faults
            if fabric.stems is not None:
                fabric.stems.residuals.faults = faults

    # What is known and decided

    @property
    def blocks(self) -> tuple[BlockEngine, ...]:
        """The engines of all blocks: this one."""
        return (self,)

    @property
    def names(self) -> list[dict[str, str]]:
        """Inputs are called by their aliases."""
        return [{s.alias: s.alias for s in self.stages}]

    @property
    def count(self) -> int:
        """Results so far."""
        return self.flow.output.count

    @property
    def left(self) -> list[str]:
        """Predicates left to the caller."""
        return self.shape.left

    def stats(self) -> dict[str, Any]:
        """Counts so far: by source what came, by input what is stored and what probing took."""
        return {
            "results": self.flow.output.count,
            "batches": self.flow.batches,
            "sources": {
                f.name: {
                    "rows": f.rows,
                    "late": f.late,
                    "without time": f.timeless,
                    "waiting": sum(len(t) for t, _ in f.waiting),
                    "watermark": None if f.clock is None or f.watermark == ALWAYS else f.clock.unmark(f.watermark),
                }
                for f in self.feeds.values()
            },
            "inputs": {s.alias: s.stats() for s in self.stages},
        }

    def needed(self) -> dict[str, int]:
        """Rows of each stream that a row may still meet: what any way to run the query has to hold."""
        streams = [s for s in self.stages if s.input.is_stream]
        return {s.alias: s.owned.living(self.sources.horizon(s.number)) for s in streams if s.owned is not None}

    def plan(self) -> Plan:
        """Every decision in force. Its version counts the changes of all parts."""
        flow, routes = self.flow, {}
        for stage in self.stages:
            if stage.dispatch is not None:
                routes[stage.alias] = stage.dispatch.routes.names(stage.pipeline.names)
        versions = [s.policy.plan.version for s in self.stages if s.policy is not None]
        tunings = 0 if flow.tuning is None else flow.tuning.tuner.tunings
        layouts = {name: stem.layout for name, stem in flow.stems.items()}
        turn = {"inputs": self.scheduler.name}
        caches = {} if flow.caching is None else flow.caching.placed
        placings = 0 if flow.caching is None else flow.caching.changes
        version = sum(versions) + tunings + placings
        return Plan(version, routes, layouts, caches, schedule=turn, pinned=frozenset(self.frozen))

    def explain(self) -> dict[str, Explanation]:
        """The routes in force, by input, and why."""
        return {s.alias: s.policy.explain() for s in self.stages if s.policy is not None}

    def findings(self) -> dict[str, dict[str, Mapping[str, Fact]]]:
        """What the monitors found, by input and monitor."""
        return {s.alias: {m.name: m.found() for m in s.monitors} for s in self.stages if s.monitors}

    def events(self) -> list[Event]:
        """Decisions since the last call."""
        events = list(self.flow.events)
        self.flow.events.clear()
        return events

    def classes(self) -> dict[str, ByClass]:
        """What the rows of each class met since the last call, by input."""
        return {s.alias: s.classes.drain() for s in self.stages}

    def indexes(self) -> dict[str, IndexView]:
        """The layout in force of each stem; with a tuner, its access patterns and what other layouts would cost."""
        from thalweg.optimize.indexes.tuner import IndexView

        views = {} if self.flow.tuning is None else self.flow.tuning.explain()
        for store in self.shape.stores:
            if store.name not in views:
                names = [column for column, _ in store.attributes]
                views[store.name] = IndexView(self.flow.stems[store.name].layout.named(names))
        return views

    def freeze(self, orders: Mapping[str, Sequence[str]] | None = None) -> None:
        """Pin the routes in force, of every class where there are some, or the given orders of operators by input;
        policies neither decide nor learn until `thaw`."""
        self.steering.freeze(orders)

    def thaw(self) -> None:
        self.steering.thaw()

    @property
    def frozen(self) -> dict[str, Route]:
        """Pinned routes by input."""
        return self.steering.frozen

    # State

    def snapshot(self) -> dict[str, bytes]:
        """Everything needed to go on elsewhere. Taking it changes nothing."""
        return snapshot.write(self)

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Take up the state of an equal query. The engine must be fresh, with the same tables."""
        snapshot.read(self, parts)


def _layouts_and_tuner(
    index: str | Layout | Mapping[str, Layout | str] | IndexTuner,
) -> tuple[Layout | str | Mapping[str, Layout | str], str | IndexTuner | None]:
    """What `index` means: layouts that stay, or a tuner."""
    from thalweg.optimize.indexes.tuner import layout_and_tuner

    if isinstance(index, str):
        return layout_and_tuner(index)
    return (index, None) if isinstance(index, Layout | Mapping) else ("hash", index)
