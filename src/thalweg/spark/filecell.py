"""Cells whose state lies in files: a plain task behind the shuffle, no stateful operator of Spark.

The task reads the version that the batch before it left and writes its own (`state/versions.py`), under the query's id
and the cell's key. Results leave as rows of the answer: no second Python task unpacks them, as behind the stateful
operator. Spark repeats a batch from the same offsets, and the batch before it left the same version: so a repeated task
gives the same rows. Tables come as packed rows of the first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from thalweg.engine.recut import Grid
from thalweg.errors import DefinitionError
from thalweg.spark.celltask import CellTask
from thalweg.spark.keys import FIRST, cell_keys
from thalweg.spark.packed import packed_lines
from thalweg.spark.settle import settle
from thalweg.spark.task import batch_number, query_id
from thalweg.spark.unpack import fitted, told, with_stats
from thalweg.state.store import read_ipc
from thalweg.state.versions import durable, synced

if TYPE_CHECKING:
    from thalweg.spark.cell import Taken
    from thalweg.spark.filemoves import FileMove

CONF = "spark.thalweg.state"
"""Names the folder of the state of all queries of a session."""
RETAINED = "spark.sql.streaming.minBatchesToRetain"
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class FileCell:
    """What a task does with the rows of its cells."""

    cell: CellTask
    retain: int
    schema: pa.Schema
    """The columns of the answer. Cells that send onward don't use it."""

    def run(self, batches: Batches) -> Batches:
        """Of each cell its results, then its report; or lines for the cells above."""
        from thalweg.spark.cell import Cell
        from thalweg.spark.filemoves import FileMove, clean
        from thalweg.state.versions import CLEAN, Versions

        query, batch = query_id(), batch_number()
        arrived: dict[int, list[Row]] = {}
        for part in batches:
            for row in part.to_pylist():
                arrived.setdefault(row["key"], []).append(Row(**row))
        assert query is not None
        assert batch is not None
        root = Path(self.cell.folder) / query
        move = None if self.cell.above else FileMove.of(root, batch, self.cell)
        task = self.cell if move is None else replace(self.cell, move=move)
        if not arrived:
            self._carry(root, batch, move)
        for key, rows in sorted(arrived.items()):
            store = Versions(root / self._name(key), batch, self.retain, empty=move is not None)
            cell = Cell(task, store, store.commit)
            if self.cell.onward is not None:
                yield from (packed_lines([line]) for line in cell.run(key, rows))
            elif (taken := cell.take(key, rows)) is not None:
                yield from self._rows(taken)
            if key == FIRST and batch % CLEAN == 0:
                clean(root, batch - self.retain)

    def _name(self, key: int) -> str:
        return f"above-{key}" if self.cell.above else str(key)

    def _carry(self, root: Path, batch: int, move: FileMove | None) -> None:
        """Keep the versions of all cells for the batch after this one: every cell gets lines in every batch, unless no input
        has a partition, as where all new files are empty. Which cells are this task's nobody can tell then, so each of
        these tasks does it for all, with the same result. State of another cut goes on waiting under that cut."""
        from thalweg.state.versions import Versions

        cells = self.cell.shares.cells if move is None else Grid.of(move.seal["grid"]).cells
        for key in cell_keys(cells):
            Versions(root / self._name(key), batch, self.retain).commit()

    def _rows(self, taken: Taken) -> Batches:
        aside = map(read_ipc, taken.bad)
        for table in chain(aside, taken.results.tables()):
            for part in fitted(table.combine_chunks(), self.schema):
                whole = with_stats(part)
                taken.clock.lap("unpack")
                yield whole
                taken.clock.lap("write")
        yield told(self.schema, taken.report())


def filecell(task: FileCell) -> Callable[[Batches], Batches]:
    """A plain function for mapInArrow."""

    def run(batches: Batches) -> Batches:
        yield from task.run(batches)
        settle()

    return run


def first_batch(spark: SparkSession, folder: str) -> DataFrame:
    """A stream that gives one row, in the first batch alone: a file that Spark notes as read. So a join with it gives rows
    in that batch, also if that is repeated, and never again, whatever cells there are by then."""
    place, content = Path(folder) / "first", b'{"first": true}\n'
    place.mkdir(parents=True, exist_ok=True)
    file = place / "first.json"
    if not file.exists() or file.read_bytes() != content:
        durable(file, [content])
        synced(place)
    return spark.readStream.schema("first boolean").json(place.as_uri())


def folder_for(spark: SparkSession, state: str, checkpoint: str | None) -> str | None:
    """The folder in which cells keep their state; None for Spark's own store."""
    if state == "spark":
        return None
    named = state
    if state == "files":
        named = spark.conf.get(CONF, None) or (f"{checkpoint}/thalweg-state" if checkpoint else "")
        if not named:
            raise DefinitionError(
                'state="files" needs a folder',
                hint=f"set {CONF} to one that all workers see, give it as state=, or give the checkpoint's as checkpoint=",
            )
    place = urlsplit(named)
    if place.scheme not in ("", "file") or not unquote(place.path).startswith("/"):
        raise DefinitionError(
            f"state '{state}': '{named}' is no absolute path of a file system",
            hint='"spark", "files", or the path of a folder that all workers see',
        )
    return unquote(place.path)
