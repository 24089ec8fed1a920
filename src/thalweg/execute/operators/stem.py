"""Stems as operators: partial results of all routes go through a leg of stems each, in one call of the kernel.

The kernel's tables (addresses, runs) are built once per stem and access pattern, not per route, and kept until a stem
changes. Buffers have a fixed size: each chunk of output goes all the way through before the next is requested, so an
explosion of results needs no memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.execute.arrival import Arrival
from thalweg.execute.kernels import join as kernels
from thalweg.execute.kernels import routes
from thalweg.execute.operators.residual import Residuals
from thalweg.execute.routetable import Layer
from thalweg.execute.shape import Shape
from thalweg.language.query import Column
from thalweg.plan.layout import Pattern
from thalweg.state.columns import take
from thalweg.state.stem import Stem
from thalweg.state.views import StemView

Ints = NDArray[np.int64]
Depth = int | tuple[int | None, int]
"""Of a layer on its route; behind a cache, the depth of the cache and the layer there."""
TRUST = 1024
"""Tested: units of work before the first check against the limit of a ruster."""
BUFFER = 1 << 14
"""Size: partial results that one layer hands on at a time, and results in a chunk."""
BLOCK = 1 << 8
"""Size: results that are gathered at a time: they stay in the cache nearest to the core."""


class Stems:
    """The stems of one query."""

    def __init__(self, shape: Shape, stems: Sequence[Stem | None], *, buffer: int = BUFFER) -> None:
        self.shape = shape
        self.stems = stems
        self.buffer = buffer
        self.residuals = Residuals(shape)
        self._rooms: dict[Depth, Room] = {}
        self._lines = np.empty((0, shape.width), np.int64)

    def stem(self, i: int) -> Stem:
        stem = self.stems[i]
        assert stem is not None
        return stem

    def room(self, depth: Depth) -> Room:
        """The buffers of the layer at this depth; layers are nested."""
        if depth not in self._rooms:
            self._rooms[depth] = Room(self.buffer, self.shape.width)
        return self._rooms[depth]

    def copied(self, partial: Ints, lines: Ints) -> Ints:
        """Some lines, in a buffer that the next call reuses: allocating costs more than the copy."""
        if len(lines) > len(self._lines):
            self._lines = np.empty((2 * len(lines), partial.shape[1]), np.int64)
        return partial.take(lines, axis=0, out=self._lines[: len(lines)], mode="clip")

    def column(self, i: int, arrival: Arrival, chunk: Ints, column: Column) -> pa.Array:
        """The values of a column for partial results of rows of input i."""
        rows = np.ascontiguousarray(chunk[:, self.shape.row_column(self.shape.number[column.input])])
        return self.values(i, arrival, rows, column)

    def values(self, i: int, arrival: Arrival, rows: Ints, column: Column, most: float = math.inf) -> pa.Array:
        """The values of a column for some of its input's rows: those of input i arrive, all others are stored.
        ArrowInvalid if they are more bytes of text than `most`."""
        j = self.shape.number[column.input]
        return (
            take(arrival.columns[column.name], rows, most) if i == j else self.stem(j).gather(column.name, rows, most)
        )

    def tables(self, layer: Layer, arrival: Arrival) -> tuple[list[StemView], Ints, Ints, int]:
        """The views that a layer needs, a line for each of its steps, the lines of all runs, and the most runs of a
        view. Lines point into the arrays of the views: keep the views while using the lines."""
        views = [self._view(target, member, pattern, arrival) for target, member, pattern in layer.views]
        if layer.ready is not None and all(a is b for a, b in zip(views, layer.ready[0], strict=True)):
            return layer.ready
        where, run, most = [], 0, 0
        for view in views:
            count = len(view.runs)
            where.append((*view.where, run, run + count))
            run, most = run + count, max(most, count)
        runs = views[0].runs if len(views) == 1 else np.concatenate([v.runs for v in views])
        lines = np.concatenate([np.array(where, np.int64).take(layer.view, axis=0), layer.lines], axis=1)
        layer.ready = views, lines, runs, most
        return layer.ready

    def _view(self, target: int, member: int, pattern: Pattern, arrival: Arrival) -> StemView:
        return self.stem(target).view(pattern, member).between(arrival.newest, arrival.expiry)


class Room:
    """Buffers of one layer: its output, and the blocks that carry rows from stem to stem."""

    def __init__(self, buffer: int, width: int) -> None:
        self.out = np.empty((buffer, width), np.int64)
        self.blocks = np.empty((0, kernels.AHEAD, width), np.int64)
        self.candidates = np.empty((0, kernels.AHEAD, 0), np.int64)
        self.living = np.empty((0, kernels.AHEAD), np.int64)
        self.stack = np.empty((0, kernels.STACK), np.int64)

    def fit(self, steps: int, runs: int) -> None:
        """Make room for legs of `steps` steps with at most `runs` runs each."""
        if steps > len(self.blocks) or runs > self.candidates.shape[2]:
            steps, runs = max(steps, len(self.blocks)), max(2 * runs, self.candidates.shape[2])
            self.blocks = np.empty((steps, *self.blocks.shape[1:]), np.int64)
            self.candidates = np.empty((steps, kernels.AHEAD, runs), np.int64)
            self.living = np.empty((steps, kernels.AHEAD), np.int64)
            self.stack = np.empty((steps, kernels.STACK), np.int64)


class Passage:
    """Partial results on their way through one layer. Rows `ends[r]` to `ends[r + 1]` take route r."""

    __slots__ = (
        "_ends", "_kept", "_layer", "_left", "_limit", "_lines", "_partial", "_place", "_room", "_runs", "_trust", "bounds",
        "cursors", "tallies",
    )  # fmt: skip

    def __init__(
        self, stems: Stems, depth: Depth, layer: Layer, arrival: Arrival, partial: Ints, ends: Ints, limit: float | None,
        left: Ints = kernels.NONE_HELD,
    ) -> None:  # fmt: skip
        """`left` is what drop probing left behind for these rows."""
        self._layer, self._partial, self._ends, self._left = layer, partial, ends, left
        self._kept, self._lines, self._runs, most = stems.tables(layer, arrival)
        self._room = stems.room(depth)
        self._room.fit(layer.longest, most)
        self._trust, self._limit = (0, 0.0) if limit is None else (TRUST, limit)
        self._place = np.zeros(routes.PLACE, np.int64)
        self.cursors = np.zeros((len(ends) - 1, kernels.CURSOR), np.int64)
        """Each route's progress, and whether its rows were recalled."""
        self.tallies = np.zeros((len(self._lines), kernels.TALLY), np.int64)
        """Counts of each step."""
        self.bounds = np.empty(len(ends), np.int64)
        """The bounds of each route in the latest output."""

    def go_on(self) -> Ints:
        """Output of the layer until the buffer is full. The next call reuses the buffer."""
        out = self._room.out
        return out[: self._drive(out, routes.NO_LINES, 0)]

    def write(self, lines: Ints, at: int, most: int) -> int:
        """Write the output of the layer, which are results, to a sheet of `most` rows, from row `at` on, until it is full.
        Returns the rows on the sheet."""
        self._place[routes.AT_RESULT] = at
        self._drive(self._room.out[:BLOCK], lines, most)
        return int(self._place[routes.AT_RESULT])

    def _drive(self, out: Ints, lines: Ints, most: int) -> int:
        room, layer = self._room, self._layer
        tables = kernels.Tables(self._lines, self._runs, layer.pairs, layer.adds, self._left)
        buffers = kernels.Room(room.blocks, room.candidates, room.living, room.stack)
        progress = routes.Progress(self._place, self.bounds, self.cursors, self.tallies)
        return routes.drive(
            self._partial, self._ends, layer.firsts, tables, buffers, out, progress, self._trust, self._limit, lines, most
        )  # fmt: skip

    @property
    def done(self) -> bool:
        return bool(self._place[routes.AT_ROUTE] == len(self._ends) - 1)
