"""What users import."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from thalweg.query.predicate import Predicate, pred
from thalweg.spark import where as _where
from thalweg.spark.session import session
from thalweg.watch.handle import QueryHandle, query


def where(
    df: DataFrame, *predicates: Predicate | str | Any, policy: str = "auto", name: str | None = None, seed: int | None = None
) -> DataFrame:
    """Keep the rows for which every predicate holds, calling predicates in the order that is cheapest now.

    The rows are those of `df.where` with all predicates; each predicate is called only with rows that survived the ones before it in
    the order in force, and that order follows the data.

    Parameters
    ----------
    df
        A batch or streaming DataFrame. The result has its schema, metadata (watermarks) included.
    predicates
        `tw.pred(function, "column", ...)`, bare functions whose parameters are named like columns, SQL text, or Columns.
    policy
        "auto" (default), "written", "agreedy", "sweep", "independent", "localswaps", "lottery", "chaos", or a registered one.
    name
        Name for `tw.query(name)`; by default made of the predicates' names.
    seed
        Makes sampling repeatable.

    Examples
    --------
    >>> hot = tw.where(packets, tw.pred(is_attack, "data"), "dst LIKE '10.%'", name="hot")  # doctest: +SKIP
    """
    return _where.where(df, predicates, policy=policy, name=name, seed=seed)


__all__ = ["Predicate", "QueryHandle", "pred", "query", "session", "where"]
