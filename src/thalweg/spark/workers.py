"""The Python of Spark's workers, checked before a query is built: it must have Thalweg and what Thalweg needs.

A local session that the user made takes `python3` from the path, even if the program itself runs in an environment:
there the workers get the program's own Python. Elsewhere one row asks a worker what it has, once per session. A session
that runs no jobs while queries are being defined (Declarative Pipelines) is not asked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import weakref
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from thalweg import __version__
from thalweg.errors import ThalwegError
from thalweg.spark.compat import is_connect

NEEDED = {"pyarrow": (18,), "pandas": (2, 2), "numpy": (2, 0), "numba": (0, 61), "sqlglot": (30,)}
FOR_JOINS = {"protobuf": (6, 33)}
"""Oldest versions, as in pyproject.toml."""
PROBE = """
def probe():
    import json, sys
    from importlib import metadata
    told = {"exe": sys.executable, "python": "%d.%d" % sys.version_info[:2]}
    for name in ("thalweg", "protobuf", "pyarrow", "pandas", "numpy", "numba", "sqlglot"):
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            told[name] = ""
    try:
        import thalweg
        told["thalweg"] = thalweg.__version__
    except ImportError:
        told["thalweg"] = ""
    return json.dumps(told)
"""
"""Source, not a function of this module: a worker without Thalweg could not unpickle that."""

_checked: weakref.WeakKeyDictionary[SparkSession, bool] = weakref.WeakKeyDictionary()
"""Sessions whose workers can run filters, and whether they can run joins."""


def check(spark: SparkSession, *, joins: bool) -> None:
    """Raise if the workers of this session can't run Thalweg; correct the Python of a local session first."""
    if _checked.get(spark, False) or (spark in _checked and not joins):
        return
    if is_connect(spark) or not _settled(spark):
        told = _ask(spark)
        found = problem(told, joins) if told else None
        if found:
            raise ThalwegError(found, hint=_remedy(spark))
    _checked[spark] = joins


def problem(told: Mapping[str, str], joins: bool = True) -> str | None:
    """What the workers' Python lacks, in one line; None if nothing.

    >>> problem({"exe": "/usr/bin/python3", "python": "3.9"})[:52]
    "the workers' Python (/usr/bin/python3) is 3.9, this "
    """
    shown = f"the workers' Python ({told.get('exe') or 'unknown'})"
    own = "{}.{}".format(*sys.version_info)
    if told.get("python", own) != own:
        return f"{shown} is {told['python']}, this program's is {own}"
    if told.get("thalweg", "") != __version__:
        has = f"thalweg {told['thalweg']}, this program has" if told.get("thalweg") else "no thalweg, needed is"
        return f"{shown} has {has} {__version__}"
    for name, oldest in (NEEDED | (FOR_JOINS if joins else {})).items():
        found = tuple(int(n) for n in re.findall(r"\d+", told.get(name, ""))[:3])
        if found < oldest:
            return f"{shown} has {told.get(name) or 'no'} {name}, needed is {'.'.join(map(str, oldest))} or newer"
    return None


def same_python(name: str) -> bool:
    """Whether a command is the Python that runs this program. Links are not followed: an environment's Python is one."""
    return os.path.abspath(shutil.which(name) or name) == os.path.abspath(sys.executable)


def _settled(spark: SparkSession) -> bool:
    """Whether the workers are known to run this program's Python: on one machine we may choose it, unless the user did."""
    context = spark.sparkContext
    local = str(context.master).startswith("local")
    if local and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return local and same_python(context.pythonExec)


def _ask(spark: SparkSession) -> dict[str, str] | None:
    """What a worker says of itself; None if nothing could be learned."""
    space: dict[str, Callable[[], str]] = {}
    exec(PROBE, space)
    probe = F.udf(space["probe"], "string", useArrow=False)
    try:
        told: dict[str, str] = json.loads(spark.range(1).select(probe().alias("told")).collect()[0].told)
    except Exception as error:
        return _read_off(str(error))
    return told


def _read_off(error: str) -> dict[str, str] | None:
    """What a failed probe tells: another Python, no Python, or a package that pyspark itself misses."""
    version = re.search(r"(?:different version:? ?|worker[^.]*Python )\(?(\d+\.\d+)", error)
    if version and ("VERSION_MISMATCH" in error or "different" in error):
        return {"python": version[1]}
    absent = re.search(r'Cannot run program "([^"]+)"', error)
    if absent:
        return {"exe": absent[1]}
    missing = re.search(r"No module named '(\w+)", error)
    return {} if missing else None


def _remedy(spark: SparkSession) -> str:
    packages = f"pip install thalweg=={__version__}"
    if is_connect(spark):
        return f"{packages} where the server's workers run, or start the server with PYSPARK_PYTHON set to a Python that has it"
    if str(spark.sparkContext.master).startswith("local"):
        return f"set PYSPARK_PYTHON={sys.executable} before the session starts, or unset it"
    return f"{packages} on every node, or set PYSPARK_PYTHON to a Python there that has it, before the session starts"


def elsewhere() -> tuple[str, list[str]]:
    """The Python that PYSPARK_PYTHON names, if it is not this one, and a command that asks it what it has."""
    named = os.environ.get("PYSPARK_PYTHON", "")
    if not named or same_python(named):
        return "", []
    return named, [named, "-c", f"{PROBE}\nprint(probe())"]
