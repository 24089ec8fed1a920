"""What users hand to `tw.sql`: streams and tables by the names in FROM, and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.durations import Micros
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.predicate import Predicate
from thalweg.language.query import Source
from thalweg.spark.input_schema import input_schema

DELAY = "spark.watermarkDelayMs"
PARTITIONS = "spark.sql.shuffle.partitions"


def sort_out(
    inputs: Mapping[str, Any],
) -> tuple[dict[str, StreamInput | TableInput], dict[str, Callable[..., Any]]]:
    """Streams and tables, and functions. A DataFrame with a watermark is a stream, a static one a table."""
    frames: dict[str, StreamInput | TableInput] = {}
    functions: dict[str, Callable[..., Any]] = {}
    for name, given in inputs.items():
        if isinstance(given, StreamInput | TableInput):
            frames[name] = given
        elif hasattr(given, "isStreaming"):
            frames[name] = guessed(name, given)
        elif isinstance(given, Predicate) and given.function is not None:
            functions[name] = given.function
        elif callable(given):
            functions[name] = getattr(given, "func", given) if hasattr(given, "evalType") else given
        else:
            raise DefinitionError(f"'{name}' is a {type(given).__name__}", hint="give a DataFrame or a function")
    return frames, functions


def guessed(name: str, df: DataFrame) -> StreamInput | TableInput:
    marked = [f for f in df.schema.fields if DELAY in f.metadata]
    if marked:
        return StreamInput(df, marked[0].name, int(marked[0].metadata[DELAY]) * 1000, None)
    if df.isStreaming:
        raise DefinitionError(
            f"'{name}' is a stream without a time", hint=f'{name}=tw.stream(df, time="column", lateness="10 minutes")'
        )
    return TableInput(df)


def source(name: str, given: StreamInput | TableInput) -> Source:
    schema = input_schema(given.df.schema)
    if isinstance(given, TableInput):
        if given.df.isStreaming:
            raise DefinitionError(f"'{name}' is a stream, not a table", hint="use tw.stream")
        return Source(schema)
    spelled = {n.lower(): n for n in schema.names}
    if given.time.lower() not in spelled:
        raise DefinitionError(
            f"'{name}' has no time column '{given.time}'", hint=did_you_mean(given.time, schema.names)
        )
    try:
        return Source(schema, spelled[given.time.lower()], given.unit, Micros(given.lateness))
    except DefinitionError as error:
        raise DefinitionError(f"'{name}': {error.message}", hint=error.hint) from None


def wanted_cells(spark: SparkSession, cells: int | None) -> int:
    """The number of cells asked for, or else the cluster's cores, if the session tells."""
    if cells is not None:
        if not isinstance(cells, int) or isinstance(cells, bool):
            raise DefinitionError(f"cells={cells!r} is a {type(cells).__name__}", hint="a whole number: cells=4")
        if cells < 1:
            raise DefinitionError(f"{cells} cells", hint="at least one")
        return cells
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except Exception:
        return max(1, int(spark.conf.get(PARTITIONS, "2") or 2))  # Connect has no context
