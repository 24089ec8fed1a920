"""The Spark session: the active one, or a quiet local one that Thalweg starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thalweg.errors import ThalwegError
from thalweg.spark.compat import CHECKPOINT_MANAGER, ROCKSDB
from thalweg.spark.secrets import unlogged

QUIET = Path(__file__).with_name("quiet.log4j2.properties")
"""Spark's start-up messages hide what a user wants to see."""

LOCAL = {
    "spark.master": "local[*]",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
    "spark.python.daemon.module": "thalweg.spark.daemon",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # write changes, not files
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # The default one starts a process (readlink) per rename of a local file: seventy per batch of a four-way join.
    # Where a name must not be taken yet, both look and then rename, so nothing is lost.
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER,
    # Hive's file system, which is found first, does not rename to a name that is taken, and that manager says nothing: what
    # a killed batch had written of the state would stay in place of what the same batch writes when it runs again.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
}


def session(
    app: str = "thalweg", log: str | Path | None = None, settings: Mapping[str, Any] | None = None, **conf: Any
) -> SparkSession:
    """The active session, else a new one on all local cores.

    `log` is a file for what Spark writes to standard error, which would garble a live view. `settings` are
    Spark's, under their own names; further options are settings with underscores for dots
    (`spark_sql_shuffle_partitions=2`). All apply to a new session only.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if not (os.environ.get("SPARK_REMOTE") or os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise ThalwegError("Spark needs Java 17 or newer and found none", hint="run 'make setup', or install a JRE")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    given = {key.replace("_", "."): _text(value) for key, value in conf.items()}
    given |= {key: _text(value) for key, value in (settings or {}).items()}
    builder = SparkSession.builder.appName(app)
    if os.environ.get("SPARK_REMOTE"):
        given.pop("spark.master", None)  # a Connect server has its own
        settings = given
    else:
        settings = LOCAL | given
    for key, value in settings.items():
        builder = builder.config(key, value)
    with errors_to(Path(log)) if log is not None else nullcontext(), unlogged():
        return builder.getOrCreate()


def _text(value: Any) -> str:
    """
    >>> _text(True), _text(2)
    ('true', '2')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """Send the standard error of processes started meanwhile to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    # Not through a link that somebody else may have put there, and for nobody else to read.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
