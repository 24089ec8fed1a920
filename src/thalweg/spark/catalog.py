"""Names in FROM that nobody gave: the session's catalog may know them, as tables, as views, or as views of streams.

Functions need nothing here: a condition with one that only Spark knows is left to Spark, and so are registered ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from thalweg.errors import DefinitionError, QueryError, did_you_mean
from thalweg.language.algebra import Bound
from thalweg.language.bind import bind
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.spark.compat import is_connect
from thalweg.spark.given import guessed, source

Frames = dict[str, StreamInput | TableInput]


def bound(
    text: str, given: Mapping[str, StreamInput | TableInput], functions: Mapping[str, Callable[..., Any]],
    spark: SparkSession | None = None,
) -> tuple[Bound, Frames, SparkSession]:  # fmt: skip
    """The query, its inputs with those of the catalog, and its session."""
    frames = dict(given)
    session = spark or next((f.df.sparkSession for f in frames.values()), None) or SparkSession.getActiveSession()
    if session is None:
        raise DefinitionError(
            "the query has no inputs", hint="give DataFrames by the names used in FROM: tw.sql(text, name=df)"
        )
    while True:
        try:
            query = bind(text, {n: source(n, f) for n, f in frames.items()}, functions)
        except QueryError as error:
            known = _known(session, error.missing) if error.missing else None
            if known is None:
                raise
            frames[error.missing] = known
            continue
        _same_session(frames, session)
        return query, frames, session


def _known(spark: SparkSession, name: str) -> StreamInput | TableInput | None:
    try:
        found = spark.catalog.tableExists(name)
    except AnalysisException:  # a name with too many parts
        return None
    return guessed(name, spark.table(name)) if found else None


def _same_session(frames: Mapping[str, StreamInput | TableInput], spark: SparkSession) -> None:
    """Sessions of one application may mix, as in foreachBatch, whose rows have a session of their own."""
    for name, given in frames.items():
        if given.df.sparkSession is not spark and _id(given.df.sparkSession) != _id(spark):
            raise DefinitionError(
                f"'{name}' belongs to another Spark session than the query",
                hint="read all inputs with one session, and pass it as spark= if there are several",
            )


def _id(spark: SparkSession) -> Any:
    """Of the application; over Connect, where Spark can't mix them, of the session."""
    return getattr(spark, "session_id", None) if is_connect(spark) else spark.sparkContext.applicationId


def unknown(error: AnalysisException, functions: Iterable[str]) -> QueryError | None:
    """Spark's refusal of a function that nobody gave, in our words; `functions` are those that were."""
    if error.getCondition() != "UNRESOLVED_ROUTINE":
        return None
    name = str((error.getMessageParameters() or {}).get("routineName", "")).strip("`")
    near = did_you_mean(name, functions)
    if near.startswith("did you mean"):
        return QueryError(f"no function '{name}'", hint=near)
    return QueryError(
        f"no function '{name}'",
        hint=f"pass it, tw.sql(text, ..., {name}={name}), or register it: spark.udf.register('{name}', {name}, 'boolean')",
    )
