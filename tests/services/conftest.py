"""Services that tests start and stop: a Kafka broker, PostgreSQL. `make test-services` says where their jars are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/services/" in str(item.fspath):
            item.add_marker(pytest.mark.services)
            item.add_marker(pytest.mark.timeout(1500))


def jars(profile: str) -> Path:
    """Where a service's jars are."""
    name = f"THALWEG_JARS_{profile.upper().replace('-', '_')}"
    assert name in os.environ, "run these tests with: make test-services"
    return Path(os.environ[name])


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session with the jars of every service that these tests were given."""
    import thalweg as tw

    given = [
        p
        for p in ("kafka-connector", "delta", "iceberg", "postgresql")
        if f"THALWEG_JARS_{p.upper().replace('-', '_')}" in os.environ
    ]
    settings = {
        "spark_master": "local[2]",
        "spark_sql_shuffle_partitions": 2,
        "spark_driver_memory": "3g",
        "spark_thalweg_control": str(tmp_path_factory.mktemp("control")),
        "spark_sql_warehouse_dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark_jars": ",".join(str(j) for p in given for j in sorted(jars(p).glob("*.jar"))),
    }
    extra = {}
    if "delta" in given:
        extra["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        extra["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if "iceberg" in given:
        extra["spark.sql.extensions"] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        extra["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        extra["spark.sql.catalog.lake.type"] = "hadoop"
        extra["spark.sql.catalog.lake.warehouse"] = str(tmp_path_factory.mktemp("lake"))
    # tw.session reads an underscore as a dot, and one of these names has an underscore.
    given_confs = " ".join(f"--conf {key}={value}" for key, value in extra.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{given_confs} pyspark-shell"
    session = tw.session("thalweg-services", **settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory):
    from tests.services.kafka_server import KafkaServer

    server = KafkaServer(jars("kafka-server"), tmp_path_factory.mktemp("kafka"))
    yield server
    server.stop()
