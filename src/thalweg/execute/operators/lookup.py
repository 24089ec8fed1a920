"""Looking up: partial results of one route through a cache, and new rows through the rest of a cached segment.

Rows that hit get their combinations from the store; those that miss from what the stems give for their distinct keys,
which is then stored. A batch whose missing keys have too many combinations takes the stems as if there were no cache.

Many parameters of `_answers`: what the find kernel gave for a batch of rows travels on in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial as given

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.operator import RowSet
from thalweg.execute.arrival import Arrival
from thalweg.execute.kernels.join import WORK
from thalweg.execute.operators.cache import Cache, Caches, Shadow
from thalweg.execute.operators.residual import Values
from thalweg.execute.operators.stem import Passage, Stems
from thalweg.execute.routetable import Layer, Segment, layered
from thalweg.execute.trip import Trip
from thalweg.language.query import Column
from thalweg.state.kernels import cache as kernels
from thalweg.state.kernels.layout import EXPIRY, FOREVER, NEWEST

Ints = NDArray[np.int64]
MOST = 1 << 18
"""Size: combinations that the missing keys of one chunk may have; with more, memory would depend on the data."""


class Looking:
    """The caches at one place of several routes. An operator of the contract."""

    def __init__(self, lookups: Lookups, layer: Layer, depth: int) -> None:
        self.lookups, self.cached, self.depth = lookups, layer.cached, depth
        self.routes = layer.served(np.array([route for route, _ in layer.cached]))

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        assert rows.ends is not None
        for route, segment in self.cached:
            lines = rows.of(route)
            for chunk in self.lookups.through(trip, self.depth, segment, lines) if len(lines) else ():
                yield RowSet(chunk, np.where(np.arange(len(rows.ends)) > route, len(chunk), 0))


class Watching:
    """Caches that are only watched, at one place of several routes: rows pass by. An operator of the contract."""

    def __init__(self, lookups: Lookups, layer: Layer) -> None:
        self.lookups, self.shadows = lookups, layer.shadows
        self.routes = layer.served(np.array([route for route, _ in layer.shadows]))

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        for route, shadows in self.shadows:
            self.lookups.watch(trip, shadows, rows.of(route))
        yield rows


class Telling:
    """Caches that hear what new rows were joined with, as they pass. An operator of the contract."""

    def __init__(self, lookups: Lookups, layer: Layer) -> None:
        self.number, self.taps = lookups.number, layer.taps
        self.routes = layer.served(np.array([route for route, _ in layer.taps]))

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        for route, caches in self.taps:
            for cache in caches:
                cache.arriving(self.number, rows.of(route))
                cache.broken |= bool(trip.deferred)
        yield rows


class Lookups:
    """The caches in the pipeline of input `number`."""

    def __init__(self, stems: Stems, caches: Caches, number: int, most: int = MOST) -> None:
        self.stems, self.caches, self.number, self.most = stems, caches, number, most
        self._own = stems.shape.row_column(number)
        self._upkeep: dict[tuple[frozenset[int], int], tuple[Layer, ...]] = {}

    def through(self, trip: Trip, depth: int, segment: Segment, partial: Ints) -> Iterator[Ints]:
        """Partial results joined with the segment, chunk by chunk, in a buffer that is reused."""
        cache = segment.cache
        assert cache is not None
        read = given(self.stems.column, self.number, trip.arrival)
        keys = cache.reader.keys(partial, [read(partial, c) for c in cache.reader.columns])
        at, count, first = np.empty((3, len(partial)), np.int64)
        missing = kernels.find(keys, cache.store.table, at, count, first)
        cache.probed(self.number, len(partial), missing)
        due = () if cache.cached.judges else self._due(segment, cache)
        bound = segment.leg.steps[-1].bound
        for chunk in self._answers(trip, depth, segment, cache, partial, keys, at, count, first[:missing]):
            if due:
                keep = self.stems.residuals.settle(due, bound, chunk, read, trip.deferred)
                yield chunk if keep.all() else chunk.compress(keep, axis=0)
            else:
                yield chunk

    def _due(self, segment: Segment, cache: Cache) -> tuple[int, ...]:
        """Predicates between the segment and what came before."""
        return tuple(
            r for s in segment.leg.steps for r in s.residuals if not self.stems.shape.over(r) <= cache.cached.inputs
        )

    def _answers(
        self, trip: Trip, depth: int, segment: Segment, cache: Cache, partial: Ints, keys: Ints, at: Ints, count: Ints,
        first: Ints,
    ) -> Iterator[Ints]:  # fmt: skip
        store = cache.store
        if len(first) < len(partial):
            yield from self._expand(depth, cache, partial, at, count, store.heap)
        if not len(first):
            return
        missed, deferred = count < 0, set[int]()
        filled = self._fill(trip, depth, segment, cache, partial.take(first, axis=0), deferred)
        if filled is None or deferred:
            # Too much to keep, or a predicate raised: its verdicts are not known.
            rows = partial if missed.all() else partial.compress(missed, axis=0)
            yield from self._stems(segment.plain, 0, depth, trip.arrival, rows, trip.deferred, cache)
            return
        bounds, records = filled
        cache.met.filled += len(records)
        groups = np.where(missed, at, 0)
        counts = np.where(missed, np.diff(bounds)[groups], 0)
        yield from self._expand(depth, cache, partial, bounds[groups], counts, records)
        store.create(keys.take(first, axis=0), bounds, records)

    def _fill(
        self, trip: Trip, depth: int, segment: Segment, cache: Cache, asking: Ints, deferred: set[int]
    ) -> tuple[Ints, Ints] | None:
        """What the stems give for distinct keys, as bounds of each and records; None if it is too much."""
        asked = asking.copy()
        asked[:, NEWEST], asked[:, EXPIRY], asked[:, self._own] = self.caches.floor, FOREVER, np.arange(len(asked))
        arrival = replace(trip.arrival, newest=self.caches.floor, expiry=FOREVER)
        shape, inputs = self.stems.shape, cache.cached.inputs

        def values(chunk: Ints, column: Column) -> pa.Array:
            if shape.number[column.input] not in inputs:
                chunk = asking.take(chunk[:, self._own], axis=0)
            return self.stems.column(self.number, trip.arrival, chunk, column)

        found, total = list[Ints](), 0
        for chunk in self._stems(segment.fill, 0, depth, arrival, asked, deferred, cache, values):
            total += len(chunk)
            if total > self.most:
                return None
            found.append(chunk.copy())
        whole = np.concatenate(found) if found else np.empty((0, shape.width), np.int64)
        groups = whole[:, self._own]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=len(asked)))]).astype(np.int64)
        if len(found) > 1 or (groups[1:] < groups[:-1]).any():
            whole = whole.take(np.argsort(groups, kind="stable"), axis=0)
        return bounds, cache.records(whole)

    def _expand(self, depth: int, cache: Cache, partial: Ints, at: Ints, count: Ints, records: Ints) -> Iterator[Ints]:
        """Rows with their combinations."""
        where, cursor = cache.store.where(), np.zeros(2, np.int64)
        out = self.stems.room(depth).out
        while cursor[0] < len(partial):
            written, looked = kernels.expand(
                partial, at, count, records, cache.adds, where.members, where.starts, out, cursor
            )
            cache.met.looked += looked
            cache.met.rows_out += written
            if written:
                yield out[:written]

    def _stems(
        self, layers: Sequence[Layer], k: int, depth: int | None, arrival: Arrival, partial: Ints,
        deferred: set[int], cache: Cache, values: Values | None = None,
    ) -> Iterator[Ints]:  # fmt: skip
        """Partial results through layers of one route, behind a cache at a depth; None: beside all routes."""
        read = values or given(self.stems.column, self.number, arrival)
        ends = np.array([0, len(partial)])
        passage = Passage(self.stems, (depth, k), layers[k], arrival, partial, ends, None)
        while True:
            chunk = passage.go_on()
            for residuals, bound, _ in layers[k].checks if len(chunk) else ():
                keep = self.stems.residuals.settle(residuals, bound, chunk, read, deferred)
                chunk = chunk if keep.all() else chunk.compress(keep, axis=0)
            if len(chunk) and k + 1 < len(layers):
                yield from self._stems(layers, k + 1, depth, arrival, chunk, deferred, cache, values)
            elif len(chunk):
                yield chunk
            if passage.done:
                break
        cache.met.work += float(passage.tallies[:, WORK].sum())

    def watch(self, trip: Trip, shadows: Sequence[Shadow], partial: Ints) -> None:
        """Show partial results to caches that are only watched."""
        read = given(self.stems.column, self.number, trip.arrival)
        for shadow in shadows if len(partial) else ():
            shadow.see(partial, [read(partial, c) for c in shadow.reader.columns])

    # Upkeep

    def follow(self, trip: Trip, rows: RowSet, rest: NDArray[np.bool_] | None) -> None:
        """Tell caches of new rows whose routes did not, but for those recalled."""
        routes = rows.routes
        for cache, lost in trip.table.lost:
            mine = lost[routes] if rest is None else lost[routes] & ~rest
            lines = rows.lines if mine.all() else rows.lines.compress(mine, axis=0)
            self._join(trip.arrival, lines, cache)

    def _join(self, arrival: Arrival, partial: Ints, cache: Cache) -> None:
        """Join new rows with the rest of a cached segment, where their routes did not."""
        if not cache.store.live or cache.cached.judges or not len(partial):
            return
        if len(cache.inputs) == 1:
            cache.arriving(self.number, partial)
            return
        deferred: set[int] = set()
        layers = self._layers(cache.cached.inputs)
        for chunk in self._stems(layers, 0, None, arrival, partial, deferred, cache):
            cache.arriving(self.number, chunk)
        cache.broken |= bool(deferred)

    def _layers(self, inputs: frozenset[int]) -> tuple[Layer, ...]:
        """The stems of the rest of a segment, each connected to one before where that is possible."""
        key = (inputs, self.number)
        if key not in self._upkeep:
            shape, order = self.stems.shape, [self.number]
            while len(order) < len(inputs):
                rest = [i for i in sorted(inputs) if i not in order]
                order.append(next((i for i in rest if any(shape.connected(i, j) for j in order)), rest[0]))
            self._upkeep[key] = layered(shape.whole(frozenset([self.number]), tuple(order[1:])).steps)
        return self._upkeep[key]
