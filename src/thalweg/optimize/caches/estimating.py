"""What candidates of caches would save and cost, from the flows of rows (thesis 5.5.1, 5.5.3).

Seconds and rows are per row of the query. A candidate whose changes no route computes pays for computing them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.optimize.auto.ledger import SHARE
from thalweg.optimize.caches.candidates import Candidate
from thalweg.optimize.caches.costs import Estimate, probe_price, update_price
from thalweg.plan.graph import JoinGraph
from thalweg.profile.prices import Prices
from thalweg.profile.rates.flows import WINDOW, Flows


class Estimating:
    """Estimates under the orders in force."""

    def __init__(self, graph: JoinGraph, flows: Flows, prices: Prices) -> None:
        self.graph, self.flows, self.prices = graph, flows, prices
        self.orders: Mapping[int, tuple[int, ...]] = {}

    def plain(self) -> dict[tuple[int, int], float]:
        """Seconds at each place without a cache."""
        flows = self.flows
        return {
            (i, k): flows.seconds(i, k) + flows.judging(i, k) for i, o in self.orders.items() for k in range(len(o))
        }

    def worth(self, seconds: float) -> int:
        """Rows until as many seconds are no more than their share of what stems take."""
        return int(seconds / (SHARE * max(sum(self.plain().values()), 1e-12)))

    def known(self, c: Candidate) -> bool:
        """Whether every place that it replaces has its observations."""
        return all(self.flows.known(c.placed.input, k) >= WINDOW for k in range(c.first, c.last + 1))

    def estimate(self, c: Candidate, misses: Sequence[tuple[float, float]], miss: float, *, closed: bool) -> Estimate:
        """`misses`: the last observations, of rows and how many missed; `miss`: the share to count with."""
        flows, prices = self.flows, self.prices
        i, cached = c.placed.input, c.placed.cached
        places = range(c.first, c.last + 1)
        before = frozenset([i, *self.orders[i][: c.first]])
        rows, out = flows.rows(i, c.first), flows.out(i, c.last)
        judged = bool(cached.judges) or not self.graph.between(before, c.inputs)
        segment = sum(flows.seconds(i, k) + (flows.judging(i, k) if judged else 0.0) for k in places)
        keys = len(cached.keys) + 2 * len(cached.judges)
        each = out / rows if rows else 0.0
        probe, update = probe_price(prices, keys, each), update_price(prices, keys)
        visits = flows.batches(i) * prices.visit * (1 + 2 * min(miss * 100, 1.0))
        entries = max(sum(m for _, m in misses), 1.0)
        changes, apart = self._changes(c, entries, segment / rows if rows else 0.0, closed=closed)
        width = 8 * (2 + len(c.inputs) + keys)
        size = entries * (4 * 8 * (3 + keys) + each * width)
        return Estimate(c, rows, segment, out, miss, probe, update, changes, visits, apart, size)

    def _changes(self, c: Candidate, entries: float, each: float, *, closed: bool) -> tuple[float, float]:
        """Combinations that change a cache, and seconds to compute them where no route does."""
        flows, changes, apart = self.flows, 0.0, 0.0
        for j in c.inputs & set(self.orders):
            apart += flows.batches(j) * self.prices.visit
            if c.placed.cached.judges:
                apart += flows.batches(j) * entries * each  # it is emptied by every batch
            elif closed:
                changes += flows.out(j, len(c.inputs) - 2) if len(c.inputs) > 1 else flows.rate(j)
            else:
                changes += flows.rate(j)
                for k, other in enumerate(self.orders[j]):
                    if other in c.inputs and flows.rows(j, k):
                        apart += flows.rate(j) * flows.seconds(j, k) / flows.rows(j, k)
                apart += flows.batches(j) * self.prices.send
        return changes, apart
