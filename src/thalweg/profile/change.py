"""Change: has the share of tuples that an operator drops left what it was?

Ordinary work shows, for nothing, how many of the rows that reached each operator it dropped. Those shares are compared with what
they were since the last change, by the two-sample test of proportions, over the newest batch and over the newest eight (a small
change needs more rows to show). Beyond the thesis, which fixes window and sampling rate per query and leaves following them open
(4.8): a change seen here is what shortens the window and raises the sampling rate.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.visits import Visits


class ChangeDetector:
    """Watches the drop shares of operators met by working rusters on one route.

    `threshold` is in standard errors. At 4.5 a stationary stream of six operators gives about one false alarm in
    10,000 batches, and a false alarm costs one burst of profiling, never a wrong order.
    """

    def __init__(self, operators: int, threshold: float = 4.5, spans: tuple[int, ...] = (1, 8)) -> None:
        self.threshold = threshold
        self.spans = spans
        self._operators = operators
        self.reset()

    def reset(self) -> None:
        """Start over: after a change, or when another order makes the shares mean something else."""
        self._before = np.zeros((2, self._operators))
        self._recent: deque[NDArray[np.float64]] = deque(maxlen=max(self.spans))

    def observe(self, visits: Visits) -> int | None:
        """The operator whose share changed, or None."""
        now = np.zeros((2, self._operators))
        for journey in visits.journeys:
            if journey.ruster.purpose == "work":
                for v in journey.visits:
                    survived = v.rows_out if v.survivors is None else v.survivors
                    now[0, v.operator] += v.rows_in - survived
                    now[1, v.operator] += v.rows_in
        if len(self._recent) == self._recent.maxlen:
            self._before += self._recent[0]
        self._recent.append(now)
        held = list(self._recent)
        for span in self.spans:
            if len(held) < span:
                continue
            newest = sum(held[-span:], np.zeros_like(now))
            reference = self._before + sum(held[:-span], np.zeros_like(now))
            z = _z(newest, reference)
            worst = int(np.argmax(z))
            if z[worst] > self.threshold:
                return worst
        return None

    def snapshot(self) -> dict[str, Any]:
        return {"before": self._before.tolist(), "recent": [r.tolist() for r in self._recent]}

    def restore(self, record: dict[str, Any]) -> None:
        self._before = np.array(record["before"], float)
        self._recent = deque((np.array(r, float) for r in record["recent"]), maxlen=max(self.spans))


def _z(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of two samples (drops, rows) of each operator in standard errors; 0 where there is too little to say."""
    enough = (a[1] >= 20) & (b[1] >= 200)
    n, m = np.maximum(a[1], 1), np.maximum(b[1], 1)
    pooled = (a[0] + b[0] + 1) / (n + m + 2)  # add-one: a share of exactly 0 or 1 still has an error
    error = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return np.where(enough, np.abs(a[0] / n - b[0] / m) / error, 0.0)
