"""Arrivals: results of a join block until they are taken, with the ends that were told meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Closings, Deltas, Ints, Moves
from thalweg.state.store import read_ipc, write_ipc

MARKS = ("\0number", "\0start", "\0end")


class Arrivals:
    """A sink of deltas that is emptied step by step."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        fields = [pa.field(name, pa.int64()) for name in MARKS]
        self._held = pa.schema([*schema, *fields]).empty_table()
        self._closings: list[Closings] = []

    def opened(self, deltas: Deltas) -> None:
        marks = [pa.array(a) for a in (deltas.number, deltas.start, deltas.end)]
        fresh = pa.Table.from_arrays([*deltas.rows.columns, *marks], schema=self._held.schema)
        self._held = pa.concat_tables([self._held, fresh])

    def closed(self, closings: Closings) -> None:
        self._closings.append(closings)

    def release(self, until: int, floor: int) -> Moves:
        """Results that begin before `until`, and ends of results that were released before."""
        number, start, end = (np.array(self._held[name].to_numpy(), np.int64) for name in MARKS)
        numbers, ends = self._ends()
        if len(numbers) and len(number):
            at = np.minimum(np.searchsorted(numbers, number), len(numbers) - 1)
            hit = numbers[at] == number
            end[hit] = ends[at[hit]]
            earlier = np.isin(numbers, number, invert=True)
            numbers, ends = numbers[earlier], ends[earlier]
        due = start < until
        rest = np.flatnonzero(~due)
        self._held = self._held.set_column(self._held.num_columns - 1, MARKS[2], pa.array(end))
        which = np.flatnonzero(due & (start < end))
        rows = self._held.select(range(len(self.schema))).take(pa.array(which)).combine_chunks().to_batches()
        batch = rows[0] if rows else nothing(self.schema)
        self._held = self._held.take(pa.array(rest))
        self._closings = []
        return Moves(Deltas(batch, number[which], start[which], end[which]), Closings(numbers, ends), floor)

    def _ends(self) -> tuple[Ints, Ints]:
        """Ends told since the last step, by ascending number."""
        empty = [np.empty(0, np.int64)]
        numbers = np.concatenate(empty + [c.number for c in self._closings])
        ends = np.concatenate(empty + [c.end for c in self._closings])
        order = np.argsort(numbers)
        return numbers[order], ends[order]

    def size(self) -> int:
        return int(self._held.num_rows)

    def snapshot(self) -> dict[str, bytes]:
        numbers, ends = self._ends()
        return {"held": write_ipc(self._held), "closings": write_ipc(pa.table({"number": numbers, "end": ends}))}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._held = read_ipc(parts["held"])
        told = read_ipc(parts["closings"])
        number, end = (np.array(told[name].to_numpy(), np.int64) for name in ("number", "end"))
        self._closings = [Closings(number, end)] if len(number) else []


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
