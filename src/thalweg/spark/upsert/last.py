"""The last state of each key after a batch of changes.

Changes are rows with `_change_type` (insert, delete) and `_change_time`. A relation gives the difference between one
instant and the next, so the changes of a key's newest instant tell its state: the inserted row if there is one, and
nothing otherwise. A delete and an insert of one instant are an update. Two rows of one key that live at once are an
error: no table could hold both under that key.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thalweg.errors import DefinitionError, did_you_mean

TYPE, TIME = "_change_type", "_change_time"
GONE = "__gone"
"""The column of a last state that says whether the key's row is gone."""


def checked(df: DataFrame, keys: Sequence[str]) -> list[str]:
    """The columns of the table, if the changes can be merged into it."""
    for name in (TYPE, TIME):
        if name not in df.columns:
            raise DefinitionError(
                f"there is no column '{name}': these rows are no changes",
                hint="tw.upsert takes the changes of a relation: GROUP BY, DISTINCT, or ISTREAM and DSTREAM with those columns",
            )
    columns = [c for c in df.columns if c not in (TYPE, TIME)]
    for key in keys:
        if key not in columns:
            raise DefinitionError(f"no column '{key}' to be the key", hint=did_you_mean(key, columns))
    return columns


def last_states(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """One row for each key that changed: its last values, and whether it is gone."""
    columns = checked(df, keys)
    inserted = F.col(TYPE).isin("insert", "update_postimage")
    rest = [c for c in columns if c not in keys]
    known = inserted | F.col(TYPE).isin("delete", "update_preimage")
    told = F.concat(F.lit(f"{TYPE} is '"), F.coalesce(F.col(TYPE), F.lit("NULL")), F.lit("'\n  hint: insert or delete"))
    row = F.struct(*[F.col(f"`{c}`") for c in rest], (~inserted).alias(GONE))
    grouped = (
        df.withColumn(TYPE, F.when(known, F.col(TYPE)).otherwise(F.raise_error(told)))
        .groupBy(*[F.col(f"`{k}`") for k in keys])
        .agg(
            F.max_by(row, F.struct(F.col(TIME), inserted)).alias("__row"),
            F.sum(F.when(inserted, 1).otherwise(-1)).alias("__net"),
        )
    )
    twice = F.concat(
        F.lit(f"several rows live under one key ({', '.join(keys)}): "), F.to_json(F.struct(*[F.col(f"`{k}`") for k in keys])),
        F.lit("\n  hint: tw.upsert needs a key that tells the rows of the relation apart"),
    )  # fmt: skip
    gone = F.when(F.col("__net") > 1, F.raise_error(twice)).otherwise(F.col(f"__row.{GONE}"))
    shown = [F.col(f"`{c}`") if c in keys else F.col(f"__row.`{c}`").alias(c) for c in columns]
    return grouped.select(*shown, gone.alias(GONE))
