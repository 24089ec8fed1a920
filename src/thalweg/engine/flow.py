"""Flow: rows of every input through the fabric, into the stems, and out of them again.

Rows of one input are joined with what is stored of the others, then stored themselves, so each combination is found
once, by its last row. Rows that travel together span no more time than a slice, unless they are few. Rows of row
windows wait until all watermarks have passed them and then enter in the order of their times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.visits import Visits
from thalweg.engine import calibrate
from thalweg.engine.dispatch import Dispatch, Sending
from thalweg.engine.output import Kind, Output
from thalweg.engine.sources import Feed, Sources
from thalweg.engine.stage import Stage, layout_of, make_order, make_stem
from thalweg.engine.tuning import Tuning
from thalweg.errors import DefinitionError
from thalweg.execute.fabric import Fabric
from thalweg.execute.meter import Meter
from thalweg.execute.operators.stem import Stems
from thalweg.execute.shape import Shape
from thalweg.plan import Event, Pipeline
from thalweg.plan.layout import Layout
from thalweg.state.slice import ALWAYS, FOREVER
from thalweg.state.times import PER_SECOND

if TYPE_CHECKING:
    from thalweg.contract.policy import Policy
    from thalweg.optimize.indexes.tuner import IndexTuner

Ints = NDArray[np.int64]
MakePolicy = Callable[[Pipeline, int], "Policy"]
Layouts = Layout | str | Mapping[str, Layout | str]
PIECE = 1 << 15
"""Most rows that travel together."""


class Flow:
    """The stages of one query and the way of a row through them."""

    def __init__(
        self, shape: Shape, sources: Sources, *, policy: str | MakePolicy, seed: int, layouts: Layouts,
        tuner: str | IndexTuner | None, output: Kind | None, slice_rows: int, buffer: int,
        meters: Mapping[str, Meter] | None = None,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.sources = sources
        self.events: list[Event] = []
        self.batches = 0
        self._slice_rows = slice_rows
        self.stages = [self._stage(i, policy, seed * 1000 + i, layouts) for i in range(len(shape.aliases))]
        stems = Stems(shape, [s.stem for s in self.stages], buffer=buffer)
        clocks = [(meters or {}).get(alias) for alias in shape.aliases]
        self.fabrics = [Fabric(shape.pipeline(i), shape.filters[i], c, stems, i) for i, c in enumerate(clocks)]
        self.output = Output(shape, sources, stems, output, buffer)
        self.sendings = [self._sending(s) for s in self.stages]
        self.tuning = self._make_tuning("chaos" if tuner is None and policy == "chaos" else tuner, seed)

    def _stage(self, i: int, policy: str | MakePolicy, seed: int, layouts: Layouts) -> Stage:
        from thalweg.optimize import make

        entry = self.shape.query.inputs[i]
        dispatch = None
        if i in self.shape.streams or (not self.shape.streams and i == 0):
            pipeline = self.shape.pipeline(i)
            chosen = make(policy, pipeline, seed) if isinstance(policy, str) else policy(pipeline, seed)
            dispatch = Dispatch(chosen, pipeline, self.events)
        span = entry.window.span * (PER_SECOND[self.sources.tick] // 10**6) if entry.window.kind == "range" else 0
        stem = make_stem(self.shape, i, span, layout_of(layouts, entry.alias), self._slice_rows)
        return Stage(i, entry, self.shape, dispatch, stem, span, make_order(self.shape, i))

    def _sending(self, stage: Stage) -> Sending | None:
        dispatch = stage.dispatch
        if dispatch is None:
            return None

        def met(visits: Visits) -> None:
            if self.tuning is not None and dispatch.frozen is None:
                self.tuning.observe(stage.number, visits)
            stage.met(visits)
            for monitor in stage.monitors:
                monitor.visited(visits)

        fabric = self.fabrics[stage.number]
        run = partial(fabric.run, emit=self.output.receive)
        return Sending(dispatch, self.shape.row_column(stage.number), run, met, fabric.in_order)

    def _make_tuning(self, tuner: str | IndexTuner | None, seed: int) -> Tuning | None:
        from thalweg.optimize.indexes.tuner import make

        if tuner is None:
            return None
        stems = {s.alias: s.stem for s in self.stages if s.stem is not None}
        chosen = make(tuner, seed, calibrate.measured) if isinstance(tuner, str) else tuner
        return Tuning(chosen, self.shape, stems, self.built, self.sources.waiting)

    # Rows in

    def load(self, feed: Feed, batch: pa.RecordBatch | pa.Table) -> None:
        """Store rows of a table."""
        if feed.clock is not None:
            raise DefinitionError(f"'{feed.name}' is a stream", hint="push its rows instead")
        data = feed.conform(batch)
        feed.rows += data.num_rows
        times, forever = np.full(data.num_rows, ALWAYS), np.full(data.num_rows, FOREVER)
        for i in feed.inputs:
            if self.stages[i].stem is None:
                feed.waiting.append((times, data))
            else:
                self._process(self.stages[i], data, times, forever, None)

    def enter(self, feed: Feed, times: Ints, data: pa.RecordBatch) -> None:
        """Take in rows of a stream, in whatever order they come."""
        if self.shape.ordered:
            feed.waiting.append((times, data))
            return
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            by_time = np.argsort(times, kind="stable")
            times, data = times[by_time], data.take(pa.array(by_time))
        for first, last in self._pieces(times):
            for i in feed.inputs:
                piece, rows = times[first:last], data.slice(first, last - first)
                self._process(self.stages[i], rows, piece, *self.stages[i].stay(piece, rows))

    def release(self, until: int) -> None:
        """Process the waiting rows with a time before `until`, in their order; the order of inputs does not matter."""
        due = [(f, ready) for f in self.sources.streams if (ready := f.release(until)) is not None]
        entering = [
            (self.stages[i], data, times, *self.stages[i].stay(times, data))
            for feed, (times, data) in due
            for i in feed.inputs
        ]
        for stage, data, times, expiries, order in entering:
            for first, last in self._pieces(times):
                span = slice(first, last)
                places = None if order is None else order[span]
                self._process(stage, data.slice(first, last - first), times[span], expiries[span], places)

    def join_tables(self) -> None:
        """The answer of a query over tables only: the first one's rows meet the others."""
        feed = self.sources.feeds[self.shape.query.inputs[0].source]
        for times, data in feed.waiting:
            for first in range(0, len(times), PIECE):
                part = times[first : first + PIECE]
                self._process(self.stages[0], data.slice(first, PIECE), part, np.full(len(part), FOREVER), None)
        feed.waiting = []

    def evict(self) -> None:
        """Drop what no row that may still come can meet."""
        for stage in self.stages:
            if stage.stem is not None and stage.input.is_stream:
                stage.counts.evicted += stage.stem.evict(self.sources.horizon(stage.number))

    def _pieces(self, times: Ints) -> Iterable[tuple[int, int]]:
        """Cut rows sorted by time into spans no longer than a slice, unless a span would have few rows."""
        length = self.shortest or FOREVER
        first, count = 0, len(times)
        while first < count:
            last = min(count, first + PIECE)
            if length < FOREVER and times[last - 1] - times[first] > length:
                cut = first + int(np.searchsorted(times[first:last], times[first] + length, side="right"))
                last = min(last, max(cut, first + self._slice_rows))
            yield first, last
            first = last

    @property
    def shortest(self) -> int | None:
        """Length of the shortest slice of any stem, in ticks."""
        return min((s.stem.length for s in self.stages if s.stem is not None and s.stem.length), default=None)

    def _process(self, stage: Stage, data: pa.RecordBatch, times: Ints, expiries: Ints, order: Ints | None) -> None:
        """Join rows of one input with what is stored, then store them."""
        arrival, rows = stage.arrive(data, times, expiries)
        if order is not None and rows is not None:
            order = order[rows]
        if not len(arrival.partial):
            return
        sending = self.sendings[stage.number]
        kept = self.fabrics[stage.number].admit(arrival) if sending is None else sending.send(arrival, self.batches)
        self.output.flush(stage.number, arrival)
        stage.build(arrival, kept, order)
        if self.tuning is not None and not self.frozen and self.tuning.news():
            self.events += self.tuning.tune()

    @property
    def frozen(self) -> bool:
        return any(s.dispatch is not None and s.dispatch.frozen is not None for s in self.stages)

    def built(self, alias: str) -> int:
        """Rows of an input ever stored."""
        return self.stages[self.shape.number[alias]].counts.built
