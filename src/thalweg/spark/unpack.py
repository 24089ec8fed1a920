"""Unpack: blobs of results back into rows. Imports only Arrow, so its workers start fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from thalweg.spark.settle import settle

ASIDE = "_quarantine"
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
                with pa.ipc.open_stream(content.as_buffer()) as reader:
                    table = reader.read_all()
                    whole = aside(table, schema) if ASIDE in schema.names else table.cast(schema)
                    yield from whole.to_batches()
        settle()

    return run
