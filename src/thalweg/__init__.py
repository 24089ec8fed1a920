"""Continuous queries on Spark whose plans follow the data.

import thalweg as tw
hot = tw.where(packets, tw.pred(is_attack, "data"), "dst LIKE '10.%'", name="hot")
print(tw.query("hot").explain())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.errors import CheckpointError, DefinitionError, PredicateError, QueryError, ThalwegError

if TYPE_CHECKING:
    from thalweg.api import Predicate, QueryHandle, metrics, pred, query, session, sql, stream, table, where
    from thalweg.engine.engine import Engine
    from thalweg.language.query import Source

__version__ = "0.1.0"
__all__ = [
    "CheckpointError",
    "DefinitionError",
    "Engine",
    "Predicate",
    "PredicateError",
    "QueryError",
    "QueryHandle",
    "Source",
    "ThalwegError",
    "metrics",
    "pred",
    "query",
    "session",
    "sql",
    "stream",
    "table",
    "where",
]


def __getattr__(name: str) -> Any:
    """The parts that need pyspark are imported when first used: the engine works without."""
    if name == "Engine":
        from thalweg.engine.engine import Engine

        return Engine
    if name == "Source":
        from thalweg.language.query import Source

        return Source
    if name in ("Predicate", "QueryHandle", "metrics", "pred", "query", "session", "sql", "stream", "table", "where"):
        from thalweg import api

        return getattr(api, name)
    raise AttributeError(f"module 'thalweg' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
