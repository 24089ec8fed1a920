"""Matching two bags at every instant: which pairs of rows live, and which rows have a partner.

Rows of a side with equal keys are a chain: `head` by key, `next` and `prev` by row, -1 for none. Rows are linked while
their count is above zero. Entries come in the order of their times, each row at most once at an instant, so counts
before and after an instant are known for every row that it touches.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import boolean, njit

from thalweg.state.kernels.layout import MATRIX, VECTOR, Ints

# Columns of a pair whose multiplicity may change.
LEFT: Final = 0
RIGHT: Final = 1
ENTRY: Final = 2
LEFT_BEFORE: Final = 3
RIGHT_BEFORE: Final = 4
LEFT_AFTER: Final = 5
RIGHT_AFTER: Final = 6
PAIR: Final = 7

FALSE: Final = 0
TRUE: Final = 1
UNKNOWN: Final = 2

# Kinds of entries of `find_statuses`.
OF_ROW: Final = 0
OF_MATCHES: Final = 1
OF_UNKNOWNS: Final = 2


@njit(inline="always")
def link(row: int, key: int, head: Ints, next_: Ints, prev: Ints) -> None:
    next_[row], prev[row] = head[key], -1
    if head[key] >= 0:
        prev[head[key]] = row
    head[key] = row


@njit(inline="always")
def unlink(row: int, key: int, head: Ints, next_: Ints, prev: Ints) -> None:
    if prev[row] >= 0:
        next_[prev[row]] = next_[row]
    else:
        head[key] = next_[row]
    if next_[row] >= 0:
        prev[next_[row]] = prev[row]
    next_[row] = prev[row] = -1


@njit((VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def link_all(rows: Ints, key: Ints, head: Ints, next_: Ints, prev: Ints) -> None:
    """Make the chains of rows in the order in which they were linked."""
    for k in range(rows.shape[0]):
        if key[rows[k]] >= 0:
            link(rows[k], key[rows[k]], head, next_, prev)


@njit(inline="always")
def room_for_one(out: Ints, used: int) -> Ints:
    if used < out.shape[0]:
        return out
    larger = np.empty((2 * out.shape[0], out.shape[1]), np.int64)
    larger[:used] = out[:used]
    return larger


@njit(
    MATRIX(
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def find_pairs(
    side: Ints, row: Ints, net: Ints, time: Ints, clock: Ints,
    count0: Ints, key0: Ints, linked0: Ints, head0: Ints, next0: Ints, prev0: Ints, place0: Ints,
    count1: Ints, key1: Ints, linked1: Ints, head1: Ints, next1: Ints, prev1: Ints, place1: Ints,
) -> Ints:  # fmt: skip
    """Every pair with equal keys of which a row changes at an instant, once, with all counts.

    `linked` says when a row was linked, by `clock`, which counts.
    """
    out, used = np.empty((64, PAIR), np.int64), 0
    entries, begin = row.shape[0], 0
    while begin < entries:
        end = begin
        while end < entries and time[end] == time[begin]:
            k = row[end]
            if side[end] == 0:
                place0[k] = end
                if count0[k] == 0 and key0[k] >= 0:
                    link(k, key0[k], head0, next0, prev0)
                    linked0[k] = clock[0]
                    clock[0] += 1
                count0[k] += net[end]
            else:
                place1[k] = end
                if count1[k] == 0 and key1[k] >= 0:
                    link(k, key1[k], head1, next1, prev1)
                    linked1[k] = clock[0]
                    clock[0] += 1
                count1[k] += net[end]
            end += 1
        for e in range(begin, end):
            if side[e] == 0:
                left = row[e]
                right = head1[key0[left]] if key0[left] >= 0 else -1
                while right >= 0:
                    at = place1[right]
                    touched = begin <= at < end and side[at] == 1 and row[at] == right
                    before = count1[right] - net[at] if touched else count1[right]
                    out = room_for_one(out, used)
                    out[used, LEFT], out[used, RIGHT], out[used, ENTRY] = left, right, e
                    out[used, LEFT_BEFORE], out[used, RIGHT_BEFORE] = count0[left] - net[e], before
                    out[used, LEFT_AFTER], out[used, RIGHT_AFTER] = count0[left], count1[right]
                    used += 1
                    right = next1[right]
            else:
                right = row[e]
                left = head0[key1[right]] if key1[right] >= 0 else -1
                while left >= 0:
                    at = place0[left]
                    if not (begin <= at < end and side[at] == 0 and row[at] == left):
                        out = room_for_one(out, used)
                        out[used, LEFT], out[used, RIGHT], out[used, ENTRY] = left, right, e
                        out[used, LEFT_BEFORE], out[used, RIGHT_BEFORE] = count0[left], count1[right] - net[e]
                        out[used, LEFT_AFTER], out[used, RIGHT_AFTER] = count0[left], count1[right]
                        used += 1
                    left = next0[left]
        for e in range(begin, end):
            k = row[e]
            if side[e] == 0 and count0[k] == 0 and key0[k] >= 0:
                unlink(k, key0[k], head0, next0, prev0)
            elif side[e] == 1 and count1[k] == 0 and key1[k] >= 0:
                unlink(k, key1[k], head1, next1, prev1)
        begin = end
    return out[:used].copy()


@njit(inline="always")
def status_of(matches: int, unknowns: int) -> int:
    return TRUE if matches > 0 else (UNKNOWN if unknowns > 0 else FALSE)


@njit(
    MATRIX(
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, boolean, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def find_statuses(
    kind: Ints, target: Ints, net: Ints, time: Ints, clock: Ints, alone: bool,
    count: Ints, linked: Ints, place: Ints, key: Ints, head: Ints, next_: Ints, prev: Ints, matches: Ints,
    pool: Ints, pool_head: Ints, pool_next: Ints, pool_prev: Ints, unknowns: Ints,
) -> Ints:  # fmt: skip
    """Changes of rows with their status: columns row, status, change, entry.

    `matches` and `unknowns` are counts by key and by pool; a row's status follows from those of its own. With `alone`
    they are counts by row, and there are no chains. Entries name a row, a key or a pool, each once at an instant.
    """
    out, used = np.empty((64, 4), np.int64), 0
    touched = np.empty((64, 3), np.int64)  # row, status before, count before
    entries, begin = target.shape[0], 0
    while begin < entries:
        end, some = begin, 0
        while end < entries and time[end] == time[begin]:
            if kind[end] == OF_ROW and not alone and count[target[end]] == 0:
                linked[target[end]] = clock[0]
                clock[0] += 1
                if key[target[end]] >= 0:
                    link(target[end], key[target[end]], head, next_, prev)
                if pool[target[end]] >= 0:
                    link(target[end], pool[target[end]], pool_head, pool_next, pool_prev)
            end += 1
        for e in range(begin, end):
            at, by_key = target[e], kind[e] == OF_MATCHES
            if kind[e] != OF_ROW:
                before = matches[at] if by_key else unknowns[at]
                if (before > 0) == (before + net[e] > 0):
                    continue
                if not alone:
                    at = head[at] if by_key else pool_head[at]
            while at >= 0:
                p = place[at]
                if p < 0 or p >= some or touched[p, 0] != at:
                    touched = room_for_one(touched, some)
                    m = matches[key[at]] if key[at] >= 0 else 0
                    u = unknowns[pool[at]] if pool[at] >= 0 else 0
                    place[at] = some
                    touched[some, 0], touched[some, 1], touched[some, 2] = at, status_of(m, u), count[at]
                    some += 1
                if kind[e] == OF_ROW or alone:
                    break
                at = next_[at] if by_key else pool_next[at]
        for e in range(begin, end):
            if kind[e] == OF_ROW:
                count[target[e]] += net[e]
            elif kind[e] == OF_MATCHES:
                matches[target[e]] += net[e]
            else:
                unknowns[target[e]] += net[e]
        for t in range(some):
            k, old, was = touched[t, 0], touched[t, 1], touched[t, 2]
            m = matches[key[k]] if key[k] >= 0 else 0
            u = unknowns[pool[k]] if pool[k] >= 0 else 0
            new = status_of(m, u)
            if old == new:
                was, now = 0, count[k] - was
            else:
                now = count[k]
            if was != 0:
                out = room_for_one(out, used)
                out[used, 0], out[used, 1], out[used, 2], out[used, 3] = k, old, -was, begin
                used += 1
            if now != 0:
                out = room_for_one(out, used)
                out[used, 0], out[used, 1], out[used, 2], out[used, 3] = k, new, now, begin
                used += 1
        if not alone:
            for e in range(begin, end):
                if kind[e] == OF_ROW and count[target[e]] == 0:
                    if key[target[e]] >= 0:
                        unlink(target[e], key[target[e]], head, next_, prev)
                    if pool[target[e]] >= 0:
                        unlink(target[e], pool[target[e]], pool_head, pool_next, pool_prev)
        begin = end
    return out[:used].copy()
