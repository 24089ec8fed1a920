"""Rows in and out of operators by partition of every attribute: the paper's In[] and Out[] (CBR 4.1, figure 2).

A row counts for the operators it was tried on, so a sample steered to one operator fills only that one's counts. How
much an attribute tells about an operator is the gain ratio or, if some row had several matches, the share of the
variance of its rows (4.5), each less the value expected by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Values
from thalweg.profile.content.gainratio import by_chance, gain_ratio, variance_by_chance, variance_share
from thalweg.profile.content.pairs import Content

Floats = NDArray[np.float64]


class PartCounts:
    """Counts for `operators` operators; attributes come with the first sample.

    >>> from thalweg.profile.content.attributes import Attributes
    >>> from thalweg.profile.content.partitions import Partitions
    >>> import pyarrow as pa
    >>> content = Content(Attributes(), Partitions(4), pairs=False)
    >>> values = content.attributes.look(pa.record_batch({"kind": [0, 1] * 20}))
    >>> counts = PartCounts(2)
    >>> _ = counts.add(content, values, np.array([[1, -1], [0, -1]] * 20, np.int8))
    >>> counts.rows(0), counts.rows(1), counts.ratios(0, content.usable)[0].round(2).tolist()
    (40.0, 0.0, [0.98])
    """

    def __init__(self, operators: int) -> None:
        self.taken = np.zeros((operators, 0, 0))
        self.through = np.zeros((operators, 0, 0))
        self.squares = np.zeros(operators)

    def rows(self, op: int) -> float:
        """Rows tried on an operator since its counts were cleared."""
        return float(self.taken[op].sum(axis=1).max(initial=0.0))

    def add(self, content: Content, values: Values, rows: NDArray[np.int8]) -> list[int]:
        """Count tuples; `rows[t, op]` is what came out, or negative. Returns the attributes whose partitions changed
        their meaning, and whose counts therefore begin again."""
        from thalweg.profile.content import kernels

        n, k, d = len(self.taken), len(content), content.partitions.d
        if self.taken.shape[1:] != (k, d + 1):
            self.taken, self.through, self.squares = np.zeros((n, k, d + 1)), np.zeros((n, k, d + 1)), np.zeros(n)
        touched = content.touched(content.partitions.widen(values, content.attributes.category))
        self.taken[:, touched] = self.through[:, touched] = 0.0
        parts = content.parts(values, list(range(k)))
        kernels.count(parts, rows.astype(np.float64), self.taken, self.through, self.squares)
        return touched

    def ratios(self, op: int, usable: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """How much each attribute tells about an operator beyond chance, and its standard error; both 0 for one that
        can't serve or was counted less than others."""
        taken, through = self.taken[op], self.through[op]
        if self.joined(op):
            told = variance_share(taken, through, np.full((len(taken), 1), self.squares[op]))
            chance, error = variance_by_chance(taken)
        else:
            told = gain_ratio(taken, through)
            chance, error = by_chance(taken)
        serves = usable & (taken.sum(axis=1) >= self.rows(op))
        return np.where(serves, told - chance, 0.0), np.where(serves, error, 0.0)

    def joined(self, op: int) -> bool:
        """Whether a row had more than one match: a sum of squares then exceeds the sum."""
        return bool(self.squares[op] > self.through[op].sum(axis=1).max(initial=0.0))

    def rates(self, op: int, attribute: int) -> Floats:
        """Rows out per row in for each partition; the overall mean for an empty one."""
        taken, through = self.taken[op, attribute], self.through[op, attribute]
        mean = through.sum() / max(taken.sum(), 1.0)
        return np.asarray(np.where(taken > 0, through / np.maximum(taken, 1.0), mean))

    def clear(self, op: int) -> None:
        self.taken[op] = self.through[op] = self.squares[op] = 0.0

    def forget(self) -> None:
        for op in range(len(self.taken)):
            self.clear(op)

    def snapshot(self) -> dict[str, Any]:
        return {"taken": self.taken.tolist(), "through": self.through.tolist(), "squares": self.squares.tolist()}

    def restore(self, record: dict[str, Any]) -> None:
        n = len(self.taken)
        shape = np.shape(record["taken"]) if n and record["taken"] and record["taken"][0] else (n, 0, 0)
        self.taken = np.array(record["taken"], float).reshape(shape)
        self.through = np.array(record["through"], float).reshape(shape)
        self.squares = np.array(record["squares"], float)
