"""The kernel of drop probing: has a partial result a match along a path of stems? It stops at the first (thesis 5.2).

It accepts what the join kernel accepts: the same keys, members and windows. Its plain twin is in the tests. It is
imported only where rows travel in two phases, because nothing else needs it compiled.
"""

from __future__ import annotations

from typing import Final

from numba import int64, njit

from thalweg.execute.kernels.join import (
    ADDS,
    ADDS_END,
    BEGIN,
    BUCKETS,
    CELLS,
    EXPIRIES,
    HASHES,
    LINKS,
    MEMBER,
    PAIRS,
    PAIRS_END,
    RUNS,
    RUNS_END,
    SPAN,
    TABLES,
    WIDTH,
    WORK,
    Tables,
)  # fmt: skip
from thalweg.state.kernels.hashing import bucket_of
from thalweg.state.kernels.layout import (
    COUNTED,
    EXPIRY,
    FALLING,
    FIRST_TIME,
    FOREVER,
    HASHED,
    HEAD,
    LAST_EXPIRY,
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
from thalweg.state.kernels.memory import load32, load64

AT_RUN: Final = 0
AT_WILD: Final = 1
AT_CANDIDATE: Final = 2
PLACE: Final = 3
"""Where the walk stands at each stem of the path, to go on behind a match that led nowhere."""


@njit((MATRIX, VECTOR, TABLES, MATRIX, MATRIX, VECTOR, MATRIX, int64, VECTOR), cache=True, nogil=True)
def probe(
    lines: Ints, chosen: Ints, tables: Tables, rows: Ints, walk: Ints, found: Ints, held: Ints, column: int, tally: Ints
) -> None:
    """Whether each chosen line was `found` to have a match (1) or not (0). With `column` not below 0, the run and the
    candidate of the first match at the first stem go to `held`; BEGIN where wildcards hide the candidate's bucket.
    Work, buckets and hashes are counted as in the join.

    `rows` and `walk` have a line for each stem of the path: what was joined so far, and where the walk stands.
    """
    steps, runs, pairs, adds, _ = tables
    last, width, looked, candidates, hashes = steps.shape[0] - 1, lines.shape[1], 0, 0, 0
    for n in range(chosen.shape[0]):
        i, level = chosen[n], 0
        for c in range(width):
            rows[0, c] = lines[i, c]
        walk[0, AT_RUN], walk[0, AT_WILD], walk[0, AT_CANDIDATE] = steps[0, RUNS], 0, BEGIN
        found[i] = 0
        while level >= 0:
            cells, size, links = steps[level, CELLS], 8 * steps[level, WIDTH], steps[level, LINKS]
            expiries, span, member = steps[level, EXPIRIES], steps[level, SPAN], steps[level, MEMBER]
            pair, pair_end, runs_end = steps[level, PAIRS], steps[level, PAIRS_END], steps[level, RUNS_END]
            newest, expiry = rows[level, NEWEST], rows[level, EXPIRY]
            s, w, r = walk[level, AT_RUN], walk[level, AT_WILD], walk[level, AT_CANDIDATE]
            match, at, end = -1, 0, FOREVER
            while s < runs_end:
                if runs[s, LAST_EXPIRY] >= newest and runs[s, FIRST_TIME] <= expiry:
                    start, chain = runs[s, START], runs[s, NEXT]
                    while match < 0:
                        if r == BEGIN:
                            bucket = bucket_of(rows, level, pairs, pair, pair_end, runs, s)
                            r = load32(links + 4 * (runs[s, HEAD] + (bucket | w)))
                            looked += 1
                            hashes += runs[s, HASHED]
                        while r >= 0:
                            at = cells + size * (start + r)
                            time, end = load64(at + 8 * TIME), FOREVER
                            if span == COUNTED:
                                end = load64(expiries + 8 * (start + r))
                            elif span != FOREVER:
                                end = time + span
                            if end < newest:
                                r = -1 if runs[s, FALLING] == 1 else load32(links + 4 * (chain + r))
                                continue
                            candidates += 1
                            fits = (time <= expiry) & (load64(at + 8 * MEMBERS) & member != 0)
                            for k in range(pair, pair_end):
                                fits &= load64(at + 8 * pairs[k, 1]) == rows[level, pairs[k, 0]]
                            if fits:
                                match = r
                                break
                            r = load32(links + 4 * (chain + r))
                        if match >= 0:
                            break
                        w, r = (w - runs[s, WILD]) & runs[s, WILD], BEGIN
                        if w == 0:
                            break
                if match >= 0:
                    break
                s += 1
                w, r = 0, BEGIN
            if match < 0:
                level -= 1
                continue
            if level == 0 and last == 0 and column >= 0:
                held[i, column], held[i, column + 1] = s - steps[0, RUNS], match if w == 0 else BEGIN
            if level == last:
                found[i] = 1
                break
            walk[level, AT_RUN], walk[level, AT_WILD] = s, w
            walk[level, AT_CANDIDATE] = load32(links + 4 * (runs[s, NEXT] + match))
            level += 1
            for c in range(width):
                rows[level, c] = rows[level - 1, c]
            rows[level, NEWEST] = max(newest, load64(at + 8 * TIME))
            rows[level, EXPIRY] = min(expiry, end)
            for k in range(steps[level - 1, ADDS], steps[level - 1, ADDS_END]):
                rows[level, adds[k, 1]] = load64(at + 8 * adds[k, 0])
            walk[level, AT_RUN], walk[level, AT_WILD], walk[level, AT_CANDIDATE] = steps[level, RUNS], 0, BEGIN
    tally[WORK] += looked + candidates
    tally[BUCKETS] += looked
    tally[HASHES] += hashes
