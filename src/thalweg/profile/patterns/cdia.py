"""CDIA: counts frequent access patterns and folds the others into patterns that help them (AMRI, section 5.4.2).

Like CSRIA, but a leaf of the lattice with count + δ < b is not forgotten: its count goes to a parent, which is of
search benefit to it (hierarchical heavy hitters; Cormode et al. 2003). The parent is random, or the one with the
highest count. Invariants: counts add up to the requests; a node's count consists of patterns it helps; count + δ is at
least the pattern's own true count, so the result has every pattern with a share of θ or more.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from thalweg.profile.patterns.csria import Csria
from thalweg.profile.patterns.dia import level, parents

Combination = Literal["random", "highest"]


class Cdia(Csria):
    """Compact dependent index assessment.

    >>> cdia = Cdia(3, epsilon=0.001, theta=0.05)
    >>> for mask, percent in {0b001: 20, 0b100: 4, 0b110: 4, 0b111: 72}.items():
    ...     cdia.observe(mask, 10 * percent)
    >>> {f"{m:03b}": f for m, f in cdia.frequencies().items()}
    {'111': 0.72, '100': 0.08, '001': 0.2}
    """

    def __init__(
        self, attributes: int, epsilon: float = 0.05, theta: float = 0.1, *,
        combination: Combination = "highest", seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(attributes, epsilon, theta)
        self.combination: Combination = combination
        self.name = f"cdia-{combination}"
        self._seed = seed
        self._random = np.random.default_rng([seed, attributes])

    def _compress(self, segment: int) -> None:
        """Fold leaves from the bottom up; a parent that becomes a leaf is considered next."""
        if min(count + delta for count, delta in self.counts.values()) >= segment:
            return
        for size in range(self.attributes, 0, -1):
            for mask in sorted(m for m in self.counts if level(m) == size):
                entry = self.counts[mask]
                if entry[0] + entry[1] < segment and self._is_leaf(mask):
                    del self.counts[mask]
                    parent = self._parent(mask, self.counts, self._random)
                    if parent in self.counts:
                        self.counts[parent][0] += entry[0]
                    else:
                        self.counts[parent] = [entry[0], segment - 1]

    def _is_leaf(self, mask: int) -> bool:
        return not any(mask != k and mask & k == mask for k in self.counts)

    def _parent(self, mask: int, counts: dict[int, list[int]], random: np.random.Generator) -> int:
        above = parents(mask)
        if self.combination == "random":
            return above[int(random.integers(len(above)))]
        return max(above, key=lambda p: counts[p][0] if p in counts else 0)

    def frequencies(self) -> dict[int, float]:
        """From the leaves up, fold counts below the threshold into a parent; the rest is the result."""
        least = (self.theta - self.epsilon) * self.requests
        counts = {m: list(e) for m, e in self.counts.items()}
        # A separate generator, so that reading twice gives the same result and changes nothing.
        random = self._random if self.combination == "highest" else np.random.default_rng([self._seed, self.requests])
        result: dict[int, float] = {}
        for size in range(self.attributes, -1, -1):
            for mask in sorted((m for m in counts if level(m) == size), reverse=True):
                count, delta = counts[mask]
                if count + delta >= least and count:
                    result[mask] = count / self.requests
                elif size:
                    counts.setdefault(self._parent(mask, counts, random), [0, 0])[0] += count
        return result

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"random": self._random.bit_generator.state}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self._random.bit_generator.state = record["random"]
