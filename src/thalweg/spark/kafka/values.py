"""What is in a record: columns of its value, tombstones, and values that can't be read.

A tombstone is a record without a value. A value is malformed if it is not of the given schema; it fails the query, is
dropped, or is kept with its bytes. Both are counted where they are met, in the metrics that Spark observes for the
query. JSON is read by Spark's own `from_json`, so types mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.spark.kafka.columns import DECODED, MALFORMED, TYPES

FORMATS = ("json", "avro", "text", "raw")
ON_ERROR = ("fail", "drop", "keep")
TOMBSTONES = ("drop", "keep")
CORRUPT = "__corrupt"
PLACE = ("topic", "partition", "offset")
_numbers = count(1)


def one_of(what: str, given: str, known: Sequence[str]) -> str:
    """`given`, if it is known."""
    if given not in known:
        raise DefinitionError(f"{what}={given!r}", hint=did_you_mean(str(given), known))
    return given


def needed(value: str, record: Sequence[str]) -> tuple[str, ...]:
    """The columns that the source must bring: those asked for, and those that an error names."""
    for name in record:
        one_of("record", name, tuple(TYPES))
    extra = PLACE if value in ("json", "avro") else ()
    return tuple(name for name in TYPES if name in (*record, *extra, "value"))


def columns_of(value: str, record: Sequence[str]) -> list[Column]:
    """The columns of a record that the user asked for, marked with an underscore beside those of the value."""
    return [F.col(name).alias(f"_{name}") for name in record]


def decoded(
    df: DataFrame,
    value: str,
    schema: StructType | None,
    record: Sequence[str],
    on_error: str,
    tombstones: str,
    name: str,
) -> DataFrame:
    """The value's columns, flat, beside those of the record."""
    if value == "json":
        assert schema is not None
        with_corrupt = StructType([*schema.fields, StructField(CORRUPT, StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        df = df.withColumn(DECODED, F.from_json(F.col("value").cast("string"), with_corrupt, options))
        bad = F.col(f"{DECODED}.{CORRUPT}").isNotNull() | (F.col("value").isNotNull() & F.col(DECODED).isNull())
        df = df.withColumn(MALFORMED, F.when(bad, F.col("value")))
    fields = [f.name for f in df.schema[DECODED].dataType.fields if f.name != CORRUPT]  # type: ignore[attr-defined]
    gone, bad = F.col("value").isNull(), F.col(MALFORMED).isNotNull()
    # Metrics are also what keeps Spark from decoding a value once for the filter and once for the columns.
    df = df.observe(
        f"kafka {name} {next(_numbers)}",
        F.count(F.lit(1)).alias("records"),
        F.count(F.when(gone, 1)).alias("tombstones"),
        F.count(F.when(bad, 1)).alias("malformed"),
    )
    if on_error == "fail":
        where = F.format_string("%s[%d] offset %d", *PLACE)
        told = F.concat(F.lit("a malformed value in "), where, F.lit(f": not {value} of the given schema\n  hint: "
            "on_error='drop' leaves such records out and counts them, 'keep' shows their bytes in _malformed"))  # fmt: skip
        df = df.where(F.when(bad, F.raise_error(told)).otherwise(F.lit(True)))
    elif on_error == "drop":
        df = df.where(~bad)
    if tombstones == "drop":
        df = df.where(~gone)
    # What is malformed in part is malformed: none of its columns shows.
    shown = [F.when(~bad, F.col(f"{DECODED}.`{f}`")).alias(f) if on_error == "keep" else F.col(f"{DECODED}.`{f}`")
             for f in fields]  # fmt: skip
    shown += columns_of(value, record)
    shown += [gone.alias("_tombstone")] if tombstones == "keep" else []
    shown += [F.col(MALFORMED).alias("_malformed")] if on_error == "keep" else []
    return df.select(*shown)
