"""Continuous queries on Spark whose plans follow the data.

import thalweg as tw
hot = tw.where(packets, tw.pred(is_attack, "data"), "dst LIKE '10.%'", name="hot")
print(tw.query("hot").explain())
"""

from __future__ import annotations

import os
import stat
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.errors import CheckpointError, ConnectorError, DefinitionError, PredicateError, QueryError, ThalwegError

if TYPE_CHECKING:
    from thalweg.api import (
        Check,
        DryRun,
        JoinDryRun,
        Kafka,
        Predicate,
        QueryHandle,
        await_termination,
        check,
        divided,
        dry_run,
        kafka,
        metrics,
        plain_errors,
        pred,
        predicate,
        query,
        session,
        sql,
        stream,
        table,
        upsert,
        where,
    )
    from thalweg.engine.engine import Engine
    from thalweg.language.query import Source

__version__ = "0.1.0"
_told = False

_ELSEWHERE = {"Engine": "thalweg.engine.engine", "Source": "thalweg.language.query"}
_DOORS = (
    "Check", "DryRun", "JoinDryRun", "Kafka", "Predicate", "QueryHandle", "await_termination", "check", "divided",
    "dry_run", "kafka", "metrics", "plain_errors", "pred", "predicate", "query", "session", "sql", "stream", "table",
    "upsert", "where",
)  # fmt: skip

__all__ = [
    "Check",
    "CheckpointError",
    "ConnectorError",
    "DefinitionError",
    "DryRun",
    "Engine",
    "JoinDryRun",
    "Kafka",
    "Predicate",
    "PredicateError",
    "QueryError",
    "QueryHandle",
    "Source",
    "ThalwegError",
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


def __getattr__(name: str) -> Any:
    """What needs pyspark is imported when first used: the engine works without."""
    if name in _DOORS or name in _ELSEWHERE:
        if name != "Source":
            _tell_compiling()
        return getattr(import_module(_ELSEWHERE.get(name, "thalweg.api")), name)
    raise AttributeError(f"module 'thalweg' has no attribute '{name}'")


def _tell_compiling() -> None:
    """Say once that kernels are being compiled, which otherwise looks like a program that hangs.

    Importing them compiles those of a plain join and keeps them on disk, here before any worker needs them.
    """
    global _told
    if _told:
        return
    _told = True
    own = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "execute" / "kernels" / "__pycache__")
    if not any(next(place.rglob("join.join-*.nbi"), None) for place in (own, Path.home() / ".cache" / "numba")):
        print("thalweg: compiling its kernels for this machine, once; this can take half a minute", file=sys.stderr)


def _leave_hostile_cache() -> None:
    """Numba runs what lies in its cache, so one that somebody else can write to is not used."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if not named:
        return
    try:
        found = os.lstat(named)
    except OSError:
        return  # numba makes it
    own = found.st_uid in (os.getuid(), 0) and stat.S_ISDIR(found.st_mode)
    if own and not found.st_mode & 0o022:
        return
    print(f"thalweg: NUMBA_CACHE_DIR={named} is not used: others can write to it, or it is a link", file=sys.stderr)
    del os.environ["NUMBA_CACHE_DIR"]
    if "numba" in sys.modules:  # it has read the variable
        sys.modules["numba"].config.CACHE_DIR = ""


_leave_hostile_cache()


def __dir__() -> list[str]:
    """What users need, and nothing else."""
    return [*__all__, "__version__"]
