"""sum and avg of doubles, without drift: the value is the exact sum of what lives now, rounded once.

Finite values are summed as expansions (kernels/sums.py), which never round, so removals leave nothing behind and the
order of rows does not matter. Doubles above HUGE could overflow on the way: they are summed apart, scaled down. NaN and
infinities are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.aggregates.contract import InFields, Ints, Touched
from thalweg.relate.aggregates.counts import running
from thalweg.relate.kernels.sums import add_doubles, rounded
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.state.keys import plain, validity

Floats = NDArray[np.float64]
HUGE = 2.0**900
"""2**63 values below this do not overflow."""
SCALE = 2.0**-200
ROOM = 4
"""Doubles of an expansion at the beginning: values whose sizes differ by less than 2**150 need no more."""


class Expansions:
    """Exact sums of doubles, one for each group, in a field that widens when a sum needs more room."""

    def __init__(self, groups: Dictionary, field: str) -> None:
        self._groups, self._field = groups, field
        groups.add_field(field, 0.0, np.float64, ROOM)
        groups.add_field(field + "\0huge", 0.0, np.float64, 1)

    def step(self, touched: Touched, values: Floats, mask: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Versions of the sums of the masked values, and of the huge ones among them."""
        huge = np.abs(values) >= HUGE
        plainly = self._added(self._field, touched, np.where(mask & ~huge, values, 0.0))
        apart = np.where(mask & huge, values * SCALE, 0.0)
        state = self._groups.fields[self._field + "\0huge"]
        if not apart.any() and not state[touched.groups].any():
            return plainly, np.zeros((len(plainly), 1))
        return plainly, self._added(self._field + "\0huge", touched, apart)

    def _added(self, field: str, touched: Touched, values: Floats) -> Floats:
        while True:
            state = self._groups.fields[field]
            out = np.empty((touched.versions, state.shape[1]))
            before = state[touched.groups]
            if add_doubles(before, touched.old, touched.entry, touched.sign, values, out):
                state[touched.groups] = out[touched.last]
                return out
            self._groups.widen_field(field, 2 * state.shape[1])


def total(plainly: Floats, huge: Floats) -> Floats:
    """The nearest double of each sum."""
    out: Floats = rounded(plainly)
    for row in np.flatnonzero(huge.any(axis=1)).tolist():
        out[row] = _nearest(exactly(plainly[row], huge[row]))
    return out


def exactly(plainly: Floats, huge: Floats) -> Fraction:
    return sum(map(Fraction, plainly.tolist()), Fraction()) + sum(map(Fraction, huge.tolist()), Fraction()) / Fraction(
        SCALE
    )


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def doubles(array: pa.Array) -> tuple[Floats, Any]:
    """The values, and which are not NULL."""
    array = plain(array)
    valid = validity(array)
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values), np.ones(len(array), np.bool_) if valid is None else valid


def kinds(values: Floats, valid: NDArray[np.bool_]) -> Ints:
    """Columns to count: not NULL, NaN, infinity, its opposite."""
    marks = (valid, valid & np.isnan(values), valid & (values == np.inf), valid & (values == -np.inf))
    return np.stack(marks, axis=1).astype(np.int64)


class FloatSum(InFields):
    def __init__(self, groups: Dictionary, field: str, result: pa.DataType, mean: bool) -> None:
        self._groups, self._counts, self._result, self._mean = groups, field + "\0counts", result, mean
        groups.add_field(self._counts, width=4)
        self._sums = Expansions(groups, field)

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        values, valid = doubles(arguments[0])
        counts = running(self._groups, self._counts, touched, kinds(values, valid))
        found = total(*self._sums.step(touched, values, valid & np.isfinite(values)))
        found[counts[:, 2] > 0] = np.inf
        found[counts[:, 3] > 0] = -np.inf
        found[(counts[:, 1] > 0) | ((counts[:, 2] > 0) & (counts[:, 3] > 0))] = np.nan
        if self._mean:
            found = found / np.maximum(counts[:, 0], 1)
        return pa.array(found, mask=counts[:, 0] == 0).cast(self._result)
