"""The least or the greatest value of each group, of values that come and go: one heap for each group.

A heap is a skew heap over (group, value) pairs: `left` and `right` by pair, `root` by group, -1 for none. A pair whose
count is zero stays until it reaches the top, or until the heaps are built again.
"""

from __future__ import annotations

from typing import Final

from numba import boolean, int64, njit, uint64

from thalweg.relate.kernels.texts import BYTES
from thalweg.state.kernels.layout import MATRIX, VECTOR, Bytes, Ints

# How a value is compared: its first word, or two words of which the second is the higher, or a text's bytes.
ONE: Final = 0
DOUBLE: Final = 1
TWO: Final = 2
TEXT: Final = 3

# Whether a pair is in a heap.
OUT: Final = 0
LIVES: Final = 1
DEAD: Final = 2


@njit(inline="always")
def ranked(word: int) -> int:
    """The bits of a double as an integer in the same order; NaN, which has no sign here, comes last."""
    return word if word >= 0 else word ^ 0x7FFFFFFFFFFFFFFF


@njit(inline="always")
def before(
    a: int, b: int, kind: int, least: bool, words: Ints, at: int, data: Bytes, start: Ints, length: Ints
) -> bool:
    """Whether pair a is nearer to the top than pair b."""
    if kind == TEXT:
        x, y = words[a, at] - 1, words[b, at] - 1
        shared = min(length[x], length[y])
        for k in range(shared):
            if data[start[x] + k] != data[start[y] + k]:
                return bool((data[start[x] + k] < data[start[y] + k]) == least)
        return bool(length[x] != length[y] and (length[x] < length[y]) == least)
    u, v = words[a, at], words[b, at]
    if kind == DOUBLE:
        u, v = ranked(u), ranked(v)
    elif kind == TWO:
        if words[a, at + 1] != words[b, at + 1]:
            return bool((words[a, at + 1] < words[b, at + 1]) == least)
        return bool(u != v and (uint64(u) < uint64(v)) == least)
    return bool(u != v and (u < v) == least)


@njit(
    int64(int64, int64, VECTOR, VECTOR, VECTOR, int64, boolean, MATRIX, int64, BYTES, VECTOR, VECTOR),
    cache=True,
    nogil=True,
)
def meld(
    a: int, b: int, left: Ints, right: Ints, path: Ints, kind: int, least: bool, words: Ints, at: int, data: Bytes,
    start: Ints, length: Ints,
) -> int:  # fmt: skip
    """One heap of two. `path` is room for as many pairs as there are."""
    depth = 0
    while a >= 0 and b >= 0:
        if before(b, a, kind, least, words, at, data, start, length):
            a, b = b, a
        path[depth] = a
        depth += 1
        a = right[a]
    top = a if a >= 0 else b
    while depth > 0:
        depth -= 1
        node = path[depth]
        right[node] = left[node]
        left[node] = top
        top = node
    return top


@njit(
    int64(
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
        VECTOR, int64, boolean, MATRIX, int64, BYTES, VECTOR, VECTOR,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def follow_tops(
    order: Ints, begin: Ints, pair: Ints, sign: Ints, group: Ints, tops: Ints, count: Ints, inside: Ints, dead: Ints,
    root: Ints, left: Ints, right: Ints, path: Ints, gone: Ints, known: Ints, kind: int, least: bool, words: Ints,
    at: int, data: Bytes, start: Ints, length: Ints,
) -> int:  # fmt: skip
    """Take events in, entry by entry; writes the top pair of each entry's group after it, or -1.

    Events order[begin[e]:begin[e + 1]] are those of entry e. `inside` says whether a pair is in no heap, lives in one,
    or is dead in one; dead[0] counts the dead. Returns how many pairs left a heap; they are in `gone`, which `known`
    (0 by pair) keeps free of doubles.
    """
    left_heaps = 0
    for e in range(group.shape[0]):
        g = group[e]
        for k in range(begin[e], begin[e + 1]):
            if pair[order[k]] >= 0:
                count[pair[order[k]]] += sign[order[k]]
        for k in range(begin[e], begin[e + 1]):
            p = pair[order[k]]
            if p < 0:
                continue
            if count[p] > 0 and inside[p] == OUT:
                left[p] = right[p] = -1
                root[g] = meld(root[g], p, left, right, path, kind, least, words, at, data, start, length)
                inside[p] = LIVES
            elif count[p] > 0 and inside[p] == DEAD:
                inside[p] = LIVES
                dead[0] -= 1
            elif count[p] == 0 and inside[p] == LIVES:
                inside[p] = DEAD
                dead[0] += 1
        while root[g] >= 0 and inside[root[g]] == DEAD:
            p = root[g]
            root[g] = meld(left[p], right[p], left, right, path, kind, least, words, at, data, start, length)
            inside[p] = OUT
            dead[0] -= 1
            if known[p] == 0:
                known[p] = 1
                gone[left_heaps] = p
                left_heaps += 1
        tops[e] = root[g]
    for k in range(left_heaps):
        known[gone[k]] = 0
    return left_heaps


@njit(
    (VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, int64, boolean, MATRIX, int64, BYTES, VECTOR, VECTOR),
    cache=True,
    nogil=True,
)
def build_heaps(
    pairs: Ints, inside: Ints, root: Ints, left: Ints, right: Ints, path: Ints, kind: int, least: bool, words: Ints,
    at: int, data: Bytes, start: Ints, length: Ints,
) -> None:  # fmt: skip
    """Heaps of living pairs; a pair's group is its first word."""
    for k in range(pairs.shape[0]):
        p = pairs[k]
        left[p] = right[p] = -1
        inside[p] = LIVES
        g = words[p, 0]
        root[g] = meld(root[g], p, left, right, path, kind, least, words, at, data, start, length)
