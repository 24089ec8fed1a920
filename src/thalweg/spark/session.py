"""The Spark session: the active one, or a quiet local one that Thalweg starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thalweg.errors import ThalwegError

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
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # The default one starts a process (readlink) per rename of a local file: seventy per batch of a four-way join.
    # On a local disk both check whether the name is taken and then rename, so nothing is lost.
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}  # fmt: skip


def session(app: str = "thalweg", log: str | Path | None = None, **conf: Any) -> SparkSession:
    """The active session, else a new one on all local cores.

    `log` is a file for what Spark writes to standard error, which would garble a live view. Options are Spark settings
    with underscores for dots (`spark_sql_shuffle_partitions=2`). Both apply to a new session only.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if not (os.environ.get("SPARK_REMOTE") or os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise ThalwegError("Spark needs Java 17 or newer and found none", hint="run 'make setup', or install a JRE")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    given = {key.replace("_", "."): str(value) for key, value in conf.items()}
    builder = SparkSession.builder.appName(app)
    if os.environ.get("SPARK_REMOTE"):
        given.pop("spark.master", None)  # a Connect server has its own
        settings = given
    else:
        settings = LOCAL | given
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _errors_to(Path(log)) if log is not None else nullcontext():
        return builder.getOrCreate()


@contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """Send the standard error of processes started meanwhile to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
