"""Living: the results of a join block as a relation, R(τ) at every instant τ, given as its changes.

It keeps the results that have not ended before the frontier, and nothing else. Results whose lifetimes begin and end at
the same instant for the reader cancel: a row that leaves and an equal one that enters then are no change.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Closings, Deltas, Ints
from thalweg.state.slice import ALWAYS
from thalweg.state.store import read_ipc, write_ipc

NUMBER, START, END = "\0number", "\0start", "\0end"


class Living:
    """Takes deltas, gives changes.

    >>> from thalweg.contract.relation import FOREVER
    >>> living = Living(pa.schema([("k", pa.int64())]))
    >>> rows = pa.record_batch({"k": [7, 8]})
    >>> living.opened(Deltas(rows, np.array([0, 1]), np.array([3, 5]), np.array([9, FOREVER])))
    >>> given = living.advance(10)
    >>> given.rows["k"].to_pylist(), given.sign.tolist(), given.time.tolist()
    ([7, 8, 7], [1, 1, -1], [3, 5, 9])
    >>> living.at(10)["k"].to_pylist()
    [8]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        marks = [(name, pa.int64()) for name in (NUMBER, START, END)]
        self._held = pa.schema([*schema, *(pa.field(*mark) for mark in marks)]).empty_table()
        self._ends: dict[int, int] = {}
        """Ends told since the last advance, by number."""
        self._frontier = ALWAYS

    def opened(self, deltas: Deltas) -> None:
        marks = [pa.array(a) for a in (deltas.number, deltas.start, deltas.end)]
        fresh = pa.Table.from_arrays([*deltas.rows.columns, *marks], schema=self._held.schema)
        self._held = pa.concat_tables([self._held, fresh])

    def closed(self, closings: Closings) -> None:
        self._ends.update(zip(closings.number.tolist(), closings.end.tolist(), strict=True))

    def at(self, instant: int) -> pa.Table:
        """What lives at an instant not before the last frontier."""
        start, end = self._lifetimes()
        return self._rows(np.flatnonzero((start <= instant) & (instant < end)))

    def advance(self, frontier: int) -> Changes:
        start, end = self._lifetimes()
        began = np.flatnonzero((start >= self._frontier) & (start < frontier))
        ended = np.flatnonzero((end >= self._frontier) & (end < frontier))
        which = np.concatenate([began, ended])
        sign = np.repeat(np.array([1, -1]), [len(began), len(ended)])
        time = np.concatenate([start[began], end[ended]])
        order = np.lexsort((sign, time))  # what leaves goes before what enters
        changes = _cancelled(self._rows(which[order]), sign[order], time[order])
        living = np.flatnonzero(end >= frontier)
        self._held = self._held.set_column(self._held.num_columns - 1, END, pa.array(end)).take(pa.array(living))
        self._ends.clear()
        self._frontier = frontier
        return changes

    def _lifetimes(self) -> tuple[Ints, Ints]:
        start, end, number = (self._held[name].to_numpy() for name in (START, END, NUMBER))
        if self._ends:
            end = np.array([self._ends.get(n, e) for n, e in zip(number.tolist(), end.tolist(), strict=True)], np.int64)
        return start, end

    def _rows(self, which: Ints) -> pa.Table:
        return self._held.select(range(len(self.schema))).take(pa.array(which))

    def snapshot(self) -> dict[str, bytes]:
        _, end = self._lifetimes()
        held = self._held.set_column(self._held.num_columns - 1, END, pa.array(end))
        return {"held": write_ipc(held), "frontier": str(self._frontier).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._held, self._frontier, self._ends = read_ipc(parts["held"]), int(parts["frontier"]), {}


def _cancelled(rows: pa.Table, sign: Ints, time: Ints) -> Changes:
    """Without the pairs of equal rows of which one leaves and one enters at the same instant."""
    waiting: dict[tuple[object, ...], list[int]] = {}
    keep = np.ones(len(sign), np.bool_)
    texts = list(zip(*(column.to_pylist() for column in rows.columns), strict=True)) or [()] * len(sign)
    for k, key in enumerate(zip(map(repr, texts), time.tolist(), strict=True)):
        leaving = waiting.setdefault(key, [])
        if sign[k] < 0:
            leaving.append(k)
        elif leaving:
            keep[[k, leaving.pop()]] = False
    kept = np.flatnonzero(keep)
    return Changes(rows.take(pa.array(kept)), sign[kept], time[kept])
