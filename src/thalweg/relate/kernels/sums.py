"""Sums of groups at every version: integers exactly in pieces of 32 bits, doubles exactly as expansions.

An expansion is a list of doubles that do not overlap, smallest first, padded with zeros; its sum is exact
(J. Shewchuk, Adaptive precision floating-point arithmetic, 1997). Removing a value adds its opposite, so a group that
shrinks has no memory of what it lost.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, njit, types
from numpy.typing import NDArray

from thalweg.state.kernels.layout import MATRIX, READ_VECTOR, VECTOR, Ints

Floats = NDArray[np.float64]
DOUBLES = float64[::1]
EXPANSIONS = float64[:, ::1]


@njit(MATRIX(MATRIX, VECTOR, VECTOR, READ_VECTOR, MATRIX), cache=True, nogil=True)
def add_up(before: Ints, old: Ints, entry: Ints, sign: Ints, values: Ints) -> Ints:
    """Versions of sums: `before` of the touched groups, then after each entry."""
    groups, entries, width = before.shape[0], old.shape[0], before.shape[1]
    out = np.zeros((groups + entries, width), np.int64)
    out[:groups] = before
    for e in range(entry.shape[0]):
        at = groups + entry[e]
        for k in range(width):
            out[at, k] += sign[e] * values[e, k]
    for e in range(entries):
        for k in range(width):
            out[groups + e, k] += out[old[e], k]
    return out


@njit(inline="always")
def add_to(parts: Floats, x: float) -> bool:
    """Add x to one expansion; False if it has no room."""
    kept = 0
    for j in range(parts.shape[0]):
        y = parts[j]
        if y == 0.0:
            break
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        parts[j] = 0.0
        if low != 0.0:
            parts[kept] = low
            kept += 1
        x = high
    if x != 0.0:
        if kept == parts.shape[0]:
            return False
        parts[kept] = x
    return True


@njit(boolean(EXPANSIONS, VECTOR, VECTOR, READ_VECTOR, DOUBLES, EXPANSIONS), cache=True, nogil=True)
def add_doubles(before: Floats, old: Ints, entry: Ints, sign: Ints, values: Floats, out: Floats) -> bool:
    """Versions of expansions; False if one has no room. Values are finite and far from overflow."""
    groups = before.shape[0]
    out[:groups] = before
    done = 0  # entries that have begun
    for e in range(entry.shape[0]):
        at = entry[e]
        while done <= at:
            out[groups + done] = out[old[done]]
            done += 1
        count, x = abs(sign[e]), values[e] if sign[e] > 0 else -values[e]
        factor = 1.0
        while count > 0:  # by powers of two, which are exact
            if count & 1 and not add_to(out[groups + at], x * factor):
                return False
            factor *= 2.0
            count >>= 1
    while done < old.shape[0]:
        out[groups + done] = out[old[done]]
        done += 1
    return True


@njit(DOUBLES(EXPANSIONS), cache=True, nogil=True)
def rounded(parts: Floats) -> Floats:
    """The double nearest to each expansion, ties to even (as math.fsum)."""
    out = np.zeros(parts.shape[0])
    for row in range(parts.shape[0]):
        n = 0
        while n < parts.shape[1] and parts[row, n] != 0.0:
            n += 1
        if n == 0:
            continue
        n -= 1
        high, low = parts[row, n], 0.0
        while n > 0:
            x = high
            n -= 1
            y = parts[row, n]
            high = x + y
            low = y - (high - x)
            if low != 0.0:
                break
        # Half-way cases: what is left below decides.
        if n > 0 and ((low < 0.0 and parts[row, n - 1] < 0.0) or (low > 0.0 and parts[row, n - 1] > 0.0)):
            y = low * 2.0
            x = high + y
            if y == x - high:
                high = x
        out[row] = high
    return out


TWO = types.UniTuple(DOUBLES, 2)  # type: ignore[no-untyped-call]


@njit(TWO(EXPANSIONS), cache=True, nogil=True)
def in_two(parts: Floats) -> tuple[Floats, Floats]:
    """Each expansion as two doubles: the nearest, and what is left, nearly."""
    high, low = rounded(parts), np.zeros(parts.shape[0])
    for row in range(parts.shape[0]):
        rest = np.zeros(parts.shape[1] + 1)
        rest[: parts.shape[1]] = parts[row]
        add_to(rest, -high[row])
        for k in range(rest.shape[0]):
            low[row] += rest[k]
    return high, low
