"""What a visit costs and what comes of it where operators join: lookups, matches, rows out, for each operator.

A probe looks up buckets and then examines candidates, so a tuple with many matches costs more than one with none: the
two are kept apart. Counted in the fabric's units of work, not in seconds, so that the same tuples give the same
decisions on any machine; a filter's seconds are turned into units. Moving averages, as `costs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import Journey, Visit, Visits

UNIT = 1e-8
"""Seconds that one unit of work (a bucket looked up, a candidate examined) stands for, to weigh filters against
stems."""
Floats = NDArray[np.float64]


def units(visit: Visit) -> float:
    """Units of work on the way; a filter's seconds count as units."""
    return visit.seconds / UNIT if visit.survivors is None else visit.work


def work_of(journey: Journey) -> float:
    """Units of work of a journey, without what was tried only to profile."""
    return sum([units(v) for v in journey.visits])


class Probing:
    """Averages of each operator; takes the place of `Costs` where an operator is a stem.

    >>> probing = Probing([False, True])
    >>> probing.note(1, rows=10, out=30.0, work=50.0)
    >>> (probing.lookup / UNIT).tolist(), probing.fanout.tolist()
    ([2.0, 2.0], [1.0, 3.0])
    """

    def __init__(self, stems: Sequence[bool], memory: int = 8192) -> None:
        self.stems = np.array(stems, np.bool_)
        self.memory = memory
        self._rows = [0.0] * len(stems)
        self._out = [0.0] * len(stems)
        self._work = [0.0] * len(stems)

    def observe(self, visits: Visits) -> None:
        for journey in visits.journeys:
            for v in journey.visits:
                if not self.stems[v.operator]:
                    rows = v.rows_in + v.extra
                    took = (v.seconds + v.extra_seconds) / UNIT
                    self.note(v.operator, rows, rows * v.rows_out / max(v.rows_in, 1), took)
                elif v.rows_in:
                    self.note(v.operator, v.rows_in, v.rows_out, v.work)
            for t in journey.trials:
                self.note(t.operator, t.rows, t.matches, t.work)

    def note(self, operator: int, rows: int, out: float, work: float) -> None:
        if not rows:
            return
        kept = 0.5 ** (rows / self.memory)
        self._rows[operator] = self._rows[operator] * kept + rows
        self._out[operator] = self._out[operator] * kept + out
        self._work[operator] = self._work[operator] * kept + work

    @property
    def fanout(self) -> Floats:
        """Rows out per row in; 1 where an operator was never met."""
        return np.array([o / r if r else 1.0 for o, r in zip(self._out, self._rows, strict=True)])

    @property
    def lookup(self) -> Floats:
        """Seconds per row in, before its matches are examined; an operator never met counts as the mean of the others."""
        examined = [o if s else 0.0 for o, s in zip(self._out, self.stems, strict=True)]
        met = [max((w - o) / r, 0.05) for w, o, r in zip(self._work, examined, self._rows, strict=True) if r]
        unmet = sum(met) / len(met) if met else 1.0
        each = zip(self._work, examined, self._rows, strict=True)
        return UNIT * np.array([max((w - o) / r, 0.05) if r else unmet for w, o, r in each])

    @property
    def examined(self) -> Floats:
        """Seconds for each match of a tuple."""
        return np.where(self.stems, UNIT, 0.0)

    @property
    def per_row(self) -> Floats:
        """Seconds per row in, matches included."""
        return np.asarray(self.lookup + self.examined * self.fanout)

    def snapshot(self) -> dict[str, Any]:
        return {"rows": list(self._rows), "out": list(self._out), "work": list(self._work)}

    def restore(self, record: dict[str, Any]) -> None:
        self._rows, self._out, self._work = list(record["rows"]), list(record["out"]), list(record["work"])
