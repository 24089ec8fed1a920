"""Seconds per row and operator, as moving averages over the most recent rows (thesis 4.3.1 keeps them over its window).

One hiccup of the machine must not turn an order round, so a visit counts at most `CAP` times the present average; a
true rise of the cost gets through in a few visits all the same. The first visit also pays for waking up (imports, cold
caches, pages never touched), often ten times the rest: it stands only until there is a second. How far visits differ
tells how sure an average is; who compares costs must allow for it.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import Visits

CAP = 4.0
MIN_ROWS = 64.0
"""Rows behind an average before the cap applies."""


class Costs:
    """Moving average cost of each operator.

    >>> costs = Costs(2)
    >>> costs.per_row.tolist()
    [1.0, 1.0]
    """

    def __init__(self, operators: int, memory: int = 8192) -> None:
        self.memory = memory
        self._seconds = [0.0] * operators
        self._rows = [0.0] * operators
        self._squares = [0.0] * operators
        self._scatter = [0.0] * operators
        self._awake = [0] * operators
        self._per_row: NDArray[np.float64] | None = None

    def observe(self, visits: Visits) -> None:
        seconds, rows, squares, scatter = self._seconds, self._rows, self._squares, self._scatter
        awake = self._awake
        self._per_row = None
        for journey in visits.journeys:
            for v in journey.visits:
                n = v.rows_in + v.extra
                if not n:
                    continue
                op, spent = v.operator, v.seconds + v.extra_seconds
                if awake[op] < 2:
                    if awake[op] == 1:
                        seconds[op] = rows[op] = squares[op] = scatter[op] = 0.0
                    awake[op] += 1
                if rows[op] >= MIN_ROWS and seconds[op] > 0:  # nothing times four is nothing: no cap on it
                    spent = min(spent, CAP * n * seconds[op] / rows[op])
                kept = 0.5 ** (n / self.memory)
                off = spent / n - seconds[op] / rows[op] if rows[op] else 0.0
                scatter[op] = scatter[op] * kept + n * off * off
                squares[op] = squares[op] * kept * kept + n * n
                seconds[op] = seconds[op] * kept + spent
                rows[op] = rows[op] * kept + n

    @property
    def per_row(self) -> NDArray[np.float64]:
        """Seconds per row; an operator never met counts as the mean of the others, or 1."""
        if self._per_row is None:
            met = [s / r for s, r in zip(self._seconds, self._rows, strict=True) if r > 0]
            unmet = sum(met) / len(met) if met else 1.0
            costs = [s / r if r > 0 else unmet for s, r in zip(self._seconds, self._rows, strict=True)]
            self._per_row = np.maximum(costs, 1e-12)
        return self._per_row

    @property
    def lookup(self) -> NDArray[np.float64]:
        """Seconds per row in; a filter has no matches to examine beside it."""
        return self.per_row

    @property
    def examined(self) -> NDArray[np.float64]:
        """Seconds for each match of a row."""
        return np.zeros(len(self._rows))

    @property
    def fanout(self) -> NDArray[np.float64]:
        """Rows out of an operator that a row was not tried on: it counts as passed."""
        return np.ones(len(self._rows))

    @property
    def error(self) -> NDArray[np.float64]:
        """Standard error of each cost as a share of it, from how much the visits differ; 0 where all took the same.

        >>> costs = Costs(1)
        >>> costs.error.tolist()
        [0.0]
        """
        errors = []
        for s, r, q, d in zip(self._seconds, self._rows, self._squares, self._scatter, strict=True):
            visits = r * r / q if q else 0.0
            errors.append(sqrt(d / r / max(visits - 1, 0.5)) * r / s if s > 0 else 0.0)
        return np.array(errors)

    def snapshot(self) -> dict[str, Any]:
        return {
            "seconds": list(self._seconds),
            "rows": list(self._rows),
            "squares": list(self._squares),
            "scatter": list(self._scatter),
            "awake": list(self._awake),
        }

    def restore(self, record: dict[str, Any]) -> None:
        self._seconds = list(record["seconds"])
        self._rows = list(record["rows"])
        self._squares = list(record["squares"])
        self._scatter = list(record["scatter"])
        self._awake = list(record["awake"])
        self._per_row = None
