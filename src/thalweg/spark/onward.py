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
from thalweg.spark.pack import PARTS, by_bytes
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
        for number, some in enumerate(by_bytes(batches)):
            parts = self._cut(pa.Table.from_batches(some)) if some else [None] * self.cells
            for to, part in zip(cell_keys(self.cells), parts, strict=True):
                blob = write_ipc(part) if part is not None and part.num_rows else None
                if blob is not None or not number:
                    rows = 0 if part is None else part.num_rows
                    yield to, f"cell {key}", key + number * PARTS, rows, passed, blob, None
        yield from ((0, BAD, key, 0, NOTHING, blob, None) for blob in bad)
        yield 0, "", key, 0, NOTHING, None, report

    def _cut(self, table: pa.Table) -> list[pa.Table | None]:
        if self.column is None:
            return [table]
        axis = Axis(self.column, KeyCoder(table.schema.field(self.column).type), self.cells, 1)
        (batch,) = table.combine_chunks().to_batches()
        cells, _ = Placing("", (axis,), (0,), keeps_nulls=True).base(batch)
        return [table.take(pa.array(np.flatnonzero(cells == k))) for k in range(self.cells)]
