"""A sheet: the columns of results while they are written, once, by a kernel, and then handed on as Arrow.

Values of fixed width are copied as they are found, so results outlive the rows that they came from. For all others
(strings, lists, structs) the sheet takes row numbers, and Arrow takes the values of all of them at once: such a sheet
must be handed on while its rows are where they were (`borrows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.execute.arrival import Arrival
from thalweg.execute.kernels.gather import WIDTHS
from thalweg.execute.operators.stem import Stems
from thalweg.language.query import Column
from thalweg.state.columns import FixedValues, address, fixed_dtype, to_arrow
from thalweg.state.kernels.layout import NEWEST

Ints = NDArray[np.int64]
PART_BYTES = 64 << 20
"""Size: bytes of text of one column that leave at a time. Long texts make batches large that are few rows: a string of
1 MB may be part of thousands of results."""
Times = Callable[[Ints], pa.Array]
"""Times of results, in ticks, as the column that shows them."""


@dataclass
class _Target:
    """One column of the sheet."""

    column: Column | None
    """None for the time of a result."""
    type: pa.DataType
    dtype: np.dtype[Any]
    copied: bool
    """Whether its values are written; otherwise row numbers, or times, are."""
    values: NDArray[Any]
    valid: NDArray[np.bool_] | None = None
    """Made when the first source with NULLs comes."""


class Sheet:
    """Columns for `room` results."""

    def __init__(self, stems: Stems, columns: Sequence[tuple[Column | None, pa.DataType]], times: Times, room: int):
        self.stems = stems
        self.room = room
        self.at = 0
        """Results written."""
        self._times = times
        self._targets = [self._target(column, dtype) for column, dtype in columns]
        self.borrows = any(t.column is not None and not t.copied for t in self._targets)
        self._lines: tuple[int, Arrival | None, Ints] = (-1, None, np.empty((0, 4), np.int64))

    def _target(self, column: Column | None, dtype: pa.DataType) -> _Target:
        fixed = None if column is None else fixed_dtype(dtype)
        copied = fixed is not None and fixed.itemsize in WIDTHS
        kept = fixed if copied and fixed is not None else np.dtype(np.int64)
        return _Target(column, dtype, kept, copied, np.empty(self.room, kept))

    def lines(self, i: int, arrival: Arrival) -> Ints:
        """What the kernel reads and writes for results of these rows of input i."""
        if self._lines[0] == i and self._lines[1] is arrival:
            return self._lines[2]
        shape, found = self.stems.shape, list[tuple[int, int, int, int]]()
        for target in self._targets:
            if target.column is None:
                found.append((NEWEST, 0, 8, address(target.values)))
                continue
            j = shape.number[target.column.input]
            number = shape.row_column(j)
            if not target.copied:
                found.append((number, 0, 8, address(target.values)))
                continue
            values, valid = self._source(i, j, arrival, target.column.name)
            found.append((number, address(values), target.dtype.itemsize, address(target.values)))
            if valid is not None:
                if target.valid is None:
                    target.valid = np.ones(self.room, np.bool_)
                found.append((number, address(valid), 1, address(target.valid)))
        self._lines = i, arrival, np.array(found, np.int64).reshape(-1, 4)
        return self._lines[2]

    def _source(self, i: int, j: int, arrival: Arrival, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        if i == j:
            column = arrival.columns[name]
            assert isinstance(column, FixedValues)
            return column.values, column.valid
        return self.stems.stem(j).store.fixed(name)

    def hand_on(self, i: int, arrival: Arrival | None) -> Iterator[list[pa.Array]]:
        """The columns of what is written, which point into these rows of input i, in as many parts as their bytes of
        text ask for; then begin again."""
        # A sheet that is hardly used is copied and used again; otherwise the buffers go with the results.
        sparse = 2 * self.at < self.room
        yield from self._parts(i, arrival, 0, self.at, sparse)
        for target in self._targets:
            target.valid = None
            if target.copied and not sparse:
                target.values = np.empty(self.room, target.dtype)
        self.at = 0
        self._lines = (-1, None, self._lines[2])

    def _parts(self, i: int, arrival: Arrival | None, start: int, stop: int, sparse: bool) -> Iterator[list[pa.Array]]:
        """One part of lines start to stop, or halves of it where it has too many bytes."""
        try:
            borrowed = [self._borrowed(t, i, arrival, start, stop) for t in self._targets]
        except pa.ArrowInvalid:
            if stop - start == 1:
                raise
            half = (start + stop) // 2
            yield from self._parts(i, arrival, start, half, sparse)
            yield from self._parts(i, arrival, half, stop, sparse)
            return
        arrays = []
        for target, taken in zip(self._targets, borrowed, strict=True):
            values = target.values[start:stop]
            if taken is not None:
                arrays.append(taken)
            elif target.column is None:
                arrays.append(self._times(values))
            else:
                valid = None if target.valid is None else target.valid[start:stop]
                arrays.append(to_arrow(target.type, values.copy() if sparse else values, valid))
        yield arrays

    def _borrowed(self, target: _Target, i: int, arrival: Arrival | None, start: int, stop: int) -> pa.Array | None:
        """Values of which the sheet has row numbers."""
        if target.copied or target.column is None:
            return None
        assert arrival is not None
        most = PART_BYTES if stop - start > 1 else math.inf
        return self.stems.values(i, arrival, target.values[start:stop], target.column, most)

    def clear(self) -> None:
        """Forget what is written."""
        self.at, self._lines = 0, (-1, None, self._lines[2])
        for target in self._targets:
            target.valid = None
