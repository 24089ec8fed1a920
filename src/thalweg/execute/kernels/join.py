"""The join kernel: partial results through several stems in one call, the only loop over candidates of a join.

It looks up a block of rows together, so their memory accesses overlap; the deepest full block goes first, so an
explosion of results needs no memory. Wildcard walks over bit addresses: AMRI, section 4.1. Its plain twin is in the
tests.

One file and one function: probe, candidates and match are one compiled loop over the same state.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import float64, int64, njit, types

from thalweg.state.kernels.hashing import bucket_of, hash_bucket, mix
from thalweg.state.kernels.index import AHEAD as AHEAD
from thalweg.state.kernels.layout import (
    COUNTED,
    CUBE,
    EXPIRY,
    FALLING,
    FIRST_TIME,
    FOREVER,
    HASH,
    HASHED,
    HEAD,
    KIND,
    LAST_EXPIRY,
    MASK,
    MATRIX,
    MEMBERS,
    NEWEST,
    NEXT,
    START,
    TIME,
    VECTOR,
    WILD,
    Ints,
)  # fmt: skip
from thalweg.state.kernels.memory import copy, load32, load64, prefetch, store64

# Columns of a step's line: the arrays of its stem (by address), its member's view, and its part of the tables.
CELLS: Final = 0
WIDTH: Final = 1
LINKS: Final = 2
EXPIRIES: Final = 3
"""Address of the column of expiries; used where SPAN is COUNTED."""
SPAN: Final = 4
MEMBER: Final = 5
"""The bit that a row must have."""
RUNS: Final = 6
RUNS_END: Final = 7
PAIRS: Final = 8
PAIRS_END: Final = 9
ADDS: Final = 10
ADDS_END: Final = 11
NUMBER: Final = 12
"""The column of a partial result that takes the row number."""
HELD: Final = 13
"""Where drop probing was here before: the column of `held` with the run of the first match; -1 where it was not."""
CARRIER: Final = 14
"""The column of a partial result that says which line of `held` is its own."""
STEP: Final = 15
"""Length of the line."""

# Progress at each step (`stack`): a join stops when its buffer is full and resumes from here.
AT: Final = 0
"""The row of the step's block that is being joined."""
COUNT: Final = 1
"""Rows in the block."""
AT_RUN: Final = 2
AT_WILD: Final = 3
AT_CANDIDATE: Final = 4
MATCHED: Final = 5
STACK: Final = 6

# Progress of the whole join (`cursor`).
AT_ROW: Final = 0
AT_STEP: Final = 1
RECALLED: Final = 2
"""1 once no more rows are started: AT_ROW says how many were, and those are joined to the end."""
SINCE_ROW: Final = 3
SINCE_WORK: Final = 4
"""Row and work at the last check of the limit."""
CURSOR: Final = 5
PACE: Final = 8
"""Work between later checks of the limit, as a multiple of the work before the first."""

# Counts at each step (`tallies`).
ROWS_IN: Final = 0
ROWS_OUT: Final = 1
SURVIVORS: Final = 2
"""Rows in with at least one match."""
WORK: Final = 3
"""Buckets looked up, and unexpired candidates examined: neither depends on when an index was rebuilt."""
BUCKETS: Final = 4
"""Buckets looked up; the rest of the work is candidates."""
HASHES: Final = 5
"""Attributes hashed to look up."""
TALLY: Final = 6

FRESH: Final = -3
"""AT_CANDIDATE of a block that has not been looked up yet."""
BEGIN: Final = -2
"""AT_CANDIDATE of a bucket not looked up yet; -1 is the end of its chain."""


class Tables(NamedTuple):
    """The stems' tables. A step's line points into the others by first and last row."""

    steps: Ints
    runs: Ints
    pairs: Ints
    """Shared keys: column of the partial result, column of the cells."""
    adds: Ints
    """Keys that become known: column of the cells, column of the partial result."""
    held: Ints
    """What drop probing found: for each partial result, and each step that it probed, the run of the first match and
    the candidate there, BEGIN if that is not known."""


class Room(NamedTuple):
    """Buffers of each step for rows between steps."""

    blocks: Ints
    candidates: Ints
    """The first candidate in each run, for each row of a block."""
    living: Ints
    """The rows of a block that have any."""
    stack: Ints
    """Progress of the step."""


TABLES = types.NamedUniTuple(MATRIX, 5, Tables)  # type: ignore[no-untyped-call]
ROOM = types.NamedTuple((CUBE, CUBE, MATRIX, MATRIX), Room)  # type: ignore[no-untyped-call]


NONE_HELD = np.empty((0, 0), np.int64)


@njit(int64(MATRIX, int64, MATRIX, int64, MATRIX, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR), cache=True, nogil=True)
def look_ahead(
    block: Ints,
    count: int,
    steps: Ints,
    step: int,
    runs: Ints,
    pairs: Ints,
    held: Ints,
    candidates: Ints,
    living: Ints,
    tally: Ints,
) -> int:
    """The first candidate of each row of a block in each run. Returns how many rows have any; `living` lists them.

    Looks up all rows and prefetches their candidates, so memory accesses overlap. What drop probing looked up is not
    looked up again: nothing matched before the candidate that it held.
    """
    pair, pair_end, first_run = steps[step, PAIRS], steps[step, PAIRS_END], steps[step, RUNS]
    cells, size, links, runs_end = steps[step, CELLS], 8 * steps[step, WIDTH], steps[step, LINKS], steps[step, RUNS_END]
    looked, wilds, hashes, known, carrier = 0, 0, 0, steps[step, HELD], steps[step, CARRIER]
    for s in range(first_run, runs_end):
        head, mask, since, until = runs[s, HEAD], runs[s, MASK], runs[s, FIRST_TIME], runs[s, LAST_EXPIRY]
        if known >= 0:
            wilds |= runs[s, WILD]
            for j in range(count):
                line = block[j, carrier]
                first, candidate = held[line, known], -1
                if s - first_run == first:
                    candidate = held[line, known + 1]
                if s - first_run > first or candidate == BEGIN:
                    bucket = bucket_of(block, j, pairs, pair, pair_end, runs, s)
                    candidate = load32(links + 4 * (head + bucket))
                    if until >= block[j, NEWEST] and since <= block[j, EXPIRY]:
                        looked += 1
                        hashes += runs[s, HASHED]
                candidates[j, s - first_run] = candidate
        elif runs[s, KIND] != HASH:
            wilds |= runs[s, WILD]
            for j in range(count):
                bucket = bucket_of(block, j, pairs, pair, pair_end, runs, s)
                candidates[j, s - first_run] = load32(links + 4 * (head + bucket))
        elif pair_end - pair == 1:
            column = pairs[pair, 0]
            for j in range(count):
                candidates[j, s - first_run] = load32(links + 4 * (head + (mix(block[j, column]) & mask)))
        elif pair_end - pair == 2:
            column, other = pairs[pair, 0], pairs[pair + 1, 0]
            for j in range(count):
                bucket = mix(mix(block[j, column]) ^ block[j, other]) & mask
                candidates[j, s - first_run] = load32(links + 4 * (head + bucket))
        else:
            for j in range(count):
                bucket = hash_bucket(block, j, pairs, pair, pair_end, mask)
                candidates[j, s - first_run] = load32(links + 4 * (head + bucket))
        if known < 0:
            hashes += runs[s, HASHED] * count
        for j in range(count):
            inside = until >= block[j, NEWEST] and since <= block[j, EXPIRY]
            looked += inside and known < 0
            candidates[j, s - first_run] = candidates[j, s - first_run] if inside else -1
    tally[WORK] += looked
    tally[BUCKETS] += looked
    tally[HASHES] += hashes
    tally[ROWS_IN] += count
    alive = 0
    for j in range(count):
        any_one = wilds
        for s in range(runs_end - first_run):
            any_one |= candidates[j, s] + 1
        living[alive] = j
        alive += any_one != 0
    for s in range(first_run, runs_end):
        start, chain = runs[s, START], runs[s, NEXT]
        for n in range(alive):
            r = candidates[living[n], s - first_run]
            prefetch(cells + size * (start + r))
            prefetch(links + 4 * (chain + r))
    return alive


@njit(int64(MATRIX, TABLES, ROOM, MATRIX, VECTOR, MATRIX, int64, float64), cache=True, nogil=True)
def join(
    partial: Ints, tables: Tables, room: Room, out: Ints, cursor: Ints, tallies: Ints, trust: int, limit: float
) -> int:
    """Take partial results through several stems; write what comes out at the end to `out`.

    Rows go from step to step in small blocks, the deepest full block first. Returns the rows written; done once
    `cursor[AT_STEP]` is -1. If `trust` is not 0, rows are recalled: after that many units of work, and now and then
    later, no further rows are begun if those since the last look took more than `limit` each.
    """
    steps, runs, pairs, adds, held = tables
    blocks, candidates, living, stack = room
    written, most, width, rows, last = 0, out.shape[0], out.shape[1], partial.shape[0], steps.shape[0] - 1
    blocks_at, out_at, size_of_row = np.int64(blocks.ctypes.data), np.int64(out.ctypes.data), 8 * width
    step = cursor[AT_STEP]
    while True:
        if stack[step, AT] == stack[step, COUNT]:
            # This block is done: return to the nearest unfinished one above, else take the next rows, else go below.
            stack[step, AT], stack[step, COUNT] = 0, 0
            above = step - 1
            while above >= 0 and stack[above, AT] == stack[above, COUNT]:
                above -= 1
            if above < 0 < trust:
                spent = tallies[:, WORK].sum() - cursor[SINCE_WORK]
                if spent >= (trust if cursor[SINCE_ROW] == 0 else PACE * trust):
                    if spent > limit * (cursor[AT_ROW] - cursor[SINCE_ROW]) and cursor[AT_ROW] < rows:
                        cursor[RECALLED] = 1
                    cursor[SINCE_ROW] = cursor[AT_ROW]
                    cursor[SINCE_WORK] += spent
            if above >= 0:
                step = above
            elif cursor[AT_ROW] < rows and cursor[RECALLED] == 0:
                step = 0
                count = min(AHEAD, rows - cursor[AT_ROW])
                for j in range(count):
                    for c in range(width):
                        blocks[0, j, c] = partial[cursor[AT_ROW] + j, c]
                cursor[AT_ROW] += count
                stack[0, AT], stack[0, COUNT], stack[0, AT_CANDIDATE] = 0, count, FRESH
            else:
                step = 0
                while step <= last and stack[step, AT] == stack[step, COUNT]:
                    step += 1
                if step > last:
                    cursor[AT_STEP] = -1
                    return written
                stack[step, AT_CANDIDATE] = FRESH
        block = blocks[step]
        if stack[step, AT_CANDIDATE] == FRESH:
            stack[step, COUNT] = look_ahead(
                block, stack[step, COUNT], steps, step, runs, pairs, held, candidates[step], living[step], tallies[step]
            )
            stack[step, AT_CANDIDATE], stack[step, AT_RUN], stack[step, AT_WILD], stack[step, MATCHED] = BEGIN, 0, 0, 0
            if not stack[step, COUNT]:
                continue
        cells, size, links, first_run = (
            steps[step, CELLS],
            8 * steps[step, WIDTH],
            steps[step, LINKS],
            steps[step, RUNS],
        )
        pair, pair_end, add, add_end = (
            steps[step, PAIRS],
            steps[step, PAIRS_END],
            steps[step, ADDS],
            steps[step, ADDS_END],
        )
        number, runs_end = steps[step, NUMBER], steps[step, RUNS_END] - first_run
        expiries, span, member = steps[step, EXPIRIES], steps[step, SPAN], steps[step, MEMBER]
        s, w, r, matched = stack[step, AT_RUN], stack[step, AT_WILD], stack[step, AT_CANDIDATE], stack[step, MATCHED]
        n, count, work, walked, found = stack[step, AT], stack[step, COUNT], 0, 0, 0
        filled = stack[step + 1, COUNT] if step < last else 0
        block_at = blocks_at + AHEAD * size_of_row * step
        next_at = block_at + AHEAD * size_of_row
        full = False
        while n < count:
            j = living[step, n]
            known = block_at + size_of_row * j
            newest, expiry = block[j, NEWEST], block[j, EXPIRY]
            keyless, key_at, key = pair == pair_end, 0, 0
            if not keyless:
                key_at, key = 8 * pairs[pair, 1], load64(known + 8 * pairs[pair, 0])
            while s < runs_end:
                run = first_run + s
                if runs[run, LAST_EXPIRY] >= newest and runs[run, FIRST_TIME] <= expiry:
                    start, head, chain, wild = runs[run, START], runs[run, HEAD], runs[run, NEXT], runs[run, WILD]
                    falling, bucket = runs[run, FALLING] == 1, -1
                    while True:
                        if r == BEGIN:
                            if w == 0:
                                r = candidates[step, j, s]
                            else:
                                walked += 1
                                if bucket < 0:
                                    bucket = bucket_of(block, j, pairs, pair, pair_end, runs, run)
                                r = load32(links + 4 * (head + (bucket | w)))
                        while r >= 0:
                            row, following = cells + size * (start + r), load32(links + 4 * (chain + r))
                            prefetch(cells + size * (start + following))
                            time = load64(row + 8 * TIME)
                            end = FOREVER
                            if span == COUNTED:
                                end = load64(expiries + 8 * (start + r))
                            elif span != FOREVER:
                                end = time + span
                            if end < newest:
                                if falling:
                                    r = -1
                                    break
                                r = following
                                continue
                            fits = (time <= expiry) & (load64(row + 8 * MEMBERS) & member != 0)
                            fits &= keyless | (load64(row + key_at) == key)
                            for k in range(pair + 1, pair_end):
                                if not fits:
                                    break
                                fits = load64(row + 8 * pairs[k, 1]) == load64(known + 8 * pairs[k, 0])
                            if fits:
                                if step == last:
                                    full = written == most
                                    if full:
                                        break
                                    target = out_at + size_of_row * written
                                    written += 1
                                else:
                                    target = next_at + size_of_row * filled
                                    filled += 1
                                copy(target, known, width)
                                store64(target + 8 * NEWEST, max(newest, time))
                                store64(target + 8 * EXPIRY, min(expiry, end))
                                for k in range(add, add_end):
                                    store64(target + 8 * adds[k, 1], load64(row + 8 * adds[k, 0]))
                                store64(target + 8 * number, start + r)
                                matched = 1
                                found += 1
                            work += 1
                            r = following
                            if filled == AHEAD:
                                full = True
                                break
                        if full:
                            break
                        r = BEGIN
                        w = (w - wild) & wild
                        if w == 0:
                            break
                if full:
                    break
                s += 1
                w, r = 0, BEGIN
            if full:
                break
            tallies[step, SURVIVORS] += matched
            n += 1
            s, w, r, matched = 0, 0, BEGIN, 0
        tallies[step, WORK] += work + walked
        tallies[step, BUCKETS] += walked
        tallies[step, ROWS_OUT] += found
        stack[step, AT], stack[step, AT_RUN], stack[step, AT_WILD] = n, s, w
        stack[step, AT_CANDIDATE], stack[step, MATCHED] = r, matched
        if step == last:
            if full:
                cursor[AT_STEP] = step
                return written
            continue
        stack[step + 1, COUNT] = filled
        if full:
            step += 1
            stack[step, AT], stack[step, AT_CANDIDATE] = 0, FRESH
