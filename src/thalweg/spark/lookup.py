"""One stream with filters and tables: each task joins its own rows; no shuffle, no state.

Tables are read when the query runs, not while it is being defined: Spark broadcasts them to the tasks, as it does for
its own joins of a stream with a static DataFrame. Rows travel as blobs so that a table comes once per task, on its
first row. A worker keeps the engine, with its indexed tables and learned routes, for the next task; the tables' digest
shows whether it still fits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from thalweg.contract.report import TaskReport
from thalweg.engine.engine import Engine
from thalweg.engine.report import of_engine
from thalweg.errors import DefinitionError
from thalweg.spark.celltask import CellTask
from thalweg.spark.compat import arrow_schema
from thalweg.spark.obey import obey
from thalweg.spark.quarantine import array
from thalweg.spark.settle import settle
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number
from thalweg.spark.unpack import ASIDE, aside
from thalweg.state.store import read_ipc, write_ipc

BLOBS = pa.schema([("first", pa.bool_()), ("blob", pa.binary())])
BLOBS_DDL = "first boolean, blob binary"
MOST_BYTES = 256 << 20
"""Largest table to broadcast: every worker must hold it and its index besides its rows."""
ENGINES = 16
"""Engines to keep per worker; the least recently used goes first."""
Batches = Iterator[pa.RecordBatch]

_engines: dict[tuple[str, bytes], Engine] = {}


def wrapper(names: list[str], table: str = "") -> Callable[[Batches], Batches]:
    """Turns rows into blobs of these columns, one per batch. A stream's begin with a row for the tables to join."""

    def run(batches: Batches) -> Batches:
        size, headed = 0, bool(table)
        for batch in batches:
            if not batch.num_rows:
                continue
            if not headed:
                headed = True
                yield pa.RecordBatch.from_pylist([{"first": True, "blob": None}], BLOBS)
            content = write_ipc(pa.Table.from_batches([batch.rename_columns(names)]))
            size += len(content)
            if table and size > MOST_BYTES:
                raise DefinitionError(
                    f"table '{table}' has over {MOST_BYTES >> 20} MB in the columns that the query reads",
                    hint="filter it, select fewer columns, or join it with Spark",
                )
            yield pa.RecordBatch.from_pylist([{"first": False, "blob": content}], BLOBS)
        settle()

    return run


@dataclass(frozen=True)
class LookupTask:
    """What a task runs on the rows of the stream."""

    cell: CellTask
    alias: str
    schema: StructType

    def run(self, batches: Batches) -> Batches:
        """Results, then a row with the report."""
        schema = arrow_schema(self.schema)
        watch = Stopwatch()
        rows = (row for batch in batches for row in batch.to_pylist())
        head = next(rows, None)
        if head is None:
            return
        watch.lap("source")
        key, engine, warm = self._open(head.get("tables") or [])
        before = {i.alias: i for i in of_engine(engine)} if warm else {}
        events = obey(engine, self.cell.control, self.cell.key, self.cell.policy)
        watch.lap("load")
        results = 0
        for row in rows:
            watch.lap("source")
            found = engine.push(self.alias, read_ipc(row["blob"]))
            results += found.num_rows
            watch.lap("join")
            whole = aside(found, schema) if ASIDE in schema.names else found.cast(schema)
            for part in whole.to_batches():
                yield _with_stats(part, None)
            watch.lap("write")
        watch.lap("source")
        bad = [f for block in engine.blocks if block.faults is not None for f in block.faults.take()]
        if bad:
            for part in aside(pa.table({ASIDE: array(bad)}), schema).to_batches():
                yield _with_stats(part, None)
        told = TaskReport(
            "cell",
            batch_number(),
            0,
            tuple(i.minus(before[i.alias]) if before else i for i in of_engine(engine)),
            results=results,
            made=results,
            events=(*engine.events(), *events),
            timing=watch.timing(),
            loaded="warm" if warm else "new",
        )
        yield _told(schema, json.dumps(told.record()))
        _engines[key] = engine
        while len(_engines) > ENGINES:
            del _engines[next(iter(_engines))]

    def _open(self, tables: list[dict[str, Any]]) -> tuple[tuple[str, bytes], Engine, bool]:
        """The engine for these tables, and whether this worker had it."""
        blobs = sorted((t["input"], t["blob"]) for t in tables)
        digest = hashlib.blake2b(digest_size=16)
        for alias, content in blobs:
            digest.update(alias.encode())
            digest.update(content)
        key = (self.cell.token, digest.digest())
        kept = _engines.pop(key, None)
        return key, kept if kept is not None else self.cell.engine(blobs), kept is not None


def _with_stats(batch: pa.RecordBatch, text: str | None) -> pa.RecordBatch:
    columns: list[Any] = [*batch.columns, pa.array([text] * batch.num_rows, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema.append(pa.field("stats", pa.string())))


def _told(schema: pa.Schema, text: str) -> pa.RecordBatch:
    return _with_stats(pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema), text)


def looker(task: LookupTask) -> Callable[[Batches], Batches]:
    """A plain function for mapInArrow."""

    def run(batches: Batches) -> Batches:
        yield from task.run(batches)
        settle()

    return run
