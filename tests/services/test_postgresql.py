"""PostgreSQL through JDBC: a table as a dimension, results appended, changes merged; its password is never shown."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.services import changes, pages
from tests.services.postgres_server import PASSWORD, PostgresServer

import thalweg as tw


@pytest.fixture(scope="module")
def server():
    folder = Path(tempfile.mkdtemp(prefix="postgres"))  # pytest's own folders are closed to the server's user
    made = PostgresServer(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


def jdbc(server, table):
    return {
        "url": server.url,
        "dbtable": table,
        "user": "thalweg",
        "password": PASSWORD,
        "driver": "org.postgresql.Driver",
    }


def test_a_table_joined_and_results_appended(spark, server, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="thalweg")  # py4j's own, at DEBUG, shows all that is sent to the JVM
    with server.connect() as held:
        held.execute("CREATE TABLE shops (shop BIGINT PRIMARY KEY, town TEXT)")
        held.execute("INSERT INTO shops VALUES (0, 'Oslo'), (1, 'Turin')")
    spark.sql("SELECT timestamp_seconds(id) AS ts, id, id % 5 AS shop FROM range(100)").write.parquet(
        str(tmp_path / "in")
    )
    orders = spark.readStream.schema("ts TIMESTAMP, id LONG, shop LONG").parquet(str(tmp_path / "in"))
    text = "SELECT o.id, s.town FROM orders [RANGE 1 MINUTE] AS o, shops AS s WHERE o.shop = s.shop"
    shops = spark.read.format("jdbc").options(**jdbc(server, "shops")).load()
    named = tw.sql(text, orders=tw.stream(orders, time="ts"), shops=shops, cells=2, name="postgres orders")

    def append(df, batch):
        df.write.format("jdbc").mode("append").options(**jdbc(server, "named")).save()

    query = named.writeStream.foreachBatch(append).option("checkpointLocation", str(tmp_path / "c"))
    query = query.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    with server.connect() as held:
        got = held.execute("SELECT id, town FROM named").fetchall()
    assert sorted(got) == sorted((i, "Oslo" if i % 5 == 0 else "Turin") for i in range(100) if i % 5 < 2)
    handle = tw.query("postgres orders")
    handle.report(str(tmp_path / "report.html"))
    shown = [handle.explain(), str(handle.stats()), str(handle.events()), (tmp_path / "report.html").read_text(),
             caplog.text, *[p.json for p in query.recentProgress]]  # fmt: skip
    assert all(shown[i] for i in (0, 3, 5))
    assert PASSWORD not in "".join(shown)


def test_a_failing_table_is_told_without_the_password(spark, server):
    with pytest.raises(Exception, match="nowhere") as told:
        spark.read.format("jdbc").options(**jdbc(server, "nowhere")).load()
    assert PASSWORD not in str(told.value)


def test_changes_are_merged_once(spark, server, tmp_path):
    check, folder = tmp_path / "check", tmp_path / "in"
    with server.connect() as held:
        held.execute("CREATE TABLE totals (k BIGINT PRIMARY KEY, n BIGINT, s TEXT)")
    write = tw.upsert("totals", "k", format="database", connect=server.connect)
    made, states = changes.made(seed=5, batches=3)

    def rows():
        with server.connect() as held:
            return {k: (n, s) for k, n, s in held.execute("SELECT k, n, s FROM totals").fetchall()}

    for batch, state in zip(made, states, strict=True):
        changes.run(spark, folder, batch, write, check)
        assert rows() == state
    with server.connect() as held:
        held.execute("INSERT INTO totals VALUES (-1, 0, 'another writer')")
        held.execute("UPDATE totals SET n = -5 WHERE k = (SELECT min(k) FROM totals WHERE k >= 0)")
    after = rows()
    changes.forget_commit(check)
    changes.again(spark, folder, write, check)
    assert rows() == after, "the repeated batch was merged again"


def test_a_wrong_password_is_not_shown(spark, server):
    import psycopg

    def connect():
        return psycopg.connect(f"postgresql://thalweg:wrong-{PASSWORD}@127.0.0.1:{server.port}/postgres?nonsense=1")

    df = spark.createDataFrame([(1, 1, "x", "insert", changes.START)], changes.DDL)
    with pytest.raises(tw.ConnectorError, match="could not connect to the database") as told:
        tw.upsert("totals", "k", format="database", connect=connect)(df, 0)
    assert PASSWORD not in str(told.value)


def test_the_page_runs(spark, server):
    dsn = f"host=127.0.0.1 port={server.port} dbname=postgres user=thalweg password={PASSWORD}"
    assert pages.run("postgres.md", url=server.url, password=PASSWORD, dsn=dsn) >= 2
