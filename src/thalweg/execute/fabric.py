"""The fabric for filters: rusters go through predicates along their routes; visits come back. It knows no policy.

Invariants: a row leaves iff every predicate holds for it, whatever the routes. A predicate is tried on a row only if
all its guards (`after=`) held for that row. An error is raised only if its row passes all other predicates; a row with
several errors raises the one that the written order meets first. Rows keep their order.

It is the self-routing fabric of query mesh (5.2): a ruster brings its route along as a stack of operator numbers, `filters`
is the operator index array in which they are looked up, and nobody is asked on the way. Where the stack ends, or all rows
are gone, so does the ruster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import DROPPED, PASSED, UNTRIED, Journey, Visit, Visits
from thalweg.errors import DefinitionError, PredicateError
from thalweg.execute.filters import Filter, NoVerdict, Rows, Verdict
from thalweg.execute.meter import Meter, clock
from thalweg.execute.several import apart, together
from thalweg.plan import Pipeline, Ruster


@dataclass
class FilterFabric:
    """Runs the filters of one pipeline over batches."""

    pipeline: Pipeline
    filters: Sequence[Filter]
    """By operator number."""
    meter: Meter = field(default_factory=clock)

    def __post_init__(self) -> None:
        self._written_place = {op: place for place, op in enumerate(self.pipeline.written)}

    def run(self, batch: Batch, rusters: Sequence[Ruster]) -> tuple[NDArray[np.bool_], Visits]:
        """Which rows of the batch pass, and what it took."""
        keep = np.zeros(len(batch), np.bool_)
        pending: dict[int, dict[int, Exception]] = {}
        journeys = []
        for whole, parts in apart(rusters):
            met = []
            for ruster in parts:
                if not self.pipeline.allows(ruster.route):
                    # Rows on such a route could leave without having met every predicate.
                    raise DefinitionError(
                        f"the route {ruster.route.operators} is not allowed in {self.pipeline}",
                        hint="a policy must keep guards before what they guard, and leave none out",
                    )
                rows = np.arange(len(batch)) if ruster.rows is None else ruster.rows
                if not len(rows):
                    continue
                travel = self._profile if ruster.purpose == "profile" else self._work
                alive, journey = travel(batch.data, ruster, rows, pending)
                keep[alive] = True
                met.append(journey)
            journeys += together(whole, met, len(self.pipeline))
        if pending:
            self._raise_first(batch.data, keep, pending)
        return keep, Visits(batch.number, len(batch), tuple(journeys))

    def _work(
        self, data: pa.RecordBatch, ruster: Ruster, rows: Rows, pending: dict[int, dict[int, Exception]]
    ) -> tuple[Rows, Journey]:
        alive, visits = rows, []
        dropped = np.full(len(data), -1, np.int16) if ruster.trace else None
        for op in ruster.route:
            if not len(alive):
                break
            judged, waved = self._split_unguarded(op, alive, pending) if pending else (alive, None)
            verdict, seconds = self._judge(op, data, judged)
            for position, error in verdict.errors.items():
                pending.setdefault(int(judged[position]), {})[op] = error
            passed = judged if verdict.holds.all() else judged[verdict.holds]
            visits.append(Visit(op, len(judged), len(passed), seconds, work=len(judged)))
            alive = passed if waved is None else np.sort(np.concatenate([passed, waved]))
            if dropped is not None:
                dropped[judged[~verdict.holds]] = op
        traced = None if dropped is None else dropped[rows]
        return alive, Journey(ruster, len(rows), tuple(visits), dropped=traced)

    def _profile(
        self, data: pa.RecordBatch, ruster: Ruster, rows: Rows, pending: dict[int, dict[int, Exception]]
    ) -> tuple[Rows, Journey]:
        """As `_work`, and rows already dropped are tried on the operators that `also` asks for."""
        bits = np.full((len(rows), len(self.pipeline)), UNTRIED, np.int8)
        alive = np.ones(len(rows), np.bool_)
        dropped_last = np.zeros(len(rows), np.bool_)
        visits = []
        for op in ruster.route:
            wanted = alive.copy()
            if ruster.also == "all":
                wanted[:] = True
            elif ruster.also == "next":
                wanted |= dropped_last
            elif op in ruster.also:
                wanted[:] = True
            for guard in self.pipeline.operators[op].after:
                wanted &= bits[:, guard] == PASSED
            dropped_last[:] = False
            tried = np.flatnonzero(wanted)
            if not len(tried):
                continue
            # One call for those on their way and those tried after a drop: few rows a call are dear.
            verdict, seconds = self._judge(op, data, rows[tried])
            on_way = alive[tried]
            bits[tried, op] = verdict.holds
            for position, error in verdict.errors.items():
                bits[tried[position], op] = UNTRIED
                if on_way[position]:  # forgiven otherwise: the row is gone anyway
                    pending.setdefault(int(rows[tried[position]]), {})[op] = error
            gone = tried[on_way & (bits[tried, op] == DROPPED)]
            alive[gone] = False
            dropped_last[gone] = True
            count = int(on_way.sum())
            extra = len(tried) - count
            extra_seconds = seconds * extra / len(tried)
            visits.append(
                Visit(op, count, count - len(gone), seconds - extra_seconds, extra, extra_seconds, work=len(tried))
            )
        return rows[alive], Journey(ruster, len(rows), tuple(visits), bits)

    def _judge(self, op: int, data: pa.RecordBatch, rows: Rows) -> tuple[Verdict, float]:
        """Evaluate one filter. A row on which it raised counts as held: others may drop it yet."""
        if not len(rows):
            return Verdict(np.empty(0, np.bool_)), 0.0
        started = self.meter.start()
        verdict = self.filters[op].evaluate(data, rows)
        return verdict, self.meter.stop(started, op, len(rows))

    def _split_unguarded(
        self, op: int, alive: Rows, pending: Mapping[int, dict[int, Exception]]
    ) -> tuple[Rows, Rows | None]:
        """Rows to judge, and rows waved through because a guard of this operator raised on them."""
        guards = self._all_guards(op)
        waved = [row for row, errors in pending.items() if guards & errors.keys()]
        if not waved:
            return alive, None
        hit = np.isin(alive, waved)
        return alive[~hit], alive[hit]

    def _all_guards(self, op: int) -> set[int]:
        guards: set[int] = set()
        frontier = set(self.pipeline.operators[op].after)
        while frontier:
            guards |= frontier
            frontier = {g for f in frontier for g in self.pipeline.operators[f].after} - guards
        return guards

    def _raise_first(
        self, data: pa.RecordBatch, keep: NDArray[np.bool_], pending: Mapping[int, dict[int, Exception]]
    ) -> None:
        for row in sorted(pending):
            if not keep[row]:
                continue
            op = min(pending[row], key=self._written_place.__getitem__)
            judge, error = self.filters[op], pending[row][op]
            values = ", ".join(f"{c}={_shown(data.column(c)[row].as_py())}" for c in judge.columns)
            where = f"row {row} of its batch: {values or 'no columns'}"
            if isinstance(error, NoVerdict):
                raise NoVerdict(error.message, where=where, hint=error.hint)
            raise PredicateError(
                f"predicate '{judge.name}' raised {type(error).__name__}: {error}",
                where=where,
                hint="the row passes all other predicates; guard this one with after=[...] or let it return None",
            ) from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
