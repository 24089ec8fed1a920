"""Flow: rows of every input through the fabric, into the stems, and out of them again.

Rows of one input are joined with what is stored of the others, then stored themselves, so each combination is found
once, by its last row. Rows that travel together span no more time than a slice, unless they are few. Rows of row
windows wait until all watermarks have passed them and then enter in the order of their times.

Many parameters: the parts that a block is made of, each made elsewhere and given once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import DeltaSink
from thalweg.contract.visits import Visits
from thalweg.engine import machine
from thalweg.engine.caching import Caching
from thalweg.engine.dispatch import Dispatch, Sending
from thalweg.engine.lifetimes import Lifetimes
from thalweg.engine.output import Kind, Output
from thalweg.engine.piece import Piece
from thalweg.engine.sources import Feed, Sources
from thalweg.engine.stage import Layouts, Stage, make_order, make_stem, span_of
from thalweg.engine.tuning import Tuning
from thalweg.errors import DefinitionError
from thalweg.execute.fabric import Fabric
from thalweg.execute.meter import Meter
from thalweg.execute.operators.cache import Caches
from thalweg.execute.operators.stem import Stems
from thalweg.execute.shape import Shape
from thalweg.plan import Event, Pipeline
from thalweg.profile.prices import Prices
from thalweg.state.cache import Pages
from thalweg.state.slice import ALWAYS, FOREVER
from thalweg.state.stem import SLICES

if TYPE_CHECKING:
    from thalweg.contract.policy import Policy
    from thalweg.optimize.caches.tuner import CacheTuner
    from thalweg.optimize.indexes.tuner import IndexTuner

Ints = NDArray[np.int64]
MakePolicy = Callable[[Pipeline, int], "Policy"]
PIECE = 1 << 15
"""Size: most rows that travel together."""


class Flow:
    """The stages of one query and the way of a row through them."""

    def __init__(
        self, shape: Shape, sources: Sources, *, policy: str | MakePolicy, seed: int, layouts: Layouts,
        tuner: str | IndexTuner | None, output: Kind | None, slice_rows: int, buffer: int,
        meters: Mapping[str, Meter] | None = None, prices: Prices | None = None,
        caches: str | CacheTuner = "off", cache_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.prices = prices or machine.prices()
        self.sources = sources
        self.events: list[Event] = []
        self.batches = 0
        self._slice_rows = slice_rows
        self.stems = {s.name: make_stem(shape, s, sources.tick, layouts, slice_rows) for s in shape.stores}
        self.stages = [self._stage(i, policy, seed * 1000 + i) for i in range(len(shape.aliases))]
        stems = Stems(shape, [s.stem for s in self.stages], buffer=buffer)
        clocks = [(meters or {}).get(alias) for alias in shape.aliases]
        self.caching = self._make_caching(
            "chaos" if caches == "auto" and policy == "chaos" else caches, stems, cache_bytes, seed
        )
        kept = None if self.caching is None else self.caching.caches
        self.fabrics = [Fabric(shape.pipeline(i), shape.filters[i], c, stems, i, kept) for i, c in enumerate(clocks)]
        self.output = Output(shape, sources, stems, output, buffer)
        self.sendings = [self._sending(s) for s in self.stages]
        self.tuning = self._make_tuning("chaos" if tuner is None and policy == "chaos" else tuner, seed)

    def _stage(self, i: int, policy: str | MakePolicy, seed: int) -> Stage:
        from thalweg.optimize import make

        entry = self.shape.query.inputs[i]
        dispatch = None
        if i in self.shape.streams or (not self.shape.streams and i == 0):
            pipeline = self.shape.pipeline(i)
            chosen = make(policy, pipeline, seed, self.prices) if isinstance(policy, str) else policy(pipeline, seed)
            dispatch = Dispatch(chosen, pipeline, self.events)
        stem, member = None, 0
        if self.shape.stored(i):
            store = self.shape.store(i)
            stem, member = self.stems[store.name], store.inputs.index(i)
        span = span_of(entry, self.sources.tick)
        clock = self.sources.feeds[entry.source].clock
        return Stage(i, entry, self.shape, dispatch, stem, member, span, make_order(self.shape, i), clock)

    def _sending(self, stage: Stage) -> Sending | None:
        dispatch = stage.dispatch
        if dispatch is None:
            return None

        def met(visits: Visits) -> None:
            if self.tuning is not None and dispatch.frozen is None:
                self.tuning.observe(stage.number, visits)
            if self.caching is not None and dispatch.frozen is None:
                self.caching.observe(stage.number, visits)
            stage.met(visits)
            for monitor in stage.monitors:
                monitor.visited(visits)

        fabric = self.fabrics[stage.number]
        run = partial(fabric.run, outlet=self.output)
        return Sending(dispatch, self.shape.row_column(stage.number), run, met, fabric.in_order)

    def _make_tuning(self, tuner: str | IndexTuner | None, seed: int) -> Tuning | None:
        from thalweg.optimize.indexes.tuner import make

        if tuner is None:
            return None
        chosen = make(tuner, seed, self.prices) if isinstance(tuner, str) else tuner
        return Tuning(chosen, self.shape, self.stems, self.sources.waiting)

    def _make_caching(self, caches: str | CacheTuner, stems: Stems, limit: int | None, seed: int) -> Caching | None:
        from thalweg.optimize.caches.tuner import make

        tuner = make(caches, seed, self.prices) if isinstance(caches, str) else caches
        if tuner is None or len(self.shape.aliases) < 2:
            return None
        dispatches = {s.number: s.dispatch for s in self.stages if s.dispatch is not None}
        return Caching(tuner, self.shape, Caches(self.shape, stems, Pages(limit)), dispatches)

    def tell_lifetimes(self, sink: DeltaSink) -> None:
        """Give results with their lifetimes to a sink, too."""
        self.output.lifetimes = Lifetimes(sink, self.shape, self.stages)
        for stage in self.stages:
            stage.told = self.output.lifetimes.told

    # Rows in

    def load(self, feed: Feed, batch: pa.RecordBatch | pa.Table) -> None:
        """Store rows of a table."""
        if feed.clock is not None:
            raise DefinitionError(f"'{feed.name}' is a stream", hint="push its rows instead")
        data = feed.conform(batch)
        if not data.num_rows:
            return
        feed.rows += data.num_rows
        times, forever = np.full(data.num_rows, ALWAYS), np.full(data.num_rows, FOREVER)
        piece = Piece(data, times, dict.fromkeys(feed.inputs, forever))
        for i in feed.inputs:
            if self.stages[i].stem is None:
                feed.waiting.append((times, data))
            else:
                self._process(self.stages[i], piece)

    def enter(self, feed: Feed, times: Ints, data: pa.RecordBatch) -> None:
        """Take in rows of a stream, in whatever order they come."""
        if self.shape.ordered:
            feed.waiting.append((times, data))
            return
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            by_time = np.argsort(times, kind="stable")
            times, data = times[by_time], data.take(pa.array(by_time))
        whole = Piece(data, times, {i: self.stages[i].stay(times, data) for i in feed.inputs})
        for piece in self._cut(whole):
            for i in feed.inputs:
                self._process(self.stages[i], piece)

    def release(self, until: int) -> None:
        """Process the waiting rows with a time before `until`, in their order; the order of inputs does not matter."""
        due = [(f, ready) for f in self.sources.streams if (ready := f.release(until)) is not None]
        entering = []
        for feed, (times, data) in due:
            order = np.arange(feed.released, feed.released + len(times))
            feed.released += len(times)
            stays = {i: self.stages[i].stay(times, data) for i in feed.inputs}
            entering.append((feed, list(self._cut(Piece(data, times, stays, order)))))
        if self.output.lifetimes is not None:
            self.output.lifetimes.passed(until)
        for feed, pieces in entering:
            for i in feed.inputs:
                for piece in pieces:
                    self._process(self.stages[i], piece)
        if self.output.lifetimes is not None:
            self.output.lifetimes.close()

    def join_tables(self) -> None:
        """The answer of a query over tables only: the first one's rows meet the others."""
        feed = self.sources.feeds[self.shape.query.inputs[0].source]
        for times, data in feed.waiting:
            for first in range(0, len(times), PIECE):
                part = times[first : first + PIECE]
                self._process(self.stages[0], Piece(data.slice(first, PIECE), part, {0: np.full(len(part), FOREVER)}))
        feed.waiting = []

    def evict(self) -> None:
        """Drop what no row that may still come can meet."""
        for stage in self.stages:
            if stage.owned is not None and stage.input.is_stream:
                stage.counts.evicted += stage.owned.evict(self.sources.horizon(stage.number))
        if self.caching is not None and self.shape.streams:
            self.caching.caches.floor = self.sources.least

    def _cut(self, whole: Piece) -> Iterable[Piece]:
        """Cut rows sorted by time into pieces no longer than a slice, unless a piece would have fewer rows than the least window
        that is worth indexing: each piece has a cost of its own."""
        times, length = whole.times, self.shortest or FOREVER
        first, count = 0, len(times)
        while first < count:
            last = min(count, first + PIECE)
            if length < FOREVER and times[last - 1] - times[first] > length:
                cut = first + int(np.searchsorted(times[first:last], times[first] + length, side="right"))
                last = min(last, max(cut, first + SLICES * self._slice_rows))
            yield whole if last - first == count else whole.cut(first, last)
            first = last

    @property
    def shortest(self) -> int | None:
        """Length of the shortest slice of any stem, in ticks."""
        return min((s.length for s in self.stems.values() if s.length), default=None)

    def _process(self, stage: Stage, piece: Piece) -> None:
        """Join rows of one input with what is stored, then store them."""
        arrival, rows = stage.arrive(piece)
        if not len(arrival.partial):
            return
        if self.output.lifetimes is not None:
            self.output.lifetimes.arriving(stage.number, piece, rows)
        sending = self.sendings[stage.number]
        if self.caching is not None:
            self.caching.begin(stage.number, followed=sending is not None)
        kept = self.fabrics[stage.number].admit(arrival) if sending is None else sending.send(arrival, self.batches)
        self.output.settle(stage.number, arrival)
        built = stage.build(piece, arrival, kept, rows)
        if self.caching is not None:
            if built is not None:
                own, placed, which = built
                self.caching.stored(stage.number, own, placed, arrival.data.num_rows, which)
            if not self.frozen:
                self.events += self.caching.tune()
        if self.tuning is not None and not self.frozen and self.tuning.news():
            self.events += self.tuning.tune()

    @property
    def frozen(self) -> bool:
        return any(s.dispatch is not None and s.dispatch.frozen is not None for s in self.stages)
