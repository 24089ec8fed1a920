"""A relation as a stream, by the three operators of CQL (thesis 2.1.1), at all instants or at multiples of a span.

ISTREAM: what R(τ) has more than R(τ-); DSTREAM: what it has less; RSTREAM: R(τ) itself, at every multiple, or without a
span at every instant at which it changes. With a span, R is compared only with itself at the multiple before. What was
there before all time (tables) enters at ALWAYS; RSTREAM begins with the first instant after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Ints
from thalweg.relate.instants import next_multiple
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import netted, selected
from thalweg.relate.rows.parts import below, under
from thalweg.state.slice import ALWAYS, FOREVER
from thalweg.state.store import read_ipc, write_ipc

COUNT = "count"
StreamKind = Literal["results", "changes", "istream", "dstream", "rstream", "sent"]


class Stream:
    """Takes changes in; gives the elements of a stream ("changes": signs below zero as well)."""

    def __init__(self, schema: pa.Schema, kind: StreamKind, every: int | None) -> None:
        self._kind, self._every = kind, every
        self._agenda = Agenda(schema)
        """Changes that wait for the next multiple."""
        self._living = Dictionary(schema, grouping=False)
        """RSTREAM: the rows that live, and how often; `_alive` has them in the order in which they entered."""
        self._living.add_field(COUNT)
        self._alive = np.empty(0, np.int64)
        self._next: int | None = None
        """RSTREAM: the next multiple; None before the first change."""

    def step(self, given: Changes, frontier: int) -> Changes:
        if self._kind == "rstream":
            return self._whole(given, frontier)
        if self._every is not None:
            given = self._sampled(given, frontier)
        match self._kind:
            case "istream" | "results":
                return given if (given.sign > 0).all() else selected(given, np.flatnonzero(given.sign > 0))
            case "dstream":
                which = np.flatnonzero(given.sign < 0)
                return selected(given, which, -given.sign[which])
            case _:
                order = np.lexsort((given.sign > 0, given.time))  # what leaves goes before what enters
                return selected(given, order)

    def _wait(self, given: Changes) -> None:
        rows = self._agenda.rows.encode_columns(given.rows.columns, len(given.sign))
        time = given.time if self._every is None else next_multiple(given.time, self._every)
        self._agenda.add(rows, time, given.sign)

    def _sampled(self, given: Changes, frontier: int) -> Changes:
        self._wait(given)
        rows, time, sign = self._agenda.due(frontier)
        found = netted(rows, time, sign, self._agenda.rows.place)
        left = np.flatnonzero(found.net)
        changes = Changes(self._agenda.rows.rows(found.number[left]), found.net[left], found.time[left])
        self._agenda.drop(rows)
        return changes

    # RSTREAM

    def _whole(self, given: Changes, frontier: int) -> Changes:
        self._wait(given)
        waiting, time, sign = self._agenda.due(frontier)
        rows = self._living.encode(self._agenda.rows.rows(waiting))
        self._agenda.drop(waiting)
        out: list[tuple[Ints, Ints, int]] = []
        done = 0
        while (instant := self._instant(time, done, frontier)) is not None:
            upto = int(np.searchsorted(time, instant, side="right"))
            self._count(rows[done:upto], sign[done:upto])
            done = upto
            if len(self._alive) and instant != ALWAYS:
                out.append((self._alive, self._living.fields[COUNT][self._alive], instant))
        none = np.empty(0, np.int64)
        numbers, counts = (np.concatenate([none, *(o[k] for o in out)]) for k in (0, 1))
        when = np.repeat(np.array([t for _, _, t in out], np.int64), [len(a) for a, _, _ in out])
        changes = Changes(self._living.rows(numbers), counts, when)
        self._living.touch(rows)
        self._living.release(rows[self._living.fields[COUNT][rows] == 0])
        return changes

    def _count(self, rows: Ints, sign: Ints) -> None:
        """Take the changes of one instant into what lives; rows stay in the order in which they entered."""
        if not len(rows):
            return
        count = self._living.fields[COUNT]
        first = np.sort(np.unique(rows, return_index=True)[1])
        fresh = rows[first][count[rows[first]] == 0]
        np.add.at(count, rows, sign)
        alive = np.concatenate([self._alive, fresh])
        self._alive = alive[count[alive] > 0]

    def _instant(self, time: Ints, at: int, frontier: int) -> int | None:
        """The next instant to look at, given the changes that are due and how many of them are done."""
        change = int(time[at]) if at < len(time) else None
        if self._every is None or change == ALWAYS:
            return change
        if self._next is None or not len(self._alive):
            # Nothing to show until something changes.
            if change is not None:
                self._next = change + self._every
                return change
            return None
        if self._next >= frontier or (frontier == FOREVER and change is None):
            return None
        self._next += self._every
        return self._next - self._every

    def size(self) -> int:
        return len(self._agenda) + len(self._living)

    @property
    def nbytes(self) -> int:
        return self._agenda.nbytes + self._living.nbytes + self._alive.nbytes

    def snapshot(self) -> dict[str, bytes]:
        parts = under("agenda", self._agenda.snapshot()) | under("living", self._living.snapshot())
        alive = write_ipc(pa.table({"row": self._alive}))
        return parts | {"alive": alive, "next": b"" if self._next is None else str(self._next).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._agenda.restore(below("agenda", parts))
        self._living.restore(below("living", parts))
        self._alive = read_ipc(parts["alive"])["row"].to_numpy().copy()
        self._next = int(parts["next"]) if parts["next"] else None
