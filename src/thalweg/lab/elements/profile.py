"""What A-Caching knows of its pipelines, from a few rows and the keys that come by (thesis 5.5.3, 5.5.1).

Every statistic is the mean of its last `WINDOW` observations. A profiled row goes through its pipeline without caches and
tells how many rows came to each place and what they cost, here in work, the clock of these plans. A candidate that is not
used has its keys counted by a Bloom filter, read by linear counting, which is emptied after `RUN` rows: each distinct
key would have missed once. It is read in `PARTS`, so that ten observations do not take ten runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from thalweg.lab.elements.cache import Cache
from thalweg.lab.elements.join import Join, Record, columns
from thalweg.optimize.caches.candidates import Candidate, Orders
from thalweg.optimize.caches.costs import Estimate
from thalweg.profile.rates.distinct import DistinctKeys

WINDOW = 10
"""Observations that each estimate averages (5.5.3: W)."""
CHANCE = 0.01
"""Share of rows that are profiled. The thesis gives no default; chapter 4's profiling probability is the same."""
RUN, PARTS = 1_000, 10
"""Keys after which a filter begins again (the thesis gives no default for W_d), and how often it is read meanwhile."""
PRICE = 1.0
"""Of a look-up, and of a record that is written or read, in work."""


class Shadow:
    """Counts the keys that a candidate would be asked for."""

    def __init__(self, join: Join, candidate: Candidate) -> None:
        self.key = columns(candidate.placed.cached.keys)
        self.seen = DistinctKeys(RUN)
        self.misses: deque[float] = deque(maxlen=WINDOW)
        self._keys: list[int] = []

    def see(self, records: Sequence[Record]) -> None:
        self._keys += [hash(self.key(r)) for r in records]
        if len(self._keys) >= RUN // PARTS:
            keys = np.array(self._keys, np.int64).reshape(-1, 1)
            self.misses.append(min(self.seen.see(keys) / len(keys), 1.0))
            self._keys = []


class Profile:
    """Rates, rows and costs by place, and misses of candidates."""

    def __init__(self, join: Join, orders: Orders) -> None:
        self.join, self.orders = join, orders
        self.rows = [0] * len(join.names)
        """Elements of each stream since rates were last observed."""
        self._rates: deque[list[float]] = deque(maxlen=WINDOW)
        self._profiled: list[deque[list[tuple[int, int]]]] = [deque(maxlen=WINDOW) for _ in join.names]
        """By stream: for each profiled row, rows and work by place; the last entry is what came out."""

    def turn(self) -> None:
        """One more observation of the rates."""
        whole = max(sum(self.rows), 1)
        self._rates.append([r / whole for r in self.rows])
        self.rows = [0] * len(self.rows)

    def rate(self, stream: int) -> float:
        """Elements of a stream, for each element of the query."""
        return sum(rates[stream] for rates in self._rates) / len(self._rates)

    def observe(self, stream: int, met: list[tuple[int, int]]) -> None:
        self._profiled[stream].append(met)

    def known(self, stream: int) -> bool:
        return len(self._profiled[stream]) == WINDOW

    def flow(self, stream: int, place: int) -> float:
        """Rows that come to a place, for each element of the query (d)."""
        return self.rate(stream) * float(np.mean([met[place][0] for met in self._profiled[stream]]))

    def cost(self, stream: int, place: int) -> float:
        """Work at a place, for each element of the query (d c)."""
        return self.rate(stream) * float(np.mean([met[place][1] for met in self._profiled[stream]]))

    def plain(self) -> dict[tuple[int, int], float]:
        return {(i, k): self.cost(i, k) for i, order in self.orders.items() for k in range(len(order))}

    def estimate(self, c: Candidate, miss: float) -> Estimate:
        i = c.placed.input
        rows, out = self.flow(i, c.first), self.flow(i, c.last + 1)
        segment = sum(self.cost(i, k) for k in range(c.first, c.last + 1))
        each = out / rows if rows else 0.0
        asking = c.placed.cached.within & {i, *self.orders[i][: c.first]}
        changes = sum(self.flow(stream, len(c.whole) - 1) for stream in sorted(c.whole - asking))
        return Estimate(c, rows, segment, out, miss, PRICE + each, PRICE, changes)


def missed(cache: Cache, before: tuple[int, int]) -> float:
    """The share of probes that missed since the cache had these counts."""
    probes = cache.probes - before[0]
    return (cache.misses - before[1]) / probes if probes else 0.0
