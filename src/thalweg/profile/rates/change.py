"""Change: has the share of tuples that an operator drops changed?

Ordinary work shows for free which share of its rows each operator drops. A two-sample test of proportions compares
those shares with their values since the last change, over the newest batch and over the newest eight (a small change
needs more rows to show). This goes beyond the thesis, which fixes window and sampling rate per query and leaves
adapting them open (4.8): a change found here shortens the window and raises the sampling rate.
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Any

from thalweg.contract.visits import Visits

Tally = list[int]
"""Drops of each operator, then rows of each; for a handful of operators, lists are several times faster than arrays."""


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
        """Start over: after a change, or when another order gives the shares another meaning."""
        self._recent: deque[Tally] = deque(maxlen=max(self.spans))
        self._total: Tally = [0] * (2 * self._operators)
        self._within: list[Tally] = [[0] * (2 * self._operators) for _ in self.spans]

    @property
    def least_met(self) -> float:
        """Share of the rows that reach the least-visited operator; 1 before any count."""
        met = self._total[self._operators :]
        most = max(met, default=0)
        return min(met) / most if most else 1.0

    def observe(self, visits: Visits) -> int | None:
        """The operator whose share of drops in ordinary work changed, or None."""
        n = self._operators
        now: Tally = [0] * (2 * n)
        for journey in visits.journeys:
            if journey.ruster.purpose == "work":
                for v in journey.visits:
                    survived = v.rows_out if v.survivors is None else v.survivors
                    now[v.operator] += v.rows_in - survived
                    now[n + v.operator] += v.rows_in
        return self.count(now)

    def count(self, now: Tally) -> int | None:
        """Add the drops of each operator, then the rows of each. Returns the operator whose share changed, or None."""
        for k, span in enumerate(self.spans):
            self._within[k] = _sum(self._within[k], now)
            if len(self._recent) >= span:
                self._within[k] = _difference(self._within[k], self._recent[-span])
        self._recent.append(now)
        self._total = _sum(self._total, now)
        for span, newest in zip(self.spans, self._within, strict=True):
            if len(self._recent) >= span:
                changed = self._farthest(newest)
                if changed is not None:
                    return changed
        return None

    def _farthest(self, newest: Tally) -> int | None:
        """The operator whose newest share is farthest from its earlier one, if beyond the threshold."""
        n, found, beyond = self._operators, None, self.threshold
        before = _difference(self._total, newest)
        for op in range(n):
            if newest[n + op] >= 20 and before[n + op] >= 200:  # fewer prove nothing
                z = _z(newest[op], newest[n + op], before[op], before[n + op])
                if z > beyond:
                    found, beyond = op, z
        return found

    def snapshot(self) -> dict[str, Any]:
        return {"total": list(self._total), "recent": [list(r) for r in self._recent]}

    def restore(self, record: dict[str, Any]) -> None:
        self.reset()
        self._recent.extend(list(tally) for tally in record["recent"])
        self._total = list(record["total"])
        for k, span in enumerate(self.spans):
            for tally in list(self._recent)[-span:]:
                self._within[k] = _sum(self._within[k], tally)


def _sum(a: Tally, b: Tally) -> Tally:
    return [x + y for x, y in zip(a, b, strict=True)]


def _difference(a: Tally, b: Tally) -> Tally:
    return [x - y for x, y in zip(a, b, strict=True)]


def _z(drops: int, rows: int, drops_before: int, rows_before: int) -> float:
    """Distance of two shares in standard errors."""
    pooled = (drops + drops_before + 1) / (rows + rows_before + 2)  # add-one: a share of 0 or 1 still has an error
    error = sqrt(pooled * (1 - pooled) * (1 / rows + 1 / rows_before))
    return abs(drops / rows - drops_before / rows_before) / error
