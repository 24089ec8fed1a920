"""Texts: byte strings under numbers, held as often as rows name them and forgotten when none does.

Their bytes lie in one array. It is packed when more than half of it is unused, so it stays in proportion to the texts
that are held, and the work of packing to the bytes that were freed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.kernels.table import index_rows, remove_rows
from thalweg.relate.kernels.texts import count_holders, gather_texts, intern_texts
from thalweg.relate.rows.parts import Blocks
from thalweg.state.kernels.hashing import hash_bytes

Ints = NDArray[np.int64]
SMALL = 16
"""Places at the beginning, and bytes below which packing is not worth a thought; any small number will do."""


class Texts:
    def __init__(self) -> None:
        self._data = np.empty(0, np.uint8)
        self._used = 0
        self._freed = 0
        self._start, self._length, self._hash, self._holders = (np.zeros(0, np.int64) for _ in range(4))
        self._table = np.zeros(SMALL, np.int64)
        self._free = np.empty(0, np.int64)
        self._top = 0
        self._blocks = Blocks()

    def __len__(self) -> int:
        return len(self._free) - self._top

    @property
    def nbytes(self) -> int:
        arrays = (self._data, self._start, self._length, self._hash, self._holders, self._table, self._free)
        return sum(a.nbytes for a in arrays)

    def numbers(self, array: pa.Array) -> Ints:
        """A number for each text of a large_binary array; NULL counts as empty. `settle` must follow."""
        rows = len(array)
        out = np.empty(rows, np.int64)
        if not rows:
            return out
        offsets = np.frombuffer(array.buffers()[1], np.int64, rows + array.offset + 1)[array.offset :]
        content = array.buffers()[2]
        data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(0, np.uint8)
        hashes = np.empty(rows, np.int64)
        hash_bytes(data, offsets, hashes)
        self._reserve(rows, int(offsets[-1] - offsets[0]))
        self._top, self._used = intern_texts(
            data, offsets, hashes, self._data, self._start, self._length, self._hash, self._table, self._free,
            self._top, self._used, out,
        )  # fmt: skip
        return out

    def hold(self, numbers: Ints) -> None:
        self._blocks.touch(numbers)
        self._holders_changed(numbers, 1)

    def settle(self, numbers: Ints) -> None:
        """Forget those of them that no row holds."""
        self._holders_changed(numbers, 0)

    def drop(self, numbers: Ints) -> None:
        self._blocks.touch(numbers)
        self._holders_changed(numbers, -1)

    def _holders_changed(self, numbers: Ints, change: int) -> None:
        gone = np.empty(len(numbers), np.int64)
        gone = gone[: count_holders(numbers, self._holders, change, gone)]
        if len(gone):
            self._freed += int(self._length[gone].sum())
            self._top = remove_rows(gone, self._hash, self._table, self._free, self._top)
            if self._freed > max(SMALL, self._used // 2):
                self._pack()

    def take(self, numbers: Ints) -> tuple[Ints, NDArray[np.uint8]]:
        """Offsets and bytes; a number below zero is an empty text."""
        offsets = np.empty(len(numbers) + 1, np.int64)
        return offsets, gather_texts(self._data, self._start, self._length, numbers, offsets)

    def data(self) -> tuple[NDArray[np.uint8], Ints, Ints]:
        """All bytes, and where each text begins and how long it is, for kernels that compare."""
        return self._data, self._start, self._length

    # Room

    def _living(self) -> Ints:
        alive = np.ones(len(self._free), np.bool_)
        alive[self._free[: self._top]] = False
        return np.flatnonzero(alive)

    def _pack(self) -> None:
        living = self._living()
        offsets, data = self.take(living)
        self._start[living] = offsets[:-1]
        room = np.empty(max(SMALL, 2 * len(data)), np.uint8)
        room[: len(data)] = data
        self._data, self._used, self._freed = room, len(data), 0

    def _reserve(self, rows: int, size: int) -> None:
        if self._used + size > len(self._data):
            room = np.empty(2 * (self._used + size), np.uint8)
            room[: self._used] = self._data[: self._used]
            self._data = room
        if rows > self._top:
            before = len(self._free)
            capacity = max(2 * before, len(self) + rows, SMALL)
            for name in ("_start", "_length", "_hash", "_holders"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(capacity - before, np.int64)]))
            fresh = np.arange(capacity - 1, before - 1, -1)
            free = np.empty(capacity, np.int64)
            free[: len(fresh)], free[len(fresh) : len(fresh) + self._top] = fresh, self._free[: self._top]
            self._free, self._top = free, len(fresh) + self._top
        if 2 * (len(self) + rows) > len(self._table):
            self._table = np.zeros(1 << (4 * (len(self) + rows)).bit_length(), np.int64)
            index_rows(self._living(), self._hash, self._table)

    # As bytes

    def snapshot(self) -> dict[str, bytes]:
        def table(numbers: Ints) -> dict[str, Any]:
            offsets, data = self.take(numbers)
            texts = pa.Array.from_buffers(
                pa.large_binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
            )
            return {"text": texts, "holders": pa.array(self._holders[numbers])}

        return self._blocks.snapshot(self._living(), table)

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self.__init__()  # type: ignore[misc]
        numbers, columns = Blocks.read(parts)
        if not len(numbers):
            return
        capacity = int(numbers.max()) + 1
        self._start, self._length, self._hash, self._holders = (np.zeros(capacity, np.int64) for _ in range(4))
        texts = columns["text"]
        offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1)
        content = texts.buffers()[2]
        data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)[: offsets[-1]]
        self._data, self._used = data.copy(), len(data)
        self._start[numbers], self._length[numbers] = offsets[:-1], np.diff(offsets)
        hashes = np.empty(len(numbers), np.int64)
        hash_bytes(data, offsets, hashes)
        self._hash[numbers] = hashes
        self._holders[numbers] = columns["holders"].to_numpy()
        alive = np.zeros(capacity, np.bool_)
        alive[numbers] = True
        unused = np.flatnonzero(~alive)
        self._free = np.empty(capacity, np.int64)
        self._free[: len(unused)], self._top = unused, len(unused)
        self._table = np.zeros(1 << (4 * capacity).bit_length(), np.int64)
        index_rows(numbers, self._hash, self._table)
