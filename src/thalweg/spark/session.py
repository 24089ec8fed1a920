"""The Spark session: the active one, or a quiet local one that Thalweg starts."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thalweg.errors import ThalwegError

QUIET = Path(__file__).with_name("quiet.log4j2.properties")
"""Spark's own start-up chatter hides what a user wants to see."""

LOCAL = {
    "spark.master": "local[*]",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
    "spark.python.daemon.module": "thalweg.spark.daemon",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # write what changed, not all files
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}  # fmt: skip


def session(app: str = "thalweg", **conf: Any) -> SparkSession:
    """The active session, else a new one on all local cores.

    Options are Spark settings with underscores for dots (`spark_sql_shuffle_partitions=2`); they apply to a new session
    only.
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
    return builder.getOrCreate()
