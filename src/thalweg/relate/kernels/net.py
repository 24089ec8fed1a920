"""Net changes: events of one row at one instant become one entry.

Events come in the order of their times; entries are in the order of their first events, so they are too, and do not
depend on how rows are numbered.
"""

from __future__ import annotations

from numba import int64, njit

from thalweg.state.kernels.layout import READ_VECTOR, VECTOR, Ints


@njit(int64(VECTOR, READ_VECTOR, READ_VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def net_events(
    numbers: Ints, times: Ints, signs: Ints, place: Ints, entry: Ints, first: Ints, number: Ints, net: Ints
) -> int:
    """Write each event's entry, and of each entry its first event, its row and its net sign; returns their count.

    `place` is room for one value a row; what it holds before is never trusted.
    """
    count = 0
    for e in range(numbers.shape[0]):
        row = numbers[e]
        at = place[row]
        if at < 0 or at >= count or number[at] != row or times[first[at]] != times[e]:
            at = count
            count += 1
            place[row], number[at], first[at], net[at] = at, row, e, 0
        net[at] += signs[e]
        entry[e] = at
    return count


@njit(int64(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), cache=True, nogil=True)
def chain_entries(number: Ints, place: Ints, touched: Ints, old: Ints, last: Ints) -> int:
    """Versions of rows: the first ones are those before the step, by first touch; then one for each entry.

    Writes the touched rows, the version before each entry, and the last version of each touched row.
    """
    count, entries = 0, number.shape[0]
    for e in range(entries):
        row = number[e]
        at = place[row]
        if at < 0 or at >= count or touched[at] != row:
            place[row], touched[count] = count, row
            count += 1
    for k in range(count):
        last[k] = k
    for e in range(entries):
        at = place[number[e]]
        old[e] = last[at]
        last[at] = count + e
    return count
