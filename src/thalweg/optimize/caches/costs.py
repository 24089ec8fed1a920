"""What a cache saves and what it costs, per row of the query (thesis 5.5.1).

segment = Σ d c           seconds at the stems that it replaces
proc    = d probe + miss (segment + out update) + visits overhead
benefit = segment - proc
cost    = update Σ d of the rows that change it, and what computing them takes where no route does
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from thalweg.optimize.caches.candidates import Candidate
from thalweg.profile.prices import Prices


@dataclass(frozen=True)
class Estimate:
    """One candidate's numbers. Rates are per row of the query; seconds likewise.

    >>> from thalweg.plan.cached import Cached, Placed
    >>> c = Candidate(Placed(0, Cached(frozenset({1, 2}), (0,))), 0, 1)
    >>> e = Estimate(c, rows=1.0, segment=4.0, out=1.0, miss=0.2, probe=1.0, update=1.0, changes=0.4)
    >>> round(e.benefit, 3), round(e.proc, 3), round(e.cost, 3), round(e.net, 3)
    (2.0, 2.0, 0.4, 1.6)
    """

    candidate: Candidate
    rows: float
    """d: rows that come to it."""
    segment: float
    out: float
    """Rows that leave the segment."""
    miss: float
    probe: float
    update: float
    changes: float
    """Combinations that change it."""
    visits: float = 0.0
    """Seconds of overhead."""
    apart: float = 0.0
    """Seconds to compute its changes where no route does."""
    size: float = 0.0
    """Bytes that it would take."""

    @property
    def proc(self) -> float:
        return self.rows * self.probe + self.miss * (self.segment + self.out * self.update) + self.visits

    @property
    def benefit(self) -> float:
        return self.segment - self.proc

    @property
    def cost(self) -> float:
        return self.update * self.changes + self.apart

    @property
    def net(self) -> float:
        return self.benefit - self.cost

    @property
    def priority(self) -> float:
        """Net benefit per byte (5.6)."""
        return self.net / max(self.size, 1.0)

    def record(self) -> dict[str, float]:
        """The numbers as plain JSON values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "candidate"}


def probe_price(prices: Prices, keys: int, records: float) -> float:
    """Seconds to look up a key and to write the rows of its entry."""
    return prices.lookup + keys * prices.hash + records * prices.recall


def update_price(prices: Prices, keys: int) -> float:
    return prices.keep + keys * prices.hash
