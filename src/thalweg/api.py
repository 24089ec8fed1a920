"""What users import."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from thalweg.errors import DefinitionError
from thalweg.language.durations import micros
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.predicate import Predicate, pred
from thalweg.spark import sql as _sql
from thalweg.spark import where as _where
from thalweg.spark.session import session
from thalweg.watch.handle import QueryHandle, query


def where(
    df: DataFrame,
    *predicates: Predicate | str | Any,
    policy: str = "auto",
    name: str | None = None,
    seed: int | None = None,
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

    Examples
    --------
    >>> hot = tw.where(packets, tw.pred(is_attack, "data"), "dst LIKE '10.%'", name="hot")  # doctest: +SKIP
    """
    return _where.where(df, predicates, policy=policy, name=name, seed=seed)


def sql(
    text: str, *, policy: str = "auto", cells: int | None = None, name: str | None = None, seed: int | None = None,
    index: str = "hash", **inputs: Any,
) -> DataFrame:  # fmt: skip
    """A windowed join of streams and tables, asked in SQL, whose probe orders follow the data.

    The call only builds the DataFrame: no Spark job runs, and no table is read.

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
    inputs
        By the names used in FROM: streams (`tw.stream(df, time=..., lateness=...)`, or a streaming DataFrame with a
        watermark), tables (static DataFrames), and Python functions used in WHERE.

    Returns
    -------
    The columns of SELECT and `result_time`. Static inputs only: a batch DataFrame with the same rows.
    """
    return _sql.sql(text, inputs, policy, cells, name, seed, index)


def stream(
    df: DataFrame, time: str, lateness: str | int = 0, idle: str | int | None = None, rate: float | None = None
) -> StreamInput:
    """A DataFrame as a stream of `tw.sql`.

    `time` is its time column. Rows may lag behind the newest one by up to `lateness`; later ones are counted and left
    out. Once the other streams are further ahead than `idle`, a silent stream no longer keeps their old rows in state.
    `rate` declares how many rows come per second: the join is cut so that few rows are copied to several cells.
    """
    if rate is not None and not rate > 0:
        raise DefinitionError(f"a rate of {rate} rows per second", hint="a rate is more than zero")
    silent = None if idle is None else micros(idle, "idle")
    return StreamInput(df, time, micros(lateness, "lateness"), silent, rate)


def table(df: DataFrame) -> TableInput:
    """A static DataFrame as a table of `tw.sql`. It is always in view.

    A streaming join of several streams reads its tables in its first batch and keeps them in the checkpoint: a restart
    finds them as they were. A query over one stream reads its tables once, when it starts.
    """
    return TableInput(df)


def metrics(port: int = 9108, address: str = "127.0.0.1") -> Any:
    """Serve the rows, routes, work and state of all named queries to Prometheus at /metrics, until you call `close()`.

    Needs the extra `thalweg[metrics]`.
    """
    from thalweg.watch.metrics import serve

    return serve(port, address)


__all__ = ["Predicate", "QueryHandle", "metrics", "pred", "query", "session", "sql", "stream", "table", "where"]
