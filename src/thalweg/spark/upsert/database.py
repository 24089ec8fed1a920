"""Last states into a table of a database, through a Python connection (DB-API 2): one transaction for each batch.

The batch is loaded into a temporary table and merged from there, and its number is kept in a table of ours
(`thalweg_batches`), all in one transaction: a repeated batch finds its number and changes nothing. Tested with
SQLite; the database needs `INSERT ... ON CONFLICT`, so the key must be the table's primary key or unique.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampType

from thalweg.errors import ConnectorError
from thalweg.spark.upsert.lake import Write, query_id
from thalweg.spark.upsert.last import GONE, checked, last_states

CHUNK = 10_000
"""Rows handed to the database at once."""
MARKS = "thalweg_batches"
STAGE = "thalweg_stage"
SIGNS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
"""How a driver writes a parameter, by its `paramstyle`."""


def into_database(table: str, keys: Sequence[str], connect: Callable[[], Any]) -> Write:
    """A writer for foreachBatch."""

    def write(df: DataFrame, batch: int) -> None:
        columns = checked(df, keys)
        query = query_id(df.sparkSession) or ""
        states = last_states(df, keys).select(*[f"`{c}`" for c in columns], GONE)
        connection = _connected(connect)
        try:
            sign = _sign(connection)
            cursor = connection.cursor()
            if not (query and _has(cursor, sign, query, table, batch)):
                _load(cursor, sign, table, columns, states)
                for text in _merge(table, keys, columns):
                    cursor.execute(text)
                if query:
                    cursor.execute(f"DELETE FROM {MARKS} WHERE query = {sign} AND target = {sign}", (query, table))
                    cursor.execute(f"INSERT INTO {MARKS} VALUES ({sign}, {sign}, {sign})", (query, table, batch))
                connection.commit()
        except Exception as e:
            with suppress(Exception):
                connection.rollback()
            if type(e).__module__.partition(".")[0] in ("pyspark", "py4j"):
                raise  # the batch itself could not be computed
            raise ConnectorError(
                f"could not merge batch {batch} into '{table}': {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}",
                hint="the table has the changes' columns, and the key is its primary key or a unique index?",
            ) from None
        finally:
            connection.close()

    return write


def _connected(connect: Callable[[], Any]) -> Any:
    try:
        return connect()
    except Exception as e:
        # Drivers quote what they were given, and a password may be in it.
        raise ConnectorError(
            f"could not connect to the database: {type(e).__name__}", hint="call your connect() by hand to see why"
        ) from None


def _sign(connection: Any) -> str:
    """How the driver of a connection writes a parameter."""
    driver = sys.modules.get(type(connection).__module__.partition(".")[0])
    return SIGNS.get(getattr(driver, "paramstyle", "format"), "%s")


def _has(cursor: Any, sign: str, query: str, table: str, batch: int) -> bool:
    cursor.execute(
        f"CREATE TABLE IF NOT EXISTS {MARKS} (query VARCHAR(64), target VARCHAR(200), batch BIGINT, PRIMARY KEY (query, target))"
    )
    cursor.execute(f"SELECT batch FROM {MARKS} WHERE query = {sign} AND target = {sign}", (query, table))
    found = cursor.fetchone()
    return found is not None and int(found[0]) >= batch


def _load(cursor: Any, sign: str, table: str, columns: Sequence[str], states: DataFrame) -> None:
    names = ", ".join(map(_quoted, columns))
    cursor.execute(f"DROP TABLE IF EXISTS {STAGE}")
    cursor.execute(f"CREATE TEMPORARY TABLE {STAGE} AS SELECT {names}, 1 AS {GONE} FROM {table} WHERE 1 = 0")
    insert = f"INSERT INTO {STAGE} VALUES ({', '.join([sign] * (len(columns) + 1))})"
    moments = [isinstance(f.dataType, TimestampType) for f in states.schema.fields]
    rows = ([*map(_value, row[:-1], moments), int(row[-1])] for row in states.toLocalIterator())
    for chunk in _chunks(rows):
        cursor.executemany(insert, chunk)


def _merge(table: str, keys: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    names, held = ", ".join(map(_quoted, columns)), ", ".join(map(_quoted, keys))
    same = " AND ".join(f"{STAGE}.{_quoted(k)} = {table}.{_quoted(k)}" for k in keys)
    yield f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {STAGE} WHERE {same} AND {GONE} = 1)"
    rest = [c for c in columns if c not in keys]
    change = "UPDATE SET " + ", ".join(f"{_quoted(c)} = excluded.{_quoted(c)}" for c in rest) if rest else "NOTHING"
    yield f"INSERT INTO {table} ({names}) SELECT {names} FROM {STAGE} WHERE {GONE} = 0 ON CONFLICT ({held}) DO {change}"


def _value(value: Any, moment: bool) -> Any:
    """A value as drivers take it: Spark gives an instant as local time without saying so."""
    if moment and value is not None:
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
