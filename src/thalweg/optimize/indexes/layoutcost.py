"""What a bit-address layout costs: C_D of AMRI, equation (1), and the benefit that EPrune asks for, equation (2).

Per unit of time: hashes to store arrivals, hashes to probe, and candidates compared, each at its price. Two
terms are ours: buckets that a probe walks because it lacks attributes (in memory an empty bucket is not free), and the
measured evenness of each attribute's bits instead of 1/2^bits. `Workload(..., bucket=0)` without evenness is the
paper's equation; its sum of probe hashes lacks the frequencies, which equation (2) has, and so does ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.patterns.patterns import attributes_of
from thalweg.profile.prices import RECORDED, Prices

Floats = NDArray[np.float64]
Layouts = NDArray[np.int64]
"""One layout a row: bits of each attribute."""


@dataclass(frozen=True)
class Grid:
    """Layouts and access patterns to weigh them for, and what does not depend on how often these are asked."""

    layouts: Layouts
    known: Floats
    """Attribute by pattern: 1 where a probe knows it."""
    used: Floats
    """Layout by attribute: 1 where it has bits."""
    walked: Floats
    """Layout by pattern: buckets of a probe."""

    @classmethod
    def of(cls, layouts: Layouts, attributes: int, masks: tuple[int, ...]) -> Grid:
        known = ((np.array(masks, np.int64) >> np.arange(attributes - 1, -1, -1)[:, None]) & 1).astype(float)
        return cls(layouts, known, (layouts > 0).astype(float), np.exp2(layouts @ (1.0 - known)))


@dataclass(frozen=True)
class Workload:
    """What one stem was asked in a unit of time, and what it holds."""

    attributes: int
    frequencies: Mapping[int, float]
    """Share of the requests by access pattern (a mask)."""
    requests: float
    """λr."""
    arrivals: float
    """λd."""
    stored: float
    """λd·W: tuples in the window."""
    prices: Prices = RECORDED
    evenness: Sequence[Sequence[float]] | None = None
    """For each attribute and number of bits, the share of the tuples that a probe of it meets; None: 1/2^bits."""
    runs: float = 1.0
    """Indexes of the window: each is looked up by a probe."""

    def costs(self, layouts: Layouts) -> Floats:
        """C_D of many layouts at once: a line for each layout, a column for each access pattern."""
        return self.weigh(Grid.of(layouts, self.attributes, tuple(self.frequencies)))

    def weigh(self, grid: Grid) -> Floats:
        p = self.prices
        asked = np.fromiter(self.frequencies.values(), float, len(self.frequencies))
        met = np.exp2(self._logarithms(grid.layouts) @ grid.known)
        each = (met * (self.stored * p.candidate) + grid.walked * (self.runs * p.bucket)) @ asked
        hashed = grid.used @ (grid.known @ asked * (self.requests * p.hash) + self.arrivals * p.hash)
        cost: Floats = hashed + self.requests * each
        return cost

    def _logarithms(self, layouts: Layouts) -> Floats:
        """Of the share of the tuples that is left after looking at each attribute's bits."""
        if self.evenness is None:
            return -layouts.astype(float)
        shares = np.log2(np.maximum(np.asarray(self.evenness, float), 1e-12))
        left: Floats = shares[np.arange(self.attributes), np.minimum(layouts, shares.shape[1] - 1)]
        return left

    def cost(self, bits: Sequence[int]) -> float:
        """C_D of one layout; the same as `costs`, without arrays."""
        p = self.prices
        shares = [self._share(k, b) for k, b in enumerate(bits)]
        cost = self.arrivals * sum(b > 0 for b in bits) * p.hash
        for mask, frequency in self.frequencies.items():
            met, hashed, wild = 1.0, 0, 0
            for k, b in enumerate(bits):
                if mask >> (self.attributes - 1 - k) & 1:
                    met *= shares[k]
                    hashed += b > 0
                else:
                    wild += b
            each = hashed * p.hash + self.stored * met * p.candidate + self.runs * 2.0**wild * p.bucket
            cost += self.requests * frequency * each
        return cost

    def _share(self, attribute: int, bits: int) -> float:
        if self.evenness is None:
            return 2.0**-bits
        known = self.evenness[attribute]
        return known[min(bits, len(known) - 1)]

    def candidates(self, bits: Sequence[int]) -> float:
        """Expected candidates of one probe."""
        total = 0.0
        for mask, frequency in self.frequencies.items():
            met = self.stored
            for k in attributes_of(mask, self.attributes):
                met *= self._share(k, bits[k])
            total += frequency * met
        return total / max(sum(self.frequencies.values()), 1e-12)

    def benefit(self, attribute: int, bits: int) -> float:
        """MB(A), equation (2): the most that indexing an attribute with `bits` bits can save, less its hashes."""
        place = self.attributes - 1 - attribute
        share = sum([f for m, f in self.frequencies.items() if m >> place & 1])
        left = self._share(attribute, bits)
        saved = self.requests * share * self.stored * (1.0 - left) * self.prices.candidate
        return saved - (share * self.requests + self.arrivals) * self.prices.hash

    def worth_indexing(self, bits: int) -> list[int]:
        """EPrune: the attributes whose greatest benefit is positive."""
        return [k for k in range(self.attributes) if self.benefit(k, bits) > 0]
