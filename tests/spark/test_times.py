"""Times that mean what they say: units, rows from the future, impossible times, and batches that are mostly late."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.errors import DefinitionError

START = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
DDL = "id long, ts timestamp, k long"
TEXT = "SELECT a.id AS x, b.id AS y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.id = b.id"
PER_FILE = 40


def write(folder, file, rows):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{file:03}.parquet"
    pq.write_table(pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA), path)
    os.utime(path, (file + 1, file + 1))


def feed(folder, files=5, odd=None):
    """Two equal streams, a row a second; `odd` stands in for the first time of the second file of `a`."""
    for name in "ab":
        for file in range(files):
            ids = range(file * PER_FILE, (file + 1) * PER_FILE)
            rows = [(i, START + timedelta(seconds=i), i % 3) for i in ids]
            if odd is not None and name == "a" and file == 1:
                rows[0] = (rows[0][0], odd, rows[0][2])
            write(folder / name, file, rows)


def run(spark, folder, name, sink, **more):
    streams = {}
    for s in "ab":
        df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / s))
        streams[s] = tw.stream(df, time="ts", lateness="5 seconds", **more)
    df = tw.sql(TEXT, cells=2, name=name, **streams)
    writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "check"))
    assert writer.trigger(availableNow=True).start().awaitTermination(240)
    return tw.query(name)


@pytest.fixture
def gathered():
    found: dict[int, list[list[int]]] = {}

    def sink(rows, batch):
        found.setdefault(batch, []).append(sorted(r.x for r in rows.collect()))

    sink.found = found
    return sink


def test_a_row_from_the_future_makes_no_other_late_and_is_judged_alike_when_replayed(spark, tmp_path, gathered):
    feed(tmp_path, odd=datetime(2099, 1, 1, tzinfo=UTC))
    query = run(spark, tmp_path, "future", gathered, ahead="1 hour")
    found = gathered.found
    assert sorted(i for attempts in found.values() for i in attempts[0]) == [i for i in range(200) if i != PER_FILE]
    view = query.view()
    assert (view.input("a").ahead, view.input("b").ahead, view.input("a").late) == (1, 0, 0)
    assert "too far ahead of the clock: 1 of a" in query.explain()
    for n in (1, 2, 3, 4):  # batch 1 has the odd row: run it and all behind it again
        (tmp_path / "check" / "commits" / str(n)).unlink()
        for crc in (tmp_path / "check" / "commits").glob(f".{n}.crc"):
            crc.unlink()
        if n > 1:
            for log in (tmp_path / "check" / "offsets").glob(f"*{n}*"):
                log.unlink()
    run(spark, tmp_path, "future", gathered, ahead="1 hour")
    assert found[1][0] == found[1][1]


def test_without_a_bound_the_flood_of_late_rows_is_an_event_a_line_a_metric_and_a_warning(
    spark, tmp_path, gathered, caplog
):
    pytest.importorskip("prometheus_client")
    from thalweg.watch.metrics import BoardCollector

    feed(tmp_path, odd=datetime(2099, 1, 1, tzinfo=UTC))
    with caplog.at_level(logging.WARNING, "thalweg"):
        query = run(spark, tmp_path, "flood", gathered)
        events = query.events()
    assert query.view().input("a").late > 0
    told = events[events.kind == "most rows left out"]
    assert len(told)
    assert "rows of 'a' were left out, most of them late" in told.why.iloc[0]
    assert "were left out, most of them late in the newest batch" in query.explain()
    assert any("were left out" in r.getMessage() and "flood" in r.getMessage() for r in caplog.records)
    samples = [s for f in BoardCollector().collect() if f.name == "thalweg_left_out_rows" for s in f.samples]
    mine = {s.labels["reason"]: s.value for s in samples if s.labels["query"] == "flood" and s.labels["input"] == "a"}
    assert mine == {"late": query.view().input("a").late, "timeless": 0, "ahead": 0, "failed": 0}


def test_an_integer_time_needs_a_unit_and_gets_what_it_says(spark):
    seconds = [(i, i) for i in range(200)]
    a = spark.createDataFrame(seconds, "ts long, id long")
    for given, wanted in ({"unit": "s"}, 200 + 2 * sum(200 - d for d in range(1, 11))), ({"unit": "ms"}, 200 * 200):
        sides = {n: tw.stream(a, time="ts", **given) for n in "ab"}
        df = tw.sql("SELECT a.id FROM a [RANGE 10 SECONDS] CROSS JOIN b [RANGE 10 SECONDS]", **sides)
        assert df.count() == wanted


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        ({"time": "n"}, "time column 'n' is bigint: nothing says what it counts", 'unit="s"'),
        ({"time": "n", "unit": "m"}, "no unit of time 'm'", '"s"'),
        ({"time": "ts", "unit": "s"}, "has its own unit", "leave"),
        ({"time": "tss"}, "there is no time column 'tss'", "did you mean 'ts'"),
        ({"time": "w"}, "time column 'w' is string", "a timestamp"),
        ({"time": "ts", "lateness": 5}, "lateness=5 has no unit", '"5 seconds"'),
        ({"time": "ts", "idle": 5}, "idle=5 has no unit", '"5 seconds"'),
        ({"time": "ts", "ahead": 1.5}, "ahead=1.5 has no unit", "seconds"),
        ({"time": "ts", "lateness": "5"}, "lateness '5' is not a duration", "5 seconds"),
    ],
)
def test_what_is_missing_is_told_where_the_stream_is_named(spark, arguments, said, hint):
    df = spark.createDataFrame([], "ts timestamp, n long, w string")
    with pytest.raises(DefinitionError) as caught:
        tw.stream(df, **arguments)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_lengths_may_be_timedeltas(spark):
    df = spark.createDataFrame([], "ts timestamp")
    given = tw.stream(df, "ts", lateness=timedelta(seconds=2), idle="1 minute", ahead=timedelta(days=1))
    assert (given.lateness, given.idle, given.ahead) == (2_000_000, 60_000_000, 86_400_000_000)
