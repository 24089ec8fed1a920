"""Bags: how often each row lives, and what follows for sets and set operations."""

from __future__ import annotations

from typing import Final

from numba import int64, njit

from thalweg.state.kernels.layout import VECTOR, Ints

DISTINCT: Final = 0
UNION: Final = 1
EXCEPT: Final = 2
EXCEPT_ALL: Final = 3
INTERSECT: Final = 4
INTERSECT_ALL: Final = 5


@njit(inline="always")
def multiplicity(rule: int, left: int, right: int) -> int:
    """How often a row lives in the result, given how often it lives on each side."""
    if rule == DISTINCT:
        return 1 if left > 0 else 0
    if rule == UNION:
        return 1 if left > 0 or right > 0 else 0
    if rule == EXCEPT:
        return 1 if left > 0 and right <= 0 else 0
    if rule == EXCEPT_ALL:
        return max(0, left - max(0, right))
    if rule == INTERSECT:
        return 1 if left > 0 and right > 0 else 0
    return max(0, min(left, right))


@njit((int64, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def apply_entries(rule: int, number: Ints, left_net: Ints, right_net: Ints, left: Ints, right: Ints, out: Ints) -> None:
    """Take entries into the counts of both sides, in order; writes the change of the result at each entry."""
    for e in range(number.shape[0]):
        row = number[e]
        before = multiplicity(rule, left[row], right[row])
        left[row] += left_net[e]
        right[row] += right_net[e]
        out[e] = multiplicity(rule, left[row], right[row]) - before
