"""Change: has the share of tuples that an operator drops left what it was?

Ordinary work shows, for nothing, how many of the rows that reached each operator it dropped. Those shares are compared with what
they were since the last change, by the two-sample test of proportions, over the newest batch and over the newest eight (a small
change needs more rows to show). Beyond the thesis, which fixes window and sampling rate per query and leaves following them open
(4.8): a change seen here is what shortens the window and raises the sampling rate.
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Any

from thalweg.profile.visits import Visits

Tally = tuple[list[int], list[int]]
"""Drops and rows of each operator. Plain numbers: for a handful of operators they are several times faster than arrays."""


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
        self._recent: deque[Tally] = deque(maxlen=max(self.spans))
        self._total = self._nothing()
        self._within = [self._nothing() for _ in self.spans]

    def _nothing(self) -> Tally:
        return [0] * self._operators, [0] * self._operators

    def observe(self, visits: Visits) -> int | None:
        """The operator whose share changed, or None."""
        now = self._nothing()
        drops, rows = now
        for journey in visits.journeys:
            if journey.ruster.purpose == "work":
                for v in journey.visits:
                    survived = v.rows_out if v.survivors is None else v.survivors
                    drops[v.operator] += v.rows_in - survived
                    rows[v.operator] += v.rows_in
        for span, within in zip(self.spans, self._within, strict=True):
            _add(within, now)
            if len(self._recent) >= span:
                _add(within, self._recent[-span], -1)
        self._recent.append(now)
        _add(self._total, now)
        for span, within in zip(self.spans, self._within, strict=True):
            if len(self._recent) >= span:
                changed = self._farthest(within)
                if changed is not None:
                    return changed
        return None

    def _farthest(self, newest: Tally) -> int | None:
        """The operator whose newest share is farthest from what it was before, if that is beyond the threshold."""
        found, beyond = None, self.threshold
        for op, (drops, rows, all_drops, all_rows) in enumerate(zip(*newest, *self._total, strict=True)):
            z = _z(drops, rows, all_drops - drops, all_rows - rows)
            if z > beyond:
                found, beyond = op, z
        return found

    def snapshot(self) -> dict[str, Any]:
        return {"total": list(self._total), "recent": [list(r) for r in self._recent]}

    def restore(self, record: dict[str, Any]) -> None:
        self.reset()
        for drops, rows in record["recent"]:
            self._recent.append((list(drops), list(rows)))
        self._total = (list(record["total"][0]), list(record["total"][1]))
        for span, within in zip(self.spans, self._within, strict=True):
            for tally in list(self._recent)[-span:]:
                _add(within, tally)


def _add(tally: Tally, other: Tally, sign: int = 1) -> None:
    for mine, theirs in zip(tally, other, strict=True):
        for op, count in enumerate(theirs):
            mine[op] += sign * count


def _z(drops: int, rows: int, other_drops: int, other_rows: int) -> float:
    """Distance of two shares in standard errors; 0 where there is too little to say."""
    if rows < 20 or other_rows < 200:
        return 0.0
    pooled = (drops + other_drops + 1) / (rows + other_rows + 2)  # add-one: a share of exactly 0 or 1 still has an error
    error = sqrt(pooled * (1 - pooled) * (1 / rows + 1 / other_rows))
    return abs(drops / rows - other_drops / other_rows) / error
