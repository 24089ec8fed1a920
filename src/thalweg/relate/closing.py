"""Closing: groups by a time window. Rows are added as they come; a group is given once, when its window closes.

Rows come early, with the close of their window for a time (`early.py`), so that groups are kept and not rows. A value is
asked for at the close only: a sum that is out of range on the way, and comes back, is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import FOREVER, Changes
from thalweg.language.algebra import Group as Node
from thalweg.relate.aggregates.contract import Touched
from thalweg.relate.group import Group
from thalweg.relate.rows.netting import netted, nothing

END = "\0end"


class Closing(Group):
    def __init__(self, node: Node) -> None:
        super().__init__(node, grow=True)
        self._groups.add_field(END, FOREVER)
        self._types = {f.name: f.type for f in node.child.schema}
        self._next = FOREVER
        """When the next group closes."""

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        (given,) = inputs
        if len(given.sign):
            self._take(given)
        return self._closed(frontier) if self._next < frontier else nothing(self.schema)

    def _take(self, given: Changes) -> None:
        numbers = self._groups.encode_columns([given.rows[k] for k in self._keys], len(given.sign))
        found = netted(numbers, given.time, given.sign, self._groups.place)
        touched = self._touched(found, np.ascontiguousarray(given.sign))
        for arguments, made in self._aggregates:
            made.take(touched, [given.rows[a] for a in arguments])
            made.settle(touched.groups[:0])
        self._groups.fields[END][numbers] = given.time
        self._groups.touch(touched.groups)
        self._next = min(self._next, int(given.time.min()))

    def _closed(self, frontier: int) -> Changes:
        every = self._groups.numbers()
        ends = self._groups.fields[END][every]
        due = every[ends < frontier]
        due = due[np.argsort(self._groups.fields[END][due], kind="stable")]
        self._next = int(ends[ends >= frontier].min(initial=FOREVER))
        none = np.empty(0, np.int64)
        read = Touched(none, none, due, none, none, np.arange(len(due)))
        values = [
            made.step(read, [pa.array([], self._types[a]) for a in arguments]) for arguments, made in self._aggregates
        ]
        rows = pa.Table.from_arrays([*self._groups.rows(due).columns, *values], schema=self.schema)
        changes = Changes(rows, np.ones(len(due), np.int64), self._groups.fields[END][due])
        self._groups.release(due)
        for _, made in self._aggregates:
            made.settle(due)
        return changes

    def restore(self, parts: Mapping[str, bytes]) -> None:
        super().restore(parts)
        self._next = int(self._groups.fields[END][self._groups.numbers()].min(initial=FOREVER))
