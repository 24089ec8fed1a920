"""Sources and their clocks: what comes in, what is late, and how far time has advanced.

One watermark rule for the whole house: a stream's watermark is the newest time known of it less its lateness; where the
stream may fall idle, it is also at least the newest time of any stream less that idle time and its lateness. A watermark
never goes back. A row is late if its time is before its stream's watermark when it arrives; a row without a time is
counted and left out. Heartbeats and timestamps: CQL; eviction by watermark: thesis 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import DefinitionError, ThalwegError, did_you_mean
from thalweg.execute.shape import Shape
from thalweg.language.durations import Duration, micros
from thalweg.state.keys import plain, plain_type
from thalweg.state.slice import ALWAYS, FOREVER
from thalweg.state.times import PER_SECOND, Clock, tick_of

Ints = NDArray[np.int64]
Watermark = int | datetime | Mapping[str, int | datetime] | None


@dataclass
class Feed:
    """One source. Streams have a clock and a watermark; tables have neither."""

    name: str
    inputs: list[int]
    columns: list[str]
    schema: pa.Schema
    clock: Clock | None
    lateness: int = 0
    """In ticks, as all times here."""
    idle: int | None = None
    types: list[pa.DataType] = field(default_factory=list)
    """Types of the columns, without dictionaries."""
    watermark: int = ALWAYS
    newest: int = ALWAYS
    """The newest time known: of a row that came, or as the caller was told elsewhere."""
    rows: int = 0
    late: int = 0
    timeless: int = 0
    """Rows whose time is NULL or impossible."""
    waiting: list[tuple[Ints, pa.RecordBatch]] = field(default_factory=list)
    released: int = 0
    """Rows that no longer wait: the next one's place in the order of the source."""

    def take(self, batch: pa.RecordBatch | pa.Table) -> tuple[Ints, pa.RecordBatch]:
        """Times and rows of a stream's batch that are not late, as they came."""
        assert self.clock is not None
        data = self.conform(batch)
        times, valid = self.clock.read(data.column(self.clock.spec.time))
        self.rows += len(times)
        times, data = self._drop_late(times, data, valid)
        if len(times):
            self.newest = max(self.newest, int(times.max()))
        return times, data

    def conform(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """One record batch with the columns that the query reads, in the declared types."""
        arrays = []
        schema = batch.schema
        for name, wanted in zip(self.columns, self.types, strict=True):
            at = schema.get_field_index(name)
            if at < 0:
                raise ThalwegError(
                    f"a batch of '{self.name}' has no column '{name}'", hint=did_you_mean(name, schema.names)
                )
            array = plain(batch.column(at))
            if array.type != wanted:
                try:
                    array = array.cast(wanted)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise ThalwegError(
                        f"column '{name}' of a batch of '{self.name}' is {array.type}, declared as {wanted}",
                        hint=f"it can't be converted: {error}",
                    ) from error
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=self.columns)

    def _drop_late(
        self, times: Ints, data: pa.RecordBatch, valid: NDArray[np.bool_] | None
    ) -> tuple[Ints, pa.RecordBatch]:
        keep = times >= self.watermark
        if valid is None and keep.all():
            return times, data
        if valid is not None:
            self.timeless += int((~valid).sum())
            keep &= valid
            self.late += int((valid & ~keep).sum())
        else:
            self.late += int((~keep).sum())
        if keep.all():
            return times, data
        rows = np.flatnonzero(keep)
        return times[rows], data.take(pa.array(rows))

    def release(self, until: int) -> tuple[Ints, pa.RecordBatch] | None:
        """Waiting rows with a time before `until`, in the order (time, arrival); None if there are none."""
        if not self.waiting:
            return None
        times = np.concatenate([t for t, _ in self.waiting])
        due = np.flatnonzero(times < until)
        if not len(due):
            return None
        data = pa.Table.from_batches([d for _, d in self.waiting]).combine_chunks().to_batches()[0]
        rest = np.flatnonzero(times >= until)
        self.waiting = [(times[rest], data.take(pa.array(rest)))] if len(rest) else []
        by_time = due[np.argsort(times[due], kind="stable")]
        return times[by_time], data.take(pa.array(by_time))


class Watermarks:
    """The watermark rule, over streams by name. Blocks that read one stream have a feed of it each, and all advance
    together."""

    def __init__(self, groups: Mapping[str, Sequence[Feed]]) -> None:
        self.groups = groups

    @property
    def streams(self) -> list[Feed]:
        """One feed of every stream."""
        return [feeds[0] for feeds in self.groups.values()]

    def stream(self, name: str) -> Feed:
        return self._group(name)[0]

    def _group(self, name: str) -> Sequence[Feed]:
        if name not in self.groups:
            raise DefinitionError(f"the query reads no stream '{name}'", hint=did_you_mean(name, self.groups))
        return self.groups[name]

    def allow_idle(self, idle: Mapping[str, Duration] | None, per_micro: int) -> None:
        """After so much of the others' time, a silent stream no longer holds them back."""
        for name, given in (idle or {}).items():
            for feed in self._group(name):
                feed.idle = micros(given, "idle") * per_micro

    def marks(self) -> dict[str, int]:
        """The watermark that each stream has earned, in ticks: see the module's head. Streams without one are left out."""
        return self._marks(idle=True)

    def silent(self) -> list[str]:
        """Streams that have fallen idle: their watermarks follow the others."""
        own = self._marks(idle=False)
        return [name for name, mark in self.marks().items() if mark > own.get(name, ALWAYS)]

    def _marks(self, *, idle: bool) -> dict[str, int]:
        latest = max((f.newest for f in self.streams), default=ALWAYS)
        marks = {}
        for feed in self.streams:
            mark = feed.newest - feed.lateness if feed.newest > ALWAYS else ALWAYS
            if idle and feed.idle is not None and latest > ALWAYS:
                mark = max(mark, latest - feed.idle - feed.lateness)
            if mark > ALWAYS:
                marks[feed.name] = mark
        return marks

    def hear(self, newest: Mapping[str, int]) -> None:
        """Take note of the newest time of streams, in ticks, as known elsewhere."""
        for name, time in newest.items():
            for feed in self._group(name):
                feed.newest = max(feed.newest, time)

    def advance(self, marks: Mapping[str, int]) -> None:
        """Move watermarks on, in ticks; none goes back."""
        for name, mark in marks.items():
            for feed in self._group(name):
                feed.watermark = max(feed.watermark, mark)

    def read_marks(self, watermark: Watermark) -> dict[str, int]:
        """A caller's watermark in ticks, by stream: one for all, one for each, or None for those of the rule."""
        if watermark is None:
            return self.marks()
        if not isinstance(watermark, Mapping):
            watermark = {f.name: watermark for f in self.streams}
        clocks = {name: self.stream(name).clock for name in watermark}
        return {name: clock.mark(watermark[name]) for name, clock in clocks.items() if clock is not None}

    def end(self) -> None:
        """No further row will come."""
        self.advance({f.name: FOREVER for f in self.streams})

    @property
    def least(self) -> int:
        """The least watermark of all streams; FOREVER without any."""
        return min((f.watermark for f in self.streams), default=FOREVER)


class Sources(Watermarks):
    """All sources of one join block."""

    def __init__(self, shape: Shape, idle: Mapping[str, Duration] | None = None, tick: str | None = None) -> None:
        self.shape = shape
        self.tick = tick or tick_of([shape.query.inputs[i].spec for i in shape.streams])
        self.feeds: dict[str, Feed] = {}
        per_micro = PER_SECOND[self.tick] // 10**6
        for i, entry in enumerate(shape.query.inputs):
            feed = self.feeds.get(entry.source)
            if feed is None:
                clock = Clock(entry.spec, self.tick) if entry.is_stream else None
                feed = self.feeds[entry.source] = Feed(entry.source, [], [], entry.spec.schema, clock)
                feed.lateness = micros(entry.spec.lateness, "lateness") * per_micro
            feed.inputs.append(i)
            feed.columns = list(dict.fromkeys([*feed.columns, *shape.read(i)]))
        for feed in self.feeds.values():
            feed.types = [plain_type(feed.schema.field(name).type) for name in feed.columns]
        super().__init__({f.name: [f] for f in self.feeds.values() if f.clock is not None})
        self.allow_idle(idle, per_micro)

    def feed(self, name: str) -> Feed:
        if name not in self.feeds:
            raise DefinitionError(f"the query reads no source '{name}'", hint=did_you_mean(name, self.feeds))
        return self.feeds[name]

    def horizon(self, i: int) -> int:
        """Before this, nothing of an input can be needed; the least time where no other stream tells."""
        streams = self.shape.streams if self.shape.ordered else [j for j in self.shape.streams if j != i]
        if streams == [i]:
            return ALWAYS
        return min((self.feeds[self.shape.query.inputs[j].source].watermark for j in streams), default=ALWAYS)

    def waiting(self, i: int, until: int) -> int:
        """Rows of other streams that wait and will search what lives of an input until then."""
        source = self.shape.query.inputs[i].source
        feeds: Sequence[Feed] = [f for f in self.feeds.values() if f.name != source]
        return sum(int((t <= until).sum()) for f in feeds for t, _ in f.waiting)
