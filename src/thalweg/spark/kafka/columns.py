"""Records of Kafka as columns of Arrow: only those that were asked for, named and typed as Spark's connector does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from thalweg.spark.kafka.avro import AvroReader

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
"""The columns of a record. `timestampType` is 0 for the producer's clock, 1 for the broker's, -1 for none."""
DECODED, MALFORMED = "decoded", "malformed"
"""The columns of a value that Python decodes: what was read, and the bytes that could not be."""
KINDS = {0: -1, 1: 0, 2: 1}
"""librdkafka's numbers for the type of a timestamp, and Spark's."""


def schema_of(columns: Sequence[str], avro: AvroReader | None) -> StructType:
    """The columns of a source."""
    fields = [StructField(name, TYPES[name]) for name in columns]
    if avro is not None:
        fields += [StructField(DECODED, avro.type), StructField(MALFORMED, BinaryType())]
    return StructType(fields)


def batch(records: list[Any], columns: Sequence[str], schema: pa.Schema, avro: AvroReader | None) -> pa.RecordBatch:
    """Records as one Arrow batch."""
    made = [_column(name, records) for name in columns]
    if avro is not None:
        made += avro.read([r.value() for r in records])
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(made, schema, strict=True)], schema=schema
    )


def _column(name: str, records: list[Any]) -> list[Any]:
    match name:
        case "key":
            return [r.key() for r in records]
        case "value":
            return [r.value() for r in records]
        case "topic":
            return [r.topic() for r in records]
        case "partition":
            return [r.partition() for r in records]
        case "offset":
            return [r.offset() for r in records]
        case "timestamp":
            return [None if kind == 0 else at * 1000 for kind, at in (r.timestamp() for r in records)]
        case "timestampType":
            return [KINDS[r.timestamp()[0]] for r in records]
        case _:
            return [
                None if (held := r.headers()) is None else [{"key": k, "value": v} for k, v in held] for r in records
            ]
