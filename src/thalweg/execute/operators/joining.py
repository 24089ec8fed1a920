"""Stems as an operator: rows of all routes take their next leg of stems in one call of the kernel, chunk by chunk.

Where the leg is the last of all routes, the kernel writes columns of results itself. Profiled rows take one stem at a
time and are counted against its rivals; rows that exceed their limit are recalled before they begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial as given

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.operator import RowSet, ends_of
from thalweg.contract.visits import ROWS_OUT, WORK
from thalweg.execute.kernels.join import AT_ROW, RECALLED
from thalweg.execute.meter import Meter
from thalweg.execute.operators.stem import Passage, Stems
from thalweg.execute.operators.trial import Trials
from thalweg.execute.outlet import Outlet
from thalweg.execute.routetable import Layer
from thalweg.execute.trip import Trip

Ints = NDArray[np.int64]


class Joining:
    """The stems of one layer, for rows of input `number`. An operator of the contract."""

    def __init__(
        self, stems: Stems, layer: Layer, depth: int, number: int, trials: Trials, meter: Meter, *, recalls: bool
    ) -> None:
        self.stems, self.layer, self.depth, self.number = stems, layer, depth, number
        self.trials, self.meter = trials, meter
        self.recalls = recalls
        """Whether rows may be recalled from here: nothing behind the entrance met them before."""
        self.routes = layer.served(layer.going)

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        layer, meter = self.layer, self.meter
        passage, first, seconds = self._begin(trip, rows), int(layer.operators[0]), 0.0
        sampling = self._sampling(trip)
        while True:
            started = meter.start()
            chunk = passage.go_on()
            seconds += meter.stop(started, first, 0)
            if sampling:
                sampling = False
                trip.sampled.add(self.depth)
                if self._sample(trip, passage, rows.lines, chunk):
                    trip.rest = rows.sizes
                    break
            came = RowSet(chunk, passage.bounds)
            if len(chunk) and layer.checks:
                started = meter.start()
                came = self._settle(trip, passage, came)
                last = int(layer.operators[-1])
                trip.judging[last] = trip.judging.get(last, 0.0) + meter.stop(started, last, 0)
            if len(came):
                yield came
            if passage.done:
                break
        self._charge(trip, rows, passage, seconds)

    def writes(self, trip: Trip, outlet: Outlet) -> bool:
        judged = self.layer.checks or trip.deferred or trip.pending or self.stems.shape.hashed
        return not judged and not self._sampling(trip) and outlet.sheet() is not None

    def write(self, trip: Trip, rows: RowSet, outlet: Outlet) -> None:
        passage, first, seconds, meter = self._begin(trip, rows), int(self.layer.operators[0]), 0.0, self.meter
        sheet = outlet.sheet()
        assert sheet is not None
        while not passage.done:
            started = meter.start()
            lines = sheet.lines(self.number, trip.arrival)
            sheet.at = passage.write(lines, sheet.at, sheet.room)
            seconds += meter.stop(started, first, 0)
            if sheet.at == sheet.room:
                outlet.flush(self.number, trip.arrival)
        self._charge(trip, rows, passage, seconds)

    def _begin(self, trip: Trip, rows: RowSet) -> Passage:
        assert rows.ends is not None
        limit = trip.ruster.limit if self.recalls else None
        return Passage(self.stems, self.depth, self.layer, trip.arrival, rows.lines, rows.ends, limit, trip.held)

    def _charge(self, trip: Trip, rows: RowSet, passage: Passage, seconds: float) -> None:
        layer = self.layer
        if self.recalls and trip.ruster.limit is not None and passage.cursors[:, RECALLED].any():
            trip.rest = np.where(passage.cursors[:, RECALLED] > 0, rows.sizes - passage.cursors[:, AT_ROW], 0)
        trip.counts[layer.routes, layer.operators] += passage.tallies
        work = np.bincount(layer.operators, passage.tallies[:, WORK], trip.counts.shape[1]).tolist()
        shares = self.meter.share(seconds, layer.met, [work[op] for op in layer.met])
        for op, share in zip(layer.met, shares, strict=True):
            trip.seconds[op] += share

    def _sampling(self, trip: Trip) -> bool:
        """Whether some of these rows are to be counted against rivals."""
        return trip.matches is not None and self.depth not in trip.sampled

    def _sample(self, trip: Trip, passage: Passage, partial: Ints, chunk: Ints) -> bool:
        """Count profiled rows against a stem's rivals; returns whether they turn back because one is far better."""
        segment = self.layer.segments[0]
        assert segment is not None
        self.trials.sample(trip, segment, partial, chunk, int(passage.tallies[0, WORK]))
        return self.recalls and self.trials.turns_back(trip, int(passage.tallies[0, ROWS_OUT]), len(partial))

    def _settle(self, trip: Trip, passage: Passage, rows: RowSet) -> RowSet:
        """Drop candidates that fail a residual that is due."""
        values = given(self.stems.column, self.number, trip.arrival)
        chunk, sizes, routes = rows.lines, rows.sizes, rows.routes
        keep = np.ones(len(chunk), np.bool_)
        for residuals, bound, mine in self.layer.checks:
            if mine.all():
                keep &= self.stems.residuals.settle(residuals, bound, chunk, values, trip.deferred)
            else:
                at = np.flatnonzero(mine[routes])
                keep[at] = self.stems.residuals.settle(residuals, bound, chunk.take(at, axis=0), values, trip.deferred)
        if keep.all():
            return rows
        left = np.bincount(routes[keep], minlength=len(sizes))
        passage.tallies[self.layer.lasts, ROWS_OUT] -= (sizes - left)[self.layer.going]
        return RowSet(chunk.compress(keep, axis=0), ends_of(left))
