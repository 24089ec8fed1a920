"""Filters as operators: fan-out at most one. Rows of all routes whose next filter is the same are judged in one call.

Invariants: a predicate is tried on a row only if all its guards (`after=`) held for that row. An error is kept pending
and raised only if nothing else drops its row; of several errors of a row the one that the written order meets first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.visits import DROPPED, PASSED, ROWS_IN, ROWS_OUT, UNTRIED, WORK
from thalweg.errors import PredicateError
from thalweg.execute.filters import Filter, NoVerdict, Rows, Verdict
from thalweg.execute.kernels import routes as kernels
from thalweg.execute.meter import Meter
from thalweg.execute.routetable import Rounds
from thalweg.execute.trip import Pending, Trip
from thalweg.plan import Pipeline

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
NO_WEIGHTS = np.empty(0, np.int64)


class Filters:
    """The filters of one pipeline."""

    def __init__(self, pipeline: Pipeline, filters: Sequence[Filter], meter: Meter) -> None:
        self.pipeline = pipeline
        self.filters = filters
        self.meter = meter
        self._guards = [_all_guards(pipeline, op) for op in range(len(filters))]
        self._written = {op: place for place, op in enumerate(pipeline.written)}

    def work(
        self, trip: Trip, rounds: Rounds, rows: Rows, ids: Ids | None, weights: Ints | None = None
    ) -> NDArray[np.bool_] | None:
        """Which rows pass the filters of their route; None: all. `rows` are positions in the data, each at most once;
        `weights` says how many partial results each stands for."""
        alive: NDArray[np.bool_] | None = None
        at: Rows | None = None
        """Positions in `rows` of those still on their way; None: all."""
        for k, op in enumerate(rounds.common):
            if at is not None and not len(at):
                break
            if op >= 0:
                groups = [(op, at)]
            else:
                assert ids is not None
                everyone = np.arange(len(rows)) if at is None else at
                order, ends = kernels.by_operator(everyone, ids, rounds.operators, k, len(self.filters))
                cuts = ends.tolist()
                groups = [(i, order[cuts[i] : cuts[i + 1]]) for i in range(len(self.filters)) if cuts[i] < cuts[i + 1]]
            for each, mine in groups:
                gone = self._visit(trip, each, rows, ids, weights, mine)
                if gone is not None:
                    alive = np.ones(len(rows), np.bool_) if alive is None else alive
                    alive[gone] = False
                    at = None
            if alive is not None and at is None:
                at = np.flatnonzero(alive)
        return alive

    def _visit(
        self, trip: Trip, op: int, rows: Rows, ids: Ids | None, weights: Ints | None, at: Rows | None
    ) -> Rows | None:
        """Try one filter on the rows at these positions; returns the positions of those it drops, if any."""
        judged = rows if at is None else rows[at]
        if trip.pending and self._guards[op]:
            behind = [row for row, errors in trip.pending.items() if self._guards[op] & errors.keys()]
            if behind:  # a guard raised on these: they are waved through
                free = ~np.isin(judged, behind)
                at, judged = np.flatnonzero(free) if at is None else at[free], judged[free]
        if not len(judged):
            return None
        verdict, seconds = self._judge(op, trip.arrival.data, judged)
        trip.seconds[op] += seconds
        for position, error in verdict.errors.items():
            trip.pending.setdefault(int(judged[position]), {})[op] = error
        holds = verdict.holds
        lost = np.flatnonzero(~holds)
        if ids is None:
            line = trip.counts[0, op]
            own = None if weights is None else weights if at is None else weights[at]
            came = len(judged) if own is None else int(own.sum())
            line[ROWS_IN] += came
            line[ROWS_OUT] += came - (len(lost) if own is None else int(own[lost].sum()))
            line[WORK] += len(judged)
        else:
            some = NO_WEIGHTS if weights is None else weights if at is None else weights[at]
            kernels.tally(ids if at is None else ids[at], holds, some, trip.counts, op)
        if not len(lost):
            return None
        gone = lost if at is None else at[lost]
        if trip.dropped is not None:
            trip.dropped[gone] = op
        return gone

    def profile(self, trip: Trip, route: Sequence[int], rows: Rows) -> NDArray[np.bool_]:
        """As `work`, and rows already dropped are tried on the operators that `also` asks for. Writes their bits."""
        bits, also = trip.passed, trip.ruster.also
        assert bits is not None
        alive = np.ones(len(rows), np.bool_)
        dropped_last = np.zeros(len(rows), np.bool_)
        for op in route:
            wanted = alive.copy()
            if also == "next":
                wanted |= dropped_last
            elif also == "all" or op in also:
                wanted[:] = True
            for guard in self.pipeline.operators[op].after:
                wanted &= bits[:, guard] == PASSED
            dropped_last[:] = False
            tried = np.flatnonzero(wanted)
            if not len(tried):
                continue
            # One call for those on their way and those tried after a drop: a call for few rows is expensive.
            verdict, seconds = self._judge(op, trip.arrival.data, rows[tried])
            on_way = alive[tried]
            bits[tried, op] = verdict.holds
            for position, error in verdict.errors.items():
                bits[tried[position], op] = UNTRIED
                if on_way[position]:  # forgiven otherwise: the row is gone anyway
                    trip.pending.setdefault(int(rows[tried[position]]), {})[op] = error
            gone = tried[on_way & (bits[tried, op] == DROPPED)]
            alive[gone] = False
            dropped_last[gone] = True
            count = int(on_way.sum())
            extra = len(tried) - count
            line = trip.counts[0, op]
            line[ROWS_IN], line[ROWS_OUT], line[WORK] = count, count - len(gone), len(tried)
            trip.extra[op], trip.extra_seconds[op] = extra, seconds * extra / len(tried)
            trip.seconds[op] = seconds - trip.extra_seconds[op]
        return alive

    def _judge(self, op: int, data: pa.RecordBatch, rows: Rows) -> tuple[Verdict, float]:
        """Evaluate one filter. A row on which it raised counts as held: others may drop it yet."""
        started = self.meter.start()
        verdict = self.filters[op].evaluate(data, rows)
        return verdict, self.meter.stop(started, op, len(rows))

    def raise_first(self, data: pa.RecordBatch, rows: Rows, pending: Pending) -> None:
        """Raise the error of the first of these rows that has one."""
        kept = set(rows.tolist())
        for row in sorted(pending):
            if row not in kept:
                continue
            op = min(pending[row], key=self._written.__getitem__)
            judge, error = self.filters[op], pending[row][op]
            values = ", ".join(f"{c}={_shown(data.column(c)[row].as_py())}" for c in judge.columns)
            alone = len(self.filters) == len(self.pipeline)
            where = f"row {row} of its batch: " if alone else f"a row of '{self.pipeline.stream}': "
            where += values or "no columns"
            if isinstance(error, NoVerdict):
                raise NoVerdict(error.message, where=where, hint=error.hint)
            raise PredicateError(
                f"predicate '{judge.name}' raised {type(error).__name__}: {error}",
                where=where,
                hint="the row passes all other predicates; guard this one with after=[...] or let it return None",
            ) from error


def _all_guards(pipeline: Pipeline, op: int) -> set[int]:
    """The guards of an operator, and theirs."""
    guards: set[int] = set()
    frontier = set(pipeline.operators[op].after)
    while frontier:
        guards |= frontier
        frontier = {g for f in frontier for g in pipeline.operators[f].after} - guards
    return guards


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
