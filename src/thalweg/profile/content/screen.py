"""A first look: does any attribute tell anything about what any operator makes of a tuple?

Searching for classes takes milliseconds; this takes a fraction of one. We cut an attribute's values into a few parts of
equal size and compare the share of the variance of an operator's rows that lies between parts with chance. Rows count
as logarithms, so one crowded key weighs little. It misses what only two attributes together tell (a chessboard).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Values
from thalweg.profile.content.induce import CHANCE


def tells(values: Values, usable: NDArray[np.bool_], rows: NDArray[np.floating], parts: int = 4) -> bool:
    """Whether one of the usable attributes stands out; `rows[t, o]` is what operator o made of tuple t.

    >>> random = np.random.default_rng(1)
    >>> values = random.random((100, 3)).astype(np.float32)
    >>> tells(values, np.ones(3, bool), random.random((100, 2)))
    False
    >>> tells(values, np.ones(3, bool), np.stack([values[:, 1] > 0.5, values[:, 0] > 2], axis=1).astype(float))
    True
    """
    count = len(values)
    if count < 4 * parts or not usable.any():
        return False
    made = np.log2(np.maximum(rows, 0.0) + 1.0)
    made = made - made.mean(axis=0)
    whole = (made**2).sum(axis=0)
    alive = whole > 1e-9
    if not alive.any():
        return False
    mine = values[:, usable]
    # Equal values must share a part, or order of arrival would leak in; a part begins at a quantile.
    cuts = np.sort(mine, axis=0)[[count * k // parts for k in range(1, parts)]]
    part = (mine[None, :, :] >= cuts[:, None, :]).sum(axis=0)
    between = np.zeros((mine.shape[1], made.shape[1]))
    occupied = np.zeros(mine.shape[1])
    for k in range(parts):
        inside = (part == k).astype(float)
        size = inside.sum(axis=0)
        occupied += size > 0
        between += (inside.T @ made) ** 2 / np.maximum(size, 1.0)[:, None]
    share = between[:, alive] / whole[alive]
    bound = by_chance(np.maximum(occupied - 1, 1.0), share.size) / (count - 1)
    return bool((share > bound[:, None]).any())


def by_chance(freedom: NDArray[np.float64], tried: int) -> NDArray[np.float64]:
    """What the greatest of `tried` chi-squared numbers exceeds with a probability of at most `CHANCE` (Wilson and
    Hilferty's approximation).

    >>> by_chance(np.array([1.0, 3.0]), 10).round(1).tolist()
    [7.9, 12.9]
    """
    width = 2 / (9 * freedom)
    bound: NDArray[np.float64] = freedom * (1 - width + NormalDist().inv_cdf(1 - CHANCE / tried) * np.sqrt(width)) ** 3
    return bound
