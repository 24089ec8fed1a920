"""Induction of a decision tree by information gain (query mesh 4.4), on weighted rows and any number of targets.

`targets` has a column for each outcome; the impurity of a set is Σ -s log2(s/w) over its columns (s: weight of the
outcome, w: weight of the set). With a column per class this is the entropy of the class; with columns `drops` and
`passes` for each operator it is the sum of their entropies, which is what condensing needs. The best leaf is split
first, until there are `leaves` or no split pays for itself.

We don't use scikit-learn: every worker would spend a second importing it, it can't split a category by equality, and
it has no price for a split. Tests compare it with plain exhaustive search and with scikit-learn's trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from thalweg.plan.tree import Comparison, Tree
from thalweg.profile.content.attributes import Values

Floats = NDArray[np.float64]
CHANCE = 0.05
"""Statistic: probability of accepting a spurious split, if splits have a price."""
MOST_BOUNDS = 32
"""Size: values of an attribute to compare with: the most frequent of a category; for an ordered attribute, half of them
evenly spaced and the rest around the best."""


@dataclass(eq=False)
class _Leaf:
    rows: NDArray[np.int64]
    gain: float = 0.0
    test: Comparison | None = None
    sides: tuple[_Leaf, _Leaf] | None = None


def induce(
    values: Values, category: list[bool], usable: NDArray[np.bool_], targets: Floats, *,
    leaves: int, least: int = 1, freedom: float = 0.0,
) -> tuple[Tree, NDArray[np.int64]]:  # fmt: skip
    """A tree whose leaves are numbered from 0, and the leaf of each row.

    Unless `freedom`, the number of parameters that a split adds, is 0, a split must gain more nats over all rows than
    `by_chance`: what the best of those tried would gain from noise.

    >>> x = np.array([[1], [2], [3], [4]], np.float32)
    >>> tree, leaf = induce(x, [False], np.array([True]), np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]), leaves=4)
    >>> tree.text(["x"]), leaf.tolist()
    ('x <= 2.5 ? 0 : 1', [0, 0, 1, 1])
    """
    columns = [int(j) for j in np.flatnonzero(usable)]
    root = _Leaf(np.arange(len(values)))
    _look(root, values, category, columns, targets, least, freedom)
    open_leaves = [root]
    while len(open_leaves) < leaves:
        best = max(open_leaves, key=lambda leaf: leaf.gain)
        if best.test is None:
            break
        holds = best.test.holds(values[best.rows, best.test.attribute])
        best.sides = (_Leaf(best.rows[holds]), _Leaf(best.rows[~holds]))
        open_leaves.remove(best)
        for side in best.sides:
            _look(side, values, category, columns, targets, least, freedom)
            open_leaves.append(side)
    where = np.zeros(len(values), np.int64)
    tree, _ = _numbered(root, 0, where)
    return tree, where


def _numbered(leaf: _Leaf, number: int, where: NDArray[np.int64]) -> tuple[Tree, int]:
    if leaf.sides is None:
        where[leaf.rows] = number
        return Tree(number), number + 1
    yes, number = _numbered(leaf.sides[0], number, where)
    no, number = _numbered(leaf.sides[1], number, where)
    return Tree(test=leaf.test, yes=yes, no=no), number


def _look(
    leaf: _Leaf, values: Values, category: list[bool], columns: list[int], targets: Floats, least: int, freedom: float
) -> None:
    """Find the split of a leaf with the largest gain."""
    mine = targets[leaf.rows]
    if len(mine) < 2 * least:
        return
    whole = mine.sum(axis=0)
    bits = float(_impurity(whole[None, :])[0])
    if bits <= 1e-9:  # only with one target; several have the constant of `_impurity`
        return
    tried, gain, test = 0, 0.0, None
    for j in columns:
        found = (_equal if category[j] else _cut)(values[leaf.rows, j], mine, whole, bits, j, least)
        tried += found[0]
        if found[1] > gain + 1e-12:
            gain, test = found[1], found[2]
    if test is not None and (not freedom or gain * log(2) > by_chance(freedom, tried)):
        leaf.gain, leaf.test = gain, test


def by_chance(freedom: float, tried: int) -> float:
    """The gain in nats that the best of `tried` splits exceeds on pure noise with a probability of at most `CHANCE`.

    Twice the gain of one is about chi-squared then; we use Laurent and Massart's bound of its tail, for each of those
    tried. BIC's price of a parameter rises with the rows, and nine stems with four levels each could never pay it.

    >>> round(by_chance(6, 50), 1), round(by_chance(27, 50), 1)
    (16.3, 34.1)
    """
    doubt = log(max(tried, 1) / CHANCE)
    return freedom / 2 + sqrt(freedom * doubt) + doubt


def _impurity(sums: Floats) -> Floats:
    """Bits of sets given by the weights of their outcomes. With several targets the weights add up to several times the
    rows, in the parts as in the whole, so the constant this adds cancels in every gain."""
    weight = sums.sum(axis=1, keepdims=True)
    share = np.where(sums > 0, sums / np.maximum(weight, 1e-300), 1.0)
    return np.asarray(-(sums * np.log2(share)).sum(axis=1))


def _cut(
    x: Values, mine: Floats, whole: Floats, bits: float, j: int, least: int
) -> tuple[int, float, Comparison | None]:
    """The best bound for an ordered attribute; nulls fail the test. Of many bounds we try some, then those around the
    best."""
    x = np.where(np.isnan(x), np.float32(np.inf), x)
    order = np.argsort(x, kind="stable")
    xs = x[order]
    at = np.flatnonzero(xs[:-1] < xs[1:])
    at = at[(at + 1 >= least) & (len(xs) - at - 1 >= least)]
    if not len(at):
        return 0, 0.0, None
    below = np.cumsum(mine[order], axis=0)

    def gains(where: NDArray[np.int64]) -> Floats:
        left = below[where]
        return bits - _impurity(left) - _impurity(whole - left)

    tried, step = at, 1
    if len(at) > MOST_BOUNDS:
        step = -(-2 * len(at) // MOST_BOUNDS)
        middle = step // 2 + int(gains(at[step // 2 :: step]).argmax()) * step
        tried = at[max(0, middle - step) : middle + step + 1]
    found = gains(tried)
    best = int(found.argmax())
    low, high = xs[tried[best]], xs[tried[best] + 1]
    half = np.float32((float(low) + float(high)) / 2) if np.isfinite(high) else low
    return len(at), float(found[best]), Comparison(j, float(half if low <= half < high else low))


def _equal(
    x: Values, mine: Floats, whole: Floats, bits: float, j: int, least: int
) -> tuple[int, float, Comparison | None]:
    """The best value of a category against all others."""
    words, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, equal_nan=True)
    fit = np.flatnonzero((counts >= least) & (len(x) - counts >= least) & ~np.isnan(words))
    fit = fit[np.argsort(-counts[fit], kind="stable")][:MOST_BOUNDS]
    if not len(fit):
        return 0, 0.0, None
    sums = np.zeros((len(words), mine.shape[1]))
    np.add.at(sums, inverse, mine)
    inside = sums[fit]
    gains = bits - _impurity(inside) - _impurity(whole - inside)
    best = int(gains.argmax())
    return len(fit), float(gains[best]), Comparison(j, float(words[fit[best]]), equal=True)
