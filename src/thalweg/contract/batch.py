"""A batch: consecutive tuples of one input, columnar, as the engine takes them in."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of one input. `number` counts the batches this engine has met."""

    data: pa.RecordBatch
    number: int = 0
    stream: str = ""

    def __len__(self) -> int:
        return int(self.data.num_rows)
