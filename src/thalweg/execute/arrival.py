"""Rows of one input on their way: partial results of one row each, and the columns that their row numbers point into.

With filters alone, a partial result is just its row number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.state.columns import FixedValues

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """See the module's head."""

    partial: Ints
    data: pa.RecordBatch
    columns: Mapping[str, FixedValues | pa.Array]
    newest: int
    expiry: int
    """Bounds: no row is older, and none expires later."""

    @classmethod
    def of(cls, batch: Batch) -> Arrival:
        """The rows of a batch before filters."""
        return cls(np.arange(len(batch)).reshape(-1, 1), batch.data, {}, 0, 0)

    def pick(self, lines: Ints) -> Arrival:
        return replace(self, partial=self.partial.take(lines, axis=0))

    def numbers(self, lines: Ints | None, column: int) -> Ints | None:
        """The row numbers of these lines of `partial` (None: all), which `column` holds; None if they count from 0."""
        if len(self.partial) == self.data.num_rows:
            return lines
        rows = self.partial[:, column]
        return np.ascontiguousarray(rows) if lines is None else rows[lines]

    def batch(self, number: int, stream: str, column: int) -> Batch:
        """A policy's view of the rows as they arrived; `column` holds their row numbers."""
        if len(self.partial) == self.data.num_rows:
            return Batch(self.data, number, stream)
        return _PickedBatch(self, column, number, stream)


class _PickedBatch(Batch):
    """Some rows of a batch, copied only when a policy reads them."""

    __slots__ = ("_arrival", "_column", "_picked")

    def __init__(self, arrival: Arrival, column: int, number: int, stream: str) -> None:
        object.__setattr__(self, "_arrival", arrival)
        object.__setattr__(self, "_column", column)
        object.__setattr__(self, "_picked", None)
        object.__setattr__(self, "number", number)
        object.__setattr__(self, "stream", stream)

    @property
    def data(self) -> pa.RecordBatch:
        if self._picked is None:  # type: ignore[attr-defined]
            rows = np.ascontiguousarray(self._arrival.partial[:, self._column])  # type: ignore[attr-defined]
            object.__setattr__(self, "_picked", self._arrival.data.take(pa.array(rows)))  # type: ignore[attr-defined]
        return self._picked  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._arrival.partial)  # type: ignore[attr-defined]
