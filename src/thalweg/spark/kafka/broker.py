"""`tw.kafka(...)`: topics as DataFrames, DataFrames into topics, without a jar.

Many parameters: options of a topic are keyword arguments with defaults, as users of Spark expect them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from thalweg.errors import DefinitionError
from thalweg.language.durations import micros
from thalweg.spark.kafka.avro import Schema, parse
from thalweg.spark.kafka.client import Client
from thalweg.spark.kafka.columns import TYPES
from thalweg.spark.kafka.sink import Writing
from thalweg.spark.kafka.source import CLIENT, FORMAT, READING, WRITING, KafkaSource, Reading
from thalweg.spark.kafka.topics import EDGES, Starting, milliseconds
from thalweg.spark.kafka.values import FORMATS, ON_ERROR, TOMBSTONES, decoded, needed, one_of
from thalweg.spark.secrets import unlogged
from thalweg.spark.session import session

SECOND = 1_000_000


class Kafka:
    """A broker, and the options of its clients. Make one with `tw.kafka(...)`."""

    def __init__(
        self, servers: str, options: Mapping[str, Any] | None, timeout: str, spark: SparkSession | None
    ) -> None:
        self._client = Client.of(servers, options)
        self._seconds = micros(timeout, "timeout") / SECOND
        self._given = spark

    def __repr__(self) -> str:
        return f"tw.kafka{repr(self._client).removeprefix('Client')}"

    def read_stream(
        self,
        topics: str | Sequence[str],
        *,
        value: str = "json",
        schema: str | StructType | Schema | None = None,
        starting: Starting = "earliest",
        max_offsets: int | None = None,
        record: Sequence[str] | None = None,
        on_error: str = "fail",
        tombstones: str = "drop",
        fail_on_data_loss: bool = True,
        min_partitions: int | None = None,
        writers: Mapping[int, Schema] | None = None,
    ) -> DataFrame:
        """Topics as a streaming DataFrame.

        Parameters
        ----------
        topics
            A name, or several.
        value
            "json" or "avro" (the fields of `schema` become columns), "text" (one column `value`), or "raw" (the
            columns of Spark's own connector, values as bytes).
        schema
            For JSON a Spark schema ("ts TIMESTAMP, origin STRING"), for Avro the JSON text of a record.
        starting
            Where a new query begins: "earliest", "latest", a time such as "2026-05-01T12:00:00+00:00", or
            {"topic": {0: 17, 1: -2}}, where -2 is the earliest and -1 the latest. A restarted query goes on where its
            checkpoint says.
        max_offsets
            The most records in a micro-batch, shared between partitions in proportion to what waits there.
        record
            Columns of the record to show beside the value's: "key", "topic", "partition", "offset", "timestamp",
            "timestampType", "headers". They are named with an underscore: `_key`.
        on_error
            What a value that is not of the schema does: "fail" the query, be left out ("drop"), or show its bytes in
            `_malformed` with all columns NULL ("keep"). They are counted in any case.
        tombstones
            Records without a value are left out ("drop") or rows of NULL with `_tombstone` true ("keep").
        fail_on_data_loss
            Whether records that the broker has deleted before they were read stop the query.
        min_partitions
            Cut the ranges of large partitions so that about this many tasks read, or more.
        writers
            Avro values framed for a schema registry: the writers' schemas by their numbers.
        """
        spark, options, finish = self._reading(
            topics, value, schema, starting, "latest", max_offsets, record, on_error, tombstones, fail_on_data_loss,
            min_partitions, writers,
        )  # fmt: skip
        with unlogged():
            return finish(spark.readStream.format(FORMAT).options(**options).load())

    def read(
        self,
        topics: str | Sequence[str],
        *,
        value: str = "json",
        schema: str | StructType | Schema | None = None,
        starting: Starting = "earliest",
        ending: Starting = "latest",
        record: Sequence[str] | None = None,
        on_error: str = "fail",
        tombstones: str = "drop",
        fail_on_data_loss: bool = True,
        min_partitions: int | None = None,
        writers: Mapping[int, Schema] | None = None,
    ) -> DataFrame:
        """What topics hold, as a static DataFrame; every job reads them again. Parameters as in `read_stream`."""
        spark, options, finish = self._reading(
            topics, value, schema, starting, ending, None, record, on_error, tombstones, fail_on_data_loss,
            min_partitions, writers,
        )  # fmt: skip
        with unlogged():
            return finish(spark.read.format(FORMAT).options(**options).load())

    def write(
        self,
        df: DataFrame,
        topic: str | None = None,
        *,
        value: str = "json",
        key: str | Column | None = None,
        headers: Column | None = None,
        tombstone: str | Column | None = None,
        schema: Schema | None = None,
        number: int | None = None,
        exactly_once: bool = False,
        tasks: int = 4,
    ) -> DataStreamWriter | DataFrameWriter:
        """A writer of the rows into a topic: set its checkpoint and `start()` it, or `save()` a static DataFrame.

        Parameters
        ----------
        topic
            The topic; without one, the column `topic` names it row by row.
        value
            "json" (a row is an object), "avro" (with `schema`), or "raw" (the columns `value` and, if there are any,
            `key`, `headers`, as Spark's own connector takes them).
        key
            A column whose text is the record's key.
        headers
            A column of array<struct<key: string, value: binary>>.
        tombstone
            A condition: rows for which it holds become records without a value. `"_change_type = 'delete'"` keeps a
            compacted topic the image of a relation.
        number
            Frame Avro values for a schema registry, with this number of the schema.
        exactly_once
            Write each batch in transactions with a mark of the batch, so that a repeated batch writes nothing twice.
            Readers must read committed records only. Without, rows come at least once: a repeated batch is repeated.
        tasks
            How many tasks write a batch exactly once; fixed as long as the checkpoint lives.
        """
        one_of("value", value, ("json", "avro", "raw"))
        if value == "avro":
            _schema_for("avro", schema)
        if exactly_once and not (df.isStreaming and topic):
            raise DefinitionError(
                "exactly_once=True needs a streaming DataFrame and one topic",
                hint="a batch job has no batches to mark; for many topics write at least once",
            )
        made = _records(df, topic, value, key, headers, tombstone)
        if exactly_once:
            made = made.repartition(tasks, *made.columns)
        writing = Writing(topic, self._seconds, tasks if exactly_once else None, schema and parse(schema), number)
        options = self._options() | {WRITING: writing.to_json()}
        self._spark(df)
        with unlogged():
            if df.isStreaming:
                return made.writeStream.format(FORMAT).options(**options)
            return made.write.format(FORMAT).mode("append").options(**options)

    def _reading(
        self, topics: Any, value: str, schema: Any, starting: Starting, ending: Starting, limit: int | None,
        record: Sequence[str] | None, on_error: str, tombstones: str, fail_on_data_loss: bool, pieces: int | None,
        writers: Any,
    ) -> tuple[SparkSession, dict[str, str], Callable[[DataFrame], DataFrame]]:  # fmt: skip
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names or not all(isinstance(n, str) and n for n in names):
            raise DefinitionError(f"the topics are {topics!r}", hint='one name or several: "flights", ["a", "b"]')
        one_of("value", value, FORMATS)
        one_of("on_error", on_error, ON_ERROR)
        one_of("tombstones", tombstones, TOMBSTONES)
        for what, number in (("max_offsets", limit), ("min_partitions", pieces)):
            if number is not None and number < 1:
                raise DefinitionError(f"{what}={number}", hint="give a number of at least 1")
        for moment in (starting, ending):
            if isinstance(moment, str) and moment not in EDGES:
                milliseconds(moment)
        spark = self._spark(None)
        typed = _schema_for(value, schema)
        shown = tuple(record if record is not None else (TYPES if value == "raw" else ()))
        reading = Reading(
            names, needed(value, shown), starting, ending, limit, pieces, self._seconds, fail_on_data_loss,
            typed if value == "avro" else None,
            {int(n): parse(s) for n, s in writers.items()} if writers else None,
        )  # fmt: skip

        def finish(df: DataFrame) -> DataFrame:
            if value == "raw":
                return df.select(*[c for c in TYPES if c in (*shown, "value")])
            if value == "text":
                text = F.col("value").cast("string").alias("value")
                return df.select(text, *[F.col(c).alias(f"_{c}") for c in shown])
            return decoded(df, value, typed, shown, on_error, tombstones, ", ".join(names))

        return spark, self._options() | {READING: reading.to_json()}, finish

    def _options(self) -> dict[str, str]:
        return {CLIENT: json.dumps([self._client.servers, self._client.options])}

    def _spark(self, df: DataFrame | None) -> SparkSession:
        spark = self._given or (df.sparkSession if df is not None else session())
        spark.dataSource.register(KafkaSource)
        return spark


def _schema_for(value: str, schema: Any) -> Any:
    """A schema in the form that the value's format needs."""
    if value not in ("json", "avro"):
        if schema is not None:
            raise DefinitionError(f"a schema for value='{value}'", hint="value='json' and value='avro' have one")
        return None
    if schema is None:
        example = '"ts TIMESTAMP, origin STRING"' if value == "json" else "the JSON text of an Avro record"
        raise DefinitionError(f"value='{value}' needs a schema", hint=f"schema= {example}")
    if value == "avro":
        return parse(schema)
    return StructType.fromDDL(schema) if isinstance(schema, str) else schema


def _records(df: DataFrame, topic: str | None, value: str, key: Any, headers: Any, tombstone: Any) -> DataFrame:
    """The columns of records."""
    if topic is None and "topic" not in df.columns:
        raise DefinitionError("which topic?", hint="write(df, 'results'), or a column 'topic'")
    if value == "raw":
        if "value" not in df.columns:
            raise DefinitionError("value='raw' without a column 'value'", hint="value='json' makes one of all columns")
        content = F.col("value").cast("binary")
    else:
        whole = F.struct(*[F.col(f"`{c}`") for c in df.columns if not (topic is None and c == "topic")])
        content = F.to_json(whole).cast("binary") if value == "json" else whole
    if tombstone is not None:
        content = F.when(~F.coalesce(_column(tombstone, F.expr), F.lit(False)), content)
    chosen = F.col("key") if key is None and value == "raw" and "key" in df.columns else key
    made = {"value": content}
    if chosen is not None:
        made["key"] = _column(chosen, F.col).cast("string").cast("binary")
    if topic is None:
        made["topic"] = F.col("topic")
    held = F.col("headers") if headers is None and value == "raw" and "headers" in df.columns else headers
    if held is not None:
        made["headers"] = held
    return df.select(*[column.alias(name) for name, column in made.items()])


def _column(given: str | Column, read: Callable[[str], Column]) -> Column:
    return read(given) if isinstance(given, str) else given
