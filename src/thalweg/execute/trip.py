"""A trip: one ruster under way, its counts so far, and the journey reported at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import (
    BUCKETS,
    COUNTED,
    HASHES,
    ROWS_IN,
    ROWS_OUT,
    SURVIVORS,
    WORK,
    Journey,
    Probe,
    Trial,
    Visit,
)
from thalweg.execute.arrival import Arrival
from thalweg.execute.kernels.join import NONE_HELD
from thalweg.execute.routetable import RouteTable
from thalweg.plan import Ruster

Ints = NDArray[np.int64]
Pending = dict[int, dict[int, Exception]]
"""Errors that nothing has forgiven yet, by row and operator."""


@dataclass(slots=True, eq=False)
class Trip:
    """One ruster under way."""

    arrival: Arrival
    ruster: Ruster
    table: RouteTable
    pending: Pending
    counts: Ints
    """Counts by route, operator and kind."""
    seconds: list[float]
    extra: list[int]
    extra_seconds: list[float]
    deferred: set[int] = field(default_factory=set)
    """Residuals that raised; they judge after all others."""
    dropped: NDArray[np.int16] | None = None
    passed: NDArray[np.int8] | None = None
    matches: Ints | None = None
    numbers: Ints | None = None
    """Row numbers of profiled rows, ascending."""
    trials: list[Trial] = field(default_factory=list)
    entries: float = 0.0
    """Rows indexed for the trials."""
    probes: list[Probe] = field(default_factory=list)
    """Two phases: what drop probing met, chunk by chunk."""
    probed: list[NDArray[np.int8]] = field(default_factory=list)
    held: Ints = field(default_factory=lambda: NONE_HELD)
    """Where drop probing found the first matches of the lines that go on now."""
    rest: Ints | None = None
    """Recalled rows of each route, if any."""
    judging: dict[int, float] = field(default_factory=dict)
    """Seconds of predicates between inputs, by the stem before them."""
    sampled: set[int] = field(default_factory=set)
    """Layers at which partial results have been sampled."""

    @classmethod
    def begin(cls, arrival: Arrival, ruster: Ruster, table: RouteTable, pending: Pending, operators: int) -> Trip:
        counts = np.zeros((len(table.routes), operators, COUNTED), np.int64)
        return cls(arrival, ruster, table, pending, counts, [0.0] * operators, [0] * operators, [0.0] * operators)

    def journey(self, first: int) -> Journey:
        """The journey to report; stems begin at `first`."""
        ruster, counts = self.ruster, self.counts
        total = (counts[0] if len(counts) == 1 else counts.sum(axis=0)).tolist()
        visits = []
        for op in ruster.route.operators:
            met = total[op]
            if met[ROWS_IN] or self.extra[op]:
                visits.append(
                    Visit(
                        op, met[ROWS_IN], met[ROWS_OUT], self.seconds[op], self.extra[op], self.extra_seconds[op],
                        met[SURVIVORS] if op >= first else None, met[WORK], met[BUCKETS], met[HASHES],
                        self.judging.get(op, 0.0),
                    )
                )  # fmt: skip
        if len(counts) == 1 or ruster.ids is None:
            begun = np.array([len(self.arrival.partial if ruster.rows is None else ruster.rows)])
        else:
            begun = np.bincount(ruster.ids, minlength=len(counts))
        if self.rest is not None:
            begun = begun - self.rest
        return Journey(
            ruster, int(begun.sum()), tuple(visits), self.passed, self.matches, tuple(self.trials), self.rest is not None,
            self.entries, self.dropped, counts, begun, tuple(_together(self.probes)),
            np.concatenate(self.probed) if self.probed else None,
        )  # fmt: skip


def _together(probes: list[Probe]) -> list[Probe]:
    """One record for each logical filter, in the order in which they were met."""
    found: dict[int, Probe] = {}
    for p in probes:
        b = found.get(p.operator, Probe(p.operator, 0, 0, 0.0))
        found[p.operator] = Probe(
            p.operator, b.rows + p.rows, b.survivors + p.survivors, b.work + p.work, b.extra + p.extra,
            b.extra_work + p.extra_work,
        )  # fmt: skip
    return list(found.values())
