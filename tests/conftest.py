"""One Spark session for all tests of a worker, with control files in a folder of its own."""

from __future__ import annotations

import os
import sys

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A test's data is small: compiling Spark's code twice, on the cores that the test needs, costs more than it gives."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    import thalweg as tw
    from thalweg.spark.session import LOCAL

    session = tw.session(
        "thalweg-tests",
        spark_master="local[2]",
        spark_driver_extraJavaOptions=f"{LOCAL['spark.driver.extraJavaOptions']} {QUICK_JVM}",
        spark_sql_shuffle_partitions=2,
        spark_thalweg_control=str(tmp_path_factory.mktemp("control")),
        spark_sql_streaming_noDataMicroBatches_enabled="false",
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
