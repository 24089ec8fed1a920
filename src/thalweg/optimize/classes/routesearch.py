"""The best route for a set of tuples whose pass bits are known: exact for few operators, greedy for more.

Exact: dynamic programming over sets of operators; what the next operator costs depends only on which ones stand before
it, and so do the partial results where operators join. Greedy: conditional drop rate per cost, as A-Greedy (thesis 4.3).
Guards are kept by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.routeprices import Prices, subsets
from thalweg.plan import Pipeline, Route

EXACT = 8
"""Operators up to which the search is exact."""
Bits = NDArray[np.int8]


class RouteSearch:
    """Best routes in one pipeline.

    >>> from thalweg.plan import Operator
    >>> search = RouteSearch(Pipeline("s", (Operator("a"), Operator("b"))), np.array([1.0, 1.0]))
    >>> search.best(np.array([[1, 0], [1, 0], [0, 1]], np.int8))
    (Route(operators=(1, 0)), 4.0)
    """

    def __init__(self, pipeline: Pipeline, costs: NDArray[np.float64] | Prices) -> None:
        self.pipeline = pipeline
        self.prices = costs if isinstance(costs, Prices) else Prices(costs)
        self.costs = self.prices.costs
        self.exact = len(pipeline) <= EXACT
        if self.exact:
            self._disjoint = None if self.prices.joins else _disjoint(len(pipeline))
            self._steps = _steps(pipeline)

    def weigh(self, bits: Bits) -> NDArray[np.float64]:
        """What `best_of` needs of a set of tuples; weights of disjoint sets add up. Exact search only."""
        if self._disjoint is None:
            return subsets(self.prices.rows(bits))
        n = len(self.pipeline)
        codes = np.bincount((bits == 0) @ (1 << np.arange(n)), minlength=1 << n)
        return np.asarray(codes @ self._disjoint)

    def best(self, bits: Bits) -> tuple[Route, float]:
        """The best route and its total cost."""
        return self.best_of(self.weigh(bits)) if self.exact else self._greedy(bits)

    def best_of(self, weight: NDArray[np.float64]) -> tuple[Route, float]:
        alive, costs = weight.tolist(), self.costs.tolist()
        size = len(alive)
        best, last = [np.inf] * size, [0] * size
        best[0] = 0.0
        examined = [0.0] * len(costs) if self.prices.examined is None else self.prices.examined.tolist()
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
        examined = np.zeros(len(self.costs)) if self.prices.examined is None else self.prices.examined
        order: list[int] = []
        total = 0.0
        while len(order) < len(self.pipeline):
            ready = self.pipeline.eligible(order)
            after = alive @ out[:, ready]
            took = alive.sum() * self.costs[ready] + examined[ready] * after
            k = int(((alive.sum() - after) / np.maximum(took, 1e-300)).argmax())
            total += float(took[k])
            alive = alive * out[:, ready[k]]
            order.append(ready[k])
        return Route(tuple(order)), total


@lru_cache(maxsize=16)
def _disjoint(n: int) -> NDArray[np.float64]:
    """[drops, chosen]: 1 where a tuple with this set of drops passes all chosen operators."""
    every = np.arange(1 << n)
    return np.asarray((every[:, None] & every[None, :]) == 0, np.float64)


@lru_cache(maxsize=64)
def _steps(pipeline: Pipeline) -> Sequence[tuple[int, int, int]]:
    """All allowed steps from a set of operators to one with an operator more, smaller sets first."""
    n = len(pipeline)
    steps = []
    for chosen in range(1 << n):
        visited = [f for f in range(n) if chosen >> f & 1]
        steps += [(chosen, f, chosen | 1 << f) for f in pipeline.eligible(visited) if len(visited) < n]
    return steps
