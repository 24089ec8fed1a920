"""Makes the DataFrames of an application's queries: sources through Spark's readers, queries through the API."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from thalweg import api
from thalweg.app.values import App, AppError, AppQuery, Source, StreamSource
from thalweg.errors import ThalwegError, did_you_mean
from thalweg.spark.secrets import struck, unlogged

_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*([\w\s,]*)\))?\s*")


def session(app: App, log: Path | None = None) -> SparkSession:
    """The active session, or a new one with the file's settings; `log` receives what Spark writes to standard error."""
    send_modules(app)
    return api.session(app.path.stem, log, settings=app.spark)


def send_modules(app: App) -> None:
    """Send modules beside the file along with the functions, because workers elsewhere can't import them."""
    folder = app.path.resolve().parent
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).parent.resolve() == folder and module.__name__ != "__main__":
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def frames(app: App, spark: SparkSession) -> dict[str, DataFrame]:
    """Each stream and table, not yet read. Faulty paths, formats and schemas are reported here, with their line."""
    made = {}
    for kind, sources in (("streams", app.streams), ("tables", app.tables)):
        for name, source in sources.items():
            try:
                made[name] = _read(spark, source)
            except Exception as error:  # a driver of a database raises what it likes
                raise app.fault((kind, name), safe(app, f"{kind[:-1]} '{name}': {_first_line(error)}")) from None
            if isinstance(source, StreamSource) and source.time is not None and source.time not in made[name].columns:
                raise app.fault(
                    (kind, name, "time"), f"stream '{name}' has no column '{source.time}'",
                    did_you_mean(source.time, made[name].columns),
                )  # fmt: skip
    return made


def _read(spark: SparkSession, source: Source) -> DataFrame:
    reader: Any = spark.readStream if isinstance(source, StreamSource) else spark.read
    with unlogged():
        reader = reader.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        df: DataFrame = reader.load(source.path) if source.path is not None else reader.load()
    return df.selectExpr(*source.select) if source.select else df


def safe(app: App, text: object) -> str:
    """A text without the secrets of the file: drivers and connectors quote what they were given."""
    sources = [s.options for s in (*app.streams.values(), *app.tables.values())]
    return struck(text, app.spark, *sources, *[q.sink.options for q in app.queries.values()])


def checkpoint_of(app: App, query: AppQuery) -> str | None:
    return None if app.checkpoint is None else str(app.checkpoint / query.name)


def dataframe(app: App, query: AppQuery, inputs: dict[str, DataFrame], *, move: bool = False) -> DataFrame:
    """The DataFrame of one query. From then on the board knows it by the query's name. With `move`, the state in its
    checkpoint moves to another number of cells, if need be."""
    key = "sql" if query.sql is not None else "where"
    try:
        if query.sql is not None:
            given: dict[str, Any] = {**_given(app, inputs), **app.loaded}
            joined: DataFrame = api.sql(
                query.sql, policy=query.policy, cells=query.cells, name=query.name, seed=query.seed, inputs=given,
                checkpoint=checkpoint_of(app, query) if move else None,
            )  # fmt: skip
            return joined
        assert query.source is not None
        df = inputs[query.source]
        predicates = [_predicate(app, text) for text in query.where]
        return api.where(df, *predicates, policy=query.policy, name=query.name, seed=query.seed)
    except AppError:
        raise
    except ThalwegError as error:
        fault = app.fault(("queries", query.name, key), f"query '{query.name}': {error.message}", error.hint)
        raise AppError(fault.message, where=error.where, hint=error.hint) from None
    except PySparkException as error:
        unknown = re.search(r"Cannot resolve routine `(\w+)`", str(error))
        hint = did_you_mean(unknown[1], app.functions) if unknown and app.functions else None
        said = safe(app, f"query '{query.name}': {_first_line(error)}")
        raise app.fault(("queries", query.name, key), said, hint) from None


def _given(app: App, inputs: dict[str, DataFrame]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, df in inputs.items():
        stream = app.streams.get(name)
        if stream is None:
            given[name] = api.table(df)
        elif stream.time is not None:
            given[name] = api.stream(
                df, stream.time, stream.lateness, stream.idle, unit=stream.unit, ahead=stream.ahead
            )
        else:
            given[name] = df
    return given


def _predicate(app: App, text: str) -> Any:
    """`name(column, ...)` or `name` calls a function of the file; anything else is SQL."""
    call = _CALL.fullmatch(text)
    if call is None or call[1] not in app.loaded:
        return text
    columns = [c.strip() for c in (call[2] or "").split(",") if c.strip()]
    return api.pred(app.loaded[call[1]], *columns, name=call[1])


def _first_line(error: Exception) -> str:
    """Spark's message without its plan."""
    return str(error).strip().splitlines()[0]
