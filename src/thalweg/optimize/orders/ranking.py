"""Ranking: the greedy order of operators, filters and stems alike, from what is believed of each given those before it.

The thesis ranks by the chance of a drop per unit of cost (4.2), which is blind where every probe matches and fan-outs
differ. Here an operator ranks by (f - 1) / D: f the rows out per row in, given what was visited before; D the seconds
per row that are not spent on accepted matches, plus those of one match for a stem. Exchange two neighbours and compare:
the smaller rank first is the order with less expected cost. For a filter, which gives at most one row, it is the
thesis' ratio. An operator that must wait for others is ranked together with the path that leads to it: the logical
filters of 5.2.3. No product is formed unless the query has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose

from thalweg.plan import Pipeline
from thalweg.profile.rates.given import Visited, prefixes

Believed = tuple[float, float]
"""Rows out and seconds, per row in."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Operators to append next, and what they do together to a row."""

    operators: tuple[int, ...]
    fanout: float
    seconds: float
    divisor: float

    @property
    def rank(self) -> float:
        return (self.fanout - 1.0) / max(self.divisor, 1e-15)


def clearly_before(rank: float, present: float, alpha: float) -> bool:
    """Whether a rank beats the present one by more than the thrash-avoidance factor α (thesis 4.3.4).

    >>> clearly_before(-0.5, -0.4, 0.9), clearly_before(-0.5, -0.46, 0.9), clearly_before(1.0, 2.0, 0.9)
    (True, False, True)
    """
    if isclose(rank, present):
        return False
    return rank < alpha * present if present > 0 else alpha * rank < present


class Ranking:
    """Greedy orders of one pipeline. What it found is remembered until `forget`, to be called when beliefs change."""

    def __init__(self, pipeline: Pipeline, believe: Callable[[Visited, int], Believed | None], unit: float) -> None:
        self.pipeline = pipeline
        self.believe = believe
        self.unit = unit
        """Seconds of one match."""
        self._reaches: dict[tuple[int, ...], list[Reach]] = {}

    def forget(self) -> None:
        self._reaches.clear()

    def reaches(self, order: Sequence[int]) -> list[Reach]:
        """Every operator that may come next, and every stem behind those with the path that leads to it. A guarded filter
        waits for its guard instead: the greedy invariant is about eligible filters."""
        key = tuple(order)
        if key not in self._reaches:
            found: dict[int, tuple[int, ...]] = {op: (op,) for op in self.pipeline.eligible(order)}
            while ways := [] if self.pipeline.free else self._beyond(order, found):
                best = ways[0] if len(ways) == 1 else min(ways, key=lambda way: self.reach(order, way).rank)
                found[best[-1]] = best
            self._reaches[key] = [self.reach(order, path) for path in found.values()]
        return self._reaches[key]

    def _beyond(self, order: Sequence[int], found: dict[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Paths to stems that no path leads to yet, one step from those found. A stem on a cycle has several: the best of
        them is its edge of the spanning tree (5.2.3), chosen afresh at every place."""
        return [
            (*path, op)
            for path in found.values()
            for op in self.pipeline.eligible([*order, *path])
            if op not in found and self.pipeline.operators[op].kind == "stem"
        ]

    def reach(self, order: Sequence[int], path: tuple[int, ...]) -> Reach:
        fanout, seconds, matched = 1.0, 0.0, 0.0
        visited = frozenset(order)
        stem = False
        for op in path:
            f, s = self.believe(visited, op) or (1.0, self.unit)
            seconds += fanout * s
            fanout *= f
            stem = self.pipeline.operators[op].kind == "stem"
            matched = fanout if stem else 0.0
            visited |= {op}
        return Reach(path, fanout, seconds, seconds + (self.unit * (1.0 - matched) if stem else 0.0))

    def best(self, order: Sequence[int], present: Sequence[int]) -> Reach:
        """What comes next by rank; of equal ones, the one that comes first at present."""
        place = {op: k for k, op in enumerate(present)}
        least = min(r.rank for r in self.reaches(order))
        tied = [r for r in self.reaches(order) if isclose(r.rank, least)]
        return min(tied, key=lambda r: place[r.operators[-1]])

    def greedy(
        self, present: Sequence[int], alpha: float, start: int = 0
    ) -> tuple[tuple[int, ...], tuple[Reach, Reach] | None]:
        """The order by rank from place `start` on, and the first two that changed places: the better one, and the one
        it overtakes. The present operator keeps its place while none is clearly better; behind the first change all
        places go by rank."""
        order, moved = list(present[:start]), None
        while len(order) < len(self.pipeline):
            best = self.best(order, present)
            if moved is None:
                here = present[len(order)]
                own = next((r for r in self.reaches(order) if r.operators[0] == here), None)
                own = own or self.reach(order, (here,))
                if best.operators[0] == here or not clearly_before(best.rank, own.rank, alpha):
                    order.append(here)
                    continue
                moved = best, own
            order.extend(best.operators)
        return tuple(order), moved

    def price(self, order: Sequence[int]) -> float | None:
        """Expected seconds per row on an order, or None while something on it was never met."""
        rows, seconds = 1.0, 0.0
        for op, before in prefixes(tuple(order)).items():
            belief = self.believe(before, op)
            if belief is None:
                return None
            seconds += rows * belief[1]
            rows *= belief[0]
        return seconds

    def nearest(self, order: Sequence[int]) -> tuple[float, int, int] | None:
        """The strongest rival: by what factor it beats the operator whose place it would take, and both of them."""
        found: tuple[float, int, int] | None = None
        for k in range(len(order) - 1):
            alone = {r.operators[0]: r.rank for r in self.reaches(order[:k]) if len(r.operators) == 1}
            present = alone.pop(order[k], None)
            if present is None:
                continue
            for op, rank in alone.items():
                lead = _lead(rank, present)
                if found is None or lead > found[0]:
                    found = lead, op, order[k]
        return found


def _lead(rank: float, present: float) -> float:
    """The factor 1 / α at which a rank would be clearly before the present one; at most 1 where it is not before it."""
    if rank == present:
        return 1.0
    if present > 0:
        return present / rank if rank > 0 else float("inf")
    return max(rank / present, 0.0) if present < 0 else float("inf") if rank < 0 else 0.0
