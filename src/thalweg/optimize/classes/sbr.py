"""`sbr`: source-based routing, the eddy that content-based routing is measured against (CBR 4.2).

A tuple goes next to one of its unvisited operators, with a probability inversely proportional to the operator's
selectivity W. W follows the tuples as in `cbr` but is constant within a batch, so we draw whole routes up front, for
all rows at once: of exponential draws with means W, the smallest comes from operator ℓ with a probability proportional
to 1 / W[ℓ], and likewise the next among those left.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.optimize.classes.classtable import MOST_CLASSES
from thalweg.optimize.classes.met import met
from thalweg.optimize.classes.selectivity import Selectivities
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Route, Ruster


@dataclass
class SBR(SingleRoute):
    """Draws a route for every row.

    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((50_000, 3)) < [0.9, 0.5, 0.1]
    >>> r = run("sbr", rows, costs=[1.0, 1.0, 1.0], seed=7)
    >>> round(float(r.useful[10:].sum()) / 40_000, 1)  # best order: 1.1 evaluations per tuple; written: 2.4
    1.3
    """

    alpha: float = 0.95
    name = "sbr"

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.pipeline)
        self.rates = Selectivities(n, 0, self.alpha)
        self._stems = np.array([op.kind == "stem" for op in self.pipeline.operators], np.bool_)
        self._places = np.array([n**k for k in range(n)], np.int64)
        """An order as one number: its operators are the digits."""
        self._codes, self._routes = np.zeros(0, np.int64), tuple[Route, ...]()
        if n and factorial(n) <= MOST_CLASSES:  # few enough to list all; otherwise only those a batch draws
            every = np.array(list(permutations(range(n))), np.int64).reshape(-1, n)
            self._list(np.sort(every @ self._places))

    def _list(self, codes: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        n = len(self.pipeline)
        orders = (codes[:, None] // self._places % max(n, 1)).tolist()
        self._codes, self._routes = codes, tuple(self.pipeline.closest(order) for order in orders)

    def route(self, batch: Batch) -> list[Ruster]:
        n = len(self.pipeline)
        if n < 2 or not len(batch):
            return [Ruster(None, self.plan.route)]
        draws = self._random.standard_exponential((len(batch), n)) * self.rates.W
        codes = np.argsort(draws, axis=1) @ self._places
        if factorial(n) > MOST_CLASSES:
            self._list(np.unique(codes))
        return [Ruster.mixed(None, self._routes, np.searchsorted(self._codes, codes).astype(np.int32))]

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        for each in met(visits, self._stems):  # just one: all rows travel together
            self.rates.follow(each.came.sum(axis=0), each.left.sum(axis=0))

    def why(self) -> str:
        told = zip(self.pipeline.names, self.rates.W.tolist(), strict=True)
        return "a route is drawn for each row; selectivities: " + ", ".join(f"{n} {w:.2f}" for n, w in told)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"rates": self.rates.snapshot()}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.rates.restore(record["rates"])
