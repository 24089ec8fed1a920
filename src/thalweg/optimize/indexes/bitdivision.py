"""How many bits each stem gets under one budget: a multiple-choice knapsack (AMRI, section 6; Mohr 2002).

A stem with b bits has a best cost c(b) and takes a weight w(b), say the bytes of its directory. Exactly one option of
each stem is taken, so that costs are least and weights fit the budget. Exact by combining stems one by one, keeping
only combinations that no other beats in both; where those get too many, greedy by saving per weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.errors import DefinitionError
from thalweg.optimize.exhaustive import EXHAUSTIVE


@dataclass(frozen=True, slots=True)
class Option:
    weight: float
    cost: float


@dataclass(frozen=True)
class Division:
    """For each stem the number of the option taken."""

    taken: tuple[int, ...]
    weight: float
    cost: float
    exact: bool


def divide(stems: Sequence[Sequence[Option]], budget: float, *, frontier: int = EXHAUSTIVE) -> Division:
    """
    >>> poor, rich = [Option(1, 10.0), Option(2, 9.0)], [Option(1, 80.0), Option(2, 40.0), Option(4, 20.0)]
    >>> divide([poor, rich], 5).taken
    (0, 2)
    """
    if sum(min(o.weight for o in options) for options in stems) > budget:
        raise DefinitionError(
            f"a budget of {budget:g} is too small for the least options of {len(stems)} stems",
            hint="give at least a bucket to each stem",
        )
    return _exact(stems, budget, frontier) or greedy(stems, budget)


def _exact(stems: Sequence[Sequence[Option]], budget: float, frontier: int) -> Division | None:
    least = [min(o.weight for o in options) for options in stems]
    states: list[tuple[float, float, tuple[int, ...]]] = [(0.0, 0.0, ())]
    for s, options in enumerate(stems):
        room = budget - sum(least[s + 1 :])
        merged = sorted(
            (w + o.weight, c + o.cost, (*taken, k))
            for w, c, taken in states
            for k, o in enumerate(options)
            if w + o.weight <= room
        )
        states = []
        for state in merged:
            if not states or state[1] < states[-1][1]:
                states.append(state)
        if len(states) > frontier:
            return None
    weight, cost, taken = states[-1]
    return Division(taken, weight, cost, True)


def greedy(stems: Sequence[Sequence[Option]], budget: float) -> Division:
    """From the lightest options on, the change that saves most per weight, while there is one that fits."""
    taken = [min(range(len(o)), key=lambda k: (o[k].weight, o[k].cost)) for o in stems]
    weight = sum(o[k].weight for o, k in zip(stems, taken, strict=True))
    while True:
        best: tuple[float, int, int] | None = None
        for s, options in enumerate(stems):
            now = options[taken[s]]
            for k, option in enumerate(options):
                more, saved = option.weight - now.weight, now.cost - option.cost
                if saved <= 0 or weight + more > budget:
                    continue
                rate = saved / max(more, 1e-12)
                if best is None or rate > best[0]:
                    best = (rate, s, k)
        if best is None:
            break
        _, s, k = best
        weight += stems[s][k].weight - stems[s][taken[s]].weight
        taken[s] = k
    cost = sum(o[k].cost for o, k in zip(stems, taken, strict=True))
    return Division(tuple(taken), weight, cost, False)
