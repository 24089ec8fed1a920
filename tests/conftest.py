"""One Spark session for all tests of a worker, with control files in a folder of its own."""

from __future__ import annotations

import os
import sys

import pytest

from thalweg.spark import BRIEF

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("THALWEG_PRICES", "recorded")  # the same decisions on every machine
os.environ.setdefault("JAVA_TOOL_OPTIONS", BRIEF)  # for the programs that tests start, too


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    import thalweg as tw

    session = tw.session(
        "thalweg-tests",
        spark_master="local[2]",
        spark_sql_shuffle_partitions=2,
        spark_thalweg_control=str(tmp_path_factory.mktemp("control")),
        spark_sql_streaming_noDataMicroBatches_enabled="false",
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
