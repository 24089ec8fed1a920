"""Tables that are read again while a query runs: each batch has one version, also when it is repeated."""

import os
import threading
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

import thalweg as tw
from thalweg.spark.board import board
from thalweg.spark.refresh import FOLDER, Refresher, Renewed, versions

START = datetime(2024, 1, 1)
LOOKUP = "SELECT o.id AS id, s.town AS town FROM orders AS o, shops AS s WHERE o.shop = s.shop"
JOIN = """SELECT o.id AS id, s.town AS town FROM orders [RANGE 1 HOUR] AS o, paid [RANGE 1 HOUR] AS p, shops AS s
          WHERE o.id = p.id AND o.shop = s.shop"""


def rows(folder, number, ids):
    folder.mkdir(exist_ok=True)
    times = pa.array([START + timedelta(seconds=i) for i in ids], pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array(ids, pa.int64()), "shop": pa.array([i % 3 for i in ids], pa.int64()), "ts": times})
    pq.write_table(table, folder / f"{number}.parquet")
    os.utime(folder / f"{number}.parquet", (1_700_000_000 + number,) * 2)


def shops(folder, towns):
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    table = pa.table({"shop": pa.array(list(towns), pa.int64()), "town": pa.array(list(towns.values()), pa.string())})
    pq.write_table(table, folder / f"{len(towns)}-{'-'.join(towns.values())}.parquet")


def run(spark, home, text, found):
    """Read all there is; `found` takes the answer of each batch."""

    def stream(name):
        df = spark.readStream.schema("id long, shop long, ts timestamp").option("maxFilesPerTrigger", 1)
        return tw.stream(df.parquet(str(home / name)), time="ts")

    def write(df, batch):
        found[batch] = sorted((r.id, r.town) for r in df.collect())

    inputs = {n: stream(n) for n in ("orders", "paid") if n in text}
    table = tw.table(lambda: spark.read.schema("shop long, town string").parquet(str(home / "shops")), refresh="1 hour")
    check = str(home / "check")
    df = tw.sql(text, **inputs, shops=table, name="towns", cells=2, checkpoint=check)
    writer = df.writeStream.foreachBatch(write).option("checkpointLocation", check)
    assert writer.trigger(availableNow=True).start().awaitTermination(240)
    return board.entry("towns").refresher


@pytest.mark.parametrize("text", [LOOKUP, pytest.param(JOIN, marks=pytest.mark.long)])
def test_each_batch_has_one_version_also_when_it_is_repeated(spark, tmp_path, text):
    found = {}
    for name in ("orders", "paid"):
        rows(tmp_path / name, 0, [0, 1, 2, 3])
    shops(tmp_path / "shops", {0: "Oslo", 1: "Turin"})
    refresher = run(spark, tmp_path, text, found)
    assert found == {0: [(0, "Oslo"), (1, "Turin"), (3, "Oslo")]}

    shops(tmp_path / "shops", {0: "Bergen", 1: "Turin", 2: "Brno"})
    assert refresher.renew(refresher.tables[0])
    assert not refresher.renew(refresher.tables[0])  # nothing changed
    for name in ("orders", "paid"):
        rows(tmp_path / name, 1, [4, 5, 6])
    run(spark, tmp_path, text, found)
    second = [(4, "Turin"), (5, "Brno"), (6, "Bergen")]
    assert found[1] == second
    events = tw.query("towns").events()
    assert "version 1 of 's' is in force from this batch on" in list(events[events.batch == 1].why)

    # The table shrinks, and the last batch is repeated: it finds the version that it had.
    shops(tmp_path / "shops", {2: "Lima"})
    board.entry("towns").refresher.renew(board.entry("towns").refresher.tables[0])
    for left in (tmp_path / "check" / "commits").glob("*1*"):
        left.unlink()
    del found[1]
    for name in ("orders", "paid"):
        rows(tmp_path / name, 2, [7, 8])
    run(spark, tmp_path, text, found)
    assert found[1] == second
    assert [row for batch in sorted(found) if batch > 1 for row in found[batch]] == [(8, "Lima")]


def test_a_cell_takes_the_newest_version():
    def line(name, newest, part=0):
        return Row(input=name, newest=newest, part=part)

    lines = [line("s", 5), line("t", 1), line("t", 2), line("s", 7), line("t", 2, 1), line("u", 1)]
    rest, newest = versions(lines, frozenset("tu"))
    assert [r.newest for r in rest] == [5, 7]
    assert {name: (v, [r.part for r in own]) for name, (v, own) in newest.items()} == {"t": (2, [0, 1]), "u": (1, [0])}


class Counted(Refresher):
    """Counts readings instead of reading."""

    def renew(self, table):
        self.seen = getattr(self, "seen", 0) + 1
        self._waits = True
        self.read.set()
        return True


def test_the_next_version_waits_until_the_last_was_taken_up(tmp_path):
    refresher = Counted(None, tmp_path, [Renewed("t", [], lambda: None, "batch")], lambda event: None)
    refresher.read = threading.Event()

    def heard(rows, taken):
        refresher.read.clear()
        refresher.heard("run", rows, taken)
        return refresher.read.wait(0.3)

    assert not heard(0, 0)  # a batch without rows
    assert heard(5, 0)
    assert not heard(5, 0)  # nobody has taken it up
    assert heard(5, 1)
    refresher.ended("run")
    assert refresher.seen == 2


def test_words(spark, tmp_path):
    table = tw.table(spark.range(1).selectExpr("id AS shop", "'x' AS town"), refresh="batch")
    stream = tw.stream(spark.readStream.schema("id long, shop long, ts timestamp").parquet(str(tmp_path)), time="ts")
    with pytest.raises(tw.ThalwegError, match="needs a folder for its versions"):
        tw.sql(LOOKUP, orders=stream, shops=table, name="no folder")
    grouped = """SELECT s.town AS town, count(*) AS n FROM orders [RANGE 1 HOUR] AS o, shops AS s
                 WHERE o.shop = s.shop GROUP BY s.town"""
    with pytest.raises(tw.ThalwegError, match="only a plain join reads its tables again"):
        tw.sql(grouped, orders=stream, shops=table, name="a group", checkpoint=str(tmp_path / FOLDER))
    with pytest.raises(tw.ThalwegError, match="refresh"):
        tw.table(table.df, refresh="now and then")
