"""Lessons: profiled rows with their content, kept until there are enough to teach classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.optimize.classes.classed import Bits
from thalweg.profile.content.attributes import Values

LESSON = 48
"""Tested: rows taught at a time, and new rows that must judge a plan before it can come into force. Pricing a few rows
takes nearly as long as pricing dozens."""
CONFIDENCE = 3.0
"""Tested: standard errors by which an estimated saving must exceed zero."""


class Lessons:
    """Rows that wait to be taught.

    >>> lessons = Lessons(operators=2)
    >>> lessons.add(np.zeros((3, 1), np.float32), np.ones((3, 2), np.int8))
    3
    >>> len(lessons.take()[1]), len(lessons)
    (3, 0)
    """

    def __init__(self, operators: int) -> None:
        self._operators = operators
        self.drop()

    def __len__(self) -> int:
        return len(self._bits)

    def drop(self) -> None:
        self._values: Values = np.zeros((0, 0), np.float32)
        self._bits: Bits = np.zeros((0, self._operators), np.int8)

    def add(self, values: Values, bits: Bits) -> int:
        """Keep more rows; drops those with other columns. Returns the number kept."""
        if self._values.shape[1] == values.shape[1]:
            values, bits = np.concatenate([self._values, values]), np.concatenate([self._bits, bits])
        self._values, self._bits = values, bits
        return len(bits)

    def keep_newest(self) -> None:
        self._values, self._bits = self._values[-LESSON:], self._bits[-LESSON:]

    def take(self) -> tuple[Values, Bits]:
        """Take all rows."""
        taken = self._values, self._bits
        self.drop()
        return taken

    def snapshot(self) -> list[Any]:
        return [self._values.tolist(), self._bits.tolist()]

    def restore(self, record: list[Any]) -> None:
        self.drop()
        values, bits = record
        if bits:
            self._values = np.array(values, np.float32).reshape(len(bits), -1)
            self._bits = np.array(bits, np.int8).reshape(len(bits), self._operators)
