"""Delta: a table as a stream and as a dimension, its change feed as input, results appended and changes merged."""

from __future__ import annotations

import pytest
from tests.services import changes, pages

import thalweg as tw


@pytest.fixture
def orders(spark, tmp_path):
    path = str(tmp_path / "orders")
    df = spark.sql("SELECT timestamp_seconds(id) AS ts, id, id % 5 AS shop FROM range(100)")
    df.write.format("delta").save(path)
    return path


def run(df, path, check):
    query = (
        df.writeStream.format("delta")
        .option("checkpointLocation", str(check))
        .trigger(availableNow=True)
        .start(str(path))
    )
    assert query.awaitTermination(300)


def test_stream_from_a_table_join_with_one_and_append(spark, orders, tmp_path):
    shops = str(tmp_path / "shops")
    spark.createDataFrame([(0, "Oslo"), (1, "Turin")], "shop LONG, town STRING").write.format("delta").save(shops)
    text = "SELECT o.id, s.town FROM orders [RANGE 1 MINUTE] AS o, shops AS s WHERE o.shop = s.shop"

    def step():
        stream = spark.readStream.format("delta").option("maxBytesPerTrigger", "1").load(orders)
        table = spark.read.format("delta").load(shops)
        named = tw.sql(text, orders=tw.stream(stream, time="ts"), shops=table, cells=2, name="delta orders")
        run(named, tmp_path / "named", tmp_path / "check")
        return {tuple(r) for r in spark.read.format("delta").load(str(tmp_path / "named")).collect()}

    wanted = {(i, "Oslo" if i % 5 == 0 else "Turin") for i in range(100) if i % 5 < 2}
    assert step() == wanted
    more = spark.sql("SELECT timestamp_seconds(id) AS ts, id, id % 5 AS shop FROM range(100, 110)")
    more.write.format("delta").mode("append").save(orders)
    spark.sql(f"UPDATE delta.`{shops}` SET town = 'Bergen' WHERE shop = 0")  # a new version of the dimension
    wanted |= {(100, "Bergen"), (105, "Bergen"), (101, "Turin"), (106, "Turin")}
    assert step() == wanted, "a query over one stream reads the newest version of its tables when it starts"


def test_the_change_feed_as_a_stream(spark, tmp_path):
    path = str(tmp_path / "prices")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (k LONG, price LONG) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 10), (2, 20)")
    spark.sql(f"UPDATE delta.`{path}` SET price = 11 WHERE k = 1")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 2")
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
    mirror = str(tmp_path / "mirror")
    spark.sql(f"CREATE TABLE delta.`{mirror}` (k LONG, price LONG) USING delta")
    feed = feed.withColumnRenamed("_commit_timestamp", "_change_time").drop("_commit_version")
    query = feed.writeStream.foreachBatch(tw.upsert(mirror, "k")).option("checkpointLocation", str(tmp_path / "c"))
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    assert [tuple(r) for r in spark.read.format("delta").load(mirror).collect()] == [(1, 11)]


def test_changes_are_merged_once(spark, tmp_path):
    target, check, folder = str(tmp_path / "totals"), tmp_path / "check", tmp_path / "in"
    spark.sql(f"CREATE TABLE delta.`{target}` (k LONG, n LONG, s STRING) USING delta")
    write = tw.upsert(target, "k")
    made, states = changes.made(seed=3, batches=3)

    def held():
        return {r.k: (r.n, r.s) for r in spark.read.format("delta").load(target).collect()}

    def version():
        return spark.sql(f"DESCRIBE HISTORY delta.`{target}`").agg({"version": "max"}).first()[0]

    for batch, state in zip(made, states, strict=True):
        changes.run(spark, folder, batch, write, check)
        assert held() == state
    before = version()
    changes.forget_commit(check)
    changes.again(spark, folder, write, check)
    assert held() == states[-1]
    assert version() == before, "the repeated batch was written again"


def test_the_page_runs(spark, tmp_path):
    assert pages.run("delta.md", {"/lake": str(tmp_path)}) >= 2
