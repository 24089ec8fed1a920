"""Drop probing as an operator: partial results go on only if every stem, or the path to it, has a match (thesis 5.2).

Each logical filter is tried in the order of the route and stops at its first match; the place of that match is held, so
that the join goes on from there. Predicates between inputs that are no equalities are left to the joins. Profiled rows
are tried on further filters after a drop, as `also` says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.operator import RowSet
from thalweg.contract.visits import (
    BUCKETS,
    DROPPED,
    HASHES,
    PASSED,
    ROWS_IN,
    ROWS_OUT,
    SURVIVORS,
    UNTRIED,
    WORK,
    Probe,
)
from thalweg.execute.kernels.join import NONE_HELD, TALLY, Tables
from thalweg.execute.kernels.probe import PLACE, probe
from thalweg.execute.meter import Meter
from thalweg.execute.operators.stem import Stems
from thalweg.execute.routetable import Layer, Segment
from thalweg.execute.trip import Trip

Ints = NDArray[np.int64]
TALLIED = [WORK, BUCKETS, HASHES]


class Probing:
    """Drop probing before a segment of one route. An operator of the contract."""

    routes: NDArray[np.bool_] | None = None

    def __init__(self, stems: Stems, segment: Segment, meter: Meter) -> None:
        self.stems, self.meter, self.layers = stems, meter, segment.probes
        self.operators = [int(layer.operators[-1]) for layer in segment.probes]
        deepest = max(len(layer.operators) for layer in segment.probes)
        self._rows = np.empty((deepest, stems.shape.width), np.int64)
        self._walk = np.empty((deepest, PLACE), np.int64)
        self._carrier = segment.carrier

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        lines, bits = np.ascontiguousarray(rows.lines), None
        if trip.ruster.purpose == "profile":
            bits = np.full((len(lines), trip.counts.shape[1]), UNTRIED, np.int8)
        trip.held = np.empty((len(lines), 2 * len(self.layers)), np.int64)
        alive, dropped, before = np.arange(len(lines)), np.empty(0, np.int64), list[int]()
        for k, (op, layer) in enumerate(zip(self.operators, self.layers, strict=True)):
            others = self._others(trip, op, alive, dropped, len(lines)) if bits is not None else dropped[:0]
            if not len(alive) and bits is None:
                break
            found = np.zeros(len(lines), np.int64)
            tally, seconds = self._probe(trip, lines, layer, k, alive, found)
            more, extra_seconds = self._probe(trip, lines, layer, k, others, found)
            held = found[alive] > 0
            alive, dropped = alive[held], alive[~held]
            self._count(trip, op, before, len(alive), len(dropped), tally, seconds)
            trip.probes.append(Probe(op, len(held), len(alive), float(tally[WORK]), len(others), float(more[WORK])))
            trip.extra[op] += len(others)
            trip.extra_seconds[op] += extra_seconds
            if bits is not None:
                for tried in (alive, dropped, others):
                    bits[tried, op] = np.where(found[tried] > 0, PASSED, DROPPED)
            before.append(op)
        if bits is not None:
            trip.probed.append(bits)
        keep = np.zeros(len(lines), np.bool_)
        keep[alive] = True
        left = rows.where(keep)
        if self._carrier:
            left = RowSet(left.lines.copy() if left.lines is rows.lines else left.lines, left.ends)
            left.lines[:, self._carrier] = alive
        yield left

    def _others(self, trip: Trip, op: int, alive: Ints, dropped: Ints, count: int) -> Ints:
        """The lines that are tried only to profile: those dropped before, or just before."""
        also = trip.ruster.also
        if also == "next":
            return dropped
        if also == "all" or op in also:
            return np.setdiff1d(np.arange(count), alive, assume_unique=True)
        return dropped[:0]

    def _probe(self, trip: Trip, lines: Ints, layer: Layer, k: int, chosen: Ints, found: Ints) -> tuple[Ints, float]:
        tally = np.zeros(TALLY, np.int64)
        if not len(chosen):
            return tally, 0.0
        op, column = self.operators[k], 2 * k if len(layer.operators) == 1 else -1
        started = self.meter.start()
        _, steps, runs, _ = self.stems.tables(layer, trip.arrival)
        tables = Tables(steps, runs, layer.pairs, layer.adds, NONE_HELD)
        probe(lines, chosen, tables, self._rows, self._walk, found, trip.held, column, tally)
        (seconds,) = self.meter.share(self.meter.stop(started, op, 0), [op], [int(tally[WORK])])
        return tally, seconds

    @staticmethod
    def _count(
        trip: Trip, op: int, before: list[int], survivors: int, dropped: int, tally: Ints, seconds: float
    ) -> None:
        """Dropped rows count as those that filters drop: in and out before, in here. The join counts the others."""
        counts = trip.counts[0]
        for earlier in before:
            counts[earlier, [ROWS_IN, ROWS_OUT, SURVIVORS]] += dropped
        counts[op, ROWS_IN] += dropped
        counts[op, TALLIED] += tally[TALLIED]
        trip.seconds[op] += seconds
