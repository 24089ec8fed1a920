"""A stem: the stored rows of one source as a ring of slices. Build, probe, evict; never an intermediate result.

It stores times, not windows: each alias that reads the source is a member with its own window, and a row has one bit
per member that may see it. Windows over time cut slices by time (a quarter of the span, but never fewer rows than pay
for an index), others by row count. Invariants: slices are sorted by `since` and, if cut by time, own disjoint spans; a
row is dropped only with its whole slice, once no member's window reaches the horizon. Stems are the thesis' synopses
(5.1) and AMRI's states (section 4.2: partitions, each with its own configuration).

One class and one file: building, evicting and compacting keep the same invariants over slices, runs and listeners.
What can stand apart does: storage (`store.py`), probing (`views.py`), ids (`ids.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.plan.layout import Layout, Pattern
from thalweg.state.arena import Arena
from thalweg.state.ids import Listener, ids_at, ids_of
from thalweg.state.kernels.layout import KEYS, MEMBERS, TIME, time_range
from thalweg.state.slice import ALWAYS, FOREVER, Run, Slice, Window
from thalweg.state.store import Columns, Store
from thalweg.state.views import Counted, StemView, Views

Ints = NDArray[np.int64]
SLICES = 4
"""Size: slices of a window. A row stays in memory for at most one slice longer than its window needs it."""
SLICE_ROWS = 1024
"""Size: rows below which a slice is not worth an index of its own."""
SPARSE = 64
"""Size: rows below which a search for dead ones does not pay."""
LARGE = 16
"""Size: an unbounded stem's slices have at least this many times `SLICE_ROWS` rows."""
RUN = 2 * SLICES
"""Derived: slices that share an index, at most; about two windows, so that an index is built once for each."""


class Stem:
    """The stored rows of one source, for one or more members.

    `length` is the span of a slice; None cuts by rows instead: `most`, or a quarter of the stem if that is more.
    """

    def __init__(
        self, name: str, attributes: int, columns: Mapping[str, pa.DataType], windows: Sequence[Window] = (Window(),), *,
        length: int | None = None, most: int | None = None, slice_rows: int = SLICE_ROWS, layout: Layout | None = None,
        widest: int | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.attributes = attributes
        self.windows = tuple(windows)
        self.length = length
        self.most = most or LARGE * slice_rows
        self.slice_rows = slice_rows
        self.layout = layout or Layout()
        self.widest = attributes if widest is None else widest
        """Most attributes of any stem of the query, so lines of all stems have one length and can be stacked."""
        if self.layout.bits and len(self.layout.bits) != attributes:
            raise DefinitionError(
                f"the index layout of '{name}' has bits for {len(self.layout.bits)} attributes",
                hint=f"'{name}' has {attributes} join attributes: give a number for each",
            )
        self.columns = dict(columns)
        self.slices: list[Slice] = []
        self.runs: list[Run] = []
        self.listeners: list[Listener] = []
        self.version = 0
        self.rows = 0
        self.built = 0
        """Rows ever stored."""
        self.entries = 0
        """Rows entered into an index; a row counts again when its layout changes."""
        self.hashes = 0
        """Attributes hashed for that."""
        self.numbers = 0
        """Slices ever opened."""
        self.dense = 0
        """Living rows at the last compaction."""
        self._reset()

    def _reset(self) -> None:
        self.store = Store(self.name, self.attributes, self.columns, self.windows)
        self.links = Arena({"links": np.empty(0, np.int32)})
        self._views = Views(self)

    @property
    def nbytes(self) -> int:
        chunks = sum(int(a.nbytes) for s in self.slices for pieces in s.chunks.values() for a in pieces)
        return self.store.arena.nbytes + self.links.nbytes + chunks

    @property
    def index_bytes(self) -> int:
        """Bytes of directories and chains."""
        blocks = [i.block for r in self.runs for i in r.indexes.values()]
        return sum(b.size for b in blocks if b is not None) * self.links.arrays["links"].itemsize

    # Build

    def build(
        self, cells: Ints, columns: Columns, rows: Ints, order: Ints | None = None, expiries: Sequence[Ints] = ()
    ) -> list[tuple[Slice, int, int]]:
        """Store rows, sorted by time where slices are cut by time: line k of `cells` is row `rows[k]` of the columns.

        Row windows need the rows' places in the order and their expiries, by window. Returns where they are: slices, and
        from which position on how many rows each took.
        """
        at, count, placed = 0, len(cells), []
        while at < count:
            part, end = self._timed(cells, at) if self.length is not None else self._counted(at, count)
            placed.append((part, part.rows, end - at))
            here = slice(at, end)
            self.append(
                part,
                cells[here],
                columns,
                rows[here],
                None if order is None else order[here],
                [e[here] for e in expiries],
            )
            at = end
        self.version += 1
        self.built += count
        if self.listeners and count:
            ids = ids_of(placed)
            for listener in self.listeners:
                listener.built(ids)
        return placed

    def _timed(self, cells: Ints, at: int) -> tuple[Slice, int]:
        """The slice that owns the time of line `at`, and the first line beyond that slice."""
        assert self.length is not None
        times, time = cells[:, TIME], int(cells[at, TIME])
        if not self.slices or (time >= self.slices[-1].until and self.slices[-1].rows >= self.slice_rows):
            self.open(since=time, until=min(time + self.length, FOREVER))
        last = self.slices[-1]
        if time >= last.since:
            end = len(cells) if times[-1] < last.until else at + int(np.searchsorted(times[at:], last.until))
            if end < len(cells) and end - at + last.rows < self.slice_rows:
                end = min(len(cells), at + self.slice_rows - last.rows)
                last.until = max(last.until, int(times[end - 1]) + 1)
            return last, end
        owner = max(k for k, s in enumerate(self.slices) if k == 0 or s.since <= time)
        part = self.slices[owner]
        part.since = min(part.since, time)
        if owner + 1 == len(self.slices):
            return part, len(cells) if times[-1] < part.until else at + int(np.searchsorted(times[at:], part.until))
        return part, at + int(np.searchsorted(times[at:], self.slices[owner + 1].since))

    def _counted(self, at: int, count: int) -> tuple[Slice, int]:
        most = max(self.most, self.rows // SLICES)
        if not self.slices or self.slices[-1].rows >= most:
            self.open()
        last = self.slices[-1]
        return last, min(count, at + most - last.rows)

    def open(self, since: int = ALWAYS, until: int = FOREVER) -> None:
        expected = self.slices[-1].rows * 5 // 4 if self.slices else 0
        block = self.store.arena.allocate(max(expected, 16))
        part = Slice(self.numbers, block, since, until, windows=self.windows)
        self.slices.append(part)
        self.numbers += 1
        if not self.runs or not self._joins(self.runs[-1], part):
            self.runs.append(Run(self.layout, self.runs[-1].rows if self.runs else 0))
        self.runs[-1].slices.append(part)
        self.runs[-1].stamp += 1

    def _joins(self, run: Run, part: Slice) -> bool:
        """Whether a new slice joins the index of the run before it: same layout, and the run is not so long that times
        no longer tell runs apart."""
        if run.layout != self.layout:
            return False
        if self.length is not None:
            return part.since - run.slices[0].since <= RUN * self.length
        return self.most > LARGE * self.slice_rows or len(run.slices) < RUN

    def append(
        self, part: Slice, cells: Ints, columns: Columns, rows: Ints, order: Ints | None, expiries: Sequence[Ints]
    ) -> None:
        count = len(cells)
        run = self._run_of(part)
        if part.rows + count > part.capacity:
            self.store.move(part, max(2 * part.capacity, part.rows + count))
            run.moves += 1
        self.store.append(part, cells, columns, rows, order, expiries)
        part.rows += count
        part.stamp += 1
        run.stamp += 1
        run.rows += count
        self.rows += count
        first, last = time_range(cells)
        part.first_time, part.last_time = min(part.first_time, first), max(part.last_time, last)
        for k, when in zip(self.store.counted, expiries, strict=True):
            part.unknown[k] += int((when == FOREVER).sum())
            part.known[k] = max(part.known[k], int(when.max(initial=ALWAYS, where=when < FOREVER)))

    def _run_of(self, part: Slice) -> Run:
        if part is self.runs[-1].slices[-1]:
            return self.runs[-1]
        return next(r for r in self.runs if part in r.slices)

    def admit(self, placed: Sequence[tuple[Slice, int, int]], chosen: NDArray[np.bool_], member: int) -> None:
        """Let a member see some of the rows that `build` placed."""
        first = 0
        for part, at, count in placed:
            rows = part.start + at + np.flatnonzero(chosen[first : first + count])
            self.store.cells[rows, MEMBERS] |= 1 << member
            part.stamp += 1
            first += count

    # Probe

    def view(self, pattern: Pattern, member: int = 0) -> StemView:
        """All slices, indexed for an access pattern, as a member sees them."""
        return self._views.view(pattern, member)

    def count(
        self, partial: Ints, pattern: Pattern, pairs: Ints, newest: int, expiry: int, budget: int, member: int = 0
    ) -> Counted:
        """The number of stored rows that each of a member's partial results matches; see `Views.count`."""
        return self._views.count(partial, pattern, pairs, newest, expiry, budget, member)

    def gather(self, name: str, rows: Ints, most: float = math.inf) -> pa.Array:
        """Values of a column for stored rows; ArrowInvalid if they are more bytes of text than `most`."""
        return self.store.gather(name, rows, self.slices, self.version, most)

    # Evict

    def evict(self, horizon: int) -> int:
        """Drop slices that no member needs from the horizon on; returns the number of rows dropped."""
        gone = [s for s in self.slices if s.expiry < horizon]
        for part in gone:
            # Indexes need not be told: a row without members matches nothing.
            self.store.cells[part.start : part.start + part.rows, MEMBERS] = 0
            self.store.arena.free(part.block)
        if gone:
            left = set(map(id, gone))
            self.slices = [s for s in self.slices if id(s) not in left]
            for run in self.runs:
                run.slices = [s for s in run.slices if id(s) not in left]
                run.stamp += 1
                if not run.slices:
                    run.release(self.links)
            self.runs = [r for r in self.runs if r.slices]
            self.version += 1
            for listener in self.listeners:
                listener.evicted(ids_of([(s, 0, s.rows) for s in gone]))
        dropped = sum(s.rows for s in gone)
        self.rows -= dropped
        if self._sparse(horizon):
            dropped += self._squeeze(horizon)
        return dropped

    def _sparse(self, horizon: int) -> bool:
        """Whether most rows of living slices are dead: rows expire out of order (PARTITION BY), or come so slowly that
        a slice spans many windows."""
        if self.length is None:
            return bool(self.store.counted) and self.rows > 2 * self.dense + self.slice_rows
        return len(self.slices) <= 2 and self.rows >= SPARSE and self.rows > 2 * self.living(horizon)

    def living(self, horizon: int) -> int:
        """Rows that a member may still need at the horizon."""
        count = 0
        for k, part in enumerate(self.slices):
            alive = int(self.store.alive(part, horizon).sum())
            count += alive
            if self.length is not None and alive == part.rows and part.first_time >= horizon:
                return count + sum(s.rows for s in self.slices[k + 1 :])
        return count

    def _squeeze(self, horizon: int) -> int:
        """Compact the living rows; amortised over their doubling."""
        store, before = self.store, self.rows
        living = [s.start + np.flatnonzero(store.alive(s, horizon)) for s in self.slices]
        rows = np.concatenate(living) if living else np.empty(0, np.int64)
        if self.length is not None:
            rows = rows[np.argsort(store.cells[rows, TIME], kind="stable")]
        ids = ids_at(self.slices, rows) if self.listeners else rows
        kept, order = store.cells[rows], store.arena.arrays["order"][rows] if store.counted else None
        expiries = [store.expiries(k)[rows] for k in store.counted]
        columns = {name: store.carried(name, rows, self.slices, self.version) for name in self.columns}
        self.slices, self.runs, self.rows = [], [], 0
        self._reset()
        listeners, self.listeners = self.listeners, []
        built = self.built
        placed = self.build(kept, columns, np.arange(len(rows)), order, expiries)
        self.dense, self.built, self.listeners = len(rows), built, listeners
        for listener in self.listeners:
            listener.renumbered(ids, ids_of(placed))
        return before - len(rows)

    def expire(self, orders: Ints, expiries: Ints, member: int = 0) -> None:
        """Record when rows, given by sorted place in the source's order, leave a member's window; skips rows that are
        not stored."""
        arrays = self.store.arena.arrays
        for part in self.slices:
            if not part.unknown[member] or not len(orders):
                continue
            stored, sorter = arrays["order"][part.start : part.start + part.rows], None
            if len(self.windows) > 1:
                # Pieces that one member had no use for are stored after later ones: places need not be sorted.
                sorter = np.argsort(stored, kind="stable")
                stored = stored[sorter]
            low, high = np.searchsorted(orders, [stored[0], stored[-1] + 1])
            mine, when = orders[low:high], expiries[low:high]
            at = np.searchsorted(stored, mine)
            hit = stored[np.minimum(at, part.rows - 1)] == mine
            if not hit.any():
                continue
            rows = at[hit] if sorter is None else sorter[at[hit]]
            self.store.expiries(member)[part.start + rows] = when[hit]
            part.unknown[member] -= int(hit.sum())
            part.known[member] = max(part.known[member], int(when[hit].max()))
            part.stamp += 1
            self._run_of(part).stamp += 1
            self.version += 1

    # Layouts

    def relayout(self, layout: Layout, *, migrate: bool | Collection[int] = False) -> int:
        """Index new slices by another layout; with `migrate`, also all present slices or those with these numbers.
        Returns the number of rows to index again."""
        self.layout = layout
        chosen = {s.number for s in self.slices} if migrate is True else set(migrate or ())
        runs: list[Run] = []
        fresh: Run | None = None
        moved = 0
        for run in self.runs:
            if run.layout == layout or not any(s.number in chosen for s in run.slices):
                runs.append(run)
                fresh = None
                continue
            run.release(self.links)
            for part in run.slices:
                wanted = layout if part.number in chosen else run.layout
                moved += part.rows if part.number in chosen else 0
                if fresh is None or fresh.layout != wanted or len(fresh.slices) >= RUN:
                    fresh = Run(wanted)
                    runs.append(fresh)
                fresh.slices.append(part)
        if moved or len(runs) != len(self.runs):
            self.runs = runs
            self.version += 1
        return moved

    def layouts(self) -> dict[int, Layout]:
        """By slice number."""
        return {s.number: run.layout for run in self.runs for s in run.slices}

    def sample(self, rows: int) -> Ints:
        """Keys of some stored rows, evenly spaced."""
        every = max(1, self.rows // max(rows, 1))
        parts = [self.store.cells[s.start : s.start + s.rows : every, KEYS:] for s in self.slices if s.rows]
        return np.concatenate(parts) if parts else np.empty((0, self.attributes), np.int64)

    # State

    def dump(self, part: Slice) -> bytes:
        """A slice as bytes; equal until the slice changes."""
        return self.store.dump(part, self.slices, self.version)
