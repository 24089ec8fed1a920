"""Iceberg: a table as a stream and as a dimension, results appended and changes merged."""

from __future__ import annotations

from tests.services import changes, pages

import thalweg as tw


def test_stream_from_a_table_join_with_one_and_append(spark, tmp_path):
    spark.sql("CREATE TABLE lake.db.orders (ts TIMESTAMP, id LONG, shop LONG) USING iceberg")
    spark.sql("CREATE TABLE lake.db.shops (shop LONG, town STRING) USING iceberg")
    spark.sql("CREATE TABLE lake.db.named (id LONG, town STRING) USING iceberg")
    spark.sql("INSERT INTO lake.db.shops VALUES (0, 'Oslo'), (1, 'Turin')")
    text = "SELECT o.id, s.town FROM orders [RANGE 1 MINUTE] AS o, shops AS s WHERE o.shop = s.shop"

    def step(first, last):
        spark.sql(f"INSERT INTO lake.db.orders SELECT timestamp_seconds(id), id, id % 5 FROM range({first}, {last})")
        stream = spark.readStream.format("iceberg").load("lake.db.orders")
        shops = spark.table("lake.db.shops")
        named = tw.sql(text, orders=tw.stream(stream, time="ts"), shops=shops, cells=2, name="iceberg orders")
        query = named.writeStream.format("iceberg").option("checkpointLocation", str(tmp_path / "check"))
        assert query.trigger(availableNow=True).toTable("lake.db.named").awaitTermination(300)
        return sorted(tuple(r) for r in spark.table("lake.db.named").collect())

    wanted = [(i, "Oslo" if i % 5 == 0 else "Turin") for i in range(100) if i % 5 < 2]
    assert step(0, 100) == sorted(wanted)
    spark.sql("UPDATE lake.db.shops SET town = 'Bergen' WHERE shop = 0")
    wanted += [(100, "Bergen"), (105, "Bergen"), (101, "Turin"), (106, "Turin")]
    assert step(100, 110) == sorted(wanted), "a query over one stream reads its tables when it starts"


def test_changes_are_merged_once(spark, tmp_path):
    check, folder = tmp_path / "check", tmp_path / "in"
    spark.sql(
        "CREATE TABLE lake.db.totals (k LONG, n LONG, s STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')"
    )
    write = tw.upsert("lake.db.totals", "k", format="iceberg")
    made, states = changes.made(seed=4, batches=3)

    def held():
        spark.sql("REFRESH TABLE lake.db.totals")  # a catalog of this session remembers the table for a while
        return {r.k: (r.n, r.s) for r in spark.sql("SELECT * FROM lake.db.totals").collect()}

    for batch, state in zip(made, states, strict=True):
        changes.run(spark, folder, batch, write, check)
        assert held() == state
    before = spark.table("lake.db.totals.snapshots").count()
    changes.forget_commit(check)
    changes.again(spark, folder, write, check)
    assert held() == states[-1]
    spark.sql("REFRESH TABLE lake.db.totals")
    assert spark.table("lake.db.totals.snapshots").count() == before, "the repeated batch was written again"


def test_the_page_runs(spark):
    assert pages.run("iceberg.md") >= 2
