"""Living: the results of a join block as a relation, R(τ) at every instant τ, given as its changes.

It keeps the results that have not ended before the frontier, and nothing else. Results whose lifetimes begin and end at
the same instant for the reader cancel: a row that leaves and an equal one that enters then are no change. With `slide`,
what lives is looked at only at multiples of a span and stays the same between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import FOREVER, Changes, Closings, Deltas, Ints
from thalweg.relate.instants import next_multiple
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.netting import net_changes
from thalweg.relate.rows.parts import below, under
from thalweg.state.store import read_ipc, write_ipc


class Living:
    """Takes deltas, gives changes.

    >>> living = Living(pa.schema([("k", pa.int64())]))
    >>> rows = pa.record_batch({"k": [7, 8]})
    >>> living.opened(Deltas(rows, np.array([0, 1]), np.array([3, 5]), np.array([9, FOREVER])))
    >>> given = living.advance(10)
    >>> given.rows["k"].to_pylist(), given.sign.tolist(), given.time.tolist()
    ([7, 8, 7], [1, 1, -1], [3, 5, 9])
    >>> living.at(10)["k"].to_pylist()
    [8]
    """

    def __init__(self, schema: pa.Schema, slide: int | None = None) -> None:
        self.schema = schema
        self._slide = slide
        self._agenda = Agenda(schema)
        self._agenda.rows.add_field("alive")
        self._number, self._row, self._start = (np.empty(0, np.int64) for _ in range(3))
        """Of results whose end is not known: their numbers, in order, the numbers of their rows (-1 once the end is
        known), and when they begin."""

    def opened(self, deltas: Deltas) -> None:
        start, end = self._seen(deltas.start), self._seen(deltas.end)
        rows = self._agenda.rows.encode_columns(deltas.rows.columns, len(start))
        open_ = end == FOREVER
        lives = start < end
        self._agenda.hold(rows)
        self._agenda.add(rows[lives], start[lives], np.ones(int(lives.sum()), np.int64))
        ends = lives & ~open_
        self._agenda.add(rows[ends], end[ends], np.full(int(ends.sum()), -1))
        self._agenda.drop(rows[~open_])
        self._number = np.concatenate([self._number, deltas.number[open_]])
        self._row, self._start = np.concatenate([self._row, rows[open_]]), np.concatenate([self._start, start[open_]])

    def closed(self, closings: Closings) -> None:
        order = np.argsort(closings.number, kind="stable")
        number, end = closings.number[order], self._seen(closings.end[order])
        at = np.searchsorted(self._number, number)
        known = at < len(self._number)
        known[known] = (self._number[at[known]] == number[known]) & (self._row[at[known]] >= 0)
        at, end = at[known], end[known]
        rows, start = self._row[at], self._start[at]
        self._agenda.add(rows, np.maximum(end, start), np.full(len(rows), -1))
        self._agenda.drop(rows)
        self._row[at] = -1
        gone = self._row < 0
        if 2 * int(gone.sum()) > len(gone):
            self._number, self._row, self._start = self._number[~gone], self._row[~gone], self._start[~gone]

    def _seen(self, times: Ints) -> Ints:
        return times if self._slide is None else next_multiple(times, self._slide)

    def at(self, instant: int) -> pa.Table:
        """What lives at an instant not before the last frontier."""
        count = self._agenda.rows.fields["alive"].copy()
        np.add.at(count, *self._agenda.waiting(instant))
        return self._agenda.rows.rows(np.repeat(np.arange(len(count)), count))

    def advance(self, frontier: int) -> Changes:
        rows, time, sign = self._agenda.due(frontier)
        np.add.at(self._agenda.rows.fields["alive"], rows, sign)
        changes = net_changes(self._agenda.rows, rows, time, sign)
        self._agenda.drop(rows)
        return changes

    def size(self) -> int:
        """Changes that wait, and results whose end is not known."""
        return len(self._agenda) + int((self._row >= 0).sum())

    @property
    def nbytes(self) -> int:
        return self._agenda.nbytes + self._number.nbytes + self._row.nbytes + self._start.nbytes

    def snapshot(self) -> dict[str, bytes]:
        open_ = {"number": self._number, "row": self._row, "start": self._start}
        return under("agenda", self._agenda.snapshot()) | {"open": write_ipc(pa.table(open_))}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._agenda.restore(below("agenda", parts))
        table = read_ipc(parts["open"])
        self._number, self._row, self._start = (table[c].to_numpy().copy() for c in ("number", "row", "start"))
