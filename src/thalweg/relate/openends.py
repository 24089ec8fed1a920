"""Open ends: results made of rows whose end is not known yet, until it is.

A result ends where the first of its rows does. A row's end that is still unknown (FOREVER) is told later and never lies
before the floor of its side: so a result's end is final once the ends of all its rows are known, or once the least of
those known does not lie above the floor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.contract.relation import FOREVER, Closings, Ints

KNOWN = -1
"""The number of a row whose end is known."""


class OpenEnds:
    """Numbers the results of an operator, says their ends, and closes those that could not say."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers = np.empty(0, np.int64)
        self._bounds = np.empty(0, np.int64)
        self._of = np.empty((2, 0), np.int64)
        """Of open results, by side: the number of the row whose end is unknown, or KNOWN."""

    def open(
        self, bounds: Ints, left: tuple[Ints, Ints] | None, right: tuple[Ints, Ints] | None, floor: int
    ) -> tuple[Ints, Ints]:
        """Numbers and ends of new results: numbers and ends of their rows, by side."""
        number = np.arange(self.count, self.count + len(bounds))
        self.count += len(bounds)
        of = np.stack([_unknown(side, len(bounds)) for side in (left, right)])
        waiting = (of != KNOWN).any(axis=0) & (bounds > floor)
        if not waiting.any():
            return number, bounds
        self._numbers = np.concatenate([self._numbers, number[waiting]])
        self._bounds = np.concatenate([self._bounds, bounds[waiting]])
        self._of = np.concatenate([self._of, of[:, waiting]], axis=1)
        return number, np.where(waiting, FOREVER, bounds)

    def close(self, side: int, closings: Closings) -> None:
        """Rows of a side end then."""
        if not len(closings.number) or not len(self._numbers):
            return
        order = np.argsort(closings.number)
        numbers, ends = closings.number[order], closings.end[order]
        mine = self._of[side]
        at = np.minimum(np.searchsorted(numbers, mine), len(numbers) - 1)
        hit = numbers[at] == mine
        self._bounds[hit] = np.minimum(self._bounds[hit], ends[at[hit]])
        mine[hit] = KNOWN

    def settled(self, floor: int) -> Closings:
        """The ends that have become final."""
        done = (self._of == KNOWN).all(axis=0) | (self._bounds <= floor)
        told = done & (self._bounds < FOREVER)
        closings = Closings(self._numbers[told], self._bounds[told])
        if done.any():
            self._numbers, self._bounds, self._of = self._numbers[~done], self._bounds[~done], self._of[:, ~done]
        return closings

    def snapshot(self) -> dict[str, Any]:
        return {"count": self.count, "open": [a.tolist() for a in (self._numbers, self._bounds, *self._of)]}

    def restore(self, record: dict[str, Any]) -> None:
        self.count = record["count"]
        self._numbers, self._bounds, *of = (np.array(a, np.int64) for a in record["open"])
        self._of = np.stack(of)


def _unknown(side: tuple[Ints, Ints] | None, count: int) -> Ints:
    if side is None:
        return np.full(count, KNOWN)
    number, end = side
    return np.where(end == FOREVER, number, KNOWN)
