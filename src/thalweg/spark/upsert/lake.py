"""Last states into a Delta or Iceberg table, with MERGE: one transaction of the table for each batch.

A repeated batch changes nothing. Delta keeps the number of the query's last batch in its log (txnAppId, txnVersion) and
leaves a batch out that it has; Iceberg keeps it in the properties of its snapshots, where we look before we merge. Both
are tied to the checkpoint, by the query's id. Over Connect the id is not available, so a repeated batch is merged
again, which gives the same rows, because the last state of a key does not depend on what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from thalweg.spark.compat import is_connect
from thalweg.spark.upsert.last import GONE, checked, last_states

Write = Callable[[DataFrame, int], None]
DELTA = "spark.databricks.delta.write.txn"
ICEBERG = "spark.sql.iceberg.snapshot-property."
QUERY, BATCH = "thalweg-query", "thalweg-batch"


def into_delta(table: str, keys: Sequence[str]) -> Write:
    """A writer for foreachBatch. A table is a name, or a path (with a slash)."""
    target = f"delta.`{table}`" if "/" in table else table

    def write(df: DataFrame, batch: int) -> None:
        query = query_id(df.sparkSession)
        marks = {} if query is None else {f"{DELTA}AppId": query, f"{DELTA}Version": str(batch)}
        merge(df, target, keys, marks)

    return write


def into_iceberg(table: str, keys: Sequence[str]) -> Write:
    """A writer for foreachBatch. A table is a name of a catalog."""

    def write(df: DataFrame, batch: int) -> None:
        query = query_id(df.sparkSession)
        if query is not None and _has(df.sparkSession, table, query, batch):
            return
        marks = {} if query is None else {f"{ICEBERG}{QUERY}": query, f"{ICEBERG}{BATCH}": str(batch)}
        merge(df, table, keys, marks)

    return write


def merge(df: DataFrame, target: str, keys: Sequence[str], settings: dict[str, str]) -> None:
    """Merge a batch of changes into a table, under some settings of the session."""
    spark = df.sparkSession
    columns = checked(df, keys)
    view = f"thalweg_{uuid4().hex}"
    last_states(df, keys).createOrReplaceTempView(view)
    same = " AND ".join(f"t.`{k}` <=> s.`{k}`" for k in keys)
    rest = ", ".join(f"t.`{c}` = s.`{c}`" for c in columns if c not in keys)
    text = f"MERGE INTO {target} AS t USING {view} AS s ON {same} WHEN MATCHED AND s.{GONE} THEN DELETE "
    if rest:
        text += f"WHEN MATCHED THEN UPDATE SET {rest} "
    names, values = (", ".join(f"{p}`{c}`" for c in columns) for p in ("", "s."))
    text += f"WHEN NOT MATCHED AND NOT s.{GONE} THEN INSERT ({names}) VALUES ({values})"
    try:
        with _settings(spark, settings):
            spark.sql(text)
    finally:
        spark.catalog.dropTempView(view)


def query_id(spark: SparkSession) -> str | None:
    """The id that a streaming query keeps over restarts, as its checkpoint has it; None over Connect."""
    return None if is_connect(spark) else spark.sparkContext.getLocalProperty("sql.streaming.queryId")


def _has(spark: SparkSession, table: str, query: str, batch: int) -> bool:
    found = spark.sql(
        f"SELECT max(CAST(summary['{BATCH}'] AS LONG)) AS last FROM {table}.snapshots WHERE summary['{QUERY}'] = '{query}'"
    ).first()
    return found is not None and found["last"] is not None and found["last"] >= batch


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Any:
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
