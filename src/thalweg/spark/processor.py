"""The stateful operator of `tw.sql` as Spark sees it; `cell.py` does the work of a cell.

Spark unpickles this class in a fresh process at every start of a query, only to learn which state it has. So the
task travels as bytes, and the engine (NumPy, numba) is imported only when the first rows arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thalweg.spark.packed import OUT, PACKED
from thalweg.spark.settle import settle

if TYPE_CHECKING:
    from thalweg.spark.celltask import CellTask


class CellProcessor(StatefulProcessor):
    """Packed rows of one key in, packed results out."""

    def __init__(self, task: CellTask) -> None:
        self._task: bytes = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._parts = handle.getMapState("parts", "name string", "content binary")

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:  # type: ignore[override]
        from thalweg.spark.cell import Cell

        Cell(cloudpickle.loads(self._task), self._parts).keep_table(initialState)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # type: ignore[override]
        from thalweg.spark.cell import Cell

        task = cloudpickle.loads(self._task)
        names = (OUT if task.onward is None else PACKED).names
        for line in Cell(task, self._parts).run(int(key[0]), rows):
            yield Row(**dict(zip(names, line, strict=True)))
        settle()
