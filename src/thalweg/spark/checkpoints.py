"""A checkpoint as the driver reads it: by which query it was written, whether this one may go on with it, and its move to
another number of cells.

State in Spark's store is read through Spark's own state reader, wherever the checkpoint lies; state in files as cells read
it. Both see exactly what the last committed batch left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thalweg.engine.block import BlockEngine
from thalweg.engine.leaves import RECORD
from thalweg.engine.recut import Grid
from thalweg.engine.snapshot import compared, record_in
from thalweg.errors import CheckpointError, DefinitionError, ThalwegError
from thalweg.language.query import Query
from thalweg.spark.board import board
from thalweg.spark.celltask import CellTask
from thalweg.spark.keys import FIRST, cell_keys
from thalweg.spark.leftovers import MOVED, forget, logged, opened
from thalweg.spark.moved import LINES_DDL, SEAL, Moved, Mover, mover
from thalweg.spark.seal import check_format, news, other_cut, refuse_cut, refuse_mixed
from thalweg.state.versions import Versions, batches

PARTS = '"stateName":"parts"'
"""What Spark's metadata say of an operator that runs cells: other stateful operators may stand before or behind it."""


@dataclass(frozen=True)
class Written:
    """What a checkpoint holds as of its last committed batch."""

    batch: int
    seal: Mapping[str, Any]
    record: bytes
    """The record of one of its cells."""
    grids: Mapping[int, Any]
    """How the writer of each cell had cut the state, by the cell's key."""
    operator: int = 0
    """The number that Spark gave to the operator of these cells."""


def read(spark: SparkSession, folder: str, files: str = "") -> Written | None:
    """What the last committed batch left, in Spark's store or in a folder of files; None if there is none: no batch was
    committed, or none sent rows to cells."""
    if files:
        return _read_files(folder, Path(files))
    try:
        found = spark.read.format("state-metadata").load(folder)
        metadata = found.select("maxBatchId", "operatorId", "operatorProperties").collect()
    except PySparkException as error:
        if _absent(str(error)):
            return None
        raise CheckpointError(f"'{folder}' is no checkpoint that Spark can read: {_first(error)}",
                              hint="name the folder given as checkpointLocation") from None  # fmt: skip
    batch = max((row.maxBatchId for row in metadata if row.maxBatchId is not None), default=None)
    if batch is None:
        return None
    operators = {row.operatorId for row in metadata if PARTS in (row.operatorProperties or "")}
    if not operators:
        raise _foreign(folder)
    # Spark counts operators from the sink: behind a second shuffle are cells of the smaller number, and before it, where
    # the inputs are, those of the greater.
    written = _read(spark, folder, int(batch), max(operators))
    if written is not None and len(operators) > 1 and not written.seal.get("whole", True):
        raise CheckpointError(
            f"the checkpoint in '{folder}' holds the state of several queries of tw.sql, which can't be told apart",
            hint="start without checkpoint=, with the cells= that each had; or write what one gives and read it in another",
        )
    return written


def _read(spark: SparkSession, folder: str, batch: int, operator: int) -> Written | None:
    rows = _parts(spark, folder, batch, operator).where(F.col("name").isin(SEAL, "record", RECORD)).collect()
    cells: dict[int, dict[str, bytes]] = {}
    for row in rows:
        cells.setdefault(row.key, {})[row.name] = bytes(row.content)
    return _written(folder, batch, cells, operator) if cells else None


def _read_files(folder: str, files: Path) -> Written | None:
    """What the cells of the first one's cut left in files. Others may have a version of the same batch: a killed attempt
    had another cut."""
    try:
        named, batch = logged(*opened(folder))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CheckpointError(f"'{folder}' can't be read: {_first(error)}",
                              hint="name the folder given as checkpointLocation") from None  # fmt: skip
    if batch is None:
        return None
    root = files / named
    if batch not in batches(root / str(FIRST)):
        raise CheckpointError(
            f"batch {batch} of the checkpoint in '{folder}' is committed, and its state is not in '{files}'",
            hint="name the folder that holds the state: tw.sql(..., state=)",
        )
    cells = {FIRST: _left(root, FIRST, batch)}
    grid = json.loads(cells[FIRST].get(SEAL, b"{}")).get("grid")
    for key in cell_keys(Grid.of(grid).cells)[1:] if grid else ():
        cells[key] = _left(root, key, batch)
    return _written(folder, batch, cells, 0)


def _left(root: Path, key: int, batch: int) -> dict[str, bytes]:
    store = Versions(root / str(key), batch + 1)
    found = {name: store.getValue((name,)) for name in (SEAL, "record", RECORD)}
    return {name: bytes(content[0]) for name, content in found.items() if content}


def _written(folder: str, batch: int, cells: Mapping[int, dict[str, bytes]], operator: int) -> Written:
    whole = next((c for c in cells.values() if SEAL in c and len(c) > 1), None)
    if whole is None:
        raise _foreign(folder)
    grids = {key: json.loads(c[SEAL]).get("grid") for key, c in cells.items() if SEAL in c}
    return Written(batch, json.loads(whole.pop(SEAL)), next(iter(whole.values())), grids, operator)


def _foreign(folder: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint in '{folder}' holds no state of tw.sql", hint="is it another query's?")


def _parts(spark: SparkSession, folder: str, batch: int, operator: int) -> DataFrame:
    """The state of all cells after a batch: key, name, content."""
    reader = spark.read.format("statestore").option("stateVarName", "parts").option("batchId", batch)
    return (
        reader.option("operatorId", operator)
        .load(folder)
        .selectExpr("key.key AS key", "user_map_key.name AS name", "user_map_value.content AS content")
    )


@dataclass(frozen=True)
class Check:
    """Whether a query may go on with a checkpoint, and what follows; prints as text.

    `accepted` is also what the object is worth as a boolean.
    """

    folder: str
    batch: int | None
    accepted: bool
    lines: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.accepted

    def __str__(self) -> str:
        if self.batch is None:
            return f"{self.folder}: no batch was committed yet, or none had rows; the query starts without state"
        verdict = "accepted" if self.accepted else "refused"
        said = "".join(f"\n  {line}" for line in self.lines)
        return f"{self.folder}, after batch {self.batch}: {verdict}{said}"

    __repr__ = __str__


def check(spark: SparkSession, task: CellTask, folder: str) -> Check:
    """Compare a query with a checkpoint, without changing either."""
    try:
        found = read(spark, folder, task.folder)
        if found is None:
            return Check(folder, None, True, ())
        check_format(found.seal)
        if task.folder and not _one_cut(found):
            raise refuse_mixed()
        notes = _compared(task, found)
    except CheckpointError as error:
        lines = [error.message, *(error.where or "").splitlines(), *([f"hint: {error.hint}"] if error.hint else [])]
        return Check(folder, -1, False, tuple(lines))
    lines = [*notes, *(sentence for _, sentence in news(found.seal, task.seal))]
    cut = other_cut(found.seal, task.seal)
    if cut:
        when = "" if task.folder else " if tw.sql is given checkpoint="
        lines.append(f"{cut}: the state moves in the next batch{when}, and routes are learned again")
    return Check(folder, found.batch, True, tuple(lines))


def _compared(task: CellTask, found: Written) -> tuple[str, ...]:
    """What a query that may go on with the state should know."""
    runner = task.engine().runner
    if isinstance(runner, BlockEngine):
        return tuple(compared(runner, record_in({"record": found.record})).notes)
    if found.seal["whole"] and other_cut(found.seal, task.seal):
        raise refuse_cut(found.seal, task.seal)
    runner.compared(found.record if found.seal["whole"] else None)
    return ()


def remembered(df: DataFrame, task: CellTask) -> DataFrame:
    """The DataFrame of a join, so that `tw.check` knows what it runs."""
    df._thalweg_task = task  # type: ignore[attr-defined]
    return df


def checked(query: DataFrame | str, folder: str) -> Check:
    """See `thalweg.check`."""
    if isinstance(query, str):
        task = board.entry(query).task
        spark = SparkSession.getActiveSession()
    else:
        task, spark = getattr(query, "_thalweg_task", None), query.sparkSession
    if task is None:
        raise DefinitionError(
            "this is no DataFrame of tw.sql with windows of several streams: only those keep state of Thalweg's",
            hint="give the DataFrame as tw.sql returned it, or the query's name",
        )
    if spark is None:
        raise DefinitionError("there is no active Spark session", hint="start one first: tw.session()")
    return check(spark, task, str(folder))


def moved(spark: SparkSession, task: CellTask, folder: str) -> Moved | None:
    """Write what each new cell gets, if the checkpoint is cut otherwise; None if there is nothing to move."""
    found = read(spark, folder)
    forget(folder, -1 if found is None else found.batch)
    if found is None:
        return None
    check_format(found.seal)
    if not isinstance(task.query, Query):
        _compared(task, found)  # groups and matches of a whole query stay where they are: another cut is refused
        return None
    engine = task.engine().blocks[0]
    compared(engine, record_in({"record": found.record}))
    if not any(other_cut({"grid": grid}, task.seal) for grid in found.grids.values()):
        return None
    if not _one_cut(found) and forget(folder, -1):  # a start without checkpoint= had let one of them count
        found = _read(spark, folder, found.batch, found.operator) or found
    if not _one_cut(found):
        raise CheckpointError(
            f"the state in '{folder}' is part of one cut and part of another, and can't be moved",
            hint="a batch was killed while Spark wrote its state: restart from a copy of the checkpoint, or start anew",
        )
    from thalweg.engine.adopt import adoptable

    adoptable(engine, record_in({"record": found.record}))
    old = Grid.of(found.seal["grid"])
    target = f"{folder.rstrip('/')}/{MOVED}/{found.batch}"
    assert isinstance(task.query, Query)
    move = mover(Mover(task.query, task.shares, old, task.shared))
    lines = _parts(spark, folder, found.batch, found.operator).groupBy("key").applyInArrow(move, LINES_DDL)
    try:
        named = lines.withColumnRenamed("key", "cell").repartition("cell")
        named.write.mode("overwrite").partitionBy("cell").parquet(target)
    except PySparkException as error:
        raise ThalwegError(f"the state in '{folder}' could not be moved: {_first(error)}",
                           hint=f"cells={old.cells} keeps the old cells") from error  # fmt: skip
    keys = set(cell_keys(task.shares.cells))
    return Moved(target, found.batch + 1, tuple(k for k in cell_keys(old.cells) if k not in keys))


def _one_cut(found: Written) -> bool:
    """Whether all cells were written under one cut, and no other is there."""
    old = Grid.of(found.seal["grid"])
    return set(found.grids) == set(cell_keys(old.cells)) and all(Grid.of(g) == old for g in found.grids.values())


def _absent(error: str) -> bool:
    return any(
        s in error for s in ("PATH_NOT_FOUND", "does not exist", "DOES_NOT_EXIST", "NO_COMMITTED_BATCH", "No committed")
    )


def _first(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
