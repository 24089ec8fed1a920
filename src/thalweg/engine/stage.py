"""A stage: one input inside the engine. Its pipeline and policy, its stem, and what its rows have met so far.

A row enters a window (`stay`), is coded (`arrive`: one partial result of one row; rows that can match nothing are left
out), and is stored (`build`). Windows over time end at time + span; row windows are counted by `RowOrder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.monitor import Monitor
from thalweg.contract.policy import Policy
from thalweg.contract.visits import Visits
from thalweg.engine.counts import ClassCounts
from thalweg.engine.dispatch import Dispatch
from thalweg.engine.piece import Piece
from thalweg.errors import ThalwegError
from thalweg.execute.arrival import Arrival
from thalweg.execute.shape import Shape, StoreShape
from thalweg.language.query import Input
from thalweg.plan import Pipeline
from thalweg.plan.layout import Layout
from thalweg.state.columns import read
from thalweg.state.kernels.layout import COUNTED, EXPIRY, KEYS, MEMBERS, TIME, lay_out, narrowed
from thalweg.state.keys import plain, plain_type
from thalweg.state.roworder import RowOrder
from thalweg.state.slice import ALWAYS, FOREVER, Slice, Window
from thalweg.state.stem import SLICES, Stem
from thalweg.state.times import FAR, PER_SECOND, Clock

Ints = NDArray[np.int64]
Layouts = Layout | str | Mapping[str, Layout | str]


@dataclass
class Counts:
    """What the rows of an input met, since the beginning."""

    rows_in: int = 0
    keyless: int = 0
    """Rows with a NULL among their join keys: they match nothing."""
    built: int = 0
    evicted: int = 0
    work: float = 0.0
    extra_work: float = 0.0
    """Work for counting against operators that did not come next."""
    buckets: int = 0
    """Buckets looked up; the rest of the work are candidates."""
    hashes: int = 0
    """Attributes hashed for that."""
    visits: dict[str, list[float]] = field(default_factory=dict)
    """By operator: rows in, rows out, seconds, work, buckets."""

    def add(self, visits: Visits, pipeline: Pipeline) -> None:
        names = pipeline.names
        for journey in visits.journeys:
            for v in journey.visits:
                line = self.visits.setdefault(names[v.operator], [0, 0, 0.0, 0.0, 0])
                line[0] += v.rows_in
                line[1] += v.rows_out
                line[2] += v.seconds
                line[3] += v.work
                line[4] += v.buckets
                if pipeline.operators[v.operator].kind == "stem":
                    self.work += v.work
                    self.buckets += v.buckets
                    self.hashes += v.hashes
            for t in journey.trials:
                self.extra_work += t.work
            for p in journey.probes:
                self.extra_work += p.extra_work


@dataclass
class Stage:
    """One input inside the engine."""

    number: int
    input: Input
    shape: Shape
    dispatch: Dispatch | None
    """Who asks its policy; None for inputs whose rows only wait to be found."""
    stem: Stem | None
    """Where its rows are stored; inputs of one source share it."""
    member: int = 0
    """Its place among the members of the stem."""
    span: int = 0
    """Length of a window over time, in ticks."""
    order: RowOrder | None = None
    clock: Clock | None = None
    told: Callable[[int, Ints, Ints], None] | None = None
    """Who else hears when rows leave the window."""
    counts: Counts = field(default_factory=Counts)
    classes: ClassCounts = field(init=False)
    """What the rows of each class met, since that was last asked for."""
    monitors: list[Monitor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.classes = ClassCounts(len(self.pipeline))

    @property
    def alias(self) -> str:
        return self.input.alias

    @property
    def pipeline(self) -> Pipeline:
        return self.shape.pipeline(self.number)

    @property
    def policy(self) -> Policy | None:
        return None if self.dispatch is None else self.dispatch.policy

    def stay(self, times: Ints, data: pa.RecordBatch) -> Ints:
        """When rows, sorted by time, leave the window. Stored rows that they push out of it are told."""
        window = self.input.window
        if self.order is None:
            if window.kind == "unbounded" or not self.input.is_stream:
                return np.full(len(times), FOREVER)
            return self._told(times, data) if window.kind == "custom" else times + self.span
        partitions = [plain(data.column(name)) for name in window.by] if window.by else None
        expiries, numbers, known = self.order.release(times, partitions)
        if self.stem is not None:
            self.stem.expire(numbers, known, self.member)
        if self.told is not None:
            self.told(self.number, numbers, known)
        return expiries

    def _told(self, times: Ints, data: pa.RecordBatch) -> Ints:
        """The last moments of rows in a user's window: one tick before the instants that its function gives."""
        window, spec = self.input.window, self.input.spec
        assert window.ends is not None
        assert self.clock is not None
        given = pa.array(window.ends(data.select(spec.schema.names)), from_pandas=True)
        if len(given) != len(times):
            raise ThalwegError(
                f"the window '{window.name}' gave {len(given)} ends for {len(times)} rows of '{self.input.source}'",
                hint="it takes rows and gives for each the instant at which it leaves, or NULL for never",
            )
        own = spec.schema.field(str(spec.time)).type
        ends, known = self.clock.read(given if given.type == own else given.cast(own))
        return ends - 1 if known is None else np.where(known, ends - 1, FOREVER)

    def arrive(self, piece: Piece) -> tuple[Arrival, Ints | None]:
        """Rows as partial results. Those that can't match (a NULL key, an empty stay in the window) are left out; then
        the rows that remain are listed."""
        shape, i = self.shape, self.number
        data, times, expiries = piece.data, piece.times, piece.stays[i]
        self.counts.rows_in += len(times)
        codes, rows = self._code(piece)
        if rows is not None:
            self.counts.keyless += len(times) - len(rows)
        if self.order is not None or self.input.window.kind == "custom":
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
        lay_out(times, expiries, matrix, shape.cells[i][KEYS:], shape.row_column(i), partial)
        columns = {name: read(data.column(name)) for name in shape.carried(i)}
        newest, expiry = (int(times.min()), int(expiries.max())) if len(times) else (FOREVER, ALWAYS)
        return Arrival(partial, data, columns, newest, expiry), rows

    def _code(self, piece: Piece) -> tuple[dict[int, Ints], Ints | None]:
        """A code for each key class and row, and the rows whose keys are all known and agree (None: all)."""
        codes: dict[int, Ints] = {}
        keep: NDArray[np.bool_] | None = None
        for c in self.shape.classes[self.number]:
            coder, names = self.shape.coders[c], self.shape.key_columns[self.number][c]
            codes[c], valid = piece.code(names[0], coder)
            if valid is not None:
                keep = valid if keep is None else keep & valid
            for other in names[1:]:
                twin, twin_valid = piece.code(other, coder)
                same = twin == codes[c]
                if not coder.exact:
                    same &= coder.same(piece.data.column(names[0]), piece.data.column(other))
                if twin_valid is not None:
                    same &= twin_valid
                keep = same if keep is None else keep & same
        return codes, None if keep is None or keep.all() else np.flatnonzero(keep)

    def build(
        self, piece: Piece, arrival: Arrival, kept: Ints, rows: Ints | None
    ) -> tuple[Ints, list[tuple[Slice, int, int]], Ints | None] | None:
        """Store the rows that passed the filters; `rows` are those of the piece that arrived. Returns their row numbers,
        where the stem put rows, and which of those they are (None: all)."""
        if self.stem is None:
            return None
        own = kept[:, self.shape.row_column(self.number)]
        self.counts.built += len(kept)
        if len(self.stem.windows) == 1:
            cells = narrowed(kept, self.shape.cells[self.number])
            cells[:, MEMBERS] = 1
            if self.span != COUNTED:
                return own, self.stem.build(cells, arrival.columns, own), None
            order = None if piece.order is None else piece.order[own if rows is None else rows[own]]
            expiries = np.ascontiguousarray(kept[:, EXPIRY])
            return own, self.stem.build(cells, arrival.columns, own, order, [expiries]), None
        if piece.placed is None:
            piece.placed = self._store(piece)
        chosen = np.zeros(len(piece), np.bool_)
        which = own if rows is None else rows[own]
        chosen[which] = True
        self.stem.admit(piece.placed, chosen, self.member)
        return own, piece.placed, which

    def _store(self, piece: Piece) -> list[tuple[Slice, int, int]]:
        """Store all rows of a piece for every input of the source; nobody sees them yet."""
        assert self.stem is not None
        store = self.shape.store(self.number)
        cells = np.zeros((len(piece), KEYS + len(store.attributes)), np.int64)
        cells[:, TIME] = piece.times
        coders = {str(coder.type): coder for coder in self.shape.coders}
        for k, (name, kind) in enumerate(store.attributes):
            cells[:, KEYS + k] = piece.code(name, coders[kind])[0]
        columns = {name: read(piece.data.column(name)) for name in store.columns}
        expiries = [piece.stays[store.inputs[k]] for k in self.stem.store.counted]
        return self.stem.build(cells, columns, np.arange(len(piece)), piece.order if expiries else None, expiries)

    def met(self, visits: Visits) -> None:
        """Count what came of some rows."""
        self.classes.add(visits.journeys)
        self.counts.add(visits, self.pipeline)

    @property
    def owned(self) -> Stem | None:
        """The stem, for the first of its members only: what is counted of it is counted once."""
        return self.stem if self.member == 0 else None

    def stats(self) -> dict[str, Any]:
        c, stem = self.counts, self.owned
        return {
            "rows in": c.rows_in,
            "without key": c.keyless,
            "built": c.built,
            "evicted": c.evicted,
            "stored": stem.rows if stem is not None else 0,
            "bytes": stem.nbytes if stem is not None else 0,
            "slices": len(stem.slices) if stem is not None else 0,
            "index bytes": stem.index_bytes if stem is not None else 0,
            "work": c.work,
            "profiling work": c.extra_work,
            "buckets": c.buckets,
            "candidates": c.work - c.buckets,
            "hashes": c.hashes + (stem.hashes if stem is not None else 0),
            "entries": stem.entries if stem is not None else 0,
            "operators": {
                n: dict(zip(("rows in", "rows out", "seconds", "work", "buckets"), line, strict=True))
                for n, line in c.visits.items()
            },
        }


def span_of(entry: Input, tick: str) -> int:
    """The length of a window over time in ticks; FOREVER without a bound, COUNTED where each row has its own end."""
    kind = entry.window.kind
    if not entry.is_stream or kind == "unbounded":
        return FOREVER
    if entry.window.ordered or kind == "custom":
        return COUNTED
    return min(entry.window.span * (PER_SECOND[tick] // 10**6), FAR - 1) if kind == "range" else 0


def make_stem(shape: Shape, store: StoreShape, tick: str, layouts: Layouts, slice_rows: int) -> Stem:
    """The stem of a source: slices are a quarter of the longest window, in time or in rows."""
    entries = [shape.query.inputs[i] for i in store.inputs]
    windows = [
        Window(span_of(e, tick), scattered=e.is_stream and e.window.kind in ("partition", "custom")) for e in entries
    ]
    timed = [w.span for w in windows if not w.counted]
    length = max(max(timed) // SLICES, 1) if timed and FOREVER not in timed else None
    most = None
    if not entries[0].is_stream:
        most = FOREVER
    elif FOREVER not in timed:
        most = max(slice_rows, *(e.window.rows // SLICES for e in entries if e.window.kind == "rows"), 0)
    wanted = layouts
    if isinstance(wanted, Mapping):
        wanted = next((wanted[name] for name in (store.name, *store.aliases) if name in wanted), "hash")
    return Stem(
        store.name, len(store.attributes), store.columns, windows, length=length, most=most, slice_rows=slice_rows,
        layout=Layout.parse(wanted), widest=max(len(s.attributes) for s in shape.stores),
    )  # fmt: skip


def make_order(shape: Shape, i: int) -> RowOrder | None:
    """The order of an input with a row window."""
    entry = shape.query.inputs[i]
    if not entry.is_stream or not entry.window.ordered:
        return None
    types = [plain_type(entry.spec.schema.field(name).type) for name in entry.window.by]
    return RowOrder(entry.window.rows, tuple(types))
