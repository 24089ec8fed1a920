"""A dry run of `tw.where`: one task rehearses the predicates on a sample, where they would really run.

The user's query is not touched: nothing is registered, remembered or pinned. The sample is the first rows that Spark
reads; a random one is `df.sample(...)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from thalweg.engine.rehearse import Rehearsal, rehearse
from thalweg.errors import DefinitionError, PredicateError
from thalweg.spark.columnnames import ready
from thalweg.spark.filters import Batches, FilterTask
from thalweg.spark.where import filter_task, prepared

TOLD = pa.schema([("told", pa.string())])


def dry_run(
    df: DataFrame, predicates: Sequence[Any], policy: str, rows: int, seconds: float, seed: int | None
) -> Rehearsal:
    """See `thalweg.dry_run`."""
    given = prepared(df, predicates, policy)
    if not given.python:
        raise DefinitionError(
            "there is no Python predicate to try",
            hint="give them as you would to tw.where: tw.dry_run(df, tw.pred(f, 'column'), ...). Spark's own SQL needs none",
        )
    if df.isStreaming:
        raise DefinitionError(
            "a stream gives no sample before it runs",
            hint="give a static DataFrame with such rows: the same source with spark.read instead of spark.readStream",
        )
    if rows < 1:
        raise DefinitionError(f"a sample of {rows} rows", hint="at least one")
    task = filter_task(given, "dry-run", policy, seed)
    sample = ready(given.df).limit(rows).coalesce(1)
    told = sample.mapInArrow(_rehearser(task, seconds), "told string").collect()
    if not told:
        raise DefinitionError(
            "the sample has no rows", hint="the DataFrame is empty, or its SQL predicates drop every row"
        )
    record = json.loads(told[0].told)
    if "raised" in record:
        raise PredicateError(record["raised"])
    return Rehearsal.of(record)


def _rehearser(task: FilterTask, seconds: float) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        named = (task.with_fields(b.rename_columns(task.schema.names)) for b in batches if b.num_rows)
        try:
            found = rehearse(task.pipeline, task.filters(), named, task.policy, task.seed, seconds)
        except PredicateError as error:
            yield pa.record_batch([[json.dumps({"raised": str(error)})]], schema=TOLD)
            return
        if found is not None:
            yield pa.record_batch([[json.dumps(found.record())]], schema=TOLD)

    return run
