"""Pass rates of content-based routing: W overall, S by partition of the classifier attribute (CBR 4.1, figure 2).

Each tuple moves a rate by 1 - α towards its outcome; a batch does so in one step. For joins a rate is rows
out per row in (4.5). Operators are ranked by drop rate per cost, where the paper takes costs as equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.classtable import ClassTable
from thalweg.plan import Pipeline

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Selectivities:
    """W and S of one pipeline.

    >>> rates = Selectivities(2, parts=3, alpha=0.95)
    >>> rates.follow(np.array([100.0, 10.0]), np.array([30.0, 9.0]))
    >>> rates.W.round(2).tolist()
    [0.3, 0.9]
    """

    def __init__(self, operators: int, parts: int, alpha: float) -> None:
        self.alpha = alpha
        self.W = np.full(operators, 0.5)
        self.S = np.full((operators, parts + 1), 0.5)
        self.met = np.zeros(operators)
        """Tuples that reached each operator."""

    def follow(self, came: Floats, left: Floats) -> None:
        """Update W from rows in and out of each operator; the first observation sets it."""
        weight = np.where(self.met > 0, 1 - self.alpha**came, (came > 0).astype(float))
        self.W = self.W * (1 - weight) + weight * left / np.maximum(came, 1)
        self.met = self.met + came

    def follow_classes(self, table: ClassTable, came: Floats, left: Floats) -> None:
        """Update S from rows in and out of each operator by class (the run-time update)."""
        parts = self.S.shape[1]
        for op, j in enumerate(table.attribute):
            if j >= 0:
                part = table.part(j)
                taken = np.bincount(part, came[:, op], parts)
                kept = self.alpha**taken
                now = np.bincount(part, left[:, op], parts) / np.maximum(taken, 1)
                self.S[op] = self.S[op] * kept + (1 - kept) * now

    def of(self, table: ClassTable, without: int | None = None) -> Floats:
        """The rate of each operator for each class, `without` the classifier attribute of one of them."""
        rates = np.tile(self.W, (len(table), 1))
        for op, j in enumerate(table.attribute):
            if j >= 0 and op != without:
                rates[:, op] = self.S[op, table.part(j)]
        return rates

    def snapshot(self) -> dict[str, Any]:
        return {"W": self.W.tolist(), "S": self.S.tolist(), "met": self.met.tolist()}

    def restore(self, record: dict[str, Any]) -> None:
        self.W, self.met = np.array(record["W"], float), np.array(record["met"], float)
        for op, row in enumerate(record["S"]):
            if row:
                self.S[op] = row


def ranked(pipeline: Pipeline, rates: Floats, costs: Floats) -> Ints:
    """The order of each class, by drop rate per cost."""
    orders = np.argsort(-(1 - rates) / costs, axis=1, kind="stable")
    if not pipeline.free:
        allowed = [pipeline.closest(order).operators for order in orders.tolist()]
        orders = np.array(allowed, np.int64).reshape(orders.shape)
    return orders


def expected(rates: Floats, orders: Ints, costs: Floats) -> Floats:
    """Seconds per tuple of each class on an order, with operators independent within a class."""
    placed = np.take_along_axis(rates, orders, axis=1)
    reaching = np.cumprod(np.concatenate([np.ones((len(placed), 1)), placed[:, :-1]], axis=1), axis=1)
    return np.asarray((reaching * costs[orders]).sum(axis=1))
