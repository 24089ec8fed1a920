"""What tuples cost on an order, from what every operator made of each: dropped it, passed it, or joined it so often.

Filters: all operators up to and with the first that drops it. Stems: a tuple becomes as many partial results as it has
matches, each of which visits the next operator (thesis 5.2 counts the same with averages). Matches of a tuple alone with
each stem are known exactly; where partial results meet further predicates, `kept` says how many of the matches remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.plan import Pipeline

Bits = NDArray[np.int8]
Floats = NDArray[np.float64]
MOST = 127
"""Matches of a tuple with one stem that are told apart: what has more counts as so many."""
Kept = Callable[[frozenset[int], int], float]


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
    kept: Kept | None = None

    @property
    def joins(self) -> bool:
        return self.examined is not None

    def rows(self, bits: Bits) -> Floats:
        """Rows out of each operator for each tuple."""
        if self.fill is None:
            return (bits != 0).astype(np.float64)
        return np.where(bits < 0, self.fill, bits)

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
        for k, op in enumerate(places):
            matches = out[:, op] * (1.0 if self.kept is None or not k else self.kept(frozenset(places[:k]), op))
            total += alive * (self.costs[op] + self.examined[op] * matches)
            alive = alive * matches
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
