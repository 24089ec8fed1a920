"""Hop: `window(result_time, size, slide)`. A result enters once for each time window around it, when that window closes.

Windows are [start, start + size), with starts at multiples of the slide. Nothing leaves, so what is grouped by a window
is final at once and need not be kept: `language/settled.py` names the columns that say so. Results wait here for their
windows, unless groups take them early (`early.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes
from thalweg.language import algebra
from thalweg.relate.instants import Ticks, in_ticks, timestamps
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.netting import taken
from thalweg.state.slice import ALWAYS


class Hop:
    def __init__(self, node: algebra.Hop, ticks: Ticks = "us", per: int = 1, *, early: bool = False) -> None:
        """`early`: rows go on at once, with the close of their window for a time."""
        self.schema = node.schema
        self._ticks, self._per, self._early = ticks, per, early
        self._name, self._size, self._slide = node.name, in_ticks(node.size, ticks), in_ticks(node.slide, ticks)
        self._agenda = Agenda(node.schema)

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        (given,) = inputs
        found = self._spread(given)
        if self._early:
            return found
        self._agenda.add(self._agenda.rows.encode(found.rows), found.time, found.sign)
        rows, time, sign = self._agenda.due(frontier)
        changes = Changes(self._agenda.rows.rows(rows), sign, time)
        self._agenda.drop(rows)
        return changes

    def _spread(self, given: Changes) -> Changes:
        """Every row once in each of its windows, in the order in which these close."""
        entering = np.flatnonzero((given.sign > 0) & (given.time != ALWAYS))
        time = given.time[entering]
        first = time // self._slide * self._slide
        steps = np.arange(-(-self._size // self._slide) - 1, -1, -1)
        start = first[:, None] - steps * self._slide
        inside = start + self._size > time[:, None]
        start, row = start[inside], np.repeat(entering, inside.sum(axis=1))
        order = np.argsort(start, kind="stable")
        start, row = start[order], row[order]
        rows = taken(given.rows, row)
        columns = [self._windows(start, f.type) if f.name == self._name else rows[f.name] for f in self.schema]
        return Changes(pa.Table.from_arrays(columns, schema=self.schema), given.sign[row], start + self._size)

    def _windows(self, start: np.ndarray, dtype: pa.DataType) -> pa.Array:
        bounds = [
            timestamps(t, self._ticks, f.type, self._per)
            for t, f in zip((start, start + self._size), dtype, strict=True)
        ]
        return pa.StructArray.from_arrays(bounds, fields=list(dtype))

    def size(self) -> int:
        return len(self._agenda)

    @property
    def nbytes(self) -> int:
        return self._agenda.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self._agenda.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._agenda.restore(parts)
