"""Counts per class: how many rows of each class came to each operator, and how many left it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import ROWS_IN, ROWS_OUT, Journey
from thalweg.optimize.classes.classtable import MOST_CLASSES

ByClass = dict[str, list[int]]
"""For each class of tuples: its rows, then the rows that came to each operator, then those that left it."""


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
