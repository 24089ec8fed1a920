"""Restream: a relation turned into a stream and read through a window again: ISTREAM(...) and its kin in FROM.

An element of the stream lives in the window as any row of a stream does: for a span, for ever, or until enough others
have come after it. Elements of one instant follow each other in the order in which they are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Ints
from thalweg.language.algebra import Restream as Node
from thalweg.relate.instants import Ticks, in_ticks, timestamps
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import netted
from thalweg.relate.rows.parts import below, under
from thalweg.relate.rows.queues import Queues
from thalweg.relate.stream import Stream


class Restream:
    def __init__(self, node: Node, ticks: Ticks = "us", per: int = 1) -> None:
        self.schema = node.schema
        self._ticks, self._per = ticks, per
        self._window = node.window
        self._span = in_ticks(node.window.span, ticks)
        every = None if node.every is None else in_ticks(node.every, ticks)
        self._stream = Stream(node.child.schema, node.kind, every)
        self._agenda = Agenda(node.schema)
        by = node.window.by if node.window.kind == "partition" else ()
        self._parts = Dictionary(pa.schema([node.schema.field(name) for name in by]))
        self._queues = Queues(node.window.rows)

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        found = self._stream.step(inputs[0], frontier)
        columns = found.rows
        if columns.num_columns < len(self.schema):  # the last one is result_time
            last = self.schema.field(columns.num_columns)
            columns = columns.append_column(last, timestamps(found.time, self._ticks, last.type, self._per))
        columns = columns.rename_columns(self.schema.names)
        rows = self._agenda.rows.encode(columns)
        self._agenda.add(rows, found.time, found.sign)
        if self._window.kind in ("range", "now"):
            span = self._span if self._window.kind == "range" else 0
            self._agenda.add(rows, found.time + span + 1, -found.sign)
        elif self._window.ordered:
            self._push(columns, rows, found)
        rows, time, sign = self._agenda.due(frontier)
        entries = netted(rows, time, sign, self._agenda.rows.place)
        left = np.flatnonzero(entries.net)
        changes = Changes(self._agenda.rows.rows(entries.number[left]), entries.net[left], entries.time[left])
        self._agenda.drop(rows)
        return changes

    def _push(self, columns: pa.Table, rows: Ints, found: Changes) -> None:
        """Let new elements push old ones out of a window that counts rows."""
        parts = self._parts.encode_columns([columns[f.name] for f in self._parts.schema], len(rows))
        each = np.repeat(np.arange(len(rows)), found.sign)
        items = rows[each]
        self._agenda.hold(items)
        out = self._queues.push(parts[each], items)
        which = np.flatnonzero(out >= 0)
        self._agenda.add(out[which], found.time[each][which], np.full(len(which), -1))
        self._agenda.drop(out[which])

    def size(self) -> int:
        return self._stream.size() + len(self._agenda) + len(self._queues)

    @property
    def nbytes(self) -> int:
        return self._stream.nbytes + self._agenda.nbytes + self._parts.nbytes + self._queues.nbytes

    def snapshot(self) -> dict[str, bytes]:
        parts = under("stream", self._stream.snapshot()) | under("agenda", self._agenda.snapshot())
        return parts | under("parts", self._parts.snapshot()) | {"queues": self._queues.snapshot()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._stream.restore(below("stream", parts))
        self._agenda.restore(below("agenda", parts))
        self._parts.restore(below("parts", parts))
        self._queues.restore(parts["queues"])
