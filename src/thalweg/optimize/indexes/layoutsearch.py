"""Which bits go to which attribute: exhaustive search where it is small, a climb beyond (AMRI, section 6.1).

Attributes that EPrune rules out get none, or the `floor` that each gets whatever was asked (ours). Exhaustive search
looks at every way to give at most B bits to the rest, Σ C(N, k)·C(b - 1, k - 1) of them for each b, all in one array
expression, and is exact. The climb adds, takes and moves one or two bits while that pays;
`tests/optimize/indexes/test_layoutsearch.py` measures its gap against exhaustive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.optimize.exhaustive import EXHAUSTIVE
from thalweg.optimize.indexes.layoutcost import Grid, Workload


@dataclass(frozen=True)
class Choice:
    """A layout, what it is expected to cost, and how many were weighed."""

    bits: tuple[int, ...]
    cost: float
    weighed: int


def space(attributes: int, bits: int) -> int:
    """How many layouts give exactly `bits` bits to N attributes (section 6.1).

    >>> space(3, 4)
    15
    """
    return sum(comb(attributes, k) * comb(bits - 1, k - 1) for k in range(1, min(attributes, bits) + 1))


def select(workload: Workload, bits: int, *, floor: int = 0, limit: int = EXHAUSTIVE) -> Choice:
    """The cheapest layout with at most `bits` bits, `floor` of them for each attribute; exact unless there are more
    than `limit`.

    >>> from thalweg.profile.prices import Prices
    >>> only_first = Workload(2, {0b10: 1.0}, 100.0, 100.0, 1000.0, Prices(bucket=0.0))
    >>> select(only_first, 4).bits
    (4, 0)
    >>> select(only_first, 4, floor=1).bits
    (3, 1)
    """
    if floor * workload.attributes > bits:
        raise DefinitionError(
            f"{floor} bits for each of {workload.attributes} attributes are more than {bits}", hint="take a lower floor"
        )
    kept = workload.worth_indexing(bits)
    if comb(bits - floor * workload.attributes + len(kept), len(kept)) <= limit:
        return exhaustive(workload, bits, kept, floor)
    return climb(workload, bits, kept, floor)


def exhaustive(workload: Workload, bits: int, kept: list[int] | None = None, floor: int = 0) -> Choice:
    """Every layout of at most `bits` bits, those beyond the floor over the attributes kept. Of equal ones, that with
    fewer bits."""
    chosen = list(range(workload.attributes)) if kept is None else kept
    grid = _grid(workload.attributes, tuple(chosen), bits, floor, tuple(workload.frequencies))
    costs = workload.weigh(grid)
    best = int(np.argmin(costs))
    return Choice(tuple(grid.layouts[best].tolist()), float(costs[best]), len(costs))


@lru_cache(maxsize=64)
def _grid(attributes: int, chosen: tuple[int, ...], bits: int, floor: int, masks: tuple[int, ...]) -> Grid:
    some = _layouts(len(chosen), bits - floor * attributes)
    layouts = np.full((len(some), attributes), floor)
    layouts[:, list(chosen)] += some
    return Grid.of(layouts, attributes, masks)


@lru_cache(maxsize=32)
def _layouts(attributes: int, bits: int) -> NDArray[np.int64]:
    """All ways to give at most `bits` bits, fewest first."""
    found = [line for total in range(bits + 1) for line in _compositions(attributes, total)]
    return np.array(found, np.int64).reshape(len(found), attributes)


def _compositions(parts: int, total: int) -> Iterator[tuple[int, ...]]:
    if parts == 0:
        if total == 0:
            yield ()
        return
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(parts - 1, total - first):
            yield (first, *rest)


def climb(workload: Workload, bits: int, kept: list[int] | None = None, floor: int = 0) -> Choice:
    """From no bits but the floor, and from equal shares: the best step of one or two bits, until none pays; the better
    of the two."""
    chosen = list(range(workload.attributes)) if kept is None else kept
    if not chosen:
        none = (floor,) * workload.attributes
        return Choice(none, workload.cost(none), 1)
    steps = _steps(workload.attributes, chosen)
    lowest = np.full(workload.attributes, floor)
    equal = lowest.copy()
    equal[chosen] += (bits - floor * workload.attributes) // len(chosen)
    weighed = 0
    best: Choice | None = None
    for start in (lowest, equal):
        here, cost = start, workload.cost(start.tolist())
        while True:
            near = here + steps
            near = near[(near >= floor).all(axis=1) & (near.sum(axis=1) <= bits)]
            costs = workload.costs(near)
            weighed += len(near)
            k = int(np.argmin(costs))
            if costs[k] >= cost:
                break
            here, cost = near[k], float(costs[k])
        if best is None or cost < best.cost:
            best = Choice(tuple(int(b) for b in here), cost, weighed)
    assert best is not None
    return Choice(best.bits, best.cost, weighed)


def _steps(attributes: int, chosen: list[int]) -> NDArray[np.int64]:
    """One or two bits added, taken, or moved from one attribute to another."""
    unit = np.eye(attributes, dtype=np.int64)[chosen]
    ones = [*unit, *-unit, *(a - b for a in unit for b in unit)]
    twos = [a + b for a in ones for b in (*unit, *-unit)]
    steps = {tuple(s.tolist()) for s in (*ones, *twos)} - {(0,) * attributes}
    return np.array(sorted(steps), np.int64)
