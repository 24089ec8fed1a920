"""Queues: the last n items of each group, in the order in which they came. Items are numbers of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.kernels.queues import list_items, push_items
from thalweg.state.store import read_ipc, write_ipc

Ints = NDArray[np.int64]


class Queues:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head, self._tail, self._length = (np.zeros(0, np.int64) for _ in range(3))
        self._held, self._next, self._free = (np.zeros(0, np.int64) for _ in range(3))
        self._top = 0

    def __len__(self) -> int:
        return len(self._free) - self._top

    @property
    def nbytes(self) -> int:
        arrays = (self._head, self._tail, self._length, self._held, self._next, self._free)
        return sum(a.nbytes for a in arrays)

    def push(self, groups: Ints, items: Ints) -> Ints:
        """Append items; the item that each pushes out of its group's queue, or -1."""
        out = np.empty(len(items), np.int64)
        if not len(items):
            return out
        most = int(groups.max()) + 1
        if most > len(self._head):
            more = np.zeros(max(most, 2 * len(self._head)) - len(self._head), np.int64)
            self._head, self._tail, self._length = (
                np.concatenate([a, more]) for a in (self._head, self._tail, self._length)
            )
        if len(items) > self._top:
            before = len(self._free)
            capacity = max(2 * before, len(self) + len(items))
            self._held, self._next = (
                np.concatenate([a, np.zeros(capacity - before, np.int64)]) for a in (self._held, self._next)
            )
            fresh = np.arange(before, capacity)
            room = np.empty(before - self._top, np.int64)
            self._free = np.concatenate([fresh, self._free[: self._top], room])
            self._top += len(fresh)
        self._top = push_items(
            groups, items, self._limit, self._head, self._tail, self._length, self._held, self._next, self._free,
            self._top, out,
        )  # fmt: skip
        return out

    def items(self) -> tuple[Ints, Ints]:
        """All groups and items, in the order of the queues."""
        group, item = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        groups = np.flatnonzero(self._length)
        list_items(groups, self._head, self._length, self._held, self._next, group, item)
        return group, item

    def snapshot(self) -> bytes:
        group, item = self.items()
        return write_ipc(pa.table({"group": group, "item": item}))

    def restore(self, content: bytes) -> None:
        self.__init__(self._limit)  # type: ignore[misc]
        table = read_ipc(content)
        self.push(table["group"].to_numpy().copy(), table["item"].to_numpy().copy())
