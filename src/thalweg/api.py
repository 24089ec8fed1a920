"""What users import.

Many parameters: options of a query are keyword arguments with defaults, as users of Spark expect them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from pyspark.sql import DataFrame, SparkSession

from thalweg.errors import DefinitionError
from thalweg.execute.faults import OnError
from thalweg.language.durations import Duration, micros
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.predicate import Predicate, pred, predicate
from thalweg.language.query import Unit
from thalweg.spark import dry as _dry
from thalweg.spark import dryjoin as _dryjoin
from thalweg.spark import sql as _sql
from thalweg.spark import where as _where
from thalweg.spark.checkpoints import Check, checked
from thalweg.spark.kafka.broker import Kafka
from thalweg.spark.quarantine import divided
from thalweg.spark.raised import await_termination, plain_errors
from thalweg.spark.session import session
from thalweg.spark.times import time_column
from thalweg.spark.upsert import door as _upsert
from thalweg.watch.dry import DryRun, JoinDryRun
from thalweg.watch.handle import QueryHandle, query


def where(
    df: DataFrame,
    *predicates: Predicate | str | Any,
    policy: str = "auto",
    name: str | None = None,
    seed: int | None = None,
    on_error: OnError = "raise",
) -> DataFrame:
    """Keep the rows for which every predicate holds, calling predicates in the order that is cheapest now.

    The rows are those of `df.where` with all predicates; each predicate is called only with rows that survived the ones
    before it in the order in force, and that order follows the data.

    Parameters
    ----------
    df
        A batch or streaming DataFrame. The result has its schema, metadata (watermarks) included.
    predicates
        `tw.pred(function, "column", ...)`, bare functions whose parameters are named like columns, SQL text, or
        Columns.
    policy
        "auto" (default), "written", "agreedy", "sweep", "independent", "localswaps", "lottery", "sbr", "cbr", "mesh",
        "chaos", or one that another package registers.
    name
        Name for `tw.query(name)`; by default made of the predicates' names.
    seed
        Makes sampling repeatable.
    on_error
        What becomes of a row on which a predicate raises though no other drops it: "raise" ends the query, "skip" leaves
        the row out and counts it, "quarantine" also keeps it: with the reason in the column `_quarantine`, which is NULL
        for all other rows. `tw.divided` writes them apart.

    Examples
    --------
    >>> hot = tw.where(packets, tw.pred(is_attack, "data"), "dst LIKE '10.%'", name="hot")  # doctest: +SKIP
    """
    return _where.where(df, predicates, policy=policy, name=name, seed=seed, on_error=on_error)


def dry_run(
    df: DataFrame, *predicates: Predicate | str | Any,
    policy: str = "auto", rows: int = 20_000, seconds: float = 10.0, seed: int | None = None,
) -> DryRun:  # fmt: skip
    """What `tw.where` would save on these predicates, from a sample; nothing is changed.

    One Spark task calls each predicate once for each row of the sample, as Spark would, and records what it says and
    costs. The written order and the policy are then replayed on that record.

    Parameters
    ----------
    df
        A static DataFrame. The sample is the first rows that Spark reads from it; `df.sample(0.01)` gives random ones.
    predicates
        As for `tw.where`. SQL text is applied first.
    policy
        Whose order to try.
    rows, seconds
        The sample ends after `rows` rows, or once the predicates have taken `seconds` seconds.
    seed
        Makes the policy's own sampling repeatable.

    Examples
    --------
    >>> tw.dry_run(packets, tw.pred(is_attack, "data"), tw.pred(parses, "data"))  # doctest: +SKIP
    """
    return DryRun(_dry.dry_run(df, predicates, policy, rows, seconds, seed))


@overload
def sql(
    text: str, *, policy: str = ..., cells: int | None = ..., name: str | None = ..., seed: int | None = ...,
    index: str = ..., spark: SparkSession | None = ..., dry: Literal[False] = ..., checkpoint: str | None = ...,
    caches: str = ..., on_error: OnError = ..., state: str = ..., inputs: Mapping[str, Any] | None = ...,
    **named: Any,
) -> DataFrame: ...  # fmt: skip


@overload
def sql(
    text: str, *, policy: str = ..., cells: int | None = ..., name: str | None = ..., seed: int | None = ...,
    index: str = ..., spark: SparkSession | None = ..., dry: Literal[True], checkpoint: str | None = ...,
    caches: str = ..., on_error: OnError = ..., state: str = ..., inputs: Mapping[str, Any] | None = ...,
    **named: Any,
) -> JoinDryRun: ...  # fmt: skip


def sql(
    text: str, *, policy: str = "auto", cells: int | None = None, name: str | None = None, seed: int | None = None,
    index: str = "hash", spark: SparkSession | None = None, dry: bool = False, checkpoint: str | None = None,
    caches: str = "off", on_error: OnError = "raise", state: str = "spark",
    inputs: Mapping[str, Any] | None = None, **named: Any,
) -> DataFrame | JoinDryRun:  # fmt: skip
    """A windowed join of streams and tables, asked in SQL, whose probe orders follow the data.

    The call only builds the DataFrame: no Spark job runs, and no table is read, unless `checkpoint` is given.

    Parameters
    ----------
    text
        `SELECT ... FROM s1 [RANGE 10 SECONDS] AS a, s2 b [ROWS 1000], t WHERE ...`. A result appears once, with the
        newest time of its rows, if every other row is in its own window at that time.
    policy
        Who chooses the probe orders: "auto" (default), or any other name that `where` accepts.
    cells
        Into how many parts the key space is cut; by default, one per core.
    name
        Name for `tw.query(name)`.
    seed
        Makes sampling repeatable.
    index
        How the stored rows are indexed: "hash" (an index for each access pattern), "bits" (one bit-address index of
        equal shares: a fifth of the memory, more work), or a tuner that lets layouts follow the probes, such as "amri".
    caches
        "off", "auto" (remember partial results of three inputs and more where that saves time), or "all".
    spark
        The session, where there are several; by default that of the inputs.
    dry
        Make no query: rehearse this one on a sample of its static inputs, and return rows stored against Spark's binary
        joins, and probe work against the written order.
    checkpoint
        The folder that the query will have as its checkpointLocation. If it was written with another number of cells,
        its state moves to the new cells in the next batch; without it, such a checkpoint is refused.
    on_error
        As for `tw.where`; in quarantine a row comes as JSON text. With "quarantine", rows without a usable time or too far
        ahead are kept too.
    state
        Where stored rows live between batches: "spark" (default), in Spark's own state store; "files", in Arrow files,
        one version per batch, without a stateful operator; or the folder of these files. With "files" the folder is
        `spark.thalweg.state`, or lies inside `checkpoint`. All workers must see it.
    inputs, named
        By the names used in FROM: streams (`tw.stream(df, time=..., lateness=...)`, or a streaming DataFrame with a
        watermark), tables (static DataFrames), and Python functions used in WHERE. A name that is not given is looked
        up in the session's catalog: a table, a view, or a view of a stream with a watermark. Functions that are
        registered there can be called by name; Spark evaluates those.

    Returns
    -------
    The columns of SELECT; name `result_time` to get the time of each result. Static inputs only: a batch DataFrame
    with the same rows.
    """
    given = {**(inputs or {}), **named}
    if dry:
        return JoinDryRun(*_dryjoin.dry_sql(text, given, policy, seed, spark))
    return _sql.sql(text, given, policy, cells, name, seed, index, spark, checkpoint, caches, on_error, state)


def check(query: DataFrame | str, checkpoint: str) -> Check:
    """Whether a query may go on with a checkpoint, and what would change: before it is deployed, and without a batch.

    `query` is a DataFrame as `tw.sql` returned it, or the query's name; `checkpoint` the folder of an earlier run. The
    result is true if the checkpoint is accepted, and prints what follows.
    """
    return checked(query, checkpoint)


def stream(
    df: DataFrame, time: str, lateness: Duration = 0, idle: Duration | None = None, rate: float | None = None,
    unit: Unit | None = None, ahead: Duration | None = None,
) -> StreamInput:  # fmt: skip
    """A DataFrame as a stream of `tw.sql`.

    `time` is its time column: a timestamp, a date, or an integer whose `unit` you give ("s", "ms" or "us"). Rows may lag
    behind the newest one by up to `lateness`; later ones are counted and left out. Once the other streams are further
    ahead than `idle`, a silent stream no longer keeps their old rows in state. A row whose time lies more than `ahead`
    after the clock of its batch is counted and left out, as is one without a usable time: a single row from the far
    future would make all others late. Lengths of time are words, "10 minutes", or a timedelta. `rate` declares how many
    rows come per second: the join is cut so that few rows are copied to several cells.
    """
    if not hasattr(df, "isStreaming"):
        raise DefinitionError(f"tw.stream takes a DataFrame, not a {type(df).__name__}", hint="tw.stream(df, time=...)")
    if rate is not None and not rate > 0:
        raise DefinitionError(f"a rate of {rate} rows per second", hint="a rate is more than zero")
    time_column(df, time, unit)
    silent, far = (None if given is None else micros(given, what) for given, what in ((idle, "idle"), (ahead, "ahead")))
    return StreamInput(df, time, micros(lateness, "lateness"), silent, rate, unit, far)


def table(df: DataFrame | Callable[[], DataFrame], refresh: str | None = None) -> TableInput:
    """A static DataFrame as a table of `tw.sql`. It is always in view.

    Without `refresh`, a streaming join of several streams reads its tables in its first batch and keeps them in the
    checkpoint: a restart finds them as they were. A query over one stream reads its tables once, when it starts.

    Parameters
    ----------
    df
        The table; or a function that makes it, called for every reading. Files that came later are only found by a new
        DataFrame: `lambda: spark.read.parquet(folder)`.
    refresh
        When a running query reads the table again: "10 minutes", or "batch" for after every batch with rows. Every
        batch uses one version of the table, also if it is repeated. Needs `tw.sql(..., checkpoint=)`.
    """
    make = None if hasattr(df, "isStreaming") else df
    every: int | Literal["batch"] | None = None
    if refresh is not None:
        every = "batch" if refresh == "batch" else micros(refresh, "refresh")
    return TableInput(df if make is None else make(), every, make)


def kafka(
    servers: str,
    options: Mapping[str, Any] | None = None,
    *,
    timeout: str = "1 minute",
    spark: SparkSession | None = None,
) -> Kafka:
    """A Kafka broker: topics as DataFrames, DataFrames into topics, without a jar. Needs the extra `thalweg[kafka]`.

    Parameters
    ----------
    servers
        The brokers to start from: "broker-1:9092,broker-2:9092".
    options
        What the clients need beside, in librdkafka's words: {"security.protocol": "SASL_SSL", "sasl.password": ...}.
        Secrets are never shown.
    timeout
        How long to wait for the broker before an error says so.
    spark
        The session to use; by default the active one.

    Examples
    --------
    >>> broker = tw.kafka("broker:9092")  # doctest: +SKIP
    >>> flights = broker.read_stream("flights", schema="ts TIMESTAMP, origin STRING")  # doctest: +SKIP
    >>> broker.write(results, "results", key="origin").option("checkpointLocation", place).start()  # doctest: +SKIP
    """
    return Kafka(servers, options, timeout, spark)


def upsert(
    table: str, key: str | Sequence[str], *, format: str = "delta", connect: Callable[[], Any] | None = None
) -> Callable[[DataFrame, int], None]:
    """A writer for `foreachBatch` that merges the changes of a relation into a table, by key.

    Changes are rows with `_change_type` (insert, delete) and `_change_time`. After each batch the table holds the last
    state of every key; a delete and an insert of one key are an update. A repeated batch changes nothing.

    Parameters
    ----------
    table
        The table's name; for Delta also a path.
    key
        The column, or columns, that tell the rows of the relation apart.
    format
        "delta", "iceberg", or "database": any with a Python driver (DB-API 2) and `INSERT ... ON CONFLICT`.
    connect
        For a database: gives a new connection. It is never shown, nor is what it holds.

    Examples
    --------
    >>> changes.writeStream.foreachBatch(tw.upsert("lake.totals", key="origin", format="iceberg"))  # doctest: +SKIP
    """
    return _upsert.writer(table, key, format, connect)


def metrics(port: int = 9108, address: str = "127.0.0.1") -> Any:
    """Serve the rows, routes, work and state of all named queries to Prometheus at /metrics, until you call `close()`.

    Needs the extra `thalweg[metrics]`.
    """
    from thalweg.watch.metrics import serve

    return serve(port, address)


__all__ = [
    "Check",
    "DryRun",
    "JoinDryRun",
    "Kafka",
    "Predicate",
    "QueryHandle",
    "await_termination",
    "check",
    "divided",
    "dry_run",
    "kafka",
    "metrics",
    "plain_errors",
    "pred",
    "predicate",
    "query",
    "session",
    "sql",
    "stream",
    "table",
    "upsert",
    "where",
]
