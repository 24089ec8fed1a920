"""A stem: the stored tuples of one input as a ring of slices. Build, probe, evict; never an intermediate result.

Windows over time cut slices by time (a quarter of the span, but never fewer rows than pay for an index of their own),
others by number of rows. Invariants: slices are sorted by `since` and own disjoint spans of time where they are cut by
time; a tuple is dropped only with its whole slice, and only when its expiry is before the horizon, so no window ever
misses it. Stems: the thesis' synopses (5.1) and the states of AMRI (section 4.2: partitions, each with its own
configuration).
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import CheckpointError, DefinitionError
from thalweg.plan.layout import Layout, Pattern
from thalweg.state.arena import Arena, Block
from thalweg.state.columns import FixedValues, fixed_dtype, read, take, to_arrow
from thalweg.state.index import buckets_for, expected_rows
from thalweg.state.kernels import count as kernels
from thalweg.state.kernels.layout import EXPIRY, FALLING, FIRST_TIME, KEYS, LAST_EXPIRY, NEWEST, SHARES, bounds
from thalweg.state.keys import plain
from thalweg.state.slice import ALWAYS, FOREVER, Run, Slice

Ints = NDArray[np.int64]
Columns = Mapping[str, FixedValues | pa.Array]
SLICE_ROWS = 1024
"""Rows below which a slice is not worth an index of its own."""
FEW = 64
"""Rows that are not worth being looked through for dead ones."""
LARGE = 16
"""How many times that an unbounded stem's slices are, at least."""
RUN = 8
"""Slices that are indexed together, at most: about two windows."""
SCANNED = 1 / 8
"""What it takes to look at a stored row in passing, as a share of entering it in an index."""


@dataclass(frozen=True, slots=True)
class StemView:
    """What a kernel needs to probe a stem with one access pattern."""

    cells: Ints
    links: NDArray[np.int32]
    runs: Ints
    where: tuple[int, int, int]
    """Address of the cells, their width, address of the links."""

    def between(self, newest: int, expiry: int) -> StemView:
        """Only the runs that partial results between these times can match."""
        r = self.runs
        if len(r) < 4:
            return self
        near = (r[:, LAST_EXPIRY] >= newest) & (r[:, FIRST_TIME] <= expiry)
        return self if near.all() else StemView(self.cells, self.links, np.ascontiguousarray(r[near]), self.where)


@dataclass(frozen=True, slots=True)
class Counted:
    """What some partial results would meet at a stem."""

    matches: Ints
    """Of each; -1: not tried, those before it had used up the budget."""
    work: float
    """Units of work that probes with an index for their access pattern take for it."""
    entries: float
    """Rows entered in an index only for this; rows looked through instead count as a share of one."""


class Stem:
    """The window of one input.

    `length` is the span of a slice; None cuts by rows instead, `most` at a time or a quarter of the stem where that is
    more.
    """

    def __init__(
        self, alias: str, attributes: int, columns: Mapping[str, pa.DataType], *, length: int | None = None,
        most: int | None = None, slice_rows: int = SLICE_ROWS, layout: Layout | None = None, ordered: bool = False,
        scattered: bool = False, widest: int | None = None,
    ) -> None:  # fmt: skip
        self.alias = alias
        self.attributes = attributes
        self.columns = dict(columns)
        self.length = length
        self.most = most or LARGE * slice_rows
        self.slice_rows = slice_rows
        self.layout = layout or Layout()
        self.ordered = ordered
        self.scattered = scattered
        self.widest = attributes if widest is None else widest
        """Most attributes of any stem of the query: lines of runs are as long for all and can be put together."""
        if self.layout.bits and len(self.layout.bits) != attributes:
            raise DefinitionError(
                f"the index layout of '{alias}' has bits for {len(self.layout.bits)} attributes",
                hint=f"'{alias}' has {attributes} join attributes: give as many numbers",
            )
        self.slices: list[Slice] = []
        self.runs: list[Run] = []
        self.version = 0
        self.rows = 0
        self.entries = 0
        """Rows entered into an index, moved ones again."""
        self.hashes = 0
        """Attributes hashed for that."""
        self._numbers = 0
        self._dense = 0
        self._reset()

    def _reset(self) -> None:
        arrays: dict[str, NDArray[Any]] = {"cells": np.empty((0, KEYS + self.attributes), np.int64)}
        if self.ordered:
            arrays["order"] = np.empty(0, np.int64)
        for name, dtype in self.columns.items():
            fixed = fixed_dtype(dtype)
            if fixed is not None:
                arrays[f"column.{name}"] = np.empty(0, fixed)
        self._store = Arena(arrays)
        self._links = Arena({"links": np.empty(0, np.int32)})
        self._views: dict[Pattern, tuple[tuple[int, int, int], StemView]] = {}
        self._where: tuple[Ints, NDArray[np.int32], tuple[int, int, int]] | None = None
        """Cells and links, and what a view says of them: asking an array for its address takes microseconds."""
        self._pieces: dict[str, tuple[tuple[int, int], Ints, list[pa.Array]]] = {}

    @property
    def nbytes(self) -> int:
        chunks = sum(int(a.nbytes) for s in self.slices for pieces in s.chunks.values() for a in pieces)
        return self._store.nbytes + self._links.nbytes + chunks

    # Build

    def build(self, cells: Ints, columns: Columns, rows: Ints, order: Ints | None = None) -> None:
        """Store tuples, sorted by time where slices are cut by time: line k of `cells` is row `rows[k]` of the
        columns."""
        at, count = 0, len(cells)
        while at < count:
            part, end = self._timed(cells, at) if self.length is not None else self._counted(at, count)
            self._append(part, cells[at:end], columns, rows[at:end], None if order is None else order[at:end])
            at = end
        self.version += 1

    def _timed(self, cells: Ints, at: int) -> tuple[Slice, int]:
        """The slice that owns the time of line `at`, and the first line that it does not own."""
        assert self.length is not None
        times, time = cells[:, NEWEST], int(cells[at, NEWEST])
        if not self.slices or (time >= self.slices[-1].until and self.slices[-1].rows >= self.slice_rows):
            self._open(since=time, until=min(time + self.length, FOREVER))
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
        most = max(self.most, self.rows // 4)
        if not self.slices or self.slices[-1].rows >= most:
            self._open()
        last = self.slices[-1]
        return last, min(count, at + most - last.rows)

    def _open(self, since: int = ALWAYS, until: int = FOREVER) -> None:
        expected = self.slices[-1].rows * 5 // 4 if self.slices else 0
        block = self._store.allocate(max(expected, 16))
        part = Slice(self._numbers, block, since, until)
        self.slices.append(part)
        self._numbers += 1
        if not self.runs or not self._joins(self.runs[-1], part):
            self.runs.append(Run(self.layout, self.runs[-1].rows if self.runs else 0))
        self.runs[-1].slices.append(part)
        self.runs[-1].stamp += 1

    def _joins(self, run: Run, part: Slice) -> bool:
        """Whether a new slice is indexed with the run before it: one layout, and not so long that times stop to tell
        apart."""
        if run.layout != self.layout:
            return False
        if self.length is not None:
            return part.since - run.slices[0].since <= RUN * self.length
        return self.most > LARGE * self.slice_rows or len(run.slices) < RUN

    def _append(self, part: Slice, cells: Ints, columns: Columns, rows: Ints, order: Ints | None) -> None:
        count = len(cells)
        if part.rows + count > part.capacity:
            self._move(part, max(2 * part.capacity, part.rows + count))
        arrays = self._store.arrays
        at = part.start + part.rows
        span = slice(at, at + count)
        arrays["cells"][span] = cells
        if order is not None:
            arrays["order"][span] = order
        whole = len(rows) > 0 and rows[-1] - rows[0] == count - 1
        picked: Any = slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows
        for name in self.columns:
            column = columns[name]
            if isinstance(column, FixedValues):
                arrays[f"column.{name}"][span] = column.values[picked]
                self._mark_valid(name, span, None if column.valid is None else column.valid[picked])
            else:
                part.append_chunk(name, take(column, rows))
        part.rows += count
        part.stamp += 1
        run = self._run_of(part)
        run.stamp += 1
        run.rows += count
        self.rows += count
        first, last, unknown = bounds(cells, ALWAYS, FOREVER)
        part.first_time, part.last_expiry = min(part.first_time, first), max(part.last_expiry, last)
        part.unknown += unknown

    def _mark_valid(self, name: str, span: slice, valid: NDArray[np.bool_] | None) -> None:
        marks = self._store.arrays.get(f"valid.{name}")
        if marks is None:
            if valid is None:
                return
            marks = self._store.add(f"valid.{name}", np.bool_, True)
        marks[span] = True if valid is None else valid

    def _move(self, part: Slice, capacity: int) -> None:
        fresh: Block = self._store.allocate(capacity)
        old = part.block
        for array in self._store.arrays.values():
            array[fresh.offset : fresh.offset + part.rows] = array[old.offset : old.offset + part.rows]
        self._store.free(old)
        part.block = fresh
        self._run_of(part).moves += 1

    def _run_of(self, part: Slice) -> Run:
        if part is self.runs[-1].slices[-1]:
            return self.runs[-1]
        return next(r for r in self.runs if part in r.slices)

    # Probe

    def view(self, pattern: Pattern) -> StemView:
        """All slices, indexed for an access pattern."""
        cached = self._views.get(pattern)
        if cached is not None and cached[0] == (self.version, self._store.version, self._links.version):
            return cached[1]
        cells = self._store.arrays["cells"]
        indexes = [run.index(pattern, self.attributes) for run in self.runs]
        for run, index in zip(self.runs, indexes, strict=True):
            run.refresh(self._store.version)
            entered = index.sync(run, cells, self._store.version, self._links)
            if entered:
                self.entries += entered
                self.hashes += entered * index.hashed
        table = np.zeros((len(self.runs), SHARES + 2 * self.widest), np.int64)
        for line, run, index in zip(table, self.runs, indexes, strict=True):
            line[FIRST_TIME] = run.first_time
            line[LAST_EXPIRY] = run.expiry
            index.describe(line, pattern)
            if self.scattered:
                line[FALLING] = 0
        links = self._links.arrays["links"]
        if self._where is None or self._where[0] is not cells or self._where[1] is not links:
            self._where = (cells, links, (cells.ctypes.data, cells.shape[1], links.ctypes.data))
        view = StemView(cells, links, table, self._where[2])
        self._views[pattern] = ((self.version, self._store.version, self._links.version), view)
        return view

    def count(self, partial: Ints, pattern: Pattern, pairs: Ints, newest: int, expiry: int, budget: int) -> Counted:
        """How many stored tuples match each of a few partial results, none older or expiring later than said. Stops after the
        one that brings the work to `budget`.

        Where rows come and go, and their access pattern has no index or one far behind, the rows are looked through: an
        index that nobody else needs would cost more.
        """
        if pattern and self._missing(pattern) > SCANNED * self.rows:
            counted = self._scan(partial, pairs, newest, expiry, self.rows + budget)
            if counted is not None:
                return counted
        matches = np.empty(len(partial), np.int64)
        entered = self.entries
        view = self.view(pattern).between(newest, expiry)
        work = kernels.count(partial, view.cells, view.links, view.runs, pairs, budget, matches)
        return Counted(matches, work, self.entries - entered)

    def _missing(self, pattern: Pattern) -> int:
        """Rows that only an index of just this access pattern would have to be given."""
        moving = self.length is not None or self.ordered
        return sum([run.missing(pattern) for run in self.runs]) if moving else 0

    def _scan(self, partial: Ints, pairs: Ints, newest: int, expiry: int, budget: int) -> Counted | None:
        """Count without an index, and tell what probes would take with one; None if too many rows have common keys."""
        blocks, rows, each = [], 0, 0.0
        for run in self.runs:
            near = [s for s in run.slices if s.expiry >= newest and s.first_time <= expiry]
            if near:
                blocks += [(s.start, s.start + s.rows) for s in near]
                living = sum([s.rows for s in near])
                rows += living
                each += 1.0 + living / buckets_for(expected_rows(run))
        matches = np.empty(len(partial), np.int64)
        met = kernels.scan(
            partial, self._store.arrays["cells"], np.array(blocks, np.int64).reshape(-1, 2), pairs, budget, matches
        )
        return Counted(matches, met + each * len(partial), SCANNED * rows) if met >= 0 else None

    def gather(self, name: str, rows: Ints) -> pa.Array:
        """Values of a column for stored rows."""
        values = self._store.arrays.get(f"column.{name}")
        if values is not None:
            valid = self._store.arrays.get(f"valid.{name}")
            return to_arrow(self.columns[name], values[rows], None if valid is None else valid[rows])
        if not len(rows):
            return pa.array([], self.columns[name])
        starts, pieces = self._located(name)
        piece = np.searchsorted(starts, rows, side="right") - 1
        within = rows - starts[piece]
        if (piece == piece[0]).all():
            return pieces[piece[0]].take(pa.array(within))
        by_piece = np.argsort(piece, kind="stable")
        cuts = np.flatnonzero(np.diff(piece[by_piece])) + 1
        parts = [pieces[piece[group[0]]].take(pa.array(within[group])) for group in np.split(by_piece, cuts)]
        back = np.empty(len(rows), np.int64)
        back[by_piece] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(back))

    def _located(self, name: str) -> tuple[Ints, list[pa.Array]]:
        """The pieces of an Arrow column and the row at which each begins."""
        stamp = (self.version, self._store.version)
        cached = self._pieces.get(name)
        if cached is not None and cached[0] == stamp:
            return cached[1], cached[2]
        located: list[tuple[int, pa.Array]] = []
        for part in self.slices:
            at = part.start
            for piece in part.chunks.get(name, ()):
                located.append((at, piece))
                at += len(piece)
        located.sort(key=lambda entry: entry[0])
        starts = np.array([at for at, _ in located], np.int64)
        pieces = [piece for _, piece in located]
        self._pieces[name] = (stamp, starts, pieces)
        return starts, pieces

    # Evict

    def evict(self, horizon: int) -> int:
        """Drop slices of which every row expired before the horizon; returns the rows dropped."""
        gone = [s for s in self.slices if s.expiry < horizon]
        for part in gone:
            # Indexes find out by themselves: what has expired for good matches nothing.
            self._store.arrays["cells"][part.start : part.start + part.rows, EXPIRY] = ALWAYS
            self._store.free(part.block)
        if gone:
            self.slices = [s for s in self.slices if s.expiry >= horizon]
            for run in self.runs:
                run.slices = [s for s in run.slices if s.expiry >= horizon]
                run.stamp += 1
                if not run.slices:
                    run.release(self._links)
            self.runs = [r for r in self.runs if r.slices]
            self.version += 1
        dropped = sum(s.rows for s in gone)
        self.rows -= dropped
        if self._sparse(horizon):
            dropped += self._squeeze(horizon)
        return dropped

    def _sparse(self, horizon: int) -> bool:
        """Whether most rows are dead in slices that live: rows expire out of order (PARTITION BY), or come so slowly that a
        slice spans many windows."""
        if self.length is None:
            return self.ordered and self.rows > 2 * self._dense + self.slice_rows
        return len(self.slices) <= 2 and self.rows >= FEW and self.rows > 2 * self.living(horizon)

    def living(self, horizon: int) -> int:
        """Rows that have not expired before the horizon."""
        count = 0
        for k, part in enumerate(self.slices):
            here = self._store.arrays["cells"][part.start : part.start + part.rows, EXPIRY]
            alive = int((here >= horizon).sum())
            count += alive
            if self.length is not None and alive == part.rows and part.first_time >= horizon:
                return count + sum(s.rows for s in self.slices[k + 1 :])
        return count

    def _squeeze(self, horizon: int) -> int:
        """Write the living rows together; amortised over their doubling."""
        cells = self._store.arrays["cells"]
        living = [s.start + np.flatnonzero(cells[s.start : s.start + s.rows, EXPIRY] >= horizon) for s in self.slices]
        rows = np.concatenate(living) if living else np.empty(0, np.int64)
        if self.length is not None:
            rows = rows[np.argsort(cells[rows, NEWEST], kind="stable")]
        before = self.rows
        kept, order = cells[rows], self._store.arrays["order"][rows] if self.ordered else None
        columns = {name: self._carried(name, rows) for name in self.columns}
        self.slices, self.runs, self.rows = [], [], 0
        self._reset()
        self.build(kept, columns, np.arange(len(rows)), order)
        self._dense = len(rows)
        return before - len(rows)

    def _carried(self, name: str, rows: Ints) -> FixedValues | pa.Array:
        values = self._store.arrays.get(f"column.{name}")
        if values is None:
            return self.gather(name, rows)
        valid = self._store.arrays.get(f"valid.{name}")
        return FixedValues(self.columns[name], values[rows], None if valid is None else valid[rows])

    def expire(self, orders: Ints, expiries: Ints) -> None:
        """Tell rows, by their sorted place in the input's order, when they leave the window; rows not stored are
        skipped."""
        arrays = self._store.arrays
        for part in self.slices:
            if not part.unknown or not len(orders):
                continue
            stored = arrays["order"][part.start : part.start + part.rows]
            low, high = np.searchsorted(orders, [stored[0], stored[-1] + 1])
            mine, when = orders[low:high], expiries[low:high]
            at = np.searchsorted(stored, mine)
            hit = stored[np.minimum(at, part.rows - 1)] == mine
            if not hit.any():
                continue
            arrays["cells"][part.start + at[hit], EXPIRY] = when[hit]
            part.unknown -= int(hit.sum())
            part.last_expiry = max(part.last_expiry, int(when[hit].max()))
            part.stamp += 1
            self.version += 1

    # Layouts and state

    def relayout(self, layout: Layout, *, migrate: bool | Collection[int] = False) -> int:
        """Index new slices by another layout; with `migrate`, present ones too, or those of these numbers. Returns the
        rows that are indexed anew."""
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
            run.release(self._links)
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

    @property
    def index_bytes(self) -> int:
        """Bytes of directories and chains."""
        blocks = [i.block for r in self.runs for i in r.indexes.values()]
        return sum(b.size for b in blocks if b is not None) * self._links.arrays["links"].itemsize

    def sample(self, rows: int) -> Ints:
        """Keys of some stored tuples, evenly spaced."""
        held = [s for s in self.slices if s.rows]
        cells = self._store.arrays["cells"]
        every = max(1, self.rows // max(rows, 1))
        parts = [cells[s.start : s.start + s.rows : every, KEYS:] for s in held]
        return np.concatenate(parts) if parts else np.empty((0, self.attributes), np.int64)

    def layouts(self) -> dict[int, Layout]:
        """By slice number."""
        return {s.number: run.layout for run in self.runs for s in run.slices}

    def dump(self, part: Slice) -> bytes:
        """A slice as Arrow IPC: times, expiries, keys, and the columns carried."""
        if part.dumped is not None and part.dumped[0] == part.stamp:
            return part.dumped[1]
        rows = np.arange(part.start, part.start + part.rows)
        cells = self._store.arrays["cells"][rows]
        table = {f"cell.{k}": pa.array(np.ascontiguousarray(cells[:, k])) for k in range(cells.shape[1])}
        if self.ordered:
            table["order"] = pa.array(self._store.arrays["order"][rows])
        table |= {f"column.{name}": self.gather(name, rows) for name in self.columns}
        content = write_ipc(pa.table(table))
        part.dumped = (part.stamp, content)
        return content

    def load(self, record: Mapping[str, Any], content: bytes) -> None:
        """Take up a slice written by `dump`; slices come in their order."""
        table = read_ipc(content)
        cells = np.stack([table[f"cell.{k}"].to_numpy() for k in range(KEYS + self.attributes)], axis=1)
        self._open(int(record["since"]), int(record["until"]))
        part = self.slices[-1]
        part.number = int(record["number"])
        self._numbers = max(self._numbers, part.number + 1)
        columns = {}
        for name, dtype in self.columns.items():
            column = plain(table[f"column.{name}"])
            if column.type != dtype:
                raise CheckpointError(
                    f"'{self.alias}.{name}' is {dtype} now and was {column.type} when the state was written",
                    hint="start from a new checkpoint",
                )
            columns[name] = read(column)
        order = np.ascontiguousarray(table["order"].to_numpy()) if self.ordered else None
        self._append(part, np.ascontiguousarray(cells), columns, np.arange(table.num_rows), order)
        self.version += 1


def write_ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_ipc(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
