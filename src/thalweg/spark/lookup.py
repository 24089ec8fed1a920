"""One stream with filters and tables: each task joins its own rows; no shuffle, no state.

A worker keeps the engine, with the tables it indexed and the routes it learned, for the next task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from thalweg.contract.report import TaskReport
from thalweg.engine.engine import Engine
from thalweg.engine.report import of_engine
from thalweg.spark.cell import CellTask
from thalweg.spark.obey import obey
from thalweg.spark.settle import settle
from thalweg.spark.task import batch_number

Batches = Iterator[pa.RecordBatch]

_engines: dict[str, Engine] = {}
KEPT = 16
"""Engines that a worker keeps, least recently used first to go."""


@dataclass(frozen=True)
class LookupTask:
    """What a task runs on the rows of the stream."""

    cell: CellTask
    alias: str
    schema: StructType

    def run(self, batches: Batches) -> Batches:
        schema = to_arrow_schema(self.schema, timezone="UTC")
        key = self.cell.token
        kept = _engines.pop(key, None)
        engine = kept if kept is not None else self.cell.engine()
        before = {i.alias: i for i in of_engine(engine)} if kept is not None else {}
        events = obey(engine, self.cell.control, self.cell.key, self.cell.policy)
        rows = results = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            rows += batch.num_rows
            table = engine.push(self.alias, batch)
            results += table.num_rows
            for part in table.cast(schema).to_batches():
                yield _with_stats(part, None)
        if rows:
            told = TaskReport(
                "cell",
                batch_number(),
                0,
                tuple(i.minus(before[i.alias]) if before else i for i in of_engine(engine)),
                results=results,
                made=results,
                events=(*engine.events(), *events),
                loaded="new" if kept is None else "warm",
            )
            yield _told(schema, json.dumps(told.record()))
        _engines[key] = engine
        while len(_engines) > KEPT:
            del _engines[next(iter(_engines))]


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
