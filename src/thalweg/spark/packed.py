"""Packed lines: how rows travel between stages. A line is one blob of one input for one cell, or what goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

GONE = "\0gone"
"""The input of a line that tells a cell of an old cut to drop its state."""
PACKED = pa.schema(
    [
        ("key", pa.int32()), ("input", pa.string()), ("part", pa.int32()), ("rows", pa.int64()), ("newest", pa.int64()),
        ("blob", pa.binary()), ("stats", pa.string()),
    ]
)  # fmt: skip
PACKED_DDL = "key int, input string, part int, rows long, newest long, blob binary, stats string"
OUT = pa.schema([("blob", pa.binary()), ("stats", pa.string())])
"""What leaves cells whose results are the answer."""
OUT_DDL = "blob binary, stats string"


def packed_lines(lines: Sequence[tuple[Any, ...]], schema: pa.Schema = PACKED) -> pa.RecordBatch:
    columns = zip(*lines, strict=True) if lines else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
