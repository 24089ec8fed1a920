"""Workloads whose predicates drift without classes: correlated groups that swing, and a drift too slow to notice.

`groups`: predicates of one group mostly agree. Each looks at a shared draw with probability q and otherwise at its own
(thesis 4.7.1), so the second of a group drops little of what the first let through. The pass rate of each group swings
in its own phase, and no two blocks are alike. `slow`: every pass rate moves by 0.1 % per batch, up or down, for 1,000
batches. Between two consecutive batches nothing is visible; over all of them every order reverses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.filters.hashed import Hashed
from benchmarks.filters.workload import CHUNK, Workload

GROUPS = ((0, 1), (2, 3), (4, 5))
NESTED = (10,) * 6
SHARED = 0.95
"""Probability that a predicate uses its group's draw. Two that pass one half then agree on 95 % of the rows."""
SWING = 120_000
BLOCK = 10_000


def group_rates(rows: int) -> NDArray[np.float64]:
    """Pass rate of each group at each row. It swings between 0.25 and 0.75, the groups a third of a period apart."""
    t = 2 * np.pi * np.arange(rows) / SWING
    return np.stack([0.5 + 0.25 * np.sin(t + 2 * np.pi * g / len(GROUPS)) for g in range(len(GROUPS))], axis=1)


def groups(rows: int = 240_000, seed: int = 11) -> Workload:
    random = np.random.default_rng(seed)
    rates = group_rates(rows)
    bits = np.empty((rows, len(NESTED)), np.bool_)
    for g, members in enumerate(GROUPS):
        shared = random.random(rows)
        for j in members:
            looked_at = np.where(random.random(rows) < SHARED, shared, random.random(rows))
            bits[:, j] = looked_at < rates[:, g]
    draws = tuple(random.random(rows) for _ in NESTED)
    return Workload(
        "groups", "Groups: three pairs of correlated predicates on the swing, no classes, no phases",
        bits, tuple(Hashed("nested", k) for k in NESTED), BLOCK, draws, phases_called="block",
    )  # fmt: skip


STARTS = (0.05, 0.95, 0.25, 0.75, 0.45, 0.55)
STEP = 0.001


def slow_rates(batches: int) -> NDArray[np.float64]:
    """Pass rate of each predicate in each batch: up and down between 0.05 and 0.95 in steps of 0.1 %.

    >>> float(abs(np.diff(slow_rates(1000), axis=0)).max().round(6))
    0.001
    """
    low, high = 0.05, 0.95
    span = high - low
    upward = np.array([1, -1, 1, -1, 1, -1])
    way = (np.array(STARTS) - low) * upward + STEP * np.arange(batches)[:, None]
    folded = np.mod(way, 2 * span)
    rising = np.minimum(folded, 2 * span - folded)
    return np.asarray(low + rising)


def slow(batches: int = 1000, seed: int = 12) -> Workload:
    random = np.random.default_rng(seed)
    bits = random.random((batches * CHUNK, len(STARTS))) < np.repeat(slow_rates(batches), CHUNK, axis=0)
    return Workload(
        "slow", "Slow drift: pass rates move by 0.1 % a batch for 1,000 batches",
        bits, tuple(Hashed("nested", k) for k in (10, 10, 10, 10, 10, 10)), 50 * CHUNK, (), phases_called="block",
    )  # fmt: skip
