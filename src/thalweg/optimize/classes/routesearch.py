"""The best route for tuples whose outcomes at all operators are known: exact for few operators, greedy for more.

Exact: dynamic programming over sets of operators; the cost of the next operator, and the number of partial results,
depend only on the set before it. Greedy: conditional drop rate per cost, as A-Greedy (thesis 4.3). Both respect guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.routeprices import Prices, subsets
from thalweg.optimize.exhaustive import EXHAUSTIVE
from thalweg.plan import Pipeline, Route

Bits = NDArray[np.int8]


class RouteSearch:
    """Best routes in one pipeline.

    >>> from thalweg.plan import Operator
    >>> prices = Prices.of_filters(np.array([1.0, 1.0]))
    >>> search = RouteSearch(Pipeline("s", (Operator("a"), Operator("b"))), prices)
    >>> search.best(np.array([[1, 0], [1, 0], [0, 1]], np.int8))
    (Route(operators=(1, 0)), 4.0)
    """

    def __init__(self, pipeline: Pipeline, prices: Prices) -> None:
        self.pipeline = pipeline
        self.prices = prices
        self.exact = len(pipeline) << len(pipeline) <= EXHAUSTIVE  # the steps between sets of operators, about
        self._steps = _steps(pipeline) if self.exact else ()

    def weigh(self, bits: Bits) -> NDArray[np.float64]:
        """The input of `best_of` for a set of tuples; weights of disjoint sets add up. Exact search only."""
        return subsets(self.prices.rows(bits))

    def best(self, bits: Bits) -> tuple[Route, float]:
        """The best route and its total cost."""
        return self.best_of(self.weigh(bits)) if self.exact else self._greedy(bits)

    def best_of(self, weight: NDArray[np.float64]) -> tuple[Route, float]:
        alive, costs, examined = weight.tolist(), self.prices.costs.tolist(), self.prices.examined.tolist()
        size = len(alive)
        best, last = [np.inf] * size, [0] * size
        best[0] = 0.0
        for chosen, f, behind in self._steps:
            total = best[chosen] + costs[f] * alive[chosen] + examined[f] * alive[behind]
            if total < best[behind]:
                best[behind], last[behind] = total, f
        order, chosen = [], size - 1
        while chosen:
            f = last[chosen]
            order.append(f)
            chosen ^= 1 << f
        return Route(tuple(reversed(order))), float(best[-1])

    def _greedy(self, bits: Bits) -> tuple[Route, float]:
        out, alive = self.prices.rows(bits), np.ones(len(bits))
        costs, examined = self.prices.costs, self.prices.examined
        order: list[int] = []
        total = 0.0
        while len(order) < len(self.pipeline):
            ready = self.pipeline.eligible(order)
            after = alive @ out[:, ready]
            took = alive.sum() * costs[ready] + examined[ready] * after
            k = int(((alive.sum() - after) / np.maximum(took, 1e-300)).argmax())
            total += float(took[k])
            alive = alive * out[:, ready[k]]
            order.append(ready[k])
        return Route(tuple(order)), total


@lru_cache(maxsize=64)
def _steps(pipeline: Pipeline) -> Sequence[tuple[int, int, int]]:
    """All allowed steps from a set of operators to one with one more, smaller sets first."""
    n = len(pipeline)
    steps = []
    for chosen in range(1 << n):
        visited = [f for f in range(n) if chosen >> f & 1]
        steps += [(chosen, f, chosen | 1 << f) for f in pipeline.eligible(visited) if len(visited) < n]
    return steps
