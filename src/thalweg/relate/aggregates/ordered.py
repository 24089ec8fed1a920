"""first, last and collect_list: the rows of a group in the order of the instants at which they came.

Whole rows are kept, so that the right one leaves where several have the same value; of rows that are equal in all
columns the oldest leaves. collect_list has no NULLs, as in Spark, and is empty and not NULL for no values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg.relate.aggregates.contract import Accumulator, Ints, Touched
from thalweg.relate.aggregates.pairs import COUNT, Pairs
from thalweg.relate.kernels.lists import follow_lists, walk_lists
from thalweg.relate.rows.parts import below, under
from thalweg.state.keys import plain, validity
from thalweg.state.store import read_ipc, write_ipc

FIRST, LAST = "first", "last"


class Ordered(Accumulator):
    """The arguments of an event are its value and then the other columns of its row."""

    def __init__(
        self,
        arguments: Sequence[pa.DataType],
        result: pa.DataType,
        what: Literal["first", "last", "collect_list"],
    ) -> None:
        self._what, self._result = what, result
        self._pairs = Pairs(arguments, grouping=False)
        self._pairs.found.add_field(FIRST, -1, kept=False)
        self._pairs.found.add_field(LAST, -1, kept=False)
        self._head, self._tail, self._length = (np.zeros(0, np.int64) for _ in range(3))
        self._pair, self._next, self._prev, self._later, self._free = (np.zeros(0, np.int64) for _ in range(5))
        self._top = 0

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        known = np.ones(len(touched.entry), np.bool_)
        if self._what == "collect_list":
            valid = validity(plain(arguments[0]))
            known = known if valid is None else valid
        pair = self._pairs.number(touched, arguments, known)
        groups = len(touched.groups)
        # Versions before the step are entries of their own, without events.
        entry = touched.entry + groups
        order = np.argsort(entry, kind="stable")
        begin = np.searchsorted(entry[order], np.arange(touched.versions + 1))
        return self._value(*self._follow(np.r_[touched.groups, touched.group], order, begin, pair, touched.sign))

    def _follow(self, group: Ints, order: Ints, begin: Ints, pair: Ints, sign: Ints) -> tuple[Ints, Ints, Ints]:
        self._reserve(int(group.max(initial=-1)) + 1, int(np.maximum(sign, 0).sum()))
        ends, sizes = np.empty(2 * len(group), np.int64), np.empty(len(group), np.int64)
        fields = self._pairs.found.fields
        self._top, listed = follow_lists(
            order, begin, pair, sign, group, fields[COUNT], self._pair, self._next, self._prev, self._later,
            fields[FIRST], fields[LAST], self._head, self._tail, self._length, self._free, self._top, ends, sizes,
            self._what == "collect_list",
        )  # fmt: skip
        return ends, sizes, listed

    def _value(self, ends: Ints, sizes: Ints, listed: Ints) -> pa.Array:
        if self._what != "collect_list":
            return self._pairs.values(np.ascontiguousarray(ends[self._what == "last" :: 2])).cast(self._result)
        values = self._pairs.values(listed).cast(self._result.value_type)
        offsets = pa.array(np.r_[0, np.cumsum(sizes)], pa.int32())
        return pa.ListArray.from_arrays(offsets, values).cast(self._result)

    def _reserve(self, groups: int, nodes: int) -> None:
        if groups > len(self._head):
            more = max(groups, 2 * len(self._head)) - len(self._head)
            self._head, self._tail = (np.concatenate([a, np.full(more, -1)]) for a in (self._head, self._tail))
            self._length = np.concatenate([self._length, np.zeros(more, np.int64)])
        if nodes > self._top:
            before = len(self._free)
            capacity = max(2 * before, before - self._top + nodes)
            fresh = np.arange(before, capacity)
            for name in ("_pair", "_next", "_prev", "_later"):
                setattr(self, name, np.concatenate([getattr(self, name), fresh]))
            room = np.empty(before - self._top, np.int64)
            self._free = np.concatenate([fresh, self._free[: self._top], room])
            self._top += len(fresh)

    def settle(self, groups: Ints) -> None:
        living = groups[self._length[groups] > 0]
        if len(living):  # final groups: empty their lists
            group, pair = self._listed(living)
            sign, begin = np.full(len(pair), -1), np.searchsorted(group, np.unique(group))
            self._follow(np.unique(group), np.arange(len(pair)), np.r_[begin, len(pair)], pair, sign)
        self._pairs.settle()

    def _listed(self, groups: Ints) -> tuple[Ints, Ints]:
        groups = np.sort(groups)
        group, pair = (np.empty(int(self._length[groups].sum()), np.int64) for _ in range(2))
        walk_lists(groups, self._head, self._next, self._pair, group, pair)
        return group, pair

    def size(self) -> int:
        return len(self._free) - self._top

    @property
    def nbytes(self) -> int:
        arrays = (self._head, self._tail, self._length, self._pair, self._next, self._prev, self._later, self._free)
        return self._pairs.nbytes + sum(a.nbytes for a in arrays)

    def snapshot(self) -> dict[str, bytes]:
        group, pair = self._listed(np.flatnonzero(self._length))
        lists = write_ipc(pa.table({"group": group, "pair": pair}))
        return under("pairs", self._pairs.snapshot()) | {"lists": lists}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._pairs.restore(below("pairs", parts))
        table = read_ipc(parts["lists"])
        group, pair = (table[name].to_numpy().copy() for name in ("group", "pair"))
        self._pairs.found.fields[COUNT][pair] = 0
        groups, begin = np.unique(group, return_index=True)
        self._follow(groups, np.arange(len(pair)), np.r_[begin, len(pair)], pair, np.ones(len(pair), np.int64))
