"""Streams with correlated filters: groups of Γ filters that agree on 80 % of the tuples; thesis 4.7.2.

Each group draws a shared uniform number per tuple. Each filter of the group uses the shared number with probability q
and otherwise a fresh one, and passes the tuple iff the number is below the group's selectivity σ. Two filters of a group
then agree on q² + (1 - q²)(σ² + (1 - σ)²) of the tuples, which fixes q. Groups are independent. The joint pass
probabilities have a closed form, so the true cost of any order is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.lab.simulate import PassBits, cheapest

AGREEMENT = 0.8


def mixing(selectivity: float, agreement: float = AGREEMENT) -> float:
    """The probability q with which a filter uses its group's shared number.

    >>> round(mixing(0.5), 4), round(mixing(0.3), 4), round(mixing(0.8), 3)
    (0.7746, 0.7237, 0.612)
    """
    alone = selectivity**2 + (1 - selectivity) ** 2
    if not 0 < selectivity < 1 or alone > agreement:
        raise DefinitionError(
            f"filters of selectivity {selectivity} can't agree on only {agreement:.0%} of the tuples",
            hint="take a selectivity between 0.12 and 0.88: outside, independent filters agree more often than that",
        )
    return sqrt((agreement - alone) / (1 - alone))


@dataclass(frozen=True)
class Population:
    """n filters, each with its group and its selectivity (the same for all of a group).

    >>> p = Population.of(n=3, gamma=2)
    >>> p.best([1.0, 1.0, 1.0])[1], round(p.cost((0, 1, 2), [1.0, 1.0, 1.0]), 2)
    (1.75, 1.9)
    """

    groups: tuple[int, ...]
    selectivities: tuple[float, ...]
    agreement: float = AGREEMENT

    @classmethod
    def of(cls, n: int, gamma: int, selectivity: float | Sequence[float] = 0.5) -> Population:
        """⌈n/Γ⌉ groups of Γ filters (the last may be smaller), in the order of their groups."""
        groups = tuple(i // gamma for i in range(n))
        each = [selectivity] * (groups[-1] + 1) if isinstance(selectivity, (int, float)) else list(selectivity)
        if len(each) != groups[-1] + 1:
            raise DefinitionError(f"{groups[-1] + 1} groups need as many selectivities, not {len(each)}")
        return cls(groups, tuple(float(each[g]) for g in groups))

    def __len__(self) -> int:
        return len(self.groups)

    def permuted(self, permutation: Sequence[int]) -> Population:
        """Filter i takes over the group and selectivity of filter permutation[i]."""
        return replace(
            self,
            groups=tuple(self.groups[i] for i in permutation),
            selectivities=tuple(self.selectivities[i] for i in permutation),
        )

    def shuffled(self, random: np.random.Generator) -> Population:
        return self.permuted([int(i) for i in random.permutation(len(self))])

    @cached_property
    def _members(self) -> dict[int, list[int]]:
        return {g: [i for i, h in enumerate(self.groups) if h == g] for g in dict.fromkeys(self.groups)}

    @cached_property
    def _mixing(self) -> dict[int, float]:
        return {
            g: mixing(self.selectivities[members[0]], self.agreement) if len(members) > 1 else 0.0
            for g, members in self._members.items()
        }

    def draw(self, count: int, random: np.random.Generator) -> PassBits:
        """Pass bits of `count` tuples: rows are tuples, columns filters."""
        bits = np.empty((count, len(self)), np.bool_)
        for group, members in self._members.items():
            q = self._mixing[group]
            shared = random.random(count, dtype=np.float32) if q else None
            for i in members:
                value = random.random(count, dtype=np.float32)
                if shared is not None:
                    value = np.where(random.random(count, dtype=np.float32) < q, shared, value)
                bits[:, i] = value < self.selectivities[i]
        return bits

    def all_pass(self, filters: Iterable[int]) -> float:
        """The probability that a tuple passes all of these filters."""
        count: dict[int, int] = {}
        for i in filters:
            count[self.groups[i]] = count.get(self.groups[i], 0) + 1
        shares = []
        for group, k in count.items():
            sigma, q = self.selectivities[self._members[group][0]], self._mixing[group]
            shares.append(sigma * (q + (1 - q) * sigma) ** k + (1 - sigma) * ((1 - q) * sigma) ** k)
        return prod(shares)

    def cost(self, order: Sequence[int], costs: Sequence[float]) -> float:
        """Exact expected cost of an order per tuple (equation 4.1)."""
        return sum(costs[op] * self.all_pass(order[:place]) for place, op in enumerate(order))

    def best(self, costs: Sequence[float]) -> tuple[tuple[int, ...], float]:
        """The order of least expected cost, and that cost: the thesis' Optimal, by search over all sets of filters."""
        return _best(self, tuple(costs))


@lru_cache(maxsize=256)
def _best(population: Population, costs: tuple[float, ...]) -> tuple[tuple[int, ...], float]:
    n = len(population)
    alive = np.array([population.all_pass([i for i in range(n) if chosen >> i & 1]) for chosen in range(1 << n)])
    return cheapest(alive, costs)


def changing(phases: Sequence[Population], length: int, random: np.random.Generator) -> PassBits:
    """A stream that draws from the populations one after the other, `length` tuples each."""
    return np.concatenate([p.draw(length, random) for p in phases])


def spread(count: int, low: float = 0.2, high: float = 0.8) -> list[float]:
    """Evenly spaced selectivities for the groups."""
    values: NDArray[np.float64] = np.linspace(low, high, count)
    return [float(round(v, 4)) for v in values]
