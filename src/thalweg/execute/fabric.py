"""The fabric: sends the rusters of one pipeline through filters and stems; returns results and visits. No policy here.

This is the self-routing fabric of query mesh (5.2): rows carry their routes, no router is consulted on the way, and
rows of all routes that share a next operator meet it in one call. A filter is an operator with fan-out at most one.
Behind the filters, rows become partial results that pass from stem to stem depth first (thesis 5.1-5.2). Invariants: a
row or combination leaves iff all its predicates hold and it lies in its windows at its newest time, whatever the
routes; a predicate's error surfaces only if nothing else drops the row. Rows keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial as given
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import ROWS_OUT, UNTRIED, WORK, Journey, Visits
from thalweg.execute.arrival import Arrival
from thalweg.execute.filters import Filter, Rows
from thalweg.execute.kernels.join import AT_ROW, RECALLED
from thalweg.execute.kernels.routes import by_route
from thalweg.execute.meter import Meter, clock
from thalweg.execute.operators.cache import Caches
from thalweg.execute.operators.filter import Filters
from thalweg.execute.operators.lookup import Lookups
from thalweg.execute.operators.stem import Passage, Stems
from thalweg.execute.operators.trial import Trials
from thalweg.execute.routetable import Layer, Rounds, RouteTable, RouteTables
from thalweg.execute.sheet import Sheet
from thalweg.execute.trip import Pending, Trip
from thalweg.plan import Pipeline, Route, Ruster

Ints = NDArray[np.int64]


class Emit(Protocol):
    """Where results go."""

    def receive(self, i: int, arrival: Arrival, chunk: Ints) -> None:
        """Take full results of rows of input i, in a buffer that is reused afterwards."""
        ...

    def sheet(self) -> Sheet | None:
        """Where the kernel may write columns of results itself; None if full results are needed."""
        ...

    def flush(self, i: int, arrival: Arrival) -> None:
        """Hand on what the sheet holds; it belongs to these rows of input i."""
        ...


class Fabric:
    """Runs one pipeline, that of input `number`, over batches. `stems` are those of its query."""

    def __init__(
        self,
        pipeline: Pipeline,
        filters: Sequence[Filter],
        meter: Meter | None = None,
        stems: Stems | None = None,
        number: int = 0,
        caches: Caches | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.meter = meter or clock()
        self.stems = stems
        self.number = number
        self.filters = Filters(pipeline, filters, self.meter)
        self.tables = RouteTables(pipeline, None if stems is None else stems.shape, number, caches)
        self._lookups = None if stems is None or caches is None else Lookups(stems, caches, number)
        self.first = len(filters)
        """The first stem among the operators."""
        written = Route(tuple(op for op in pipeline.written if op < self.first))
        self._entrance = RouteTable((written,), Rounds.of([written.operators]), (), (True,))
        """The filters alone, for rows that do not join."""
        self._column = 0 if stems is None else stems.shape.row_column(number)
        self._stored = stems is not None and stems.shape.stored(number)
        self._trials = None if stems is None else Trials(pipeline, stems, number, self.first, self.meter)

    def filter(self, batch: Batch, rusters: Sequence[Ruster]) -> tuple[NDArray[np.bool_], Visits]:
        """Filters alone: the rows of a batch that pass, and the work done."""
        arrival, pending = Arrival.of(batch), Pending()
        keep, journeys = np.zeros(len(batch), np.bool_), list[Journey]()
        for ruster in rusters:
            trip, lines, _ = self._depart(arrival, ruster, pending)
            if trip is not None:
                keep[slice(None) if lines is None else lines] = True
                journeys.append(trip.journey(self.first))
        if pending:
            alive = np.flatnonzero(keep)
            keep[alive] = self.filters.without_faults(batch.data, alive, pending)
        return keep, Visits(batch.number, len(batch), tuple(journeys))

    def admit(self, arrival: Arrival) -> Ints:
        """The lines of `arrival.partial` that pass the input's filters, without joining."""
        if not self.first:
            return arrival.partial
        trip = Trip.begin(arrival, Ruster(None, self._entrance.routes[0]), self._entrance, {}, len(self.pipeline))
        rows = self._row_numbers(arrival, None)
        lines = self.filters.work(trip, self._entrance.ahead, rows, len(arrival.partial), None)
        partial = _picked(arrival.partial, lines)
        if trip.pending:
            partial = partial[self.filters.without_faults(arrival.data, partial[:, self._column], trip.pending)]
        return partial

    def run(self, arrival: Arrival, rusters: Sequence[Ruster], emit: Emit) -> tuple[Ints, Ints, tuple[Journey, ...]]:
        """Send rusters on their routes. Returns the lines of `arrival.partial` that pass the input's filters, the
        recalled ones, and journeys.

        If a route exceeds its ruster's limit, its unstarted rows are recalled and must be routed again.
        """
        kept, recalled, journeys = list[Rows | None](), list[Rows | None](), list[Journey]()
        pending = Pending()
        for ruster in rusters:
            trip, lines, ids = self._depart(arrival, ruster, pending)
            if trip is None:
                continue
            if self._stored and pending:
                rows = _picked(arrival.partial, lines)[:, self._column]
                sound = self.filters.without_faults(arrival.data, rows, pending)
                if not sound.all():
                    lines = np.flatnonzero(sound) if lines is None else lines[sound]
                    ids = None if ids is None else ids[sound]
            ends = None
            if ids is not None:
                order, ends = by_route(ids, len(ruster.routes))
                lines = order if lines is None else lines[order]
            rest = self._travel(trip, lines, ends, emit)
            if trip.table.lost:
                self._follow(trip, lines, ends, rest)
            if rest is not None:
                everyone = np.arange(len(arrival.partial)) if lines is None else lines
                recalled.append(everyone[rest])
                lines = everyone[~rest]
            kept.append(lines)
            journeys.append(trip.journey(self.first))
        return _together(arrival.partial, kept), _together(arrival.partial, recalled), tuple(journeys)

    def _travel(self, trip: Trip, lines: Rows | None, ends: Ints | None, emit: Emit) -> NDArray[np.bool_] | None:
        """Take lines of the arrival on from the filters, grouped by route; returns those recalled, if any."""
        assert self.stems is not None
        partial = trip.arrival.partial if lines is None else self.stems.copied(trip.arrival.partial, lines)
        ends = np.array([0, len(partial)]) if ends is None else ends
        if len(partial):
            self._onward(trip, -1, partial, ends, emit)
        if trip.passed is not None and trip.matches is not None:
            met = trip.matches[:, self.first :]
            trip.passed[:, self.first :] = np.where(met < 0, UNTRIED, met > 0)
        if trip.rest is None:
            return None
        return np.arange(len(partial)) >= np.repeat(ends[1:] - trip.rest, np.diff(ends))

    def _follow(self, trip: Trip, lines: Rows | None, ends: Ints | None, rest: NDArray[np.bool_] | None) -> None:
        """Tell caches of new rows whose routes did not."""
        assert self._lookups is not None
        partial = _picked(trip.arrival.partial, lines)
        routes = (
            np.zeros(len(partial), np.int64) if ends is None else np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        )
        for cache, lost in trip.table.lost:
            mine = lost[routes] if rest is None else lost[routes] & ~rest
            self._lookups.follow(trip.arrival, partial if mine.all() else partial.compress(mine, axis=0), cache)

    def in_order(self, parts: Sequence[Ints], whole: Ints) -> Ints:
        """Lines of `whole` (partial results of one row each, in order of arrival) that came in parts."""
        some = [part for part in parts if len(part)]
        if sum(map(len, some)) == len(whole):
            return whole
        if not some:
            return whole[:0]
        lines = some[0] if len(some) == 1 else np.concatenate(some)
        rows = lines[:, self._column]
        if (rows[1:] > rows[:-1]).all():
            return lines
        return lines.take(np.argsort(rows, kind="stable"), axis=0)

    def _depart(
        self, arrival: Arrival, ruster: Ruster, pending: Pending
    ) -> tuple[Trip | None, Rows | None, NDArray[np.int32] | None]:
        """Begin a trip with the filters before any stem: the lines of `arrival.partial` that pass (None: all), and the
        route of each."""
        table = self.tables.of(ruster)
        count = len(arrival.partial if ruster.rows is None else ruster.rows)
        if not count:
            return None, None, None
        trip = Trip.begin(arrival, ruster, table, pending, len(self.pipeline))
        ids = None if len(table.routes) == 1 else ruster.ids
        at: Rows | None = None
        if ruster.purpose == "profile":
            trip.passed = np.full((count, len(self.pipeline)), UNTRIED, np.int8)
            rows = self._row_numbers(arrival, ruster.rows)
            rows = np.arange(count) if rows is None else rows
            if self.stems is not None:
                trip.numbers, trip.matches = rows, np.full(trip.passed.shape, -1, np.int64)
            at = self.filters.profile(trip, table.ahead.common, rows)
        elif table.ahead.common:
            if ruster.trace and self.stems is None:
                trip.dropped = np.full(count, -1, np.int16)
            at = self.filters.work(trip, table.ahead, self._row_numbers(arrival, ruster.rows), count, ids)
        if at is None or len(at) == count:
            return trip, ruster.rows, ids
        return trip, at if ruster.rows is None else ruster.rows[at], None if ids is None else ids[at]

    def _row_numbers(self, arrival: Arrival, lines: Rows | None) -> Rows | None:
        """The row numbers of these lines of `arrival.partial`; None if they count from 0."""
        if len(arrival.partial) == arrival.data.num_rows:
            return lines
        rows = arrival.partial[:, self._column]
        return np.ascontiguousarray(rows) if lines is None else rows[lines]

    def _onward(self, trip: Trip, depth: int, chunk: Ints, ends: Ints, emit: Emit) -> None:
        """Take partial results through everything behind a layer; -1 is the entry."""
        table = trip.table
        if depth >= 0 and table.layers[depth].taps:
            for route, caches in table.layers[depth].taps:
                for cache in caches:
                    cache.arriving(self.number, chunk[ends[route] : ends[route + 1]])
                    cache.broken |= bool(trip.deferred)
        if depth >= 0 and table.layers[depth].rounds.common:
            chunk, ends = self._between(trip, table.layers[depth].rounds, chunk, ends)
        over = table.over[depth + 1]
        if over is True:
            self._finish(trip, chunk, emit)
            return
        if over is not False:
            sizes = np.diff(ends)
            out = np.repeat(over, sizes)
            self._finish(trip, chunk.compress(out, axis=0), emit)
            chunk, ends = chunk.compress(~out, axis=0), _ends(np.where(over, 0, sizes))
        if len(chunk):
            self._join(trip, depth + 1, chunk, ends, emit)

    def _join(self, trip: Trip, depth: int, partial: Ints, ends: Ints, emit: Emit) -> None:
        """Take partial results through the stems of a layer, and pass its output on."""
        assert self.stems is not None
        layer, meter = trip.table.layers[depth], self.meter
        for route, shadows in layer.shadows:
            assert self._lookups is not None
            self._lookups.watch(trip, shadows, partial[ends[route] : ends[route + 1]])
        if layer.cached:
            self._recall(trip, depth, layer, partial, ends, emit)
            if not len(layer.going):
                return
        limit = trip.ruster.limit if depth == 0 else None
        passage = Passage(self.stems, depth, layer, trip.arrival, partial, ends, limit)
        first, seconds = int(layer.operators[0]), 0.0
        sampling = trip.matches is not None and depth not in trip.sampled
        sheet = emit.sheet() if self._ends_with(trip, depth) and not sampling else None
        while True:
            started = meter.start()
            if sheet is not None:
                lines = sheet.lines(self.number, trip.arrival)
                sheet.at = passage.write(lines, sheet.at, sheet.room)
                seconds += meter.stop(started, first, 0)
                if sheet.at == sheet.room:
                    emit.flush(self.number, trip.arrival)
                if passage.done:
                    break
                continue
            chunk = passage.go_on()
            seconds += meter.stop(started, first, 0)
            if sampling:
                sampling = False
                trip.sampled.add(depth)
                if self._sample(trip, layer, passage, partial, chunk):
                    trip.rest = np.diff(ends)
                    break
            came = passage.bounds
            if len(chunk) and layer.checks:
                started = meter.start()
                chunk, came = self._settle(trip, layer, passage, chunk)
                last = int(layer.operators[-1])
                trip.judging[last] = trip.judging.get(last, 0.0) + meter.stop(started, last, 0)
            if len(chunk):
                self._onward(trip, depth, chunk, came, emit)
            if passage.done:
                break
        if limit is not None and passage.cursors[:, RECALLED].any():
            trip.rest = np.where(passage.cursors[:, RECALLED] > 0, np.diff(ends) - passage.cursors[:, AT_ROW], 0)
        trip.counts[layer.routes, layer.operators] += passage.tallies
        work = np.bincount(layer.operators, passage.tallies[:, WORK], len(self.pipeline)).tolist()
        for op, share in zip(layer.met, meter.share(seconds, layer.met, [work[op] for op in layer.met]), strict=True):
            trip.seconds[op] += share

    def _recall(self, trip: Trip, depth: int, layer: Layer, partial: Ints, ends: Ints, emit: Emit) -> None:
        """Take partial results through the caches of a layer."""
        assert self._lookups is not None
        for route, segment in layer.cached:
            rows = partial[ends[route] : ends[route + 1]]
            if not len(rows):
                continue
            for chunk in self._lookups.through(trip, depth, segment, rows):
                if len(chunk):
                    came = np.where(np.arange(len(ends)) > route, len(chunk), 0)
                    self._onward(trip, depth, chunk, came, emit)

    def _ends_with(self, trip: Trip, depth: int) -> bool:
        """Whether all that a layer lets through are results: nothing judges them any more."""
        assert self.stems is not None
        layer = trip.table.layers[depth]
        judged = (
            layer.checks
            or layer.taps
            or layer.rounds.common
            or trip.deferred
            or trip.pending
            or self.stems.shape.hashed
        )
        return trip.table.over[depth + 1] is True and not judged

    def _sample(self, trip: Trip, layer: Layer, passage: Passage, partial: Ints, chunk: Ints) -> bool:
        """Count profiled rows against a stem's rivals; returns whether they turn back because one is far better."""
        segment = layer.segments[0]
        assert segment is not None
        assert self._trials is not None
        self._trials.sample(trip, segment, partial, chunk, int(passage.tallies[0, WORK]))
        return len(segment.bound) == 1 and self._trials.turns_back(
            trip, int(passage.tallies[0, ROWS_OUT]), len(partial)
        )

    def _settle(self, trip: Trip, layer: Layer, passage: Passage, chunk: Ints) -> tuple[Ints, Ints]:
        """Drop candidates that fail a residual that is due."""
        assert self.stems is not None
        values = given(self.stems.column, self.number, trip.arrival)
        sizes = np.diff(passage.bounds)
        routes = np.repeat(np.arange(len(sizes)), sizes)
        keep = np.ones(len(chunk), np.bool_)
        for residuals, bound, mine in layer.checks:
            if mine.all():
                keep &= self.stems.residuals.settle(residuals, bound, chunk, values, trip.deferred)
            else:
                at = np.flatnonzero(mine[routes])
                keep[at] = self.stems.residuals.settle(residuals, bound, chunk.take(at, axis=0), values, trip.deferred)
        if keep.all():
            return chunk, passage.bounds
        left = np.bincount(routes[keep], minlength=len(sizes))
        passage.tallies[layer.lasts, ROWS_OUT] -= (sizes - left)[layer.going]
        return chunk.compress(keep, axis=0), _ends(left)

    def _between(self, trip: Trip, rounds: Rounds, chunk: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Filters behind a stem: judge each arriving row once for all its partial results."""
        rows, first, back, weights = np.unique(
            chunk[:, self._column], return_index=True, return_inverse=True, return_counts=True
        )
        sizes = np.diff(ends)
        routes = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        passed = self.filters.work(trip, rounds, rows, len(rows), routes[first] if len(sizes) > 1 else None, weights)
        if passed is None:
            return chunk, ends
        alive = np.zeros(len(rows), np.bool_)
        alive[passed] = True
        keep = alive[back]
        return chunk.compress(keep, axis=0), _ends(np.bincount(routes[keep], minlength=len(sizes)))

    def _finish(self, trip: Trip, chunk: Ints, emit: Emit) -> None:
        assert self.stems is not None
        values = given(self.stems.column, self.number, trip.arrival)
        chunk = self.stems.residuals.finish(chunk, values, trip.deferred)
        if trip.pending and len(chunk):
            chunk = chunk[self.filters.without_faults(trip.arrival.data, chunk[:, self._column], trip.pending)]
        if len(chunk):
            emit.receive(self.number, trip.arrival, chunk)


def _picked(partial: Ints, lines: Rows | None) -> Ints:
    return partial if lines is None else partial.take(lines, axis=0)


def _together(whole: Ints, parts: Sequence[Rows | None]) -> Ints:
    """Lines picked in parts, in order; None: all."""
    if any(part is None for part in parts):
        return whole
    lines = [part for part in parts if part is not None and len(part)]
    if sum(map(len, lines)) == len(whole):
        return whole
    return whole.take(np.sort(np.concatenate(lines)), axis=0) if lines else whole[:0]


def _ends(sizes: Ints) -> Ints:
    """Where parts of these sizes begin and end."""
    return np.concatenate([[0], np.cumsum(sizes)])
