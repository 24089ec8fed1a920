"""What came of a batch: per ruster and operator the rows in, the rows out and the cost; pass bits where asked.

Produced by the fabric, read by policies; the only thing a policy ever learns about the data besides the batch itself.
Where a ruster has several routes, its visits are totals over all of them, and `counts` tells them apart as one array,
so that a policy with many classes needs no loop over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.plan import Route, Ruster

PASSED, DROPPED, UNTRIED = np.int8(1), np.int8(0), np.int8(-1)

ROWS_IN, ROWS_OUT, SURVIVORS, WORK, BUCKETS, HASHES, COUNTED = range(7)
"""What `Journey.counts` counts, as in `Visit`: its last axis. Filters count no survivors, buckets or hashes."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One operator visited by one ruster."""

    operator: int
    rows_in: int
    """Rows that came to the operator on their way."""
    rows_out: int
    """Rows that left it; more than came in where a stem has several matches."""
    seconds: float
    """Cost of the rows that came in on their way."""
    extra: int = 0
    """Further rows, already dropped, that were tried only to profile."""
    extra_seconds: float = 0.0
    survivors: int | None = None
    """Stems: how many of the rows in had at least one match. None where that equals rows_out."""
    work: float = 0.0
    """Noise-free cost of the visit: predicate calls, or buckets looked up and candidates examined."""
    buckets: int = 0
    """Stems: buckets looked up, of that."""
    hashes: int = 0
    """Stems: attributes hashed to look up."""
    judging: float = 0.0
    """Stems: seconds of predicates between inputs that were due behind it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A stem that partial results were counted against, only to profile: nothing was joined."""

    visited: frozenset[int]
    """Operators that had been visited before."""
    operator: int
    rows: int
    """Partial results tried."""
    matches: int
    survivors: int
    """How many of them had at least one match."""
    work: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Probe:
    """A logical filter that partial results met in drop probing (thesis 5.2): a stem, or the path to it."""

    operator: int
    """The stem at the end of the path."""
    rows: int
    """Partial results that came to it on their way."""
    survivors: int
    """How many of them had a match."""
    work: float
    """Buckets looked up and candidates examined for them."""
    extra: int = 0
    """Further partial results, already dropped, that were tried only to profile."""
    extra_work: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Journey:
    """A ruster and what it met. `passed[row, operator]` is PASSED, DROPPED or UNTRIED; None unless asked for.

    For stems, profiled rows also tell `matches[row, operator]`, how many tuples the row alone matches (-1: untried),
    and `trials`, what partial results further on would have met at the operators that did not come next.
    """

    ruster: Ruster
    rows: int
    visits: tuple[Visit, ...]
    passed: NDArray[np.int8] | None = None
    matches: NDArray[np.int64] | None = None
    trials: tuple[Trial, ...] = ()
    recalled: bool = False
    """Whether the ruster went over its limit or turned back: rows not begun, not counted here, are routed again."""
    entries: float = 0.0
    """Rows entered in indexes only to count against operators that did not come next; rows looked through instead count
    as a share of one."""
    dropped: NDArray[np.int16] | None = None
    """Filters: the operator that dropped each row, in the order of the ruster's rows, -1 where none did; None unless
    the ruster asked for a trace."""
    counts: NDArray[np.int64] | None = None
    """By route, operator and what is counted (`ROWS_IN`, ...). Always there if the ruster has several routes."""
    begun: NDArray[np.int64] | None = None
    """Rows of each route, without those recalled. Always there if the ruster has several routes."""
    probes: tuple[Probe, ...] = ()
    """Two phases: what drop probing took. The work of `visits` includes that of rows on their way."""
    probed: NDArray[np.int8] | None = None
    """Two phases, profiled: for each partial result that was probed, as `passed`; UNTRIED for operators met before."""

    def by_route(self) -> Iterator[tuple[Route, str, int, tuple[Visit, ...]]]:
        """Each route with its class, its rows and its visits; seconds are shared out by work."""
        ruster = self.ruster
        if self.counts is None or self.begun is None or len(ruster.routes) == 1:
            yield ruster.route, ruster.label, self.rows, self.visits
            return
        joined = {v.operator: v.survivors is not None for v in self.visits}
        each = {v.operator: v.seconds / max(v.work, 1) for v in self.visits}
        lines, begun = self.counts.tolist(), self.begun.tolist()
        for route, label, rows, counts in zip(ruster.routes, ruster.labels, begun, lines, strict=True):
            visits = []
            for op in route:
                came, out, survived, work, buckets, hashes = counts[op]
                if came:
                    survivors = survived if joined[op] else None
                    visits.append(Visit(op, came, out, work * each[op], 0, 0.0, survivors, work, buckets, hashes))
            if rows:
                yield route, label, rows, tuple(visits)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """All journeys of one batch."""

    batch: int
    rows: int
    journeys: tuple[Journey, ...]

    @property
    def seconds(self) -> float:
        total = 0.0
        for journey in self.journeys:  # plain loops: asked for after every chunk
            for visit in journey.visits:
                total += visit.seconds + visit.extra_seconds
        return total
