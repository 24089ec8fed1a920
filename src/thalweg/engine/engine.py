"""The engine: a query's stems, routes and policies; batches in, results out. No Spark.

What it computes. A result is one tuple of every input such that all predicates hold; τ is the newest time among its
stream tuples, and each stream tuple must be in its input's window at τ:
    RANGE ω        its time is in [τ - ω, τ]
    NOW            its time is τ
    UNBOUNDED      always
    ROWS n         it is among the last n tuples of its input with time <= τ
    PARTITION BY   the same among the tuples that agree with it on the partition columns (NULLs agree)
"Last" is by (time, order of arrival). Row windows count all tuples of the stream, also those that WHERE drops. Tables
are in view always. Each result appears once. A tuple whose time is before its source's watermark when it arrives is
late: counted, never joined.

Without row windows a result comes out of the `push` that brings its last tuple, in whatever order tuples come. With
them, tuples wait until the watermarks of all streams have passed their time and come out of `advance` or `close`. A
tuple is dropped once no tuple that may still come can share its window: its last moment is before the least watermark
of the other streams (thesis 5.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.visits import Visits
from thalweg.engine import calibrate
from thalweg.engine.counts import ByClass, count_classes
from thalweg.engine.tuning import Tuning
from thalweg.errors import CheckpointError, DefinitionError, ThalwegError, did_you_mean
from thalweg.execute.joinfabric import BUFFER, Arrival, JoinFabric
from thalweg.execute.meter import Meter
from thalweg.execute.shape import Shape
from thalweg.language.query import Column, Input, Query
from thalweg.plan import Event, Pipeline, Route, Ruster
from thalweg.plan.layout import Layout
from thalweg.state import kernels
from thalweg.state.columns import read, to_arrow
from thalweg.state.kernels import KEYS, NEWEST
from thalweg.state.keys import plain, plain_type
from thalweg.state.roworder import RowOrder
from thalweg.state.slice import ALWAYS, FOREVER
from thalweg.state.stem import SLICE_ROWS, Stem, read_ipc, write_ipc
from thalweg.state.times import PER_SECOND, Clock, tick_of

if TYPE_CHECKING:
    from thalweg.contract.explanation import Explanation
    from thalweg.contract.policy import Policy
    from thalweg.optimize.indexes.tuner import IndexTuner, IndexView

Ints = NDArray[np.int64]
RESULT_TIME = "result_time"
NOTHING = np.empty(0, np.int64)
PIECE = 1 << 15
"""Most tuples that travel together."""
FORMAT = 1
"""Version of what `snapshot` writes."""


@dataclass
class Stage:
    """One input inside the engine."""

    number: int
    input: Input
    pipeline: Pipeline
    policy: Policy | None
    stem: Stem | None
    order: RowOrder | None = None
    rows_in: int = 0
    keyless: int = 0
    """Tuples with a NULL among their join keys: they match nothing."""
    rows_built: int = 0
    rows_evicted: int = 0
    work: float = 0.0
    extra_work: float = 0.0
    buckets: int = 0
    """Looked up by its tuples; the rest of the work are candidates."""
    hashes: int = 0
    """Attributes of its tuples hashed for that."""
    probes: int = 0
    visits: dict[str, list[float]] = field(default_factory=dict)
    """Per operator: rows in, rows out, seconds, work, buckets looked up of that."""
    classes: ByClass = field(default_factory=dict)
    """What the tuples of each class met, since that was last asked for."""
    rest: int = 0
    """Batches for which the policy need not be asked: they travel as the last one did."""
    rusters: Sequence[Ruster] = ()
    """How that was."""
    untold: list[Visits] = field(default_factory=list)
    """What the policy has not been told yet."""


@dataclass
class Feed:
    """One source inside the engine: streams have a clock and a watermark."""

    name: str
    inputs: list[int]
    columns: list[str]
    schema: pa.Schema
    clock: Clock | None
    types: list[pa.DataType] = field(default_factory=list)
    """Of the columns, without dictionaries."""
    watermark: int = ALWAYS
    newest: int = ALWAYS
    rows: int = 0
    late: int = 0
    timeless: int = 0
    """Tuples whose time is NULL."""
    waiting: list[tuple[Ints, pa.RecordBatch]] = field(default_factory=list)


class Engine:
    """Runs one query.

    `policy` is a policy's name, or makes a policy for a pipeline and a seed. `layout` is "hash", "bits" or a `Layout`,
    for all inputs or by alias. `tuner` lets layouts follow the probes: an index tuner or its name, such as "amri"; the
    policy "chaos" brings its own. `output` is "select" (the query's own columns, if all are plain), "columns" (every
    column that the output or a predicate left to the caller needs, as `alias.column`, and the result's time), or None:
    the former where it is possible.
    `prefiltered` says that predicates on one input without functions were applied before `push`. `leave` accepts
    predicates that only Spark can evaluate: `left` lists them, and the caller applies them to the results. `meters`
    gives inputs a meter other than the real clock, by alias: decisions on recorded costs are reproducible.
    """

    def __init__(
        self, query: Query, *, policy: str | Callable[[Pipeline, int], Policy] = "auto", seed: int = 0,
        layout: Layout | str | Mapping[str, Layout | str] = "hash", tables: Mapping[str, pa.Table] | None = None,
        output: Literal["select", "columns"] | None = None, prefiltered: bool = False, leave: bool = False,
        slice_rows: int = SLICE_ROWS, buffer: int = BUFFER, tuner: str | IndexTuner | None = None,
        meters: Mapping[str, Meter] | None = None,
    ) -> None:  # fmt: skip
        self.query = query
        self.seed = seed
        self.shape = Shape(query, prefiltered=prefiltered, leave=leave)
        streams = [query.inputs[i].spec for i in self.shape.streams]
        self.tick = tick_of(streams)
        self._slice_rows = slice_rows
        self.stages = [self._stage(i, policy, layout) for i in range(len(query.inputs))]
        self.feeds = self._make_feeds()
        self.fabric = JoinFabric(self.shape, [s.stem for s in self.stages], buffer=buffer, meters=meters)
        self._output = self._choose_output(output)
        self.schema = pa.schema([(name, dtype) for name, _, dtype in self._output])
        self._nothing = self.schema.empty_table()
        self._batches = 0
        self._results = 0
        self._events: list[Event] = []
        self._frozen: dict[int, Route] = {}
        self._by_class: set[int] = set()
        """Inputs whose classes keep their routes while frozen."""
        self._closed = False
        self._begun = False
        self._given: set[str] = set()
        self._sink: Callable[[pa.RecordBatch], None] | None = None
        self._chunks: list[pa.RecordBatch] = []
        self._held: list[Ints] = []
        self._enough = buffer
        self._tuning = self._make_tuning("chaos" if tuner is None and policy == "chaos" else tuner)
        for name, table in (tables or {}).items():
            self._load_table(name, table)
            self._given.add(name)

    # Construction

    def _stage(
        self, i: int, policy: str | Callable[[Pipeline, int], Policy], layout: Layout | str | Mapping[str, Layout | str]
    ) -> Stage:
        from thalweg.optimize import make

        entry = self.query.inputs[i]
        pipeline = self.shape.pipeline(i)
        drives = i in self.shape.streams or (not self.shape.streams and i == 0)
        chooser = None
        if drives:
            seed = self.seed * 1000 + i
            chooser = make(policy, pipeline, seed) if isinstance(policy, str) else policy(pipeline, seed)
        wish = layout.get(entry.alias, "hash") if isinstance(layout, Mapping) else layout
        window, order = entry.window, None
        if entry.is_stream and window.ordered:
            order = RowOrder(window.rows, tuple(self._type(Column(entry.alias, name)) for name in window.by))
        stem = None
        if self.shape.stored(i):
            timed = entry.is_stream and window.kind in ("range", "now")
            most = None
            if not entry.is_stream:
                most = FOREVER
            elif window.kind == "rows":
                most = max(self._slice_rows, window.rows // 4)
            elif window.kind == "partition":
                most = self._slice_rows
            stem = Stem(
                entry.alias, len(self.shape.classes[i]), self.shape.carried(i),
                length=max(self._span(i) // 4, 1) if timed else None, most=most, slice_rows=self._slice_rows,
                layout=Layout.parse(wish), ordered=order is not None, scattered=window.kind == "partition",
                widest=max(map(len, self.shape.classes)),
            )  # fmt: skip
        return Stage(i, entry, pipeline, chooser, stem, order)

    def _make_tuning(self, tuner: str | IndexTuner | None) -> Tuning | None:
        from thalweg.optimize.indexes.tuner import make

        if tuner is None:
            return None
        stems = {s.input.alias: s.stem for s in self.stages if s.stem is not None}
        chosen = make(tuner, self.seed, calibrate.measured) if isinstance(tuner, str) else tuner
        return Tuning(chosen, self.shape, stems, self._built, self._waiting)

    def _span(self, i: int) -> int:
        """Length of a time window in ticks."""
        window = self.query.inputs[i].window
        return window.span * (PER_SECOND[self.tick] // 10**6) if window.kind == "range" else 0

    def _make_feeds(self) -> dict[str, Feed]:
        feeds: dict[str, Feed] = {}
        for i, entry in enumerate(self.query.inputs):
            feed = feeds.get(entry.source)
            if feed is None:
                clock = Clock(entry.spec, self.tick) if entry.is_stream else None
                feed = feeds[entry.source] = Feed(entry.source, [], [], entry.spec.schema, clock)
            feed.inputs.append(i)
            feed.columns = list(dict.fromkeys([*feed.columns, *self.shape.read(i)]))
        for feed in feeds.values():
            feed.types = [plain_type(feed.schema.field(name).type) for name in feed.columns]
        return feeds

    def _choose_output(
        self, output: Literal["select", "columns"] | None
    ) -> list[tuple[str, Column | None, pa.DataType]]:
        """Name, column and type of each output column; the result's time has no column."""
        plain_output = all(o.column is not None for o in self.query.output) and not self.shape.left
        if output == "select" and not plain_output:
            texts = [o.text for o in self.query.output if o.column is None] + self.shape.left
            raise DefinitionError(
                f"only Spark can evaluate {', '.join(repr(t) for t in texts)}",
                hint='output="columns" gives the columns that they need',
            )
        if output == "select" or (output is None and plain_output):
            return [(o.name, o.column, self._type(o.column)) for o in self.query.output if o.column is not None]
        columns: list[tuple[str, Column | None, pa.DataType]] = [(str(c), c, self._type(c)) for c in self.shape.needed]
        return [*columns, (RESULT_TIME, None, self._time_type())]

    def _type(self, column: Column) -> pa.DataType:
        return plain_type(self.query.input(column.input).spec.schema.field(column.name).type)

    def _time_type(self) -> pa.DataType:
        """The streams' own time type where they agree, else a timestamp in ticks."""
        types = {self._type(Column(i.alias, i.spec.time)) for i in self.query.inputs if i.spec.time is not None}
        units = {self.feeds[self.query.inputs[i].source].clock.scale for i in self.shape.streams}  # type: ignore[union-attr]
        return types.pop() if len(types) == 1 and len(units) == 1 else pa.timestamp(self.tick, "UTC")

    # Data in

    def push(
        self, source: str, batch: pa.RecordBatch | pa.Table, *, into: Callable[[pa.RecordBatch], None] | None = None
    ) -> pa.Table:
        """Take in tuples of a source and return the results they complete.

        With `into`, results go there chunk by chunk instead, so that a flood of them never has to be in memory at once.
        """
        feed = self._feed(source)
        if feed.clock is None:
            self._load_table(source, batch)
            return self._nothing
        self._begun = True
        data = self._conform(feed, batch)
        times, valid = feed.clock.read(data.column(feed.clock.spec.time))
        feed.rows += len(times)
        self._batches += 1
        data, times = self._drop_late(feed, data, times, valid)
        if not len(times):
            return self._nothing
        feed.newest = max(feed.newest, int(times.max()))
        self._sink = into
        if self.shape.ordered:
            feed.waiting.append((times, data))
            return self._nothing
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            by_time = np.argsort(times, kind="stable")
            times, data = times[by_time], data.take(pa.array(by_time))
        for first, last in self._pieces(times):
            for i in feed.inputs:
                piece = times[first:last]
                span = self._span(i)
                kind = self.query.inputs[i].window.kind
                expiries = (
                    np.full(len(piece), FOREVER) if kind == "unbounded" else np.minimum(piece + span, FOREVER - 1)
                )
                self._process(i, data.slice(first, last - first), piece, expiries, None)
        return self._collect()

    def _feed(self, source: str) -> Feed:
        if self._closed:
            raise ThalwegError("the engine is closed", hint="make a new one, or restore a snapshot taken before")
        if source not in self.feeds:
            raise DefinitionError(f"the query reads no source '{source}'", hint=did_you_mean(source, self.feeds))
        return self.feeds[source]

    def _conform(self, feed: Feed, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """One record batch with the columns that the query reads, in the declared types."""
        arrays = []
        schema = batch.schema
        for name, wanted in zip(feed.columns, feed.types, strict=True):
            at = schema.get_field_index(name)
            if at < 0:
                raise ThalwegError(
                    f"a batch of '{feed.name}' has no column '{name}'", hint=did_you_mean(name, schema.names)
                )
            array = plain(batch.column(at))
            if array.type != wanted:
                try:
                    array = array.cast(wanted)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise ThalwegError(
                        f"column '{name}' of a batch of '{feed.name}' is {array.type}, declared as {wanted}",
                        hint=f"it can't be converted: {error}",
                    ) from error
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=feed.columns)

    def _drop_late(
        self, feed: Feed, data: pa.RecordBatch, times: Ints, valid: NDArray[np.bool_] | None
    ) -> tuple[pa.RecordBatch, Ints]:
        keep = times >= feed.watermark
        if valid is None and keep.all():
            return data, times
        if valid is not None:
            feed.timeless += int((~valid).sum())
            keep &= valid
            feed.late += int((valid & ~keep).sum())
        else:
            feed.late += int((~keep).sum())
        if keep.all():
            return data, times
        rows = np.flatnonzero(keep)
        return data.take(pa.array(rows)), times[rows]

    def _pieces(self, times: Ints) -> Iterable[tuple[int, int]]:
        """Cut tuples sorted by time into spans no longer than a slice, unless a span would have few tuples."""
        lengths = [s.stem.length for s in self.stages if s.stem is not None and s.stem.length is not None]
        length = min(lengths) if lengths else FOREVER
        first, count = 0, len(times)
        while first < count:
            last = min(count, first + PIECE)
            if length < FOREVER and times[last - 1] - times[first] > length:
                cut = first + int(np.searchsorted(times[first:last], times[first] + length, side="right"))
                last = min(last, max(cut, first + self._slice_rows))
            yield first, last
            first = last

    def _load_table(self, source: str, batch: pa.RecordBatch | pa.Table) -> None:
        feed = self._feed(source)
        if feed.clock is not None:
            raise DefinitionError(f"'{source}' is a stream", hint="push its tuples instead")
        if self._begun:
            raise ThalwegError(
                f"table '{source}' grew after the first tuple of a stream", hint="load tables before pushing to streams"
            )
        data = self._conform(feed, batch)
        feed.rows += data.num_rows
        times = np.full(data.num_rows, ALWAYS)
        expiries = np.full(data.num_rows, FOREVER)
        for i in feed.inputs:
            if self.stages[i].stem is None:
                feed.waiting.append((times, data))
            else:
                self._process(i, data, times, expiries, None)

    # Tuples through the fabric

    def _process(self, i: int, data: pa.RecordBatch, times: Ints, expiries: Ints, order: Ints | None) -> None:
        """Join tuples of one input with what is stored, then store them."""
        stage = self.stages[i]
        stage.rows_in += len(times)
        arrival, rows = self._arrive(stage, data, times, expiries)
        if order is not None and rows is not None:
            order = order[rows]
        if not len(arrival.partial):
            return
        kept = self._send_in_turn(stage, arrival)
        self._emit_held(i, arrival)
        if stage.stem is not None:
            self._build(stage, arrival, kept, order)
        if self._tuning is not None and not self._frozen and self._tuning.news():
            self._events += self._tuning.tune()

    def _built(self, alias: str) -> int:
        return self.stages[self.shape.number[alias]].rows_built

    def _waiting(self, alias: str, until: int) -> int:
        """Tuples of other streams that wait and will search what lives until then."""
        feeds = [f for f in self.feeds.values() if f.name != self.query.input(alias).source]
        return sum(int((t <= until).sum()) for f in feeds for t, _ in f.waiting)

    def _send_in_turn(self, stage: Stage, arrival: Arrival) -> Ints:
        """Send scouts, evenly spaced, for as long as the policy wants some; then the rest, with those that turned back, again
        if it is recalled."""
        whole, kept = arrival.partial, list[Ints]()
        if stage.rest:
            arrival = self._send(stage, arrival, kept, stage.rusters)
        ahead = getattr(stage.policy, "ahead", None) if stage.number not in self._frozen else None
        sent = 0
        while len(arrival.partial):
            wanted = ahead(len(arrival.partial), sent) if ahead is not None else 0
            if wanted:
                spaced = np.arange(wanted) * len(arrival.partial) // wanted
                back = self._send(stage, arrival.pick(spaced), kept).partial
                if len(back) < wanted:
                    left = np.ones(len(arrival.partial), np.bool_)
                    left[spaced] = False
                    rest = arrival.partial.compress(left, axis=0)
                    arrival = replace(arrival, partial=self.fabric.in_order(stage.number, [rest, back], whole))
                sent += wanted
            else:
                arrival = self._send(stage, arrival, kept)
        return self.fabric.in_order(stage.number, kept, whole)

    def _arrive(self, stage: Stage, data: pa.RecordBatch, times: Ints, expiries: Ints) -> tuple[Arrival, Ints | None]:
        """Tuples as partial results. Those that can't match (a NULL key, an empty stay in the window) are left out;
        their absence is told by the rows that remain."""
        shape, i = self.shape, stage.number
        codes: dict[int, Ints] = {}
        keep: NDArray[np.bool_] | None = None
        for c in shape.classes[i]:
            coder, names = shape.coders[c], shape.key_columns[i][c]
            codes[c], valid = coder.code(data.column(names[0]))
            if valid is not None:
                keep = valid if keep is None else keep & valid
            for other in names[1:]:
                twin, twin_valid = coder.code(data.column(other))
                same = twin == codes[c]
                if not coder.exact:
                    same &= coder.same(data.column(names[0]), data.column(other))
                if twin_valid is not None:
                    same &= twin_valid
                keep = same if keep is None else keep & same
        if keep is not None and keep.all():
            keep = None
        rows = None
        if keep is not None:
            rows = np.flatnonzero(keep)
            stage.keyless += len(times) - len(rows)
        if stage.order is not None:
            seen = expiries >= times if rows is None else expiries[rows] >= times[rows]
            if not seen.all():
                rows = np.flatnonzero(seen) if rows is None else rows[seen]
        if rows is not None:
            data = data.take(pa.array(rows))
            times, expiries = times[rows], expiries[rows]
            codes = {c: v[rows] for c, v in codes.items()}
        matrix = np.empty((len(codes), len(times)), np.int64)
        for k, c in enumerate(shape.classes[i]):
            matrix[k] = codes[c]
        partial = np.empty((len(times), shape.width), np.int64)
        kernels.lay_out(times, expiries, matrix, shape.cells[i][KEYS:], shape.row_column(i), partial)
        columns = {name: read(data.column(name)) for name in shape.carried(i)}
        newest, expiry = (int(times.min()), int(expiries.max())) if len(times) else (FOREVER, ALWAYS)
        return Arrival(partial, data, columns, newest, expiry), rows

    def _send(self, stage: Stage, arrival: Arrival, kept: list[Ints], rusters: Sequence[Ruster] = ()) -> Arrival:
        """Route, if that is left to do; run, observe. Adds the partial results that passed the filters to `kept`; returns
        what was recalled."""
        i, count = stage.number, len(arrival.partial)
        if stage.policy is None:
            kept.append(self.fabric.admit(i, arrival))
            return arrival.pick(NOTHING)
        frozen = self._frozen.get(i)
        if not rusters:
            batch = arrival.batch(self._batches, stage.input.alias, self.shape.row_column(i))
            if frozen is None:
                rusters = stage.policy.route(batch)
            else:
                by_class = i in self._by_class
                rusters = stage.policy.assign(batch) if by_class else [Ruster(None, frozen)]  # type: ignore[attr-defined]
        passed, recalled, journeys = self.fabric.run(i, arrival, rusters, self._receive)
        kept.append(passed)
        visits = Visits(self._batches, count - len(recalled), journeys)
        if frozen is None:
            stage.untold.append(visits)
            stage.rest = max(stage.rest - 1, 0)
            if not stage.rest or len(recalled):
                self._tell(stage)
                stage.rusters = rusters
            if self._tuning is not None:
                self._tuning.observe(i, visits)
        self._count(stage, visits)
        return replace(arrival, partial=recalled)

    def _tell(self, stage: Stage) -> None:
        """Let a policy know what came of the batches since it was last told. It may say (`rest`) for how many more it need
        not be asked."""
        if stage.policy is None or not stage.untold:
            return
        told, stage.untold = stage.untold, []
        journeys = tuple([j for v in told for j in v.journeys])
        stage.policy.observe(Visits(told[-1].batch, sum([v.rows for v in told]), journeys))
        stage.rest = getattr(stage.policy, "rest", 0)
        self._events += stage.policy.drain()

    def _count(self, stage: Stage, visits: Visits) -> None:
        names = stage.pipeline.names
        count_classes(stage.classes, visits.journeys, len(names))
        for journey in visits.journeys:
            for v in journey.visits:
                line = stage.visits.setdefault(names[v.operator], [0, 0, 0.0, 0.0, 0])
                line[0] += v.rows_in
                line[1] += v.rows_out
                line[2] += v.seconds
                line[3] += v.work
                line[4] += v.buckets
                if stage.pipeline.operators[v.operator].kind == "stem":
                    stage.work += v.work
                    stage.buckets += v.buckets
                    stage.hashes += v.hashes
            for t in journey.trials:
                stage.extra_work += t.work

    def _build(self, stage: Stage, arrival: Arrival, kept: Ints, order: Ints | None) -> None:
        assert stage.stem is not None
        rows = kept[:, self.shape.row_column(stage.number)]
        cells = kernels.narrowed(kept, self.shape.cells[stage.number])
        stage.rows_built += len(kept)
        stage.stem.build(cells, arrival.columns, rows, None if order is None else order[rows])

    # Results out

    def _receive(self, i: int, arrival: Arrival, chunk: Ints) -> None:
        """Hold results until there are enough of them to be worth a chunk."""
        self._held.append(chunk.copy())
        if sum(map(len, self._held)) >= self._enough:
            self._emit_held(i, arrival)

    def _emit_held(self, i: int, arrival: Arrival) -> None:
        if not self._held:
            return
        chunk = self._held[0] if len(self._held) == 1 else np.concatenate(self._held)
        self._held = []
        arrays = []
        for _, column, dtype in self._output:
            if column is not None:
                arrays.append(self.fabric.column(i, arrival, chunk, column))
            else:
                arrays.append(self._result_times(chunk[:, NEWEST], dtype))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._results += len(chunk)
        if self._sink is not None:
            self._sink(batch)
        else:
            self._chunks.append(batch)

    def _result_times(self, times: Ints, dtype: pa.DataType) -> pa.Array:
        if not self.shape.streams:
            return pa.nulls(len(times), dtype)
        clock = self.feeds[self.query.inputs[self.shape.streams[0]].source].clock
        assert clock is not None
        own = dtype == self._type(Column(self.query.inputs[self.shape.streams[0]].alias, str(clock.spec.time)))
        values = pa.array(times // clock.scale if own else times)
        if pa.types.is_integer(dtype):
            return values.cast(dtype)
        width = dtype.bit_width // 8
        return to_arrow(dtype, np.asarray(values).astype(f"i{width}"), None)

    def _collect(self) -> pa.Table:
        chunks, self._chunks, self._sink = self._chunks, [], None
        return pa.Table.from_batches(chunks, self.schema) if chunks else self._nothing

    # Time

    def advance(
        self, watermark: int | datetime | Mapping[str, int | datetime] | None = None, *,
        into: Callable[[pa.RecordBatch], None] | None = None,
    ) -> pa.Table:  # fmt: skip
        """Promise that no tuple with a time before the watermark will come; drop what can't be needed any more.

        One watermark for all streams, or one per source, in what the source's time column counts, or a datetime. None
        stands for the newest time seen of each source less its lateness. Returns the results that row windows had been
        waiting with.
        """
        if self._closed:
            raise ThalwegError("the engine is closed", hint="make a new one, or restore a snapshot taken before")
        for name, feed in self.feeds.items():
            if feed.clock is None:
                continue
            if watermark is None:
                lateness = feed.clock.spec.lateness * (PER_SECOND[self.tick] // 10**6)
                mark = feed.newest - lateness if feed.newest > ALWAYS else ALWAYS
            elif isinstance(watermark, Mapping):
                if name not in watermark:
                    continue
                mark = feed.clock.mark(watermark[name])
            else:
                mark = feed.clock.mark(watermark)
            feed.watermark = max(feed.watermark, mark)
        if isinstance(watermark, Mapping):
            for name in watermark:
                if name not in self.feeds or self.feeds[name].clock is None:
                    raise DefinitionError(f"the query reads no stream '{name}'", hint=did_you_mean(name, self.feeds))
        return self._move_on(into)

    def _move_on(self, into: Callable[[pa.RecordBatch], None] | None) -> pa.Table:
        self._sink = into
        if self.shape.ordered:
            self._release(min(f.watermark for f in self.feeds.values() if f.clock is not None))
        for stage in self.stages:
            if stage.stem is not None and stage.input.is_stream:
                stage.rows_evicted += stage.stem.evict(self._horizon(stage))
        return self._collect()

    def needed(self) -> dict[str, int]:
        """Rows of each stream that a tuple may still meet: what any way to run the query has to hold."""
        return {
            s.input.alias: s.stem.living(self._horizon(s))
            for s in self.stages
            if s.stem is not None and s.input.is_stream
        }

    def _horizon(self, stage: Stage) -> int:
        """Before this, nothing of the input can be needed; the least time where no other stream tells."""
        others = [self._watermark(j) for j in self.shape.streams if j != stage.number]
        horizon = min(others, default=ALWAYS)
        return min(horizon, self._watermark(stage.number)) if self.shape.ordered else horizon

    def _watermark(self, i: int) -> int:
        return self.feeds[self.query.inputs[i].source].watermark

    def _release(self, until: int) -> None:
        """Process the waiting tuples with a time before `until`, in their order; the order of inputs does not
        matter."""
        ready: dict[str, tuple[Ints, pa.RecordBatch]] = {}
        for name, feed in self.feeds.items():
            if feed.clock is None or not feed.waiting:
                continue
            times = np.concatenate([t for t, _ in feed.waiting])
            due = np.flatnonzero(times < until)
            if not len(due):
                continue
            data = pa.Table.from_batches([d for _, d in feed.waiting]).combine_chunks().to_batches()[0]
            rest = np.flatnonzero(times >= until)
            feed.waiting = [(times[rest], data.take(pa.array(rest)))] if len(rest) else []
            by_time = due[np.argsort(times[due], kind="stable")]
            ready[name] = (times[by_time], data.take(pa.array(by_time)))
        entering: list[tuple[int, pa.RecordBatch, Ints, Ints, Ints | None]] = []
        for name, (times, data) in ready.items():
            for i in self.feeds[name].inputs:
                entering.append((i, data, times, *self._windowed(self.stages[i], times, data)))
        for i, data, times, expiries, order in entering:
            for first, last in self._pieces(times):
                span = slice(first, last)
                self._process(
                    i,
                    data.slice(first, last - first),
                    times[span],
                    expiries[span],
                    None if order is None else order[span],
                )

    def _windowed(self, stage: Stage, times: Ints, data: pa.RecordBatch) -> tuple[Ints, Ints | None]:
        """Expiries of released tuples, and their places in the order; tells stored ones when they leave."""
        window = stage.input.window
        if stage.order is None:
            if window.kind == "unbounded":
                return np.full(len(times), FOREVER), None
            return np.minimum(times + self._span(stage.number), FOREVER - 1), None
        first = stage.order.released
        partitions = [plain(data.column(name)) for name in window.by] if window.by else None
        expiries, numbers, known = stage.order.release(times, partitions)
        if stage.stem is not None:
            stage.stem.expire(numbers, known)
        return expiries, np.arange(first, first + len(times))

    def close(self, *, into: Callable[[pa.RecordBatch], None] | None = None) -> pa.Table:
        """End of input: everything that waits comes out, and a query over tables only gives its answer."""
        if self._closed:
            return self._nothing
        self._sink = into
        if not self.shape.streams:
            self._join_tables()
        else:
            for feed in self.feeds.values():
                feed.watermark = FOREVER if feed.clock is not None else feed.watermark
            chunks = self._move_on(into)
            self._closed = True
            return chunks
        self._closed = True
        return self._collect()

    def _join_tables(self) -> None:
        feed = self.feeds[self.query.inputs[0].source]
        for times, data in feed.waiting:
            for first in range(0, len(times), PIECE):
                part = slice(first, first + PIECE)
                self._process(0, data.slice(first, PIECE), times[part], np.full(len(times[part]), FOREVER), None)
        feed.waiting = []

    # What is known and decided

    @property
    def left(self) -> list[str]:
        """Predicates left to the caller."""
        return self.shape.left

    def stats(self) -> dict[str, Any]:
        """Counts so far: per source what came, per input what is stored and what probing took."""
        return {
            "results": self._results,
            "batches": self._batches,
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
            "inputs": {
                s.input.alias: {
                    "rows in": s.rows_in,
                    "without key": s.keyless,
                    "built": s.rows_built,
                    "evicted": s.rows_evicted,
                    "stored": s.stem.rows if s.stem is not None else 0,
                    "bytes": s.stem.nbytes if s.stem is not None else 0,
                    "slices": len(s.stem.slices) if s.stem is not None else 0,
                    "index bytes": s.stem.index_bytes if s.stem is not None else 0,
                    "work": s.work,
                    "profiling work": s.extra_work,
                    "buckets": s.buckets,
                    "candidates": s.work - s.buckets,
                    "hashes": s.hashes + (s.stem.hashes if s.stem is not None else 0),
                    "entries": s.stem.entries if s.stem is not None else 0,
                    "operators": {
                        n: dict(zip(("rows in", "rows out", "seconds", "work", "buckets"), line, strict=True))
                        for n, line in s.visits.items()
                    },
                }
                for s in self.stages
            },
        }

    def explain(self) -> dict[str, Explanation]:
        """The routes in force, by input, and why."""
        return {s.input.alias: s.policy.explain() for s in self.stages if s.policy is not None}

    def drain_classes(self) -> dict[str, ByClass]:
        """What the tuples of each class met since the last call, by input."""
        met = {s.input.alias: s.classes for s in self.stages}
        for s in self.stages:
            s.classes = {}
        return met

    def indexes(self) -> dict[str, IndexView]:
        """The layout in force of each stem; with a tuner, its access patterns and what other layouts would cost."""
        from thalweg.optimize.indexes.tuner import IndexView

        views = {}
        if self._tuning is not None:
            views = self._tuning.explain()
        for stage in self.stages:
            if stage.stem is not None and stage.input.alias not in views:
                names = [self.shape.key_columns[stage.number][c][0] for c in self.shape.classes[stage.number]]
                views[stage.input.alias] = IndexView(stage.stem.layout.named(names))
        return views

    def drain(self) -> list[Event]:
        """Decisions since the last call."""
        events, self._events = self._events, []
        return events

    def freeze(self, orders: Mapping[str, Sequence[str]] | None = None) -> None:
        """Pin the routes in force, of every class where there are some, or the given orders of operators by input;
        policies neither decide nor learn until `thaw`."""
        for s in self.stages:
            if s.policy is None:
                continue
            self._tell(s)
            s.rest = 0
            if s.number not in self._frozen and len(s.policy.plan.routes) > 1 and hasattr(s.policy, "assign"):
                self._by_class.add(s.number)
            route = self._frozen.get(s.number) or s.policy.plan.route
            if orders is not None and s.input.alias in orders:
                names = s.pipeline.names
                for name in orders[s.input.alias]:
                    if name not in names:
                        raise DefinitionError(
                            f"tuples of '{s.input.alias}' visit no operator '{name}'", hint=did_you_mean(name, names)
                        )
                route = Route(tuple(names.index(name) for name in orders[s.input.alias]))
                self._by_class.discard(s.number)
                if not s.pipeline.allows(route):
                    raise DefinitionError(
                        f"'{route.named(names)}' is no order for tuples of '{s.input.alias}': it names every operator "
                        "once, each when a predicate connects it",
                        hint=f"for example {s.pipeline.written.named(names)}",
                    )
            self._frozen[s.number] = route

    @property
    def frozen(self) -> dict[str, Route]:
        """Pinned routes by input."""
        return {self.stages[i].input.alias: route for i, route in self._frozen.items()}

    @property
    def pinned_classes(self) -> set[str]:
        """Inputs that are frozen with a route for each class."""
        return {self.stages[i].input.alias for i in self._by_class}

    def thaw(self) -> None:
        self._frozen, self._by_class = {}, set()

    # State

    def snapshot(self) -> dict[str, bytes]:
        """Everything needed to go on elsewhere: slices and waiting tuples as Arrow, the rest as one JSON record."""
        from thalweg.contract import learned

        parts: dict[str, bytes] = {}
        record: dict[str, Any] = {"format": FORMAT, "query": self.query.text, "tick": self.tick, "seed": self.seed}
        record["counts"] = [self._batches, self._results, self._begun, self._closed]
        record["frozen"] = {str(i): list(r) for i, r in self._frozen.items()}
        record["by class"] = sorted(self._by_class)
        record["tuning"] = None if self._tuning is None else self._tuning.snapshot()
        record["sources"] = {}
        for name, feed in self.feeds.items():
            record["sources"][name] = [feed.watermark, feed.newest, feed.rows, feed.late, feed.timeless]
            for k, (times, data) in enumerate(feed.waiting):
                if name not in self._given:
                    table = pa.Table.from_batches([data]).append_column("\0time", pa.array(times))
                    parts[f"waiting/{name}/{k}"] = write_ipc(table)
        record["inputs"] = {}
        for stage in self.stages:
            self._tell(stage)
            alias = stage.input.alias
            entry: dict[str, Any] = {
                "counts": [
                    stage.rows_in,
                    stage.keyless,
                    stage.rows_built,
                    stage.rows_evicted,
                    stage.work,
                    stage.extra_work,
                ],
                "met": [stage.buckets, stage.hashes],
                "entered": [0, 0] if stage.stem is None else [stage.stem.entries, stage.stem.hashes],
                "policy": None if stage.policy is None else learned.record(stage.policy),
                "visits": stage.visits,
                "slices": [],
            }
            if stage.order is not None:
                waiting, partitions = stage.order.dump()
                parts[f"order/{alias}"] = write_ipc(waiting)
                parts[f"partitions/{alias}"] = write_ipc(partitions)
                entry["order"] = stage.order.released
            if stage.stem is not None and stage.input.source not in self._given:
                layouts = stage.stem.layouts()
                for part in stage.stem.slices:
                    parts[f"slice/{alias}/{part.number}"] = stage.stem.dump(part)
                    entry["slices"].append(
                        {
                            "number": part.number, "since": part.since, "until": part.until,
                            "layout": layouts[part.number].record(),
                        }
                    )  # fmt: skip
            record["inputs"][alias] = entry
        parts["record"] = json.dumps(record).encode()
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Take up the state of an equal query. The engine must be fresh, with the same tables."""
        record = json.loads(parts["record"])
        if record["format"] != FORMAT:
            raise CheckpointError(
                f"the state has format {record['format']}, this version reads {FORMAT}",
                hint="start from a new checkpoint",
            )
        if record["query"] != self.query.text or record["tick"] != self.tick:
            raise CheckpointError(
                "the state belongs to another query",
                where=str(record["query"]),
                hint="start from a new checkpoint, or go back to that query",
            )
        self._batches, self._results, self._begun, self._closed = record["counts"]
        self._frozen = {int(i): Route(tuple(r)) for i, r in record["frozen"].items()}
        self._by_class = set(record.get("by class", ()))
        for name, values in record["sources"].items():
            feed = self.feeds[name]
            feed.watermark, feed.newest, feed.rows, feed.late, feed.timeless = values
            if name not in self._given:
                feed.waiting = []
        for key in sorted((k for k in parts if k.startswith("waiting/")), key=lambda k: int(k.rsplit("/", 1)[1])):
            table = read_ipc(parts[key])
            times = np.array(table["\0time"].to_numpy(), np.int64)
            data = table.drop_columns(["\0time"]).combine_chunks().to_batches()
            self.feeds[key.split("/", 1)[1].rsplit("/", 1)[0]].waiting.append((times, data[0]))
        # Another tuner, none, or one of another version starts afresh: layouts can be rebuilt and are no part of the answer.
        tuned = record.get("tuning")
        known = self._tuning is not None and tuned is not None and self._tuning.reads(tuned)
        for stage in self.stages:
            self._restore_stage(stage, record["inputs"][stage.input.alias], parts, layouts=known)
        if known and self._tuning is not None:
            self._tuning.restore(tuned)

    def _restore_stage(
        self, stage: Stage, entry: Mapping[str, Any], parts: Mapping[str, bytes], *, layouts: bool
    ) -> None:
        from thalweg.contract import learned

        alias = stage.input.alias
        (
            stage.rows_in, stage.keyless, stage.rows_built, stage.rows_evicted, stage.work, stage.extra_work,
        ) = entry["counts"]  # fmt: skip
        stage.buckets, stage.hashes = entry.get("met", (0, 0))
        if stage.stem is not None:
            stage.stem.entries, stage.stem.hashes = entry.get("entered", (0, 0))
        stage.visits = {k: [*v, 0][:5] for k, v in entry["visits"].items()}
        if stage.policy is not None and entry["policy"] is not None:
            self._events += learned.take_up(stage.policy, entry["policy"])
        if stage.order is not None:
            waiting, partitions = read_ipc(parts[f"order/{alias}"]), read_ipc(parts[f"partitions/{alias}"])
            stage.order.load(waiting, partitions, entry["order"])
        if stage.stem is not None:
            for line in entry["slices"]:
                if layouts:
                    stage.stem.layout = Layout.of(line["layout"])
                stage.stem.load(line, parts[f"slice/{alias}/{line['number']}"])
