"""Variances and standard deviations without drift, of numbers as doubles.

The sums of x and of x * x are exact (floats.py; a square is two doubles), so removals leave nothing behind. Their
difference is taken in twice the precision of a double; where it all but vanishes, with fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.aggregates.contract import InFields, Ints, Touched
from thalweg.relate.aggregates.counts import running
from thalweg.relate.aggregates.floats import Expansions, doubles, kinds
from thalweg.relate.kernels.sums import in_two
from thalweg.relate.rows.dictionary import Dictionary

Floats = NDArray[np.float64]
LARGE = 2.0**449
"""The square of anything larger may reach HUGE (floats.py): such values make the variance infinite."""
SPLIT = 2.0**27 + 1.0
CLOSE = 2.0**-40
"""Of a difference of doubles of 106 bits that is this small against them, 66 bits are right; below, fractions decide."""


class Moment(InFields):
    def __init__(self, groups: Dictionary, field: str, result: pa.DataType, *, sample: bool, root: bool) -> None:
        self._groups, self._counts, self._result = groups, field + "\0counts", result
        self._sample, self._root = sample, root
        groups.add_field(self._counts, width=5)
        self._first, self._second = (Expansions(groups, f"{field}\0{k}") for k in range(2))

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        values, valid = doubles(arguments[0])
        large = valid & np.isfinite(values) & (np.abs(values) >= LARGE)
        marks = np.concatenate([kinds(values, valid), large[:, None].astype(np.int64)], axis=1)
        counts = running(self._groups, self._counts, touched, marks)
        usual = valid & np.isfinite(values) & ~large
        kept = np.where(usual, values, 0.0)
        first, _ = self._first.step(touched, kept, usual)
        squares = np.stack(squared(kept), axis=1).reshape(-1)
        twice = replace(touched, entry=np.repeat(touched.entry, 2), sign=np.repeat(touched.sign, 2))
        second, _ = self._second.step(twice, squares, np.repeat(usual, 2))
        count = counts[:, 0]
        found = spread(first, second, count, np.maximum(count - self._sample, 1))
        found[(counts[:, 4] > 0) & (count > 1)] = np.inf
        found[counts[:, 1:4].any(axis=1)] = np.nan
        found = np.sqrt(found) if self._root else found
        return pa.array(found, mask=count < (2 if self._sample else 1)).cast(self._result)


def squared(values: Floats) -> tuple[Floats, Floats]:
    """x * x, exactly, as two doubles (Dekker)."""
    square = values * values
    high = values * SPLIT
    high = high - (high - values)
    low = values - high
    return square, low * low - ((square - high * high) - 2.0 * high * low)


def spread(first: Floats, second: Floats, count: Ints, divisor: Ints) -> Floats:
    """The sum of the squares less the square of the sum over the count, all over the divisor; never below zero."""
    a, b = in_two(first), in_two(second)
    n = np.maximum(count, 1).astype(np.float64)
    # (sum of squares * n - sum ** 2) / (n * divisor), the upper part in pairs of doubles
    left, right = _times(b, (n, np.zeros(len(n)))), _times(a, a)
    high = left[0] - right[0]
    found = high + ((left[0] - high) - right[0]) + (left[1] - right[1])
    out = np.maximum(found, 0.0) / (n * divisor)
    close = np.abs(found) <= CLOSE * np.abs(left[0])
    for row in np.flatnonzero(close & (left[0] != 0.0)).tolist():
        x, xx = (sum(map(Fraction, s[row].tolist()), Fraction()) for s in (first, second))
        out[row] = float((xx - x * x / max(int(count[row]), 1)) / int(divisor[row]))
    return out


def _times(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """A product of pairs of doubles."""
    high, low = _product(a[0], b[0])
    low = low + (a[0] * b[1] + a[1] * b[0])
    total = high + low
    return total, low - (total - high)


def _product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    product = x * y
    xh, yh = x * SPLIT, y * SPLIT
    xh, yh = xh - (xh - x), yh - (yh - y)
    xl, yl = x - xh, y - yh
    return product, xl * yl - (((product - xh * yh) - xl * yh) - xh * yl)
