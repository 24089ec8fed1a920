"""Filters as operators: fan-out at most one. Rows of all routes whose next filter is the same are judged in one call.

Invariants: a predicate is tried on a row only if all its guards (`after=`) held for that row. An error is kept pending
and raised only if nothing else drops its row; of several errors of a row the one that the written order meets first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

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
ONE_ROUTE = np.zeros(1, np.int32)


class Filters:
    """The filters of one pipeline."""

    def __init__(self, pipeline: Pipeline, filters: Sequence[Filter], meter: Meter) -> None:
        self.pipeline = pipeline
        self.filters = filters
        self.meter = meter
        self._guards = [_all_guards(pipeline, op) for op in range(len(filters))]
        self._written = {op: place for place, op in enumerate(pipeline.written)}

    def work(
        self, trip: Trip, rounds: Rounds, rows: Rows | None, count: int, ids: Ids | None, weights: Ints | None = None
    ) -> Rows | None:
        """Which of `count` rows pass the filters of their route, by position; None: all. `rows` are their positions in the
        data, each at most once (None: the same); `weights` says how many partial results each stands for."""
        at: Rows | None = None
        for k, op in enumerate(rounds.common):
            if at is not None and not len(at):
                break
            if op >= 0:
                at = self._visit(trip, op, rows, count, ids, weights, at)
                continue
            assert ids is not None
            everyone = np.arange(count) if at is None else at
            order, ends = kernels.by_operator(everyone, ids, rounds.operators, k, len(self.filters))
            cuts = ends.tolist()
            alive = np.zeros(count, np.bool_)
            alive[order[cuts[-2] :]] = True  # those whose route has no more filters
            for each, (first, last) in enumerate(pairwise(cuts[:-1])):
                if first < last:
                    alive[self._visit(trip, each, rows, count, ids, weights, order[first:last])] = True
            at = np.flatnonzero(alive)
        return at

    def _visit(
        self, trip: Trip, op: int, rows: Rows | None, count: int, ids: Ids | None, weights: Ints | None, at: Rows | None
    ) -> Rows | None:
        """Try one filter on the rows at these positions; returns the positions of those that pass."""
        judged = at if rows is None else rows if at is None else rows[at]
        waved: Rows | None = None
        if trip.pending and self._guards[op]:
            behind = [row for row, errors in trip.pending.items() if self._guards[op] & errors.keys()]
            if behind:  # a guard raised on these: they are waved through
                everyone = np.arange(count) if at is None else at
                hit = np.isin(everyone if judged is None else judged, behind)
                waved, at = everyone[hit], everyone[~hit]
                judged = at if rows is None else rows[at]
        tried = count if at is None else len(at)
        if not tried:
            return waved
        verdict, seconds = self._judge(op, trip.arrival.data, judged, tried)
        trip.seconds[op] += seconds
        for position, error in verdict.errors.items():
            trip.pending.setdefault(int(position if judged is None else judged[position]), {})[op] = error
        holds = verdict.holds
        passed = at if holds.all() else np.flatnonzero(holds) if at is None else at[holds]
        if ids is None and weights is None:
            line = trip.counts[0, op]
            line[ROWS_IN] += tried
            line[ROWS_OUT] += tried if passed is None else len(passed)
            line[WORK] += tried
        else:
            mine = ONE_ROUTE.repeat(tried) if ids is None else ids if at is None else ids[at]
            some = NO_WEIGHTS if weights is None else weights if at is None else weights[at]
            kernels.tally(mine, holds, some, trip.counts, op)
        if trip.dropped is not None and passed is not at:
            trip.dropped[np.flatnonzero(~holds) if at is None else at[~holds]] = op
        if waved is None or passed is None:
            return passed
        return np.sort(np.concatenate([passed, waved]))

    def profile(self, trip: Trip, route: Sequence[int], rows: Rows) -> Rows:
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
            verdict, seconds = self._judge(op, trip.arrival.data, rows[tried], len(tried))
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
        return np.flatnonzero(alive)

    def _judge(self, op: int, data: pa.RecordBatch, rows: Rows | None, count: int) -> tuple[Verdict, float]:
        """Evaluate one filter. A row on which it raised counts as held: others may drop it yet."""
        started = self.meter.start()
        verdict = self.filters[op].evaluate(data, rows)
        return verdict, self.meter.stop(started, op, count)

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
