"""What tuples cost on an order, from what every operator made of each: dropped it, passed it, or joined it so often.

Filters: all operators up to and with the first that drops it. Stems: a tuple becomes as many partial results as it has
matches, each of which visits the next operator (thesis 5.2 counts the same with averages). That is exact where predicates link
the tuple with each stem alone; where they also link stems with each other it is too much, which `auto` finds out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.plan import Pipeline

Bits = NDArray[np.int8]
Floats = NDArray[np.float64]
MOST = 127
"""Matches of a tuple with one stem that are told apart: what has more counts as so many."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Seconds per row and operator; with stems also seconds per match, and rows out where a tuple was not tried.

    >>> one = Prices(np.array([1.0, 10.0]))
    >>> one.each(np.array([[1, 0], [0, 1], [1, 1]], np.int8), (1, 0)).tolist()
    [10.0, 11.0, 11.0]
    >>> stems = Prices(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([1.0, 0.5]))
    >>> stems.each(np.array([[4, 0], [4, -1], [0, 3]], np.int8), (0, 1)).tolist()
    [9.0, 11.0, 1.0]
    """

    costs: Floats
    examined: Floats | None = None
    fill: Floats | None = None

    @property
    def joins(self) -> bool:
        return self.examined is not None

    def rows(self, bits: Bits) -> Floats:
        """Rows out of each operator for each tuple."""
        if self.fill is None:
            return np.asarray(bits != 0, np.float64)
        return np.asarray(np.where(bits < 0, self.fill, bits), np.float64)

    def each(self, bits: Bits, order: Iterable[int]) -> Floats:
        """Cost of each tuple on an order."""
        places = list(order)
        if not places:
            return np.zeros(len(bits))
        if self.examined is None:
            dropped = bits[:, places] == 0
            first = np.where(dropped.any(axis=1), dropped.argmax(axis=1), len(places) - 1)
            return np.asarray(np.cumsum(self.costs[places])[first])
        out, alive, total = self.rows(bits), np.ones(len(bits)), np.zeros(len(bits))
        for op in places:
            total += alive * (self.costs[op] + self.examined[op] * out[:, op])
            alive = alive * out[:, op]
        return total


def subsets(rows: Floats) -> Floats:
    """Partial results of all tuples after each set of operators: column S holds the sum over tuples of the product of
    their rows at the operators of S.

    >>> subsets(np.array([[2.0, 3.0], [1.0, 0.0]])).tolist()
    [2.0, 3.0, 3.0, 6.0]
    """
    product = np.ones((len(rows), 1))
    for op in range(rows.shape[1]):
        product = np.concatenate([product, product * rows[:, op : op + 1]], axis=1)
    return np.asarray(product.sum(axis=0))


def has_stems(pipeline: Pipeline) -> bool:
    return any(op.kind == "stem" for op in pipeline.operators)
