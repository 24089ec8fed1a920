"""Onward: the changes of a cell below, packed for the cells above, as `pack.py` packs rows for cells.

Every cell below sends a line to each cell above in every batch, also without changes: it says how far the sender has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.engine.gate import NOTHING
from thalweg.engine.placing import Axis, Placing
from thalweg.spark.keys import cell_keys
from thalweg.spark.quarantine import BAD
from thalweg.state.keys import KeyCoder
from thalweg.state.store import write_ipc


@dataclass(frozen=True)
class Onward:
    """Where the changes of a cell go."""

    cells: int
    column: str | None
    """Rows that are equal in it meet in one cell; None: there is only one."""

    def lines(
        self, key: int, batches: Sequence[pa.RecordBatch], passed: int, bad: Sequence[bytes], report: str
    ) -> Iterator[tuple[Any, ...]]:
        """Packed lines of one cell: its changes, rows in quarantine on their way out, its report."""
        parts = self._cut(pa.Table.from_batches(batches)) if batches else [None] * self.cells
        for to, part in zip(cell_keys(self.cells), parts, strict=True):
            some = part is not None and part.num_rows > 0
            yield to, f"cell {key}", key, part.num_rows if some else 0, passed, write_ipc(part) if some else None, None
        yield from ((0, BAD, key, 0, NOTHING, blob, None) for blob in bad)
        yield 0, "", key, 0, NOTHING, None, report

    def _cut(self, table: pa.Table) -> list[pa.Table]:
        if self.column is None:
            return [table]
        axis = Axis(self.column, KeyCoder(table.schema.field(self.column).type), self.cells, 1)
        (batch,) = table.combine_chunks().to_batches()
        cells, _ = Placing("", (axis,), (0,), keeps_nulls=True).base(batch)
        return [table.take(pa.array(np.flatnonzero(cells == k))) for k in range(self.cells)]
