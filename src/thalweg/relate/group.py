"""Group: aggregates of the rows with equal keys, at every instant; thesis 2.2, table 2.1.

Where a group's row changes, the old one leaves and the new one enters. A group lives as long as it has rows; NULL is a
key like any other. Without keys there is always exactly one row, from the beginning. Groups and what their aggregates
need are kept, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import Changes
from thalweg.language.algebra import Group as Node
from thalweg.relate.aggregates import accumulator, needed
from thalweg.relate.aggregates.contract import Touched
from thalweg.relate.aggregates.counts import running
from thalweg.relate.kernels.net import chain_entries
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import Netted, netted, nothing
from thalweg.relate.rows.parts import below, under
from thalweg.relate.rows.same import same
from thalweg.state.slice import ALWAYS

Ints = NDArray[np.int64]
ROWS = "\0rows"


class Group:
    def __init__(self, node: Node, *, final: bool = False, grow: bool = False) -> None:
        """`final`: no group changes after the instant at which it came, so none is kept. `grow`: no row leaves one."""
        self.schema = node.schema
        self._keys = node.keys
        self._final = final
        self._groups = Dictionary(pa.schema([pa.field(k, node.child.schema.field(k).type) for k in node.keys]))
        self._groups.add_field(ROWS, width=1)
        self._aggregates = []
        for name, aggregate in node.aggregates.items():
            child, result = node.child.schema, node.schema.field(name).type
            made = accumulator(aggregate, child, result, self._groups, name, grow=grow)
            self._aggregates.append((needed(aggregate, child), made))
        self._begun = bool(node.keys)

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        (given,) = inputs
        if not len(given.sign) and self._begun:
            return nothing(self.schema)
        numbers = self._groups.encode_columns([given.rows[k] for k in self._keys], len(given.sign))
        found = netted(numbers, given.time, given.sign, self._groups.place)
        if not self._begun:
            found = self._first(found)
        touched = self._touched(found, np.ascontiguousarray(given.sign))
        values = [made.step(touched, [given.rows[a] for a in arguments]) for arguments, made in self._aggregates]
        changes = self._changes(found, touched, values)
        self._groups.touch(touched.groups)
        gone = touched.groups
        if not self._final:
            gone = gone[self._groups.fields[ROWS][gone, 0] == 0] if self._keys else gone[:0]
        self._groups.release(gone)
        for _, made in self._aggregates:
            made.settle(gone)
        return changes

    def _first(self, found: Netted) -> Netted:
        """The one group without keys exists from the beginning, also without rows."""
        if len(found.time) and found.time[0] == ALWAYS:
            return found
        (number,) = self._groups.encode_columns([], 1)
        lead = [np.array([v], np.int64) for v in (-1, number, 0, ALWAYS)]
        rest = (found.first, found.number, found.net, found.time)
        return Netted(found.entry + 1, *(np.concatenate(pair) for pair in zip(lead, rest, strict=True)))

    def _touched(self, found: Netted, sign: Ints) -> Touched:
        groups, old, last = (np.empty(len(found.number), np.int64) for _ in range(3))
        count = chain_entries(found.number, self._groups.place, groups, old, last)
        return Touched(found.entry, sign, groups[:count], found.number, old, last[:count])

    def _changes(self, found: Netted, touched: Touched, values: list[pa.Array]) -> Changes:
        count = running(self._groups, ROWS, touched, np.ones((len(touched.entry), 1), np.int64))[:, 0]
        new = len(touched.groups) + np.arange(len(touched.old))
        lived, lives = count[touched.old] > 0, count[new] > 0
        if not self._keys:
            lived, lives = np.ones((2, len(new)), np.bool_)
            lived[0] = self._begun
            self._begun = True
        changed = lived != lives
        for array in values:
            changed |= ~same(array, touched.old, new)
        leaves, enters = np.flatnonzero(lived & changed), np.flatnonzero(lives & changed)
        which = np.concatenate([leaves, enters])
        order = np.argsort(which, kind="stable")
        which = which[order]
        version = np.concatenate([touched.old[leaves], new[enters]])[order]
        sign = np.repeat(np.array([-1, 1]), [len(leaves), len(enters)])[order]
        keys = self._groups.rows(touched.group[which]).columns
        picked = pa.array(version)
        table = pa.Table.from_arrays([*keys, *(a.take(picked) for a in values)], schema=self.schema)
        return Changes(table, sign, found.time[which])

    def size(self) -> int:
        return len(self._groups) + sum(made.size() for _, made in self._aggregates)

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes + sum(made.nbytes for _, made in self._aggregates)

    def snapshot(self) -> dict[str, bytes]:
        parts = under("groups", self._groups.snapshot())
        for k, (_, made) in enumerate(self._aggregates):
            parts |= under(f"aggregate.{k}", made.snapshot())
        return parts | {"begun": b"1" if self._begun else b""}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._groups.restore(below("groups", parts))
        for k, (_, made) in enumerate(self._aggregates):
            made.restore(below(f"aggregate.{k}", parts))
        self._begun = bool(parts["begun"])
