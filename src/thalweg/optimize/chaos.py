"""`chaos`: random decisions all the time. Part of the product: what survives it does not depend on the plan.

Every batch is cut into random rusters; each gets a random allowed route, and at random a profile purpose with a random
set of operators to be tried after a drop. Answers, errors and exactly-once must be the same as under `written`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.execute.batch import Batch
from thalweg.optimize.policy import SingleRoute
from thalweg.plan import Route, Ruster
from thalweg.plan.ruster import Also


@dataclass
class Chaos(SingleRoute):
    """Draws everything.

    >>> import pyarrow as pa
    >>> from thalweg.plan import Operator, Pipeline
    >>> chaos = Chaos(Pipeline("s", tuple(Operator(n) for n in "abc")), seed=1)
    >>> rusters = chaos.route(Batch(pa.record_batch({"x": list(range(10))})))
    >>> sorted(int(i) for r in rusters for i in r.rows)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    name = "chaos"

    def route(self, batch: Batch) -> list[Ruster]:
        random = self._random
        parts = int(random.integers(1, 5))
        part = random.integers(0, parts, len(batch))
        rusters = []
        for k in range(parts):
            rows = np.flatnonzero(part == k)
            if len(rows) or not len(batch):
                rusters.append(self._ruster(rows))
        route = self._route()
        if random.random() < 0.3:
            self.reorder(route.operators, "a throw of the dice")
        return rusters

    def _ruster(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Ruster:
        random = self._random
        if random.random() < 0.6:
            return Ruster(rows, self._route(), "work" if random.random() < 0.8 else "explore")
        tried = frozenset(int(i) for i in range(len(self.pipeline)) if random.random() < 0.5)
        also: Also = ("all", "next", tried)[int(random.integers(0, 3))]
        return Ruster(rows, self._route(), "profile", also)

    def _route(self) -> Route:
        route: list[int] = []
        while len(route) < len(self.pipeline):
            route.append(int(self._random.choice(self.pipeline.eligible(route))))
        return Route(tuple(route))

    def why(self) -> str:
        return "random, on purpose"
