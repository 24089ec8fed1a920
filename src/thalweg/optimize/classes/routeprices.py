"""What tuples cost on an order, given how many rows every operator makes of each: none, one, or one per match.

Each match of a tuple becomes a partial result that visits the next operator (thesis 5.2 does the same with averages).
That is exact if predicates link the tuple with each stem alone. If they also link stems with each other it is too high,
which `auto` detects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int8]
Floats = NDArray[np.float64]
MOST = np.iinfo(np.int8).max
"""Most matches of a tuple with one stem that we distinguish."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Seconds per row and operator, seconds per match, and rows out where a tuple was not tried. A filter's matches are
    free, and it has at most one.

    >>> filters = Prices(np.array([1.0, 10.0]), np.zeros(2), np.ones(2))
    >>> filters.each(np.array([[1, 0], [0, 1], [1, 1]], np.int8), (1, 0)).tolist()
    [10.0, 11.0, 11.0]
    >>> stems = Prices(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([1.0, 0.5]))
    >>> stems.each(np.array([[4, 0], [4, -1], [0, 3]], np.int8), (0, 1)).tolist()
    [9.0, 11.0, 1.0]
    """

    costs: Floats
    examined: Floats
    fill: Floats

    @classmethod
    def of_filters(cls, costs: Floats) -> Prices:
        return cls(costs, np.zeros(len(costs)), np.ones(len(costs)))

    def rows(self, bits: Bits) -> Floats:
        """Rows out of each operator for each tuple."""
        return np.asarray(np.where(bits < 0, self.fill, bits), np.float64)

    def each(self, bits: Bits, order: Iterable[int]) -> Floats:
        """Cost of each tuple on an order."""
        out, alive, total = self.rows(bits), np.ones(len(bits)), np.zeros(len(bits))
        for op in order:
            total += alive * (self.costs[op] + self.examined[op] * out[:, op])
            alive *= out[:, op]
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
