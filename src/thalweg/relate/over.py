"""Over: for each row, aggregates of the rows of its partition that precede it in time. Every row appears once.

A range frame holds the rows of the last span, those of the same time included; a frame of rows holds the row and the n
before it. Both become events of groups (aggregates/contract.py): rows enter and leave the frame of their partition, and
a row takes the version at which it entered. Kept: the rows inside frames. Only what enters the child counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Ints
from thalweg.language.algebra import Over as Node
from thalweg.relate.aggregates import accumulator, needed
from thalweg.relate.aggregates.contract import Touched
from thalweg.relate.aggregates.counts import running
from thalweg.relate.instants import Ticks, in_ticks
from thalweg.relate.kernels.net import chain_entries
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import merged, netted, nothing, selected
from thalweg.relate.rows.parts import below, under
from thalweg.relate.rows.queues import Queues

ROWS = "\0rows"


class Over:
    def __init__(self, node: Node, ticks: Ticks = "us") -> None:
        self.schema = node.schema
        self._partition = node.partition
        self._frame, self._preceding = node.frame, node.preceding
        if node.frame == "range" and node.preceding is not None:
            self._preceding = in_ticks(node.preceding, ticks)
        child = node.child.schema
        self._groups = Dictionary(pa.schema([child.field(name) for name in node.partition]))
        self._groups.add_field(ROWS, width=1)
        needs = dict.fromkeys([*node.partition, *(a for g in node.aggregates.values() for a in needed(g, child))])
        needs = needs or dict.fromkeys(child.names[:1])  # a table without columns forgets how many rows it has
        self._agenda = Agenda(pa.schema([child.field(name) for name in needs]))
        self._queues = Queues(0 if node.preceding is None else node.preceding + 1)
        self._aggregates = []
        for name, aggregate in node.aggregates.items():
            made = accumulator(aggregate, child, node.schema.field(name).type, self._groups, name)
            self._aggregates.append((needed(aggregate, child), made))

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        entering = selected(inputs[0], np.flatnonzero(inputs[0].sign > 0))
        if self._frame == "rows":
            entering = selected(entering, np.repeat(np.arange(len(entering.sign)), entering.sign))
            entering = Changes(entering.rows, np.ones(len(entering.sign), np.int64), entering.time)
        rows, sign, entry, own = self._range(entering, frontier) if self._frame == "range" else self._counted(entering)
        if not len(sign):
            return nothing(self.schema)
        numbers = self._groups.encode_columns([rows[name] for name in self._partition], len(sign))
        if entry is None:
            found = netted(numbers, self._time, sign, self._groups.place)
            entry, group = found.entry, found.number
        else:
            group = numbers[own]
        groups, old, last = (np.empty(len(group), np.int64) for _ in range(3))
        count = chain_entries(group, self._groups.place, groups, old, last)
        touched = Touched(entry, sign, groups[:count], group, old, last[:count])
        running(self._groups, ROWS, touched, np.ones((len(sign), 1), np.int64))
        values = [made.step(touched, [rows[a] for a in arguments]) for arguments, made in self._aggregates]
        version = pa.array(count + entry[own])
        columns = [*entering.rows.columns, *(v.take(version) for v in values)]
        out = pa.Table.from_arrays(columns, schema=self.schema)
        self._groups.touch(touched.groups)
        gone = touched.groups[self._groups.fields[ROWS][touched.groups, 0] == 0]
        self._groups.release(gone)
        for _, made in self._aggregates:
            made.settle(gone)
        return Changes(out, entering.sign, entering.time)

    def _range(self, entering: Changes, frontier: int) -> tuple[pa.Table, Ints, None, Ints]:
        """Rows that enter and leave frames, in the order of their times; and where those of the step are among them."""
        needed = entering.rows.select(self._agenda.rows.schema.names)
        leaving = [np.empty(0, np.int64)] * 3
        if self._preceding is not None:
            numbers = self._agenda.rows.encode_columns(needed.columns, len(entering.sign))
            self._agenda.add(numbers, entering.time + self._preceding + 1, -entering.sign)
            leaving = list(self._agenda.due(frontier))
        rows = pa.concat_tables([self._agenda.rows.rows(leaving[0]), needed])
        self._agenda.drop(leaving[0])
        order = merged([leaving[1], entering.time])
        self._time = np.concatenate([leaving[1], entering.time])[order]
        sign = np.concatenate([leaving[2], entering.sign])[order]
        return rows.take(pa.array(order)), sign, None, np.flatnonzero(order >= len(leaving[0]))

    def _counted(self, entering: Changes) -> tuple[pa.Table, Ints, Ints, Ints]:
        """Each row is an entry of its own: it enters its frame, and may push one out."""
        needed = entering.rows.select(self._agenda.rows.schema.names)
        count = len(entering.sign)
        out = np.full(count, -1)
        if self._preceding is not None:
            numbers = self._agenda.rows.encode_columns(needed.columns, count)
            self._agenda.hold(numbers)
            parts = self._groups.encode_columns([needed[name] for name in self._partition], count)
            out = self._queues.push(parts, numbers)
        which = np.flatnonzero(out >= 0)
        rows = pa.concat_tables([self._agenda.rows.rows(out[which]), needed])
        self._agenda.drop(out[which])
        entry = np.concatenate([which, np.arange(count)])
        order = np.argsort(entry, kind="stable")
        sign = np.repeat(np.array([-1, 1]), [len(which), count])[order]
        return rows.take(pa.array(order)), sign, entry[order], np.flatnonzero(sign > 0)

    def size(self) -> int:
        kept = len(self._agenda) + len(self._queues) + len(self._groups)
        return kept + sum(made.size() for _, made in self._aggregates)

    @property
    def nbytes(self) -> int:
        kept = self._agenda.nbytes + self._queues.nbytes + self._groups.nbytes
        return kept + sum(made.nbytes for _, made in self._aggregates)

    def snapshot(self) -> dict[str, bytes]:
        parts = under("groups", self._groups.snapshot()) | under("agenda", self._agenda.snapshot())
        for k, (_, made) in enumerate(self._aggregates):
            parts |= under(f"aggregate.{k}", made.snapshot())
        return parts | {"queues": self._queues.snapshot()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._groups.restore(below("groups", parts))
        self._agenda.restore(below("agenda", parts))
        for k, (_, made) in enumerate(self._aggregates):
            made.restore(below(f"aggregate.{k}", parts))
        self._queues.restore(parts["queues"])
