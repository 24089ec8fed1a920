"""Values of groups in the order in which they came: a list for each group, and a queue for each pair of equal ones.

A node is one value. Lists run through `next` and `prev`; `later` leads from a node to the next one of the same pair, so
the oldest of equal values leaves first. -1 stands for none.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, int64, njit, types

from thalweg.state.kernels.layout import VECTOR, Ints

TWO_VECTORS = types.Tuple((int64, VECTOR))  # type: ignore[no-untyped-call]


@njit(inline="always")
def append(
    node: int, p: int, g: int, pair: Ints, next_: Ints, prev: Ints, later: Ints, first: Ints, last: Ints, head: Ints,
    tail: Ints,
) -> None:  # fmt: skip
    pair[node], next_[node], prev[node], later[node] = p, -1, tail[g], -1
    if tail[g] >= 0:
        next_[tail[g]] = node
    else:
        head[g] = node
    tail[g] = node
    if first[p] >= 0:
        later[last[p]] = node
    else:
        first[p] = node
    last[p] = node


@njit(
    TWO_VECTORS(
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
        VECTOR, VECTOR, int64, VECTOR, VECTOR, boolean,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def follow_lists(
    order: Ints, begin: Ints, numbers: Ints, sign: Ints, group: Ints, count: Ints, pair: Ints, next_: Ints, prev: Ints,
    later: Ints, first: Ints, last: Ints, head: Ints, tail: Ints, length: Ints, free: Ints, top: int, ends: Ints,
    sizes: Ints, whole: bool,
) -> tuple[int, Ints]:  # fmt: skip
    """Take events in, entry by entry: what leaves goes first. Writes the first and the last pair of each entry's group
    after it (-1: none) into `ends`, its length into `sizes`, and returns the top of the free nodes and, if `whole`, the
    pairs of all these lists, one after another."""
    out, used = np.empty(64, np.int64), 0
    for e in range(group.shape[0]):
        g = group[e]
        for k in range(begin[e], begin[e + 1]):
            p = numbers[order[k]]
            for _ in range(-sign[order[k]] if p >= 0 else 0):
                node = first[p]
                first[p] = later[node]
                if prev[node] >= 0:
                    next_[prev[node]] = next_[node]
                else:
                    head[g] = next_[node]
                if next_[node] >= 0:
                    prev[next_[node]] = prev[node]
                else:
                    tail[g] = prev[node]
                free[top] = node
                top += 1
                count[p] -= 1
                length[g] -= 1
        for k in range(begin[e], begin[e + 1]):
            p = numbers[order[k]]
            for _ in range(sign[order[k]] if p >= 0 else 0):
                top -= 1
                append(free[top], p, g, pair, next_, prev, later, first, last, head, tail)
                count[p] += 1
                length[g] += 1
        ends[2 * e] = pair[head[g]] if head[g] >= 0 else -1
        ends[2 * e + 1] = pair[tail[g]] if tail[g] >= 0 else -1
        sizes[e] = length[g]
        if whole:
            node = head[g]
            while node >= 0:
                if used == out.shape[0]:
                    larger = np.empty(2 * used, np.int64)
                    larger[:used] = out
                    out = larger
                out[used] = pair[node]
                used += 1
                node = next_[node]
    return top, out[:used].copy()


@njit(int64(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def walk_lists(groups: Ints, head: Ints, next_: Ints, pair: Ints, group: Ints, out: Ints) -> int:
    """The groups and pairs of some lists, one list after another."""
    count = 0
    for k in range(groups.shape[0]):
        node = head[groups[k]]
        while node >= 0:
            group[count], out[count] = groups[k], pair[node]
            count += 1
            node = next_[node]
    return count
