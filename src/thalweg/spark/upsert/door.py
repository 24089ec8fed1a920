"""Chooses the writer for `tw.upsert`, and checks what a user gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.spark.upsert.database import into_database
from thalweg.spark.upsert.lake import Write, into_delta, into_iceberg

FORMATS = ("delta", "iceberg", "database")


def writer(table: str, key: str | Sequence[str], format: str, connect: Callable[[], Any] | None) -> Write:
    """A writer for foreachBatch."""
    keys = [key] if isinstance(key, str) else list(key)
    if not keys:
        raise DefinitionError("tw.upsert without a key", hint="name the columns that tell the table's rows apart")
    if format not in FORMATS:
        raise DefinitionError(f"format={format!r}", hint=did_you_mean(str(format), FORMATS))
    if (format == "database") != (connect is not None):
        raise DefinitionError(
            f"format='{format}' {'needs' if connect is None else 'takes no'} connect=",
            hint='for example tw.upsert("totals", "id", format="database", connect=lambda: psycopg.connect(dsn))',
        )
    if connect is not None:
        return into_database(table, keys, connect)
    return (into_delta if format == "delta" else into_iceberg)(table, keys)
