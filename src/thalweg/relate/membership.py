"""Membership: semi, anti and mark matches without a condition: EXISTS, IN, and their opposites.

A row's status follows from how many partners its key has, so the right side is only counted, by key. For IN and NOT IN
a row is unknown, and not unmatched, where no partner is equal and a comparison was with NULL: then it counts those of
its pool (matchkeys.py) with a NULL, or all of them if it is NULL itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.relation import Changes
from thalweg.language.algebra import Match as Node
from thalweg.relate.kernels.matching import OF_MATCHES, OF_ROW, OF_UNKNOWNS, find_statuses
from thalweg.relate.matchkeys import Keys
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import Netted, merged, netted, nothing
from thalweg.relate.rows.parts import below, under
from thalweg.relate.statuses import COUNT, LINKED, MATCHES, UNKNOWNS, in_order, relink, with_status

Ints = NDArray[np.int64]
KEY, NEXT, PREV = "key", "next", "prev"
POOL, POOL_NEXT, POOL_PREV = "pool", "pool.next", "pool.prev"
HEAD = "head"
EMPTY = Netted(*(np.empty(0, np.int64) for _ in range(5)))


class Membership:
    def __init__(self, node: Node) -> None:
        self.schema = node.schema
        self._node = node
        self._keys = Keys(node, node.keys)
        self._keys.found.add_field(HEAD, -1, kept=False)
        self._keys.found.add_field(MATCHES)
        self._pools = Keys(node, node.keys[:-1])
        self._pools.found.add_field(HEAD, -1, width=2, kept=False)
        self._pools.found.add_field(UNKNOWNS, width=2)
        self._rows = Dictionary(node.left.schema, grouping=False)
        for name, default in ((COUNT, 0), (KEY, -1), (POOL, -1), (LINKED, 0)):
            self._rows.add_field(name, default)
        for name in (NEXT, PREV, POOL_NEXT, POOL_PREV):
            self._rows.add_field(name, -1, kept=False)
        self._clock = np.zeros(1, np.int64)

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        left, right = inputs
        if not len(left.sign) and not len(right.sign):
            return nothing(self.schema)
        rows = self._left(left)
        matches, unknowns = self._right(right)
        kind, target, net, time = in_order([(OF_ROW, rows), (OF_MATCHES, matches), (OF_UNKNOWNS, unknowns)])
        fields, keys, pools = self._rows.fields, self._keys.found.fields, self._pools.found.fields
        out = find_statuses(
            kind, target, net, time, self._clock, False, fields[COUNT], fields[LINKED], self._rows.place, fields[KEY],
            keys[HEAD], fields[NEXT], fields[PREV], keys[MATCHES], fields[POOL], pools[HEAD].reshape(-1),
            fields[POOL_NEXT], fields[POOL_PREV], pools[UNKNOWNS].reshape(-1),
        )  # fmt: skip
        row, status, change = (np.ascontiguousarray(out[:, k]) for k in range(3))
        changes = with_status(self._node.kind, self._rows, row, status, change, time[out[:, 3]], self.schema)
        self._forget(rows.number, matches.number, unknowns.number // 2)
        return changes

    def _left(self, changes: Changes) -> Netted:
        numbers = self._rows.encode_columns(changes.rows.columns, len(changes.sign))
        key = self._keys.number(changes.rows, 0)
        self._rows.fields[KEY][numbers] = key
        if self._node.null_aware:
            pool = self._pools.number(changes.rows, 0)
            self._rows.fields[POOL][numbers] = np.where(pool < 0, -1, 2 * pool + (key < 0))
        return netted(numbers, changes.time, changes.sign, self._rows.place)

    def _right(self, changes: Changes) -> tuple[Netted, Netted]:
        """Changes of the counts by key, and of those by pool."""
        key = self._keys.number(changes.rows, 1)
        known = np.flatnonzero(key >= 0)
        matches = netted(key[known], changes.time[known], changes.sign[known], self._keys.found.place)
        if not self._node.null_aware:
            return matches, EMPTY
        pool = self._pools.number(changes.rows, 1)
        everyone, nulls = np.flatnonzero(pool >= 0), np.flatnonzero((pool >= 0) & (key < 0))
        which = np.concatenate([everyone, nulls])
        target = np.concatenate([2 * pool[everyone] + 1, 2 * pool[nulls]])
        order = merged([changes.time[everyone], changes.time[nulls]])
        which, target = which[order], target[order]
        place = np.empty(2 * self._pools.found.capacity, np.int64)  # what it holds is never trusted
        return matches, netted(target, changes.time[which], changes.sign[which], place)

    def _forget(self, numbers: Ints, keys: Ints, pools: Ints) -> None:
        """Rows that left, and keys and pools that no row of either side has any more."""
        fields = self._rows.fields
        keys = np.concatenate([keys, fields[KEY][numbers]])
        pools = np.concatenate([pools, fields[POOL][numbers] // 2])
        self._rows.touch(numbers)
        self._rows.release(numbers[fields[COUNT][numbers] == 0])
        for found, some, count in ((self._keys.found, keys, MATCHES), (self._pools.found, pools, UNKNOWNS)):
            some = some[some >= 0]
            found.touch(some)
            held = (found.fields[HEAD][some] >= 0) | (found.fields[count][some] != 0)
            found.release(some[~(held if held.ndim == 1 else held.any(axis=1))])

    def size(self) -> int:
        return len(self._rows) + len(self._keys.found)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._keys.found.nbytes + self._pools.found.nbytes

    def snapshot(self) -> dict[str, bytes]:
        parts = under("rows", self._rows.snapshot()) | under("keys", self._keys.found.snapshot())
        return parts | under("pools", self._pools.found.snapshot()) | {"clock": str(self._clock[0]).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        for name, found in (("rows", self._rows), ("keys", self._keys.found), ("pools", self._pools.found)):
            found.restore(below(name, parts))
        relink(self._rows, KEY, self._keys.found.fields[HEAD], NEXT, PREV)
        relink(self._rows, POOL, self._pools.found.fields[HEAD].reshape(-1), POOL_NEXT, POOL_PREV)
        self._clock[0] = int(parts["clock"])
