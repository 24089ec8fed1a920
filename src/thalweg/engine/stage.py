"""A stage: one input inside the engine. Its pipeline and policy, its stem, and what its rows have met so far.

A row enters a window (`stay`), is coded (`arrive`: one partial result of one row; rows that can match nothing are left
out), and is stored (`build`). Windows over time end at time + span; row windows are counted by `RowOrder`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from thalweg.execute.arrival import Arrival
from thalweg.execute.shape import Shape
from thalweg.language.query import Input
from thalweg.plan import Pipeline
from thalweg.plan.layout import Layout
from thalweg.state.columns import read
from thalweg.state.kernels.layout import KEYS, lay_out, narrowed
from thalweg.state.keys import plain, plain_type
from thalweg.state.roworder import RowOrder
from thalweg.state.slice import ALWAYS, FOREVER
from thalweg.state.stem import Stem

Ints = NDArray[np.int64]


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


@dataclass
class Stage:
    """One input inside the engine."""

    number: int
    input: Input
    shape: Shape
    dispatch: Dispatch | None
    """Who asks its policy; None for inputs whose rows only wait to be found."""
    stem: Stem | None
    span: int = 0
    """Length of a window over time, in ticks."""
    order: RowOrder | None = None
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

    def stay(self, times: Ints, data: pa.RecordBatch) -> tuple[Ints, Ints | None]:
        """When rows, sorted by time, leave the window, and their places in the order of a row window. Stored rows that
        they push out of it are told."""
        window = self.input.window
        if self.order is None:
            if window.kind == "unbounded" or not self.input.is_stream:
                return np.full(len(times), FOREVER), None
            return np.minimum(times + self.span, FOREVER - 1), None
        first = self.order.released
        partitions = [plain(data.column(name)) for name in window.by] if window.by else None
        expiries, numbers, known = self.order.release(times, partitions)
        if self.stem is not None:
            self.stem.expire(numbers, known)
        return expiries, np.arange(first, first + len(times))

    def arrive(self, data: pa.RecordBatch, times: Ints, expiries: Ints) -> tuple[Arrival, Ints | None]:
        """Rows as partial results. Those that can't match (a NULL key, an empty stay in the window) are left out; then
        the rows that remain are listed."""
        shape, i = self.shape, self.number
        self.counts.rows_in += len(times)
        codes, rows = self._code(data)
        if rows is not None:
            self.counts.keyless += len(times) - len(rows)
        if self.order is not None:
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

    def _code(self, data: pa.RecordBatch) -> tuple[dict[int, Ints], Ints | None]:
        """A code for each key class and row, and the rows whose keys are all known and agree (None: all)."""
        codes: dict[int, Ints] = {}
        keep: NDArray[np.bool_] | None = None
        for c in self.shape.classes[self.number]:
            coder, names = self.shape.coders[c], self.shape.key_columns[self.number][c]
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
        return codes, None if keep is None or keep.all() else np.flatnonzero(keep)

    def build(self, arrival: Arrival, kept: Ints, order: Ints | None) -> None:
        """Store the rows that passed the filters."""
        if self.stem is None:
            return
        rows = kept[:, self.shape.row_column(self.number)]
        cells = narrowed(kept, self.shape.cells[self.number])
        self.counts.built += len(kept)
        self.stem.build(cells, arrival.columns, rows, None if order is None else order[rows])

    def met(self, visits: Visits) -> None:
        """Count what came of some rows."""
        self.classes.add(visits.journeys)
        self.counts.add(visits, self.pipeline)

    def stats(self) -> dict[str, Any]:
        c, stem = self.counts, self.stem
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


def make_stem(shape: Shape, i: int, span: int, layout: Layout | str, slice_rows: int) -> Stem | None:
    """The stem of an input, if another input ever probes it."""
    if not shape.stored(i):
        return None
    entry = shape.query.inputs[i]
    window = entry.window
    timed = entry.is_stream and window.kind in ("range", "now")
    most = None
    if not entry.is_stream:
        most = FOREVER
    elif window.kind == "rows":
        most = max(slice_rows, window.rows // 4)
    elif window.kind == "partition":
        most = slice_rows
    return Stem(
        entry.alias, len(shape.classes[i]), shape.carried(i),
        length=max(span // 4, 1) if timed else None, most=most, slice_rows=slice_rows, layout=Layout.parse(layout),
        ordered=entry.is_stream and window.ordered, scattered=window.kind == "partition",
        widest=max(map(len, shape.classes)),
    )  # fmt: skip


def make_order(shape: Shape, i: int) -> RowOrder | None:
    """The order of an input with a row window."""
    entry = shape.query.inputs[i]
    if not entry.is_stream or not entry.window.ordered:
        return None
    types = [plain_type(entry.spec.schema.field(name).type) for name in entry.window.by]
    return RowOrder(entry.window.rows, tuple(types))


def layout_of(index: Layout | str | Mapping[str, Layout | str], alias: str) -> Layout | str:
    """The layout that an input starts with."""
    return index.get(alias, "hash") if isinstance(index, Mapping) else index
