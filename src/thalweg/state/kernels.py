"""Numba kernels: arrays in, arrays out; the only loops over single tuples in the engine.

A partial result is one row of int64: newest time, first expiry, a value per key class, a row number per input. A stored
tuple is one row of `cells`: time, expiry (not before it), key values. An index is a block of `links`: bucket heads,
then for each row the next one of the same bucket, newest first. Invariant: a candidate is accepted iff all shared keys
are equal and newest time <= first expiry, so colliding buckets cost time, never correctness. Wildcard walks: AMRI,
section 4.1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import float64, int32, int64, njit, types, uint8
from numba.extending import intrinsic
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Links = NDArray[np.int32]
Bytes = NDArray[np.uint8]

NEWEST: Final = 0
"""Column of a partial result or stored tuple: the newest time in it."""
EXPIRY: Final = 1
"""Column: the last moment at which all of it is still inside its windows."""
KEYS: Final = 2
"""First column of key values."""

# Columns of a run's line in the table of runs that a probe gets.
START: Final = 0
HEAD: Final = 1
NEXT: Final = 2
MASK: Final = 3
"""Hash layout: buckets less one, or -1 less the buckets where only some of the probe's attributes are hashed.
Bit-address layout: -1."""
WILD: Final = 4
"""Bit-address layout: the bits of the attributes that the probe does not know."""
FIRST_TIME: Final = 5
LAST_EXPIRY: Final = 6
FALLING: Final = 7
"""1 where expiries only fall along a chain, so that a walk ends at the first candidate that has expired."""
HASHED: Final = 8
"""Attributes of a probe that are hashed."""
BITS: Final = 9
"""First of the pairs (bits, place) of each attribute that the probe knows; in a hash layout the first is 1 where the
attribute is hashed."""

# Columns of a step's line: the arrays of its stem (by address), and its part of the tables of runs, pairs and adds.
CELLS: Final = 0
WIDTH: Final = 1
LINKS: Final = 2
RUNS: Final = 3
RUNS_END: Final = 4
PAIRS: Final = 5
PAIRS_END: Final = 6
ADDS: Final = 7
ADDS_END: Final = 8
NUMBER: Final = 9
"""The column of a partial result that takes the row number."""
STEP: Final = 10
"""Length of the line."""

# Where a join stands at each step (`stack`): it stops when its buffer is full and goes on from here.
AT: Final = 0
"""The row of the step's block that is being joined."""
COUNT: Final = 1
"""Rows in the block."""
AT_RUN: Final = 2
AT_WILD: Final = 3
AT_CANDIDATE: Final = 4
MATCHED: Final = 5
STACK: Final = 6

SLOT_BITS: Final = 10
"""A scan keeps the keys that it looks for in so many slots, as a power of 2: far more than keys, so that most rows stored
meet none."""
AHEAD: Final = 64
"""Rows of a block. They are looked up together, so that the memory answers for many at once."""

# Where it stands as a whole (`cursor`).
AT_ROW: Final = 0
AT_STEP: Final = 1
RECALLED: Final = 2
"""1 once no further rows are begun: AT_ROW says how many were, and these are joined to the end."""
SINCE_ROW: Final = 3
SINCE_WORK: Final = 4
"""Where work was last held against the limit."""
CURSOR: Final = 5
PACE: Final = 8
"""How many times as much work as at first goes by between looks at the limit."""

# What it has met at each step (`tallies`).
ROWS_IN: Final = 0
ROWS_OUT: Final = 1
SURVIVORS: Final = 2
"""Rows in with at least one match."""
WORK: Final = 3
"""Buckets looked up and candidates examined."""
BUCKETS: Final = 4
"""Those looked up; the rest of the work are candidates."""
HASHES: Final = 5
"""Attributes hashed to look up."""
TALLY: Final = 6

FRESH: Final = -3
"""AT_CANDIDATE of a block not looked ahead for yet."""
BEGIN: Final = -2
"""AT_CANDIDATE of a bucket not looked up yet; -1 is the end of its chain."""

FELL: Final = -(1 << 63) + 1
"""What `extend` returns where expiries do not only rise."""

_cube = int64[:, :, ::1]
_matrix = int64[:, ::1]
_vector = int64[::1]
_links = int32[::1]
# Buffers that came in a message must not be written to, and NumPy says so of arrays over them.
_read_bytes = types.Array(uint8, 1, "C", readonly=True)
_read_vector = types.Array(int64, 1, "C", readonly=True)


@njit((_read_vector, _read_vector, _matrix, _vector, int64, _matrix), cache=True, nogil=True)
def lay_out(times: Ints, expiries: Ints, codes: Ints, columns: Ints, number: int, partial: Ints) -> None:
    """Write tuples as partial results of one tuple each: `codes[k]` to `columns[k]`, row numbers to `number`."""
    for row in range(partial.shape[0]):
        partial[row, NEWEST], partial[row, EXPIRY], partial[row, number] = times[row], expiries[row], row
        for k in range(columns.shape[0]):
            partial[row, columns[k]] = codes[k, row]


@njit(_matrix(_matrix, _vector), cache=True, nogil=True)
def narrowed(rows: Ints, columns: Ints) -> Ints:
    """Some columns."""
    out = np.empty((rows.shape[0], columns.shape[0]), np.int64)
    for row in range(rows.shape[0]):
        for k in range(columns.shape[0]):
            out[row, k] = rows[row, columns[k]]
    return out


@njit(types.UniTuple(int64, 3)(_matrix, int64, int64), cache=True, nogil=True)  # type: ignore[no-untyped-call]
def bounds(cells: Ints, always: int, forever: int) -> tuple[int, int, int]:
    """The first time, the last expiry that is known, and how many are not."""
    first, last, unknown = forever, always, 0
    for row in range(cells.shape[0]):
        first = min(first, cells[row, NEWEST])
        known = cells[row, EXPIRY] < forever
        unknown += not known
        last = max(last, cells[row, EXPIRY]) if known else last
    return first, last, unknown


@njit(inline="always")
def mix(key: int) -> int:
    """Spread a key over 64 bits; a bijection."""
    h = key * -7046029254386353131
    h ^= (h >> 32) & 0xFFFFFFFF
    h *= -4658895280553007687
    return h ^ ((h >> 29) & 0x7FFFFFFFF)


@njit(inline="always")
def hash_keys(rows: Ints, row: int, pairs: Ints, side: int) -> int:
    """The hash of several keys of one row; `pairs[:, side]` are their columns."""
    h = 0
    for k in range(pairs.shape[0]):
        h = mix(h ^ rows[row, pairs[k, side]])
    return h


@njit(inline="always")
def same_keys(partial: Ints, i: int, cells: Ints, row: int, pairs: Ints) -> bool:
    """Whether a stored tuple has all the keys that a partial result knows of it."""
    k = 0
    while k < pairs.shape[0] and cells[row, pairs[k, 1]] == partial[i, pairs[k, 0]]:
        k += 1
    return bool(k == pairs.shape[0])


@njit(inline="always")
def address(key: int, bits: int, place: int) -> int:
    """The bits that one attribute gives to a bucket's number."""
    if bits == 0:
        return 0
    return ((mix(key) >> (64 - bits)) & ((1 << bits) - 1)) << place


@njit(inline="always")
def bucket_of(partial: Ints, row: int, pairs: Ints, runs: Ints, s: int, hashed: int) -> int:
    """The bucket of a probe in one run, with zeros for attributes it does not know."""
    if runs[s, MASK] >= 0:
        return int(hashed & runs[s, MASK])
    if runs[s, MASK] < -1:
        h = 0
        for k in range(pairs.shape[0]):
            if runs[s, BITS + 2 * k] != 0:
                h = mix(h ^ partial[row, pairs[k, 0]])
        return int(h & (-2 - runs[s, MASK]))
    bucket = 0
    for k in range(pairs.shape[0]):
        bucket |= address(partial[row, pairs[k, 0]], runs[s, BITS + 2 * k], runs[s, BITS + 2 * k + 1])
    return bucket


def _loads(bits: int) -> Any:
    """Reads the integer of so many bits at an address: a list of arrays of any length is nothing that Numba compiles well."""

    def load(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            return loaded if bits == 64 else builder.sext(loaded, ir.IntType(64))

        return int64(int64), generate

    return intrinsic(load)


def _stores(context: Any, address: Any, value: Any) -> Any:
    """Writes an integer to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(int64, int64), generate


def _copies(context: Any, target: Any, source: Any) -> Any:
    """Copies two integers from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source = (builder.inttoptr(a, ir.VectorType(ir.IntType(64), 2).as_pointer()) for a in arguments)
        builder.store(builder.load(source, align=8), target, align=8)
        return context.get_dummy_value()

    return types.void(int64, int64), generate


def _ask_for(context: Any, address: Any) -> Any:
    """Asks the memory for what is at an address and does not wait for it. Any address will do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        read, near, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, near, data])
        return context.get_dummy_value()

    return types.void(int64), generate


_load64 = _loads(64)
_load32 = _loads(32)
_store64: Any = intrinsic(_stores)
_copy_two: Any = intrinsic(_copies)
_prefetch: Any = intrinsic(_ask_for)


@njit(inline="always")
def _copy(target: int, source: int, width: int) -> None:
    """Copy a row of so many integers. By address: indices of an array may be negative, and would be asked about each time."""
    for c in range(0, width - 1, 2):
        _copy_two(target + 8 * c, source + 8 * c)
    if width & 1:
        _store64(target + 8 * (width - 1), _load64(source + 8 * (width - 1)))


@njit(inline="always")
def _bucket(rows: Ints, row: int, pairs: Ints, pair: int, pair_end: int, mask: int) -> int:
    """The bucket of a row's keys in a hash index; `pairs[pair:pair_end, 0]` are their columns."""
    h = 0
    for k in range(pair, pair_end):
        h = mix(h ^ rows[row, pairs[k, 0]])
    return h & mask


@njit(inline="always")
def _wild_bucket(rows: Ints, row: int, pairs: Ints, pair: int, pair_end: int, runs: Ints, s: int) -> int:
    """The same in a hash index over some of these keys, or in a bit-address index, with zeros for attributes that the
    row does not know."""
    bucket = 0
    if runs[s, MASK] < -1:
        for k in range(pair, pair_end):
            if runs[s, BITS + 2 * (k - pair)] != 0:
                bucket = mix(bucket ^ rows[row, pairs[k, 0]])
        return int(bucket & (-2 - runs[s, MASK]))
    for k in range(pair, pair_end):
        at = BITS + 2 * (k - pair)
        bucket |= address(rows[row, pairs[k, 0]], runs[s, at], runs[s, at + 1])
    return bucket


@njit(int64(_matrix, int64, _matrix, int64, _matrix, _matrix, _matrix, _vector, _vector), cache=True, nogil=True)
def look_ahead(
    block: Ints,
    count: int,
    steps: Ints,
    step: int,
    runs: Ints,
    pairs: Ints,
    candidates: Ints,
    living: Ints,
    tally: Ints,
) -> int:
    """The first candidate of each row of a block in each run. Returns how many rows have any; `living` lists them.

    Rows are looked up together, and candidates asked for, so that the memory answers for many at once.
    """
    pair, pair_end, first_run = steps[step, PAIRS], steps[step, PAIRS_END], steps[step, RUNS]
    cells, size, links, runs_end = steps[step, CELLS], 8 * steps[step, WIDTH], steps[step, LINKS], steps[step, RUNS_END]
    looked, wilds, hashes = 0, 0, 0
    for s in range(first_run, runs_end):
        head, mask, since, until = runs[s, HEAD], runs[s, MASK], runs[s, FIRST_TIME], runs[s, LAST_EXPIRY]
        if mask < 0:
            wilds |= runs[s, WILD]
            for j in range(count):
                bucket = _wild_bucket(block, j, pairs, pair, pair_end, runs, s)
                candidates[j, s - first_run] = _load32(links + 4 * (head + bucket))
        elif pair_end - pair == 1:
            column = pairs[pair, 0]
            for j in range(count):
                candidates[j, s - first_run] = _load32(links + 4 * (head + (mix(block[j, column]) & mask)))
        elif pair_end - pair == 2:
            column, other = pairs[pair, 0], pairs[pair + 1, 0]
            for j in range(count):
                bucket = mix(mix(block[j, column]) ^ block[j, other]) & mask
                candidates[j, s - first_run] = _load32(links + 4 * (head + bucket))
        else:
            for j in range(count):
                bucket = _bucket(block, j, pairs, pair, pair_end, mask)
                candidates[j, s - first_run] = _load32(links + 4 * (head + bucket))
        hashes += runs[s, HASHED]
        for j in range(count):
            inside = until >= block[j, NEWEST] and since <= block[j, EXPIRY]
            looked += inside
            candidates[j, s - first_run] = candidates[j, s - first_run] if inside else -1
    tally[WORK] += looked
    tally[BUCKETS] += looked
    tally[HASHES] += hashes * count
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
            _prefetch(cells + size * (start + r))
            _prefetch(links + 4 * (chain + r))
    return alive


@njit(
    int64(_matrix, _matrix, _matrix, _matrix, _matrix, _matrix, _vector, _cube, _cube, _matrix, _matrix, _matrix, int64, float64),
    cache=True, nogil=True,
)  # fmt: skip
def join(
    partial: Ints, steps: Ints, runs: Ints, pairs: Ints, adds: Ints, out: Ints, cursor: Ints, blocks: Ints,
    candidates: Ints, living: Ints, stack: Ints, tallies: Ints, trust: int, limit: float,
) -> int:  # fmt: skip
    """Take partial results through several stems; write what comes out at the end to `out`.

    Rows go from step to step in small blocks (`blocks`), the deepest full block first. `pairs` are shared keys (column
    of partial, column of cells), `adds` keys that become known (column of cells, column of partial). Returns the rows
    written; done once `cursor[AT_STEP]` is -1. If `trust` is not 0, rows are recalled: once so many units of work are
    done, and now and then after it, no further ones are begun if those since the last look took more than `limit` each.
    """
    written, room, width, rows, last = 0, out.shape[0], out.shape[1], partial.shape[0], steps.shape[0] - 1
    blocks_at, out_at, size_of_row = np.int64(blocks.ctypes.data), np.int64(out.ctypes.data), 8 * width
    step = cursor[AT_STEP]
    while True:
        if stack[step, AT] == stack[step, COUNT]:
            # This block is done: back to the nearest one above that is not, else to the next rows, else to what is below.
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
                block, stack[step, COUNT], steps, step, runs, pairs, candidates[step], living[step], tallies[step]
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
                                    bucket = _wild_bucket(block, j, pairs, pair, pair_end, runs, run)
                                r = _load32(links + 4 * (head + (bucket | w)))
                        while r >= 0:
                            row, following = cells + size * (start + r), _load32(links + 4 * (chain + r))
                            _prefetch(cells + size * (start + following))
                            end = _load64(row + 8 * EXPIRY)
                            if end < newest and falling:
                                r = -1
                                break
                            time = _load64(row + 8 * NEWEST)
                            fits = end >= newest and time <= expiry
                            for k in range(pair, pair_end):
                                if not fits:
                                    break
                                fits = _load64(row + 8 * pairs[k, 1]) == _load64(known + 8 * pairs[k, 0])
                            if fits:
                                if step == last:
                                    full = written == room
                                    if full:
                                        break
                                    target = out_at + size_of_row * written
                                    written += 1
                                else:
                                    target = next_at + size_of_row * filled
                                    filled += 1
                                _copy(target, known, width)
                                _store64(target + 8 * NEWEST, max(newest, time))
                                _store64(target + 8 * EXPIRY, min(expiry, end))
                                for k in range(add, add_end):
                                    _store64(target + 8 * adds[k, 1], _load64(row + 8 * adds[k, 0]))
                                _store64(target + 8 * number, start + r)
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


@njit(int64(_matrix, _matrix, _links, _matrix, _matrix, int64, _vector), cache=True, nogil=True)
def count(
    partial: Ints, cells: Ints, links: Links, runs: Ints, pairs: Ints,
    budget: int, matches: Ints,
) -> int:  # fmt: skip
    """Matches of each partial result, nothing written. Stops after the row that brings the work to `budget`.

    Rows not tried get -1. Returns the work done.
    """
    work = 0
    for i in range(partial.shape[0]):
        if work >= budget:
            matches[i] = -1
            continue
        newest, expiry = partial[i, NEWEST], partial[i, EXPIRY]
        hashed = hash_keys(partial, i, pairs, 0)
        found = 0
        for s in range(runs.shape[0]):
            if runs[s, LAST_EXPIRY] < newest or runs[s, FIRST_TIME] > expiry:
                continue
            start, head, chain, wild = runs[s, START], runs[s, HEAD], runs[s, NEXT], runs[s, WILD]
            falling = runs[s, FALLING] == 1
            bucket = bucket_of(partial, i, pairs, runs, s, hashed)
            w = 0
            while True:
                work += 1
                r = links[head + (bucket | w)]
                while r >= 0:
                    row = start + r
                    if cells[row, EXPIRY] < newest and falling:
                        break
                    work += 1
                    if max(newest, cells[row, NEWEST]) <= min(expiry, cells[row, EXPIRY]):
                        found += same_keys(partial, i, cells, row, pairs)
                    r = links[chain + r]
                w = (w - wild) & wild
                if w == 0:
                    break
        matches[i] = found
    return work


@njit(inline="always")
def _slot(key: int) -> np.uint64:
    """Where a scan keeps a key. A lighter hash than that of an index: it is worked out for every row stored."""
    return (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - SLOT_BITS)


@njit(int64(_matrix, _matrix, _matrix, _matrix, int64, _vector), cache=True, nogil=True)
def scan(partial: Ints, cells: Ints, blocks: Ints, pairs: Ints, budget: int, matches: Ints) -> int:
    """As `count`, without an index: looks once through the rows from `blocks[k, 0]` to `blocks[k, 1]`, for one key or more.

    Returns how many rows have the keys of a partial result and had not expired when it came, one for each pair of them; -1
    if more than `budget` pairs had to be compared, and then `matches` means nothing.
    """
    heads = np.full(1 << SLOT_BITS, -1, np.int64)
    chain = np.empty(partial.shape[0], np.int64)
    known, stored = pairs[0, 0], pairs[0, 1]
    for i in range(partial.shape[0]):
        slot = _slot(partial[i, known])
        chain[i], heads[slot], matches[i] = heads[slot], i, 0
    met, compared = 0, 0
    for b in range(blocks.shape[0]):
        for row in range(blocks[b, 0], blocks[b, 1]):
            i = heads[_slot(cells[np.uint64(row), np.uint64(stored)])]
            while i >= 0:
                compared += 1
                if compared > budget:
                    return -1
                if cells[row, EXPIRY] >= partial[i, NEWEST] and same_keys(partial, i, cells, row, pairs):
                    met += 1
                    matches[i] += max(partial[i, NEWEST], cells[row, NEWEST]) <= min(
                        partial[i, EXPIRY], cells[row, EXPIRY]
                    )
                i = chain[i]
    return met


@njit(int64(_matrix, _links, int64, int64, int64, int64, int64, int64, _matrix, int64), cache=True, nogil=True)
def extend_hash(
    cells: Ints, links: Links, start: int, first: int, last: int, head: int, chain: int, mask: int, pairs: Ints,
    latest: int,
) -> int:  # fmt: skip
    """Enter rows first..last, counted from `start`, in a hash index on the columns `pairs[:, 1]`.

    Returns the latest expiry entered, or FELL if expiries did not only rise from `latest` on. Buckets of many rows are
    worked out before any is entered, so that the memory answers for many at once.
    """
    buckets = np.empty(AHEAD, np.int64)
    for begin in range(first, last, AHEAD):
        count = min(AHEAD, last - begin)
        if pairs.shape[0] == 1:
            for j in range(count):
                buckets[j] = head + (mix(cells[start + begin + j, pairs[0, 1]]) & mask)
        else:
            for j in range(count):
                buckets[j] = head + (hash_keys(cells, start + begin + j, pairs, 1) & mask)
        for j in range(count):
            r = begin + j
            links[chain + r] = links[buckets[j]]
            links[buckets[j]] = r
            latest = cells[start + r, EXPIRY] if cells[start + r, EXPIRY] >= latest and latest != FELL else FELL
    return latest


@njit(int64(_matrix, _links, int64, int64, int64, int64, int64, _vector, int64), cache=True, nogil=True)
def extend_bits(
    cells: Ints, links: Links, start: int, first: int, last: int, head: int, chain: int, bits: Ints, latest: int
) -> int:
    """The same for a bit-address index: `bits[k]` bits of attribute k, the first attribute's highest."""
    for r in range(first, last):
        bucket, place = 0, 0
        for k in range(bits.shape[0] - 1, -1, -1):
            bucket |= address(cells[start + r, KEYS + k], bits[k], place)
            place += bits[k]
        links[chain + r] = links[head + bucket]
        links[head + bucket] = r
        latest = cells[start + r, EXPIRY] if cells[start + r, EXPIRY] >= latest and latest != FELL else FELL
    return latest


@njit((_links, int64, int64, int64, int64), cache=True, nogil=True)
def slide(links: Links, head: int, heads: int, rows: int, first: int) -> None:
    """Count the rows of an index from its row `first` on: what leads to an earlier one ends there. `rows` are left."""
    for h in range(head, head + heads):
        links[h] = max(links[h] - first, -1)
    chain = head + heads
    for r in range(chain, chain + rows):
        links[r] = max(links[r + first] - first, -1)


@njit((_matrix, _vector, _matrix), cache=True, nogil=True)
def agreement(keys: Ints, sizes: Ints, agree: Ints) -> None:
    """For each column of keys and 0 to agree.shape[1] - 1 bits of their hashes, how many ordered pairs of rows agree.

    `sizes` is room for a count of each value of the most bits.
    """
    fine = agree.shape[1] - 1
    for k in range(keys.shape[1]):
        sizes[:] = 0
        for row in range(keys.shape[0]):
            sizes[(mix(keys[row, k]) >> (64 - fine)) & ((1 << fine) - 1)] += 1
        for b in range(fine, -1, -1):
            pairs = 0
            for v in range(1 << b):
                pairs += sizes[v] * (sizes[v] - 1)
            agree[k, b] = pairs
            for v in range(1 << b >> 1):
                sizes[v] = sizes[2 * v] + sizes[2 * v + 1]


@njit((_read_bytes, _read_vector, _vector), cache=True, nogil=True)
def hash_bytes(data: Bytes, offsets: Ints, out: Ints) -> None:
    """A 64-bit hash of each byte string `data[offsets[i]:offsets[i + 1]]`, eight bytes at a time."""
    for i in range(out.shape[0]):
        at, end = offsets[i], offsets[i + 1]
        h = end - at
        while at < end:
            word = 0
            for b in range(min(8, end - at)):
                word |= int64(data[at + b]) << (8 * b)
            h = mix(h ^ word)
            at += 8
        out[i] = h
