"""Queues of items with limited length, one for each group; and the one row that lives at each instant."""

from __future__ import annotations

from numba import int64, njit

from thalweg.state.kernels.layout import VECTOR, Ints


@njit(
    int64(VECTOR, VECTOR, int64, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, int64, VECTOR), cache=True, nogil=True
)
def push_items(
    groups: Ints, items: Ints, limit: int, head: Ints, tail: Ints, length: Ints, held: Ints, next_: Ints, free: Ints,
    top: int, pushed_out: Ints,
) -> int:  # fmt: skip
    """Append items to the queues of their groups; writes the item that each pushes out, or -1. -1 is no place, too.

    Returns the new top of the free places.
    """
    for k in range(groups.shape[0]):
        group = groups[k]
        top -= 1
        place = free[top]
        held[place], next_[place] = items[k], -1
        if length[group] > 0:
            next_[tail[group]] = place
        else:
            head[group] = place
        tail[group] = place
        length[group] += 1
        pushed_out[k] = -1
        if length[group] > limit:
            first = head[group]
            pushed_out[k] = held[first]
            head[group] = next_[first]
            length[group] -= 1
            free[top] = first
            top += 1
    return top


@njit(int64(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def list_items(groups: Ints, head: Ints, length: Ints, held: Ints, next_: Ints, group: Ints, item: Ints) -> int:
    """The items of some groups, in the order of their queues."""
    count = 0
    for k in range(groups.shape[0]):
        place = head[groups[k]]
        for _ in range(length[groups[k]]):
            group[count], item[count] = groups[k], held[place]
            count += 1
            place = next_[place]
    return count


@njit(int64(VECTOR, VECTOR, VECTOR, VECTOR, int64, int64, VECTOR), cache=True, nogil=True)
def lone_rows(number: Ints, net: Ints, time: Ints, count: Ints, total: int, alone: int, out: Ints) -> int:
    """Write the row that lives alone after each entry's instant, or -1 where none does; returns the first entry at
    whose instant more than one lives, or -1."""
    begin = 0
    while begin < number.shape[0]:
        end = begin
        while end < number.shape[0] and time[end] == time[begin]:
            count[number[end]] += net[end]
            total += net[end]
            end += 1
        if total > 1:
            return begin
        if total == 0:
            alone = -1
        for e in range(begin, end):
            if count[number[e]] > 0:
                alone = number[e]
        for e in range(begin, end):
            out[e] = alone
        begin = end
    return -1
