"""Kernels for rows of several routes: sort them by route or by next operator, count by route, join them in one call.

Each has a NumPy twin in the tests. `join` does the work at a stem; `drive` only assigns rows to steps. `drive` is
compiled with `join` and `gather` inside: when one of them changes, change this file too, or a cached `drive` runs the
old one.

Many parameters: a compiled kernel takes arrays, not objects.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import float64, int8, int16, int32, int64, njit, types
from numpy.typing import NDArray

from thalweg.execute.kernels.gather import LINE, gather
from thalweg.execute.kernels.join import AT_STEP, ROOM, ROWS_IN, ROWS_OUT, TABLES, WORK, Room, Tables, join
from thalweg.state.kernels.layout import CUBE, MATRIX, VECTOR

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]

AT_ROUTE: Final = 0
"""Progress of a drive: the route whose rows are being joined, or the number of routes once it is done."""
UNDER_WAY: Final = 1
"""1 once that route has begun."""
AT_RESULT: Final = 2
"""Results on the sheet, where they go to one."""
PLACE: Final = 3
NO_LINES = np.empty((0, LINE), np.int64)
"""Instead of the lines of a sheet: partial results stay in the buffer."""

GONE: Final = 0
PASSED: Final = 1
WAVED: Final = 2
"""Fates of a row at a place of its route: dropped, passed, or passed untried."""

_fates = int8[::1]
_read_ids = types.Array(int32, 1, "C", readonly=True)
_sorted = types.Tuple((VECTOR, VECTOR))  # type: ignore[no-untyped-call]


@njit(_sorted(_read_ids, int64), cache=True, nogil=True)
def by_route(ids: Ids, routes: int) -> tuple[Ints, Ints]:
    """The rows sorted by route, otherwise in order, and the bounds of each route."""
    ends = np.zeros(routes + 1, np.int64)
    for row in range(ids.shape[0]):
        ends[ids[row] + 1] += 1
    for r in range(routes):
        ends[r + 1] += ends[r]
    at, order = ends[:-1].copy(), np.empty(ids.shape[0], np.int64)
    for row in range(ids.shape[0]):
        order[at[ids[row]]] = row
        at[ids[row]] += 1
    return order, ends


@njit(_sorted(VECTOR, _read_ids, MATRIX, int64, int64), cache=True, nogil=True)
def by_operator(rows: Ints, ids: Ids, operators: Ints, place: int, count: int) -> tuple[Ints, Ints]:
    """Rows sorted by the operator at a place of their route, and the bounds of each operator; rows whose route has none
    there (-1) come last."""
    ends, due = np.zeros(count + 2, np.int64), np.empty(rows.shape[0], np.int64)
    for k in range(rows.shape[0]):
        op = operators[ids[rows[k]], place]
        due[k] = op if op >= 0 else count
        ends[due[k] + 1] += 1
    for op in range(count + 1):
        ends[op + 1] += ends[op]
    at, order = ends[:-1].copy(), np.empty(rows.shape[0], np.int64)
    for k in range(rows.shape[0]):
        order[at[due[k]]] = rows[k]
        at[due[k]] += 1
    return order, ends


@njit((VECTOR, _fates, _read_ids, MATRIX, int64, VECTOR, CUBE, int16[::1]), cache=True, nogil=True)
def tally(
    rows: Ints, fates: NDArray[np.int8], ids: Ids, operators: Ints, place: int, weights: Ints, counts: Ints,
    dropped: NDArray[np.int16],
) -> None:  # fmt: skip
    """Count rows in, rows out and work of the operators at one place, by route; untried rows do not count.

    A row counts `weights[row]` times, if given, but costs work only once. `dropped`, if given, receives the operator
    that dropped each row.
    """
    weighted, traced = weights.shape[0] > 0, dropped.shape[0] > 0
    for k in range(rows.shape[0]):
        row = rows[k]
        if fates[row] == WAVED:
            continue
        route = ids[row]
        op, weight = operators[route, place], weights[row] if weighted else 1
        counts[route, op, ROWS_IN] += weight
        counts[route, op, WORK] += 1
        if fates[row] == GONE:
            if traced:
                dropped[row] = op
        else:
            counts[route, op, ROWS_OUT] += weight


class Progress(NamedTuple):
    """Progress of a drive."""

    place: Ints
    bounds: Ints
    """The bounds of each route in the output."""
    cursors: Ints
    """Each route's progress in its join."""
    tallies: Ints
    """Counts of each step."""


PROGRESS = types.NamedTuple((VECTOR, VECTOR, MATRIX, MATRIX), Progress)  # type: ignore[no-untyped-call]


@njit(
    int64(MATRIX, VECTOR, VECTOR, TABLES, ROOM, MATRIX, PROGRESS, int64, float64, MATRIX, int64),
    cache=True, nogil=True,
)  # fmt: skip
def drive(
    partial: Ints, ends: Ints, firsts: Ints, tables: Tables, buffers: Room, out: Ints, progress: Progress, trust: int,
    limit: float, lines: Ints, most: int,
) -> int:  # fmt: skip
    """Take the rows of all routes through their stems, route by route: rows `ends[r]` to `ends[r + 1]` through steps
    `firsts[r]` to `firsts[r + 1]`. The rest is as in `join`.

    Returns the rows written; those of route r are `bounds[r]` to `bounds[r + 1]`. Done once `place[AT_ROUTE]` is the
    number of routes; until then `out` was full. With `lines`, what comes out are results: their columns go to a sheet of
    `most` rows, from `place[AT_RESULT]` on, and `out` only holds those on their way there.
    """
    steps, runs, pairs, adds, held = tables
    place, bounds, cursors, tallies = progress
    routes, room, written, sheet = ends.shape[0] - 1, out.shape[0], 0, lines.shape[0] > 0
    route = place[AT_ROUTE]
    bounds[: route + 1] = 0
    while route < routes:
        rows, first, last = ends[route + 1] - ends[route], firsts[route], firsts[route + 1]
        if rows > 0 and last > first:
            until = min(room, most - place[AT_RESULT]) if sheet else room
            if written == until:
                break
            if place[UNDER_WAY] == 0:
                buffers.stack[:, :] = 0
                place[UNDER_WAY] = 1
            found = join(
                partial[ends[route] : ends[route + 1]], Tables(steps[first:last], runs, pairs, adds, held), buffers,
                out[written:until], cursors[route], tallies[first:last], trust, limit,
            )  # fmt: skip
            if sheet:
                gather(out[:found], lines, place[AT_RESULT])
                place[AT_RESULT] += found
            else:
                written += found
            if cursors[route, AT_STEP] >= 0:
                if sheet:
                    continue
                break
        place[UNDER_WAY] = 0
        route += 1
        bounds[route] = written
    bounds[route + 1 :] = written
    place[AT_ROUTE] = route
    return written
