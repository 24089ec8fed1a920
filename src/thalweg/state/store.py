"""Store: the stored rows of a stem, as arrays in one arena and pieces of Arrow where a column has no fixed width.

Kernels see `cells` (time, members, keys) by arena row. Each row window adds a column of expiries; the place of each row
in the order of its source is kept too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import CheckpointError
from thalweg.state.arena import Arena
from thalweg.state.columns import FixedValues, fixed_dtype, read, take, to_arrow
from thalweg.state.kernels.layout import FOREVER, KEYS, MEMBERS, TIME
from thalweg.state.keys import plain
from thalweg.state.slice import Slice, Window
from thalweg.state.texts import Pieces, Texts, width_of

Ints = NDArray[np.int64]
Columns = Mapping[str, FixedValues | pa.Array]


class Store:
    """Rows of slices. It has no index and never drops rows by itself."""

    def __init__(
        self, name: str, attributes: int, columns: Mapping[str, pa.DataType], windows: Sequence[Window]
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.columns = dict(columns)
        self.windows = tuple(windows)
        self.counted = [k for k, w in enumerate(windows) if w.counted]
        arrays: dict[str, NDArray[Any]] = {"cells": np.empty((0, KEYS + attributes), np.int64)}
        if self.counted:
            arrays["order"] = np.empty(0, np.int64)
        for k in self.counted:
            arrays[f"expiry.{k}"] = np.empty(0, np.int64)
        for column, dtype in self.columns.items():
            fixed = fixed_dtype(dtype)
            if fixed is not None:
                arrays[f"column.{column}"] = np.empty(0, fixed)
        self.arena = Arena(arrays)
        self.nothing = np.empty(0, np.int64)
        self._pieces: dict[str, tuple[Any, Pieces | Texts]] = {}

    @property
    def cells(self) -> Ints:
        return self.arena.arrays["cells"]

    @property
    def version(self) -> int:
        """Changes whenever rows move."""
        return self.arena.version

    def expiries(self, member: int) -> Ints:
        """A member's column of expiries; empty unless its window counts rows."""
        return self.arena.arrays.get(f"expiry.{member}", self.nothing)

    def alive(self, part: Slice, horizon: int) -> NDArray[np.bool_]:
        """The rows of a slice that some member may still need at the horizon."""
        span = slice(part.start, part.start + part.rows)
        times, members = self.cells[span, TIME], self.cells[span, MEMBERS]
        alive = np.zeros(part.rows, np.bool_)
        for k, window in enumerate(self.windows):
            mine = members & (1 << k) != 0
            if window.counted:
                mine &= self.expiries(k)[span] >= horizon
            elif window.span != FOREVER:
                mine &= times >= horizon - window.span
            alive |= mine
        return alive

    # Rows in and out

    def append(
        self, part: Slice, cells: Ints, columns: Columns, rows: Any, order: Ints | None, expiries: Sequence[Ints]
    ) -> None:
        """Append rows `rows` of the columns to a slice that has room for them."""
        arrays, at = self.arena.arrays, part.start + part.rows
        span = slice(at, at + len(cells))
        arrays["cells"][span] = cells
        if order is not None:
            arrays["order"][span] = order
        for k, when in zip(self.counted, expiries, strict=True):
            arrays[f"expiry.{k}"][span] = when
        whole = len(rows) > 0 and rows[-1] - rows[0] == len(cells) - 1
        picked: Any = slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows
        for name in self.columns:
            column = columns[name]
            if isinstance(column, FixedValues):
                arrays[f"column.{name}"][span] = column.values[picked]
                self._mark_valid(name, span, None if column.valid is None else column.valid[picked])
            else:
                part.append_chunk(name, take(column, rows))

    def _mark_valid(self, name: str, span: slice, valid: NDArray[np.bool_] | None) -> None:
        marks = self.arena.arrays.get(f"valid.{name}")
        if marks is None:
            if valid is None:
                return
            marks = self.arena.add(f"valid.{name}", np.bool_, True)
        marks[span] = True if valid is None else valid

    def move(self, part: Slice, capacity: int) -> None:
        """Give a slice a larger block."""
        fresh, old = self.arena.allocate(capacity), part.block
        for array in self.arena.arrays.values():
            array[fresh.offset : fresh.offset + part.rows] = array[old.offset : old.offset + part.rows]
        self.arena.free(old)
        part.block = fresh

    def fixed(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The values of a column of fixed width, by arena row, and which are not NULL (None: all)."""
        return self.arena.arrays[f"column.{name}"], self.arena.arrays.get(f"valid.{name}")

    def gather(self, name: str, rows: Ints, slices: Sequence[Slice], stamp: int, most: float = math.inf) -> pa.Array:
        """Values of a column for stored rows; `stamp` counts the changes of the slices."""
        values = self.arena.arrays.get(f"column.{name}")
        if values is not None:
            valid = self.arena.arrays.get(f"valid.{name}")
            return to_arrow(self.columns[name], values[rows], None if valid is None else valid[rows])
        if not len(rows):
            return pa.array([], self.columns[name])
        pieces = self._located(name, slices, stamp)
        return pieces.take(rows, most) if isinstance(pieces, Texts) else pieces.take(rows)

    def _located(self, name: str, slices: Sequence[Slice], stamp: int) -> Pieces | Texts:
        """The pieces of an Arrow column and the row at which each begins."""
        now = (stamp, self.version)
        cached = self._pieces.get(name)
        if cached is not None and cached[0] == now:
            return cached[1]
        located: list[tuple[int, pa.Array]] = []
        for part in slices:
            at = part.start
            for piece in part.chunks.get(name, ()):
                located.append((at, piece))
                at += len(piece)
        located.sort(key=lambda entry: entry[0])
        firsts, arrays = [at for at, _ in located], [piece for _, piece in located]
        dtype = self.columns[name]
        pieces = Texts(dtype, firsts, arrays) if width_of(dtype) else Pieces(firsts, arrays)
        self._pieces[name] = (now, pieces)
        return pieces

    def carried(self, name: str, rows: Ints, slices: Sequence[Slice], stamp: int) -> FixedValues | pa.Array:
        """A column of stored rows as `append` takes it."""
        values = self.arena.arrays.get(f"column.{name}")
        if values is None:
            return self.gather(name, rows, slices, stamp)
        valid = self.arena.arrays.get(f"valid.{name}")
        return FixedValues(self.columns[name], values[rows], None if valid is None else valid[rows])

    # As bytes

    def dump(self, part: Slice, slices: Sequence[Slice], stamp: int) -> bytes:
        """A slice as Arrow IPC: times, members, keys, expiries, and the columns carried."""
        if part.dumped is not None and part.dumped[0] == part.stamp:
            return part.dumped[1]
        rows = np.arange(part.start, part.start + part.rows)
        cells = self.cells[rows]
        table = {f"cell.{k}": pa.array(np.ascontiguousarray(cells[:, k])) for k in range(cells.shape[1])}
        for name in ("order", *(f"expiry.{k}" for k in self.counted)) if self.counted else ():
            table[name] = pa.array(self.arena.arrays[name][rows])
        table |= {f"column.{name}": self.gather(name, rows, slices, stamp) for name in self.columns}
        content = write_ipc(pa.table(table))
        part.dumped = (part.stamp, content)
        return content

    def undump(self, content: bytes) -> tuple[Ints, dict[str, FixedValues | pa.Array], Ints | None, list[Ints]]:
        """Cells, columns, order and expiries as `dump` wrote them."""
        table = read_ipc(content)
        cells = np.stack([table[f"cell.{k}"].to_numpy() for k in range(KEYS + self.attributes)], axis=1)
        columns: dict[str, FixedValues | pa.Array] = {}
        for name, dtype in self.columns.items():
            column = plain(table[f"column.{name}"])
            if column.type != dtype:
                raise CheckpointError(
                    f"'{self.name}.{name}' is {dtype} now and was {column.type} when the state was written",
                    hint="start from a new checkpoint",
                )
            columns[name] = read(column)
        order = np.ascontiguousarray(table["order"].to_numpy()) if self.counted else None
        expiries = [np.ascontiguousarray(table[f"expiry.{k}"].to_numpy()) for k in self.counted]
        return np.ascontiguousarray(cells), columns, order, expiries


def write_ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_ipc(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
