"""Match: a join of two relations at every instant: inner, outer, semi, anti, and "mark" (IN and EXISTS as a value).

Every pair of rows that the keys and the condition hold for is found when one of its rows changes. A row of an outer
side counts its partners; while there are none, it lives with NULLs. Semi, anti and mark matches without a condition
need only how many partners each key has: `Membership` in membership.py. Thesis 2.2, table 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import Changes
from thalweg.language.algebra import Match as Node
from thalweg.relate.evaluate import holds
from thalweg.relate.kernels.matching import (
    ENTRY,
    LEFT,
    LEFT_AFTER,
    LEFT_BEFORE,
    RIGHT,
    RIGHT_AFTER,
    RIGHT_BEFORE,
    find_pairs,
)
from thalweg.relate.matchkeys import Keys, compared
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import Netted, cancelled, merged, netted, nothing, selected
from thalweg.relate.rows.parts import below, under
from thalweg.relate.statuses import Partners, relink, with_status

Ints = NDArray[np.int64]
COUNT, KEY, LINKED, NEXT, PREV = "count", "key", "linked", "next", "prev"
HEADS = ("left", "right")


class Match:
    def __init__(self, node: Node) -> None:
        self.schema = node.schema
        self._node = node
        pairs = node.keys[:-1] if node.null_aware else node.keys
        self._keys = Keys(node, pairs)
        for head in HEADS:
            self._keys.found.add_field(head, -1, kept=False)
        self._compared = node.keys[-1] if node.null_aware else None
        self._sides = [Dictionary(child.schema, grouping=False) for child in node.children]
        for rows in self._sides:
            for name, default in ((COUNT, 0), (KEY, -1), (LINKED, 0), (NEXT, -1), (PREV, -1)):
                rows.add_field(name, default, kept=name not in (NEXT, PREV))
        self._clock = np.zeros(1, np.int64)
        counting = {"inner": (), "right": (1,), "full": (0, 1)}.get(node.kind, (0,))
        self._partners = {side: Partners(self._sides[side]) for side in counting}

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        if not any(len(i.sign) for i in inputs):
            return nothing(self.schema)
        entries = [self._taken(side, changes) for side, changes in enumerate(inputs)]
        pairs, times = self._pairs(entries)
        yes, unknown = self._verdicts(pairs)
        found = []
        if self._node.kind in ("inner", "left", "right", "full"):
            found.append(self._joined(pairs[yes], times))
        for side, partners in self._partners.items():
            alike = (pairs, times, yes, unknown)
            found.append(self._alone(side, *partners.step(entries[side], side, *alike)))
        changes = self._together(found)
        self._forget(entries)
        return changes

    def _taken(self, side: int, changes: Changes) -> Netted:
        rows = self._sides[side]
        numbers = rows.encode_columns(changes.rows.columns, len(changes.sign))
        rows.fields[KEY][numbers] = self._keys.number(changes.rows, side)
        return netted(numbers, changes.time, changes.sign, rows.place)

    def _pairs(self, entries: Sequence[Netted]) -> tuple[Ints, Ints]:
        order = merged([e.time for e in entries])
        side = np.repeat(np.arange(2), [len(e.net) for e in entries])[order]
        row, net, time = (
            np.concatenate([getattr(e, name) for e in entries])[order] for name in ("number", "net", "time")
        )
        heads = self._keys.found.fields
        arrays = []
        for rows, head in zip(self._sides, HEADS, strict=True):
            fields = rows.fields
            arrays += [fields[COUNT], fields[KEY], fields[LINKED], heads[head], fields[NEXT], fields[PREV], rows.place]
        return find_pairs(side, row, net, time, self._clock, *arrays), time

    def _verdicts(self, pairs: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The pairs that match, and those for which it is unknown (IN and NOT IN only)."""
        yes = np.ones(len(pairs), np.bool_)
        if not len(pairs) or (self._node.condition is None and self._compared is None):
            return yes, ~yes
        columns: dict[str, pa.Array] = {}
        for rows, at in zip(self._sides, (LEFT, RIGHT), strict=True):
            table = rows.rows(np.ascontiguousarray(pairs[:, at]))
            columns |= dict(zip(table.column_names, table.columns, strict=True))
        if self._node.condition is not None:
            yes = holds(self._node.condition, columns, len(pairs))
        if self._compared is None:
            return yes, np.zeros(len(pairs), np.bool_)
        equal, unknown = compared(columns[self._compared[0]], columns[self._compared[1]])
        return yes & equal, yes & unknown

    def _joined(self, pairs: Ints, times: Ints) -> Changes:
        net = pairs[:, LEFT_AFTER] * pairs[:, RIGHT_AFTER] - pairs[:, LEFT_BEFORE] * pairs[:, RIGHT_BEFORE]
        which = np.flatnonzero(net)
        pairs = pairs[which]
        left, right = (rows.rows(np.ascontiguousarray(pairs[:, k])) for k, rows in enumerate(self._sides))
        return Changes(self._table([*left.columns, *right.columns]), net[which], times[pairs[:, ENTRY]])

    def _alone(self, side: int, found: Ints, times: Ints) -> Changes:
        """Rows of one side by their status."""
        row, status, net = (np.ascontiguousarray(found[:, k]) for k in range(3))
        if self._node.kind in ("semi", "anti", "mark"):
            return with_status(self._node.kind, self._sides[0], row, status, net, times, self.schema)
        which = np.flatnonzero(status == 0)
        columns = self._sides[side].rows(row[which]).columns
        nulls = [pa.nulls(len(which), f.type) for f in self._node.children[1 - side].schema]
        both = [*columns, *nulls] if side == 0 else [*nulls, *columns]
        return Changes(self._table(both), net[which], times[which])

    def _table(self, columns: list[pa.Array]) -> pa.Table:
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _together(self, found: list[Changes]) -> Changes:
        if len(found) == 1:
            return found[0]
        sign, time = np.concatenate([c.sign for c in found]), np.concatenate([c.time for c in found])
        both = selected(Changes(pa.concat_tables([c.rows for c in found]), sign, time), merged([c.time for c in found]))
        # A row of NULLs may match without keys, and is then equal to none.
        return both if self._node.keys else cancelled(both)

    def _forget(self, entries: Sequence[Netted]) -> None:
        """Rows that left, and keys that no row of either side has any more."""
        keys = np.concatenate([rows.fields[KEY][e.number] for rows, e in zip(self._sides, entries, strict=True)])
        for rows, entry in zip(self._sides, entries, strict=True):
            rows.touch(entry.number)
            rows.release(entry.number[rows.fields[COUNT][entry.number] == 0])
        keys = keys[keys >= 0]
        left, right = (self._keys.found.fields[head][keys] for head in HEADS)
        self._keys.found.release(keys[(left < 0) & (right < 0)])

    def size(self) -> int:
        return sum(map(len, self._sides))

    @property
    def nbytes(self) -> int:
        return self._keys.found.nbytes + sum(rows.nbytes for rows in self._sides)

    def snapshot(self) -> dict[str, bytes]:
        parts = under("keys", self._keys.found.snapshot())
        for name, rows in zip(HEADS, self._sides, strict=True):
            parts |= under(name, rows.snapshot())
        return parts | {"clock": str(self._clock[0]).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._keys.found.restore(below("keys", parts))
        for name, rows in zip(HEADS, self._sides, strict=True):
            rows.restore(below(name, parts))
            relink(rows, KEY, self._keys.found.fields[name], NEXT, PREV)
        self._clock[0] = int(parts["clock"])
