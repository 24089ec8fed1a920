"""Schedules: whose rows go first where several inputs wait.

`fewest`: later inputs find the others stored, so the input with most rows probes what the others hold; there the probe
order matters, and scouts can be spared on the rest. `chaos` draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thalweg.contract.scheduler import Scheduler


class Fewest:
    """The input with the fewest rows first.

    >>> Fewest().order({"a": 9, "b": 2, "c": 2})
    ['b', 'c', 'a']
    """

    name = "fewest"

    def order(self, waiting: Mapping[str, int]) -> Sequence[str]:
        return sorted(waiting, key=lambda name: (waiting[name], name))


class DrawnSchedule:
    """Any order, drawn from the rows that wait, so that a replayed batch draws alike."""

    name = "chaos"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def order(self, waiting: Mapping[str, int]) -> Sequence[str]:
        names = sorted(waiting)
        random = np.random.default_rng([self.seed, *(waiting[name] for name in names)])
        return [names[k] for k in random.permutation(len(names))]


def of(policy: str, seed: int) -> Scheduler:
    """The scheduler that goes with a policy."""
    return DrawnSchedule(seed) if policy == "chaos" else Fewest()
