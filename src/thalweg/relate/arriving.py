"""Arriving: the results of a join block as a stream. Every result enters at its time, and none leaves.

It is what reads results under `Hop` and `Over`: they need each result once, also where an equal one leaves its window
at the same instant. It keeps the results that lie ahead of the frontier, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Closings, Deltas
from thalweg.relate.rows.agenda import Agenda


class Arriving:
    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._agenda = Agenda(schema)

    def opened(self, deltas: Deltas) -> None:
        rows = self._agenda.rows.encode_columns(deltas.rows.columns, len(deltas.start))
        self._agenda.add(rows, deltas.start, np.ones(len(rows), np.int64))

    def closed(self, closings: Closings) -> None:
        pass

    def advance(self, frontier: int) -> Changes:
        rows, time, sign = self._agenda.due(frontier)
        changes = Changes(self._agenda.rows.rows(rows), sign, time)
        self._agenda.drop(rows)
        return changes

    def size(self) -> int:
        return len(self._agenda)

    @property
    def nbytes(self) -> int:
        return self._agenda.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self._agenda.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._agenda.restore(parts)
