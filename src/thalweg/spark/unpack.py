"""Unpack: blobs of results back into rows, and a row with the task's report. Imports little, so its workers start fast."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa

from thalweg.contract.report import TaskReport
from thalweg.spark.settle import settle
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number, partition

ASIDE = "_quarantine"
STATS = "__thalweg"
"""The column with the report: no column of a result has this name."""
Batches = Iterator[pa.RecordBatch]


def aside(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Results with an empty last column, or rows in quarantine with nothing but that column."""
    if ASIDE in table.column_names:
        nothing = [pa.nulls(len(table), f.type) for f in schema if f.name != ASIDE]
        return pa.Table.from_arrays([*nothing, table[ASIDE].cast(schema.field(ASIDE).type)], schema=schema)
    return table.append_column(ASIDE, pa.nulls(len(table), schema.field(ASIDE).type)).cast(schema)


def unpack(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """Turns blobs of results into rows of the given Arrow schema."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for content in batch.column("blob"):
                yield from _rows(content, schema)
        settle()

    return run


def timed(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """The same, with a column STATS that is empty but for one more row, whose other columns are."""

    def run(batches: Batches) -> Batches:
        watch: Stopwatch | None = None
        for batch in batches:
            # Before the first results there is nothing to do but wait: that is the cells' time.
            watch = watch or Stopwatch()
            watch.lap("wait")
            for content in batch.column("blob"):
                for part in _rows(content, schema):
                    whole = with_stats(part)
                    watch.lap("unpack")
                    yield whole
                    watch.lap("write")
        if watch is not None:
            watch.lap("wait")
            report = TaskReport("unpack", batch_number(), partition(), (), timing=watch.timing())
            yield told(schema, json.dumps(report.record()))
        settle()

    return run


def with_stats(batch: pa.RecordBatch, text: str | None = None) -> pa.RecordBatch:
    """A batch with the column STATS: empty, or with this text."""
    stats = pa.nulls(batch.num_rows, pa.string()) if text is None else pa.array([text] * batch.num_rows, pa.string())
    fields = [*(f.with_nullable(True) for f in batch.schema), pa.field(STATS, pa.string())]
    return pa.RecordBatch.from_arrays([*batch.columns, stats], schema=pa.schema(fields))


def told(schema: pa.Schema, text: str) -> pa.RecordBatch:
    """The row with a report."""
    return with_stats(pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema), text)


def fitted(table: pa.Table, schema: pa.Schema) -> Batches:
    """Results, or rows in quarantine, in the columns of the answer."""
    whole = aside(table, schema) if ASIDE in schema.names else table.cast(schema)
    yield from whole.to_batches()


def _rows(content: pa.BinaryScalar, schema: pa.Schema) -> Batches:
    with pa.ipc.open_stream(content.as_buffer()) as reader:
        yield from fitted(reader.read_all(), schema)
