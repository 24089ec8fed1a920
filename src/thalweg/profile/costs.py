"""Seconds per row and operator, as moving averages over the most recent rows (thesis 4.3.1 keeps them over its window).

One hiccup of the machine must not turn an order round, so a visit counts at most `CAP` times the present average; a true rise
of the cost gets through in a few visits all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.visits import Visits

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
        self._seconds = np.zeros(operators)
        self._rows = np.zeros(operators)

    def observe(self, visits: Visits) -> None:
        seconds, rows = self._seconds, self._rows
        for journey in visits.journeys:
            for v in journey.visits:
                n = v.rows_in + v.extra
                if not n:
                    continue
                op, spent = v.operator, v.seconds + v.extra_seconds
                if rows[op] >= MIN_ROWS:
                    spent = min(spent, CAP * n * seconds[op] / rows[op])
                kept = 0.5 ** (n / self.memory)
                seconds[op] = seconds[op] * kept + spent
                rows[op] = rows[op] * kept + n

    @property
    def per_row(self) -> NDArray[np.float64]:
        """Seconds per row; an operator never met counts as the mean of the others, or 1."""
        met = self._rows > 0
        if not met.any():
            return np.ones(len(self._rows))
        costs = np.divide(self._seconds, self._rows, out=np.zeros_like(self._seconds), where=met)
        costs[~met] = costs[met].mean()
        return np.maximum(costs, 1e-12)

    def snapshot(self) -> dict[str, Any]:
        return {"seconds": self._seconds.tolist(), "rows": self._rows.tolist()}

    def restore(self, record: dict[str, Any]) -> None:
        self._seconds = np.array(record["seconds"], float)
        self._rows = np.array(record["rows"], float)
