"""Kernels over content: the class of every row in one pass, and rows in and out by partition.

They take flat arrays and fill arrays, so classifying a batch is one call whatever the number of classes. `values` has a
line for each requested attribute, NaN for null. Plain twins in the tests must agree. Imported only where classes exist:
a worker that filters without classes never loads the compiler.

Many parameters: a compiled kernel takes arrays, not objects.
"""

from __future__ import annotations

from math import floor, isfinite
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Values = NDArray[np.float32]
Array = NDArray[Any]


@njit(cache=True, nogil=True)
def by_tree(values: Values, test: Array, bound: Values, equal: Array, yes: Array, no: Array, out: Array) -> None:
    """The leaf of each row: `test` has the line of `values` to compare, or -1 at a leaf, whose class is in `yes`."""
    for r in range(values.shape[1]):
        node = 0
        while test[node] >= 0:
            x = values[test[node], r]
            holds = x == bound[node] if equal[node] else x <= bound[node]
            node = yes[node] if holds else no[node]
        out[r] = yes[node]


@njit(cache=True, nogil=True)
def part_of(x: float, low: float, scale: float, d: int) -> int:
    """The partition of a value: by range, or by hash where `scale` is negative; d holds nulls."""
    if not isfinite(x):
        return d
    if scale < 0:
        turned = x * 0.6180339887498949  # the golden ratio: neighbouring codes fall far apart
        return int((turned - floor(turned)) * d)
    return int(min(max((x - low) * scale, 0.0), d - 1))


@njit(cache=True, nogil=True, inline="always")
def member_part(values: Values, r: int, a: int, b: int, low: Array, scale: Array, d: int, grid: int) -> int:
    """The partition of a row by one attribute, or by two as a cell of a coarse grid."""
    first = part_of(values[a, r], low[a], scale[a], d)
    if b < 0:
        return first
    second = part_of(values[b, r], low[b], scale[b], d)
    return (min(first, d - 1) * grid // d) * grid + min(second, d - 1) * grid // d


@njit(cache=True, nogil=True)
def parts(values: Values, members: Array, low: Array, scale: Array, d: int, grid: int, out: Array) -> None:
    """Partitions `out[j, r]` of attributes, or of pairs: `members[j]` are lines of `values`, the second -1 for one."""
    for j in range(len(members)):
        for r in range(values.shape[1]):
            out[j, r] = member_part(values, r, members[j, 0], members[j, 1], low, scale, d, grid)


@njit(cache=True, nogil=True)
def places(
    values: Values, members: Array, low: Array, scale: Array, d: int, grid: int, codes: Array, known: Array, out: Array
) -> None:
    """The place of each row's code among the sorted `codes`, `len(codes)` if absent; `known` has that for every code,
    or is empty if there are too many."""
    for r in range(values.shape[1]):
        code = 0
        for j in range(len(members)):
            code = code * (d + 1) + member_part(values, r, members[j, 0], members[j, 1], low, scale, d, grid)
        if len(known):
            out[r] = known[code]
            continue
        first, last = 0, len(codes)
        while first < last:
            middle = (first + last) // 2
            if codes[middle] < code:
                first = middle + 1
            else:
                last = middle
        out[r] = first if first < len(codes) and codes[first] == code else len(codes)


@njit(cache=True, nogil=True)
def count(part: Array, rows: Array, taken: Array, through: Array, squares: Array) -> None:
    """Add tuples to counts in and out by operator, attribute and partition; `rows[t, op]` is negative if untried."""
    for t in range(rows.shape[0]):
        for op in range(rows.shape[1]):
            out = rows[t, op]
            if out >= 0:
                squares[op] += out * out
                for j in range(part.shape[0]):
                    taken[op, j, part[j, t]] += 1.0
                    through[op, j, part[j, t]] += out
