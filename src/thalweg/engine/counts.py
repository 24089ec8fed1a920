"""Counts: of the tuples of each class, and those of an engine over several lives: what a task added, and the sum of it.

An engine without state counts from its birth, in one worker of many: its totals say nothing of the others'. What each
task added can be summed over all of them. What is there now (rows stored, a watermark) is not summed: the newest holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import ROWS_IN, ROWS_OUT, Journey

ByClass = dict[str, list[int]]
"""For each class of tuples: its rows, then the rows that came to each operator, then those that left it."""
MOST_CLASSES = 64
"""Classes that are counted one by one; a plan has a handful."""
PRESENT = frozenset({"stored", "bytes", "slices", "index bytes", "waiting", "watermark"})
"""Of `Engine.stats()`, what tells of now and not of all that came."""


class ClassCounts:
    """Adds up what the rows of each class met, without a loop over classes; rows without a class are passed over."""

    def __init__(self, operators: int) -> None:
        self.operators = operators
        self._sums: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self._told: ByClass = {}

    def add(self, journeys: Iterable[Journey]) -> None:
        for journey in journeys:
            labels = journey.ruster.labels
            if journey.counts is None or not any(labels):
                continue
            sums = self._sums.get(labels)
            if sums is None:
                if len(self._sums) >= MOST_CLASSES:
                    self.now()
                sums = self._sums[labels] = np.zeros((len(labels), 2 * self.operators + 1), np.int64)
            sums[:, 0] += journey.rows if journey.begun is None else journey.begun
            sums[:, 1 : self.operators + 1] += journey.counts[:, :, ROWS_IN]
            sums[:, self.operators + 1 :] += journey.counts[:, :, ROWS_OUT]

    def now(self) -> ByClass:
        """The counts so far."""
        sums, self._sums = self._sums, {}
        for labels, lines in sums.items():
            for label, line in zip(labels, lines.tolist(), strict=True):
                if label and line[0] and (label in self._told or len(self._told) < MOST_CLASSES):
                    before = self._told.get(label, [0] * len(line))
                    self._told[label] = [a + b for a, b in zip(before, line, strict=True)]
        return self._told

    def drain(self) -> ByClass:
        """The counts since the last call."""
        counts, self._told = self.now(), {}
        return counts


def since(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What was added to `Engine.stats()` between two looks; an empty look is that of an engine not yet made.

    >>> since({"rows in": 3, "stored": 3}, {"rows in": 5, "stored": 2})
    {'rows in': 2, 'stored': 2}
    """
    return _each(now, before, operator.sub)


def added(total: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Totals with what a task added.

    >>> added({"rows in": 3, "stored": 3}, {"rows in": 2, "stored": 2})
    {'rows in': 5, 'stored': 2}
    """
    return _each(more, total, operator.add)


def _each(newer: Mapping[str, Any], older: Mapping[str, Any], how: Callable[[Any, Any], Any]) -> dict[str, Any]:
    made = {}
    for name, value in newer.items():
        if isinstance(value, Mapping):
            made[name] = _each(value, older.get(name, {}), how)
        else:
            made[name] = value if name in PRESENT else how(value, older.get(name, 0))
    return made
