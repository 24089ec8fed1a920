"""Unpack: blobs of results back into rows. Imports only Arrow, so its workers start fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from thalweg.spark.settle import settle

Batches = Iterator[pa.RecordBatch]


def unpack(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """Turns blobs of results into rows of the given Arrow schema."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for content in batch.column("blob"):
                with pa.ipc.open_stream(content.as_buffer()) as reader:
                    yield from reader.read_all().cast(schema).to_batches()
        settle()

    return run
