"""Filters as operators: fan-out at most one. Rows of all routes with the same next filter are judged in one call.

Invariants: a predicate is tried on a row only if all its guards (`after=`) held for that row. An error stays pending
and is raised only if nothing else drops its row; if a row has several, the first in written order is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.operator import RowSet
from thalweg.contract.visits import DROPPED, PASSED, ROWS_IN, ROWS_OUT, UNTRIED, WORK
from thalweg.errors import PredicateError
from thalweg.execute.faults import Faults
from thalweg.execute.filters import Filter, NoVerdict, Rows, Verdict
from thalweg.execute.kernels import routes as kernels
from thalweg.execute.meter import Meter
from thalweg.execute.routetable import Rounds
from thalweg.execute.trip import Pending, Trip
from thalweg.plan import Pipeline

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
NO_WEIGHTS = np.empty(0, np.int64)
NO_TRACE = np.empty(0, np.int16)


class Filtering:
    """The filters at one place of several routes, before any stem or behind one. An operator of the contract."""

    def __init__(self, filters: Filters, rounds: Rounds, column: int) -> None:
        self.filters, self.rounds, self.column = filters, rounds, column
        served: NDArray[np.bool_] = np.any(rounds.operators >= 0, axis=1)
        self.routes = None if served.all() else served

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        yield self.ahead(trip, rows) if rows.ends is None else self._between(trip, rows)

    def ahead(self, trip: Trip, rows: RowSet) -> RowSet:
        """Judge rows that have just arrived: each is one."""
        numbers = trip.arrival.numbers(rows.at, self.column)
        if trip.passed is not None:
            numbers = np.arange(len(rows)) if numbers is None else numbers
            return rows.only(self.filters.profile(trip, self.rounds.common, numbers))
        return rows.only(self.filters.work(trip, self.rounds, numbers, len(rows), rows.ids))

    def _between(self, trip: Trip, rows: RowSet) -> RowSet:
        """Judge each arriving row once for all its partial results."""
        numbers, first, back, weights = np.unique(
            rows.lines[:, self.column], return_index=True, return_inverse=True, return_counts=True
        )
        ids = None if len(self.rounds.operators) == 1 else rows.routes.astype(np.int32)[first]
        passed = self.filters.work(trip, self.rounds, numbers, len(numbers), ids, weights)
        if passed is None:
            return rows
        alive = np.zeros(len(numbers), np.bool_)
        alive[passed] = True
        return rows.where(alive[back])


class Filters:
    """The filters of one pipeline."""

    def __init__(self, pipeline: Pipeline, filters: Sequence[Filter], meter: Meter) -> None:
        self.pipeline = pipeline
        self.filters = filters
        self.meter = meter
        self.faults: Faults | None = None
        """Who takes rows on which a predicate raised; None: nobody, they raise."""
        self._guards = [_all_guards(pipeline, op) for op in range(len(filters))]
        self._written = {op: place for place, op in enumerate(pipeline.written)}

    def work(
        self, trip: Trip, rounds: Rounds, rows: Rows | None, count: int, ids: Ids | None, weights: Ints | None = None
    ) -> Rows | None:
        """Which of `count` rows pass the filters of their route, by position; None: all. `rows` are their distinct
        positions in the data (None: the same); `weights` says how many partial results each stands for."""
        at: Rows | None = None
        for k, op in enumerate(rounds.common):
            if at is not None and not len(at):
                break
            if ids is None:
                at = self._visit(trip, op, rows, count, weights, at)
            else:
                at = self._round(trip, rounds, k, rows, ids, weights, np.arange(count) if at is None else at)
        return at

    def _round(
        self, trip: Trip, rounds: Rounds, k: int, rows: Rows | None, ids: Ids, weights: Ints | None, at: Rows
    ) -> Rows:
        """Try on each row the filter at place k of its route: one call per filter."""
        fates = np.zeros(len(ids), np.int8)
        if rounds.common[k] >= 0:
            groups = [(rounds.common[k], at)]
        else:
            at, ends = kernels.by_operator(at, ids, rounds.operators, k, len(self.filters))
            cuts = ends.tolist()
            groups = [(op, at[a:b]) for op, (a, b) in enumerate(pairwise(cuts[:-1])) if a < b]
            fates[at[cuts[-2] :]] = kernels.WAVED  # their routes have no more filters
        for op, mine in groups:
            judged = mine if rows is None else rows[mine]
            behind = self._behind(trip, op, judged)
            if behind is not None:
                fates[mine[behind]] = kernels.WAVED
                mine, judged = mine[~behind], judged[~behind]
            if len(mine):
                fates[mine] = self._judge(trip, op, judged, len(mine))
        kernels.tally(
            at, fates, ids, rounds.operators, k, NO_WEIGHTS if weights is None else weights, trip.counts,
            NO_TRACE if trip.dropped is None else trip.dropped,
        )  # fmt: skip
        return np.flatnonzero(fates)

    def _visit(
        self, trip: Trip, op: int, rows: Rows | None, count: int, weights: Ints | None, at: Rows | None
    ) -> Rows | None:
        """The same for rows of one route, which all try the same filter."""
        judged = at if rows is None else rows if at is None else rows[at]
        waved: Rows | None = None
        if trip.pending and self._guards[op]:
            everyone = np.arange(count) if at is None else at
            behind = self._behind(trip, op, everyone if judged is None else judged)
            if behind is not None:
                waved, at = everyone[behind], everyone[~behind]
                judged = at if rows is None else rows[at]
        tried = count if at is None else len(at)
        if not tried:
            return waved
        holds = self._judge(trip, op, judged, tried)
        passed = at if holds.all() else np.flatnonzero(holds) if at is None else at[holds]
        line = trip.counts[0, op]
        if weights is None:
            line[ROWS_IN] += tried
            line[ROWS_OUT] += tried if passed is None else len(passed)
        else:
            line[ROWS_IN] += (weights if at is None else weights[at]).sum()
            line[ROWS_OUT] += (weights if passed is None else weights[passed]).sum()
        line[WORK] += tried
        if trip.dropped is not None and passed is not at:
            trip.dropped[np.flatnonzero(~holds) if at is None else at[~holds]] = op
        if waved is None or passed is None:
            return passed
        return np.sort(np.concatenate([passed, waved]))

    def _behind(self, trip: Trip, op: int, rows: Rows) -> NDArray[np.bool_] | None:
        """Rows for which a guard of this operator raised, if any; they pass untried."""
        if not trip.pending or not self._guards[op]:
            return None
        raised = [row for row, errors in trip.pending.items() if self._guards[op] & errors.keys()]
        return np.isin(rows, raised) if raised else None

    def _judge(self, trip: Trip, op: int, rows: Rows | None, count: int) -> NDArray[np.bool_]:
        """Which undropped rows pass. A row on which the filter raised passes: others may still drop it."""
        verdict, seconds = self._evaluate(trip, op, rows, count)
        trip.seconds[op] += seconds
        for position, error in verdict.errors.items():
            trip.pending.setdefault(int(position if rows is None else rows[position]), {})[op] = error
        return verdict.holds

    def _evaluate(self, trip: Trip, op: int, rows: Rows | None, count: int) -> tuple[Verdict, float]:
        started = self.meter.start()
        verdict = self.filters[op].evaluate(trip.arrival.data, rows)
        return verdict, self.meter.stop(started, op, count)

    def profile(self, trip: Trip, route: Sequence[int], rows: Rows) -> Rows:
        """As `work`, and also try dropped rows on the operators in `also`. Writes their bits."""
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
            # One call for living and dropped rows together: a call for few rows is expensive.
            verdict, seconds = self._evaluate(trip, op, rows[tried], len(tried))
            on_way = alive[tried]
            bits[tried, op] = verdict.holds
            for position, error in verdict.errors.items():
                bits[tried[position], op] = UNTRIED
                if on_way[position]:  # otherwise forgiven: the row was already dropped
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

    def without_faults(self, data: pa.RecordBatch, rows: Rows, pending: Pending) -> NDArray[np.bool_]:
        """Which of these rows have no error; the others are set aside, or the first of them raises."""
        kept = set(rows.tolist())
        faulty = [row for row in sorted(pending) if row in kept]
        for row in faulty:
            op = min(pending[row], key=self._written.__getitem__)
            judge, error = self.filters[op], pending[row][op]
            if self.faults is not None:
                self.faults.row(self.pipeline.stream, judge.name, error, data, row)
                continue
            values = ", ".join(f"{c}={_shown(data.column(c)[row].as_py())}" for c in judge.columns)
            alone = len(self.filters) == len(self.pipeline)
            where = f"row {row} of its batch: " if alone else f"a row of '{self.pipeline.stream}': "
            where += values or "no columns"
            if isinstance(error, NoVerdict):
                raise NoVerdict(error.message, where=where, hint=error.hint)
            raise PredicateError(
                f"predicate '{judge.name}' raised {type(error).__name__}: {error}",
                where=where,
                hint="the row passes all other predicates; guard this one with after=[...], let it return None, or set such "
                'rows aside with on_error="skip" or "quarantine"',
            ) from error
        return ~np.isin(rows, faulty)


def _all_guards(pipeline: Pipeline, op: int) -> set[int]:
    """The guards of an operator, transitively."""
    guards: set[int] = set()
    frontier = set(pipeline.operators[op].after)
    while frontier:
        guards |= frontier
        frontier = {g for f in frontier for g in pipeline.operators[f].after} - guards
    return guards


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
