"""Rates: seconds per row and rows out per row in, of each operator. One cost model for filters and stems.

A filter's seconds come from the meter. A stem's are its work (buckets looked up, candidates examined) times this
machine's prices, so decisions on the same rows never depend on the clock. Overall rates are moving averages over the
newest rows (thesis 4.3.1 keeps them over its window); `given` holds them by the operators visited before.

One hiccup of the machine must not reverse an order, so a timed visit counts at most `CAP` times the average; a true
rise still gets through in a few visits. The first visit also pays for imports and cold caches, often ten times the
rest, so the second replaces it. The scatter of visits gives the error of an average.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import Journey, Visit, Visits
from thalweg.plan import Pipeline
from thalweg.profile.prices import RECORDED, Prices
from thalweg.profile.rates.given import ENOUGH, Given, Seen, seen_by

Floats = NDArray[np.float64]
MEMORY = 8192
"""Size: rows after which an observation counts half."""
CAP = 4.0
"""Tested: at this multiple of its average, one visit moves an average of `MEMORY` rows by less than A-Greedy's
thrash-avoidance factor."""


class Rates:
    """What visits to each operator of a pipeline cost and return.

    >>> from thalweg.plan import Operator
    >>> rates = Rates(Pipeline("a", (Operator("f"), Operator("b", "stem"))), Prices(bucket=1.0, candidate=1.0))
    >>> rates.per_row.tolist()
    [1.0, 1.0]
    >>> rates.note(1, rows=10, out=30.0, seconds=50.0)
    >>> rates.lookup.tolist(), rates.fanout.tolist()
    ([2.0, 2.0], [1.0, 3.0])
    """

    def __init__(self, pipeline: Pipeline, prices: Prices = RECORDED, memory: int = MEMORY) -> None:
        count = len(pipeline)
        self.pipeline = pipeline
        self.prices = prices
        self.memory = memory
        self.given = Given()
        self.stems = [op.kind == "stem" for op in pipeline.operators]
        self.unit = (prices.bucket + prices.candidate) / 2
        """Seconds of one unit of a stem's work."""
        self._seconds = [0.0] * count
        self._rows = [0.0] * count
        self._out = [0.0] * count
        self._squares = [0.0] * count
        self._scatter = [0.0] * count
        self._awake = [0] * count
        self._per_row: Floats | None = None

    @property
    def joins(self) -> bool:
        """Whether some operator may give several rows for one."""
        return any(self.stems)

    def cost(self, visit: Visit) -> float:
        """Seconds of a visit, without profiling."""
        return visit.work * self.unit if self.stems[visit.operator] else visit.seconds

    def spent(self, journey: Journey) -> float:
        """Seconds of a journey, without profiling."""
        return sum([self.cost(v) for v in journey.visits])

    def extra(self, journey: Journey) -> float:
        """Seconds that a journey spent on profiling, including indexing rows for it."""
        filters = sum([v.extra_seconds for v in journey.visits if not self.stems[v.operator]])
        return filters + self.unit * (sum([t.work for t in journey.trials]) + journey.entries)

    def seen(self, journey: Journey) -> tuple[list[Seen], list[Seen]]:
        """What operators on the route did, and what profiled ones would have done."""
        return seen_by(journey, self.pipeline, self.unit)

    def observe(self, visits: Visits) -> None:
        """Update the overall rates."""
        for journey in visits.journeys:
            for v in journey.visits:
                rows = v.rows_in + v.extra
                if not rows:
                    continue
                if self.stems[v.operator]:
                    self.note(v.operator, v.rows_in, v.rows_out, v.work * self.unit)
                else:
                    passed = v.rows_out / v.rows_in if v.rows_in else 0.0
                    self._clocked(v.operator, rows, rows * passed, v.seconds + v.extra_seconds)
            for t in journey.trials:
                self.note(t.operator, t.rows, t.matches, t.work * self.unit)

    def _clocked(self, op: int, rows: int, out: float, seconds: float) -> None:
        """A timed visit: see the head of this file."""
        if self._awake[op] < 2:
            if self._awake[op] == 1:
                self._seconds[op] = self._rows[op] = self._out[op] = self._squares[op] = self._scatter[op] = 0.0
            self._awake[op] += 1
        if self._rows[op] >= ENOUGH and self._seconds[op] > 0:  # a cap of zero would never let it rise
            seconds = min(seconds, CAP * rows * self._seconds[op] / self._rows[op])
        self.note(op, rows, out, seconds)

    def note(self, operator: int, rows: int, out: float, seconds: float) -> None:
        """Record rows in, rows out and seconds of an operator."""
        if not rows:
            return
        op, kept = operator, 0.5 ** (rows / self.memory)
        off = seconds / rows - self._seconds[op] / self._rows[op] if self._rows[op] else 0.0
        self._scatter[op] = self._scatter[op] * kept + rows * off * off
        self._squares[op] = self._squares[op] * kept * kept + rows * rows
        self._seconds[op] = self._seconds[op] * kept + seconds
        self._rows[op] = self._rows[op] * kept + rows
        self._out[op] = self._out[op] * kept + out
        self._per_row = None

    @property
    def per_row(self) -> Floats:
        """Seconds per row in, including matches; an unvisited operator gets the mean of the others, or 1."""
        if self._per_row is None:
            met = [s / r for s, r in zip(self._seconds, self._rows, strict=True) if r > 0]
            unmet = sum(met) / len(met) if met else 1.0
            costs = [s / r if r > 0 else unmet for s, r in zip(self._seconds, self._rows, strict=True)]
            self._per_row = np.maximum(costs, 1e-12)
        return self._per_row

    @property
    def fanout(self) -> Floats:
        """Rows out per row in; 1 for an unvisited operator."""
        return np.array([o / r if r else 1.0 for o, r in zip(self._out, self._rows, strict=True)])

    @property
    def examined(self) -> Floats:
        """Seconds for each match of a row."""
        return np.where(self.stems, self.unit, 0.0)

    @property
    def lookup(self) -> Floats:
        """Seconds per row in before its matches are examined; an unvisited operator gets the mean of the others."""
        each = np.maximum(self.per_row - self.examined * self.fanout, np.where(self.stems, 0.05 * self.unit, 0.0))
        met = np.array(self._rows) > 0
        each[~met] = each[met].mean() if met.any() else 1.0
        return np.asarray(each)

    @property
    def error(self) -> Floats:
        """Relative standard error of each cost, from the scatter of visits; 0 if all took the same."""
        errors = []
        for s, r, q, d in zip(self._seconds, self._rows, self._squares, self._scatter, strict=True):
            visits = r * r / q if q else 0.0
            errors.append(sqrt(d / r / max(visits - 1, 0.5)) * r / s if s > 0 else 0.0)
        return np.array(errors)

    def snapshot(self) -> dict[str, Any]:
        return {
            "seconds": list(self._seconds), "rows": list(self._rows), "out": list(self._out),
            "squares": list(self._squares), "scatter": list(self._scatter), "awake": list(self._awake),
            "given": self.given.snapshot(),
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        self._seconds, self._rows, self._out = list(record["seconds"]), list(record["rows"]), list(record["out"])
        self._squares, self._scatter, self._awake = (list(record[name]) for name in ("squares", "scatter", "awake"))
        self.given.restore(record["given"])
        self._per_row = None
