"""The fabric: sends the rusters of one pipeline through its operators; returns results and visits. No policy here.

This is the self-routing fabric of query mesh (5.2): rows carry their routes, no router is consulted on the way, and
rows of all routes that share a next operator meet it in one call. What an operator does with them is its own business
(`contract/operator.py`): a filter lets at most one row through for each, a stem joins, a cache replaces a run of stems.
Partial results pass from operator to operator depth first (thesis 5.1-5.2). Invariants: a row or combination leaves iff
all its predicates hold and it lies in its windows at its newest time, whatever the routes; a predicate's error surfaces
only if nothing else drops the row. Rows keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial as given

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.operator import Operator, RowSet
from thalweg.contract.visits import UNTRIED, Journey, Visits
from thalweg.execute.arrival import Arrival
from thalweg.execute.filters import Filter, Rows
from thalweg.execute.kernels.routes import by_route
from thalweg.execute.meter import Meter, clock
from thalweg.execute.operators.cache import Caches
from thalweg.execute.operators.filter import Filtering, Filters
from thalweg.execute.operators.joining import Joining
from thalweg.execute.operators.lookup import Looking, Lookups, Telling, Watching
from thalweg.execute.operators.stem import Stems
from thalweg.execute.operators.trial import Trials
from thalweg.execute.outlet import Outlet
from thalweg.execute.routetable import Layer, Rounds, RouteTable, RouteTables
from thalweg.execute.trip import Pending, Trip
from thalweg.plan import Pipeline, Route, Ruster

Ints = NDArray[np.int64]
Guest = Callable[["Fabric", Layer, int], Operator[Trip] | None]
"""Makes one more operator for rows to meet before they join at a layer (the layer, its depth), or none."""


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
        guests: Sequence[Guest] = (),
    ) -> None:
        self.pipeline = pipeline
        self.meter = meter or clock()
        self.stems = stems
        self.number = number
        self.guests = guests
        self.filters = Filters(pipeline, filters, self.meter)
        self.tables = RouteTables(pipeline, self, None if stems is None else stems.shape, number, caches)
        self._lookups = None if stems is None or caches is None else Lookups(stems, caches, number)
        self.first = len(filters)
        """The first stem among the operators."""
        written = Route(tuple(op for op in pipeline.written if op < self.first))
        self._column = 0 if stems is None else stems.shape.row_column(number)
        self._entrance = RouteTable((written,), self.entrance(Rounds.of([written.operators])))
        """The filters alone, for rows that do not join."""
        self._stored = stems is not None and stems.shape.stored(number)
        self._trials = None if stems is None else Trials(pipeline, stems, number, self.first, self.meter)

    def entrance(self, rounds: Rounds) -> tuple[Operator[Trip], ...]:
        """What rows meet as they arrive: the filters before any stem."""
        return (Filtering(self.filters, rounds, self._column),) if rounds.common else ()

    def behind(self, layer: Layer, depth: int) -> Iterator[Operator[Trip]]:
        """The operators of a layer in the order in which rows meet them."""
        assert self.stems is not None
        assert self._trials is not None
        guests = [operator for guest in self.guests if (operator := guest(self, layer, depth)) is not None]
        yield from guests
        if layer.probed is not None:
            from thalweg.execute.operators.probing import Probing

            yield Probing(self.stems, layer.probed, self.meter)
        if self._lookups is not None and layer.shadows:
            yield Watching(self._lookups, layer)
        if self._lookups is not None and layer.cached:
            yield Looking(self._lookups, layer, depth)
        if len(layer.going):
            yield Joining(
                self.stems,
                layer,
                depth,
                self.number,
                self._trials,
                self.meter,
                recalls=not depth and not guests and layer.probed is None,
            )
        if self._lookups is not None and layer.taps:
            yield Telling(self._lookups, layer)
        if layer.rounds.common:
            yield Filtering(self.filters, layer.rounds, self._column)

    def filter(self, batch: Batch, rusters: Sequence[Ruster]) -> tuple[NDArray[np.bool_], Visits]:
        """Filters alone: the rows of a batch that pass, and the work done."""
        arrival, pending = Arrival.of(batch), Pending()
        keep, journeys = np.zeros(len(batch), np.bool_), list[Journey]()
        for ruster in rusters:
            trip, rows = self._depart(arrival, ruster, pending)
            if trip is not None:
                keep[slice(None) if rows.at is None else rows.at] = True
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
        for operator in self._entrance.entrance:
            (rows,) = operator.visit(trip, RowSet(arrival.partial))
        partial = _picked(rows)
        if trip.pending:
            partial = partial[self.filters.without_faults(arrival.data, partial[:, self._column], trip.pending)]
        return partial

    def run(
        self, arrival: Arrival, rusters: Sequence[Ruster], outlet: Outlet
    ) -> tuple[Ints, Ints, tuple[Journey, ...]]:
        """Send rusters on their routes. Returns the lines of `arrival.partial` that pass the input's filters, the
        recalled ones, and journeys.

        If a route exceeds its ruster's limit, its unstarted rows are recalled and must be routed again.
        """
        kept, recalled, journeys = list[Rows | None](), list[Rows | None](), list[Journey]()
        pending = Pending()
        for ruster in rusters:
            trip, rows = self._depart(arrival, ruster, pending)
            if trip is None:
                continue
            if self._stored and pending:
                numbers = _picked(rows)[:, self._column]
                sound = self.filters.without_faults(arrival.data, numbers, pending)
                rows = rows.only(np.flatnonzero(sound))
            lines, ends = rows.at, np.array([0, len(rows)])
            if rows.ids is not None:
                order, ends = by_route(rows.ids, len(ruster.routes))
                lines = order if lines is None else lines[order]
            rest = self._travel(trip, lines, ends, outlet)
            if rest is not None:
                everyone = np.arange(len(arrival.partial)) if lines is None else lines
                recalled.append(everyone[rest])
                lines = everyone[~rest]
            kept.append(lines)
            journeys.append(trip.journey(self.first))
        return _together(arrival.partial, kept), _together(arrival.partial, recalled), tuple(journeys)

    def _depart(self, arrival: Arrival, ruster: Ruster, pending: Pending) -> tuple[Trip | None, RowSet]:
        """Begin a trip with the filters before any stem: the rows that pass."""
        table = self.tables.of(ruster)
        rows = RowSet(arrival.partial, None, ruster.rows, None if len(table.routes) == 1 else ruster.ids)
        count = len(rows)
        if not count:
            return None, rows
        trip = Trip.begin(arrival, ruster, table, pending, len(self.pipeline))
        if ruster.purpose == "profile":
            trip.passed = np.full((count, len(self.pipeline)), UNTRIED, np.int8)
            if self.stems is not None and ruster.phases == 1:
                numbers = arrival.numbers(rows.at, self._column)
                trip.numbers = np.arange(count) if numbers is None else numbers
                trip.matches = np.full(trip.passed.shape, -1, np.int64)
        elif ruster.trace and self.stems is None and table.entrance:
            trip.dropped = np.full(count, -1, np.int16)
        for operator in table.entrance:
            (rows,) = operator.visit(trip, rows)
        return trip, rows

    def _travel(self, trip: Trip, lines: Rows | None, ends: Ints, outlet: Outlet) -> NDArray[np.bool_] | None:
        """Take lines of the arrival on from the filters, grouped by route; returns those recalled, if any."""
        assert self.stems is not None
        partial = trip.arrival.partial if lines is None else self.stems.copied(trip.arrival.partial, lines)
        if len(partial):
            self._onward(trip, 0, RowSet(partial, ends), outlet)
        if trip.passed is not None and trip.matches is not None:
            met = trip.matches[:, self.first :]
            trip.passed[:, self.first :] = np.where(met < 0, UNTRIED, met > 0)
        rest = None
        if trip.rest is not None:
            rest = np.arange(len(partial)) >= np.repeat(ends[1:] - trip.rest, np.diff(ends))
        if trip.table.lost:
            assert self._lookups is not None
            whole = trip.arrival.partial
            self._lookups.follow(trip, RowSet(whole if lines is None else whole.take(lines, axis=0), ends), rest)
        return rest

    def _onward(self, trip: Trip, place: int, rows: RowSet, outlet: Outlet) -> None:
        """Take partial results depth first through the operators from a place on."""
        operators = trip.table.operators
        for k in range(place, len(operators)):
            operator, others = operators[k], None
            if operator.routes is not None:
                rows, others = rows.split(operator.routes)
            if len(rows):
                if k == len(operators) - 1 and trip.table.writer is not None and trip.table.writer.writes(trip, outlet):
                    trip.table.writer.write(trip, rows, outlet)
                else:
                    for part in operator.visit(trip, rows):
                        if len(part):
                            self._onward(trip, k + 1, part, outlet)
            if others is None or not len(others):
                return
            rows = others
        self._finish(trip, rows.lines, outlet)

    def _finish(self, trip: Trip, chunk: Ints, outlet: Outlet) -> None:
        assert self.stems is not None
        values = given(self.stems.column, self.number, trip.arrival)
        chunk = self.stems.residuals.finish(chunk, values, trip.deferred)
        if trip.pending and len(chunk):
            chunk = chunk[self.filters.without_faults(trip.arrival.data, chunk[:, self._column], trip.pending)]
        if len(chunk):
            outlet.receive(self.number, trip.arrival, chunk)

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


def _picked(rows: RowSet) -> Ints:
    """The lines of rows that have just arrived."""
    return rows.lines if rows.at is None else rows.lines.take(rows.at, axis=0)


def _together(whole: Ints, parts: Sequence[Rows | None]) -> Ints:
    """Lines picked in parts, in order; None: all."""
    if any(part is None for part in parts):
        return whole
    lines = [part for part in parts if part is not None and len(part)]
    if sum(map(len, lines)) == len(whole):
        return whole
    return whole.take(np.sort(np.concatenate(lines)), axis=0) if lines else whole[:0]
