"""`tw.kafka` on Spark against a mock broker: what was sent is what is read, once, over restarts; and what is written."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import thalweg as tw

PLANTED = "hunter2-planted"
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
}


@pytest.fixture(scope="module")
def kafka(broker, spark):
    return tw.kafka(broker.servers, {"log_level": 0, "sasl.password": PLANTED})


def run(writer, place):
    """Start a writer, wait until it has read all there is, and give its progress."""
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
        return query.recentProgress
    finally:
        query.stop()


def observed(progress, what):
    return sum(row[what] for p in progress for name, row in p.observedMetrics.items() if name.startswith("kafka "))


def test_raw_records_have_the_columns_of_sparks_own_connector(broker, kafka):
    topic = broker.topic()
    broker.send(topic, ("k", b"v"), partition=2, timestamp=1_700_000_000_123, headers=[("h", b"1"), ("h", None)])
    broker.send(topic, (None, None), partition=2, timestamp=1_700_000_000_124)
    df = kafka.read(topic, value="raw")
    assert df.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    first, second = df.orderBy("offset").selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k",
        b"v",
        topic,
        2,
        0,
    )
    assert (first.ms, first.timestampType) == (1_700_000_000_123, 0)
    assert [(h.key, h.value and bytes(h.value)) for h in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.key, second.value, second.offset, second.headers) == (None, None, 1, None)


def test_malformed_values_and_tombstones(broker, kafka):
    topic = broker.topic()
    bad = [b"{not json", b'{"n": "word"}', b"\xff\xfe", b"null", b"", b"[1]"]
    broker.send(topic, {"n": 1, "more": "ignored"}, b"{}", *bad, ("gone", None), partition=0)
    kept = kafka.read(
        topic, schema="n LONG, s STRING", record=["offset", "key"], on_error="keep", tombstones="keep"
    ).orderBy("_offset").collect()  # fmt: skip
    assert [r.n for r in kept] == [1] + [None] * 8
    assert [r["_malformed"] and bytes(r["_malformed"]) for r in kept[2:8]] == bad
    assert [r["_malformed"] for r in (*kept[:2], kept[8])] == [None] * 3
    assert [r["_tombstone"] for r in kept] == [False] * 8 + [True]
    assert bytes(kept[8]["_key"]) == b"gone"
    assert [tuple(r) for r in kafka.read(topic, schema="n LONG", on_error="drop").collect()] == [(1,), (None,)]
    with pytest.raises(Exception, match=rf"a malformed value in {topic}\[0\] offset 2: not json.*\n.*on_error='drop'"):
        kafka.read(topic, schema="n LONG").count()


def test_a_stream_is_admitted_bit_by_bit_counted_and_goes_on_after_a_restart(broker, kafka, spark, tmp_path):
    topic = broker.topic()
    broker.send(topic, *[{"n": i} for i in range(100)], b"{", ("k", None))

    def step():
        df = kafka.read_stream(topic, schema="n LONG", max_offsets=40, on_error="drop", record=["partition", "offset"])
        progress = run(df.writeStream.format("parquet").option("path", str(tmp_path / "out")), tmp_path / "check")
        found = [tuple(r) for r in spark.read.parquet(str(tmp_path / "out")).collect()]
        return progress, found

    progress, found = step()
    assert [p.numInputRows for p in progress if p.numInputRows] == [40, 40, 22]
    assert sorted(n for n, *_ in found) == list(range(100))
    assert (observed(progress, "malformed"), observed(progress, "tombstones"), observed(progress, "records")) == (
        1,
        1,
        102,
    )
    assert PLANTED not in "".join(p.json for p in progress)
    broker.send(topic, *[{"n": i} for i in range(100, 150)])
    progress, found = step()
    assert sum(p.numInputRows for p in progress) == 50
    assert sorted(n for n, *_ in found) == list(range(150))
    assert len({(partition, offset) for _, partition, offset in found}) == 150
    assert json.loads(progress[-1].sources[0].endOffset)[topic].keys() == {"0", "1", "2", "3"}


def test_two_topics_joined(broker, kafka, spark, tmp_path):
    topics = {name: broker.topic() for name in ("orders", "payments")}
    orders = [{"ts": f"2026-01-01T00:00:{i % 60:02d}Z", "id": i} for i in range(60)]
    payments = [{"ts": f"2026-01-01T00:00:{(7 * i) % 60:02d}Z", "id": i, "sum": i / 4} for i in range(0, 60, 2)]
    broker.send(topics["orders"], *orders)
    broker.send(topics["payments"], *payments)
    text = "SELECT o.id, p.sum FROM orders [RANGE 10 SECONDS] AS o, payments [RANGE 10 SECONDS] AS p WHERE o.id = p.id"
    read = {
        name: tw.stream(
            kafka.read_stream(topics[name], schema=f"ts TIMESTAMP, id LONG{more}", max_offsets=25),
            time="ts",
            lateness="1 hour",
        )
        for name, more in (("orders", ""), ("payments", ", sum DOUBLE"))
    }
    pairs = tw.sql(text, **read, name="two topics", cells=2)
    run(kafka.write(pairs, topics["orders"] + "-pairs", key="id"), tmp_path / "check")
    got = kafka.read(topics["orders"] + "-pairs", schema="id LONG, sum DOUBLE", record=["key"]).collect()
    o, p = ([r | {"ts": datetime.fromisoformat(r["ts"]).astimezone(UTC)} for r in rows] for rows in (orders, payments))
    tables = {"o": pa.Table.from_pylist(o), "p": pa.Table.from_pylist(p)}
    con = duckdb.connect()
    for name, table in tables.items():
        con.register(name, table)
    wanted = con.execute(
        "SELECT o.id, p.sum FROM o, p WHERE o.id = p.id AND abs(epoch(o.ts) - epoch(p.ts)) <= 10"
    ).fetchall()
    assert len(wanted) > 3
    assert sorted((r.id, r.sum) for r in got) == sorted(wanted)
    assert all(bytes(r["_key"]).decode() == str(r.id) for r in got)
    assert PLANTED not in tw.query("two topics").explain()


def test_written_as_avro_with_headers_and_tombstones(broker, kafka, spark, tmp_path):
    topic = broker.topic()
    rows = [(1, "a", "insert"), (2, None, "insert"), (1, "a", "delete")]
    df = spark.createDataFrame(rows, "n LONG, s STRING, _change_type STRING")
    kafka.write(df, topic, value="avro", schema=AVRO, number=7, key="n", tombstone="_change_type = 'delete'").save()
    got = kafka.read(topic, value="avro", schema=AVRO, writers={7: AVRO}, record=["key"], tombstones="keep").collect()
    assert sorted((bytes(r["_key"]), r.n, r.s, r["_tombstone"]) for r in got if not r["_tombstone"]) == [
        (b"1", 1, "a", False),
        (b"2", 2, None, False),
    ]
    assert [(bytes(r["_key"]), r.n) for r in got if r["_tombstone"]] == [(b"1", None)]
    raw = spark.createDataFrame([("t", b"v", [{"key": "h", "value": b"x"}])], "topic STRING, value BINARY, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>")  # fmt: skip
    kafka.write(raw.selectExpr(f"'{topic}-raw' AS topic", "value", "headers"), value="raw").save()
    (one,) = kafka.read(f"{topic}-raw", value="raw", record=["headers"]).collect()
    assert (bytes(one.value), one.headers[0].key, bytes(one.headers[0].value)) == (b"v", "h", b"x")


def test_a_transaction_for_each_task_of_a_batch(broker, kafka, tmp_path):
    topic = broker.topic()
    broker.send(topic, *[{"n": i} for i in range(30)])
    df = kafka.read_stream(topic, schema="n LONG")
    run(kafka.write(df, f"{topic}-out", exactly_once=True, tasks=2), tmp_path / "check")
    assert sorted(r.n for r in kafka.read(f"{topic}-out", schema="n LONG").collect()) == list(range(30))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda k, df: k.read("t", schema=None), "value='json' needs a schema"),
        (lambda k, df: k.read("t", value="jsn", schema="n LONG"), "value='jsn'"),
        (lambda k, df: k.read("t", value="raw", schema="n LONG"), "a schema for value='raw'"),
        (lambda k, df: k.read([], schema="n LONG"), "the topics are"),
        (lambda k, df: k.read("t", schema="n LONG", on_error="ignore"), "on_error='ignore'"),
        (lambda k, df: k.read("t", schema="n LONG", record=["ofset"]), "record='ofset'"),
        (lambda k, df: k.read_stream("t", schema="n LONG", max_offsets=0), "max_offsets=0"),
        (lambda k, df: k.read_stream("t", schema="n LONG", starting="yesterday"), "starting='yesterday'"),
        (lambda k, df: k.write(df), "which topic"),
        (lambda k, df: k.write(df, "t", value="raw"), "without a column 'value'"),
        (lambda k, df: k.write(df, "t", value="avro"), "value='avro' needs a schema"),
        (lambda k, df: k.write(df, "t", exactly_once=True), "needs a streaming DataFrame"),
    ],
)
def test_what_is_refused_when_it_is_asked(kafka, spark, ask, words):
    with pytest.raises(tw.DefinitionError, match=words):
        ask(kafka, spark.range(1))


def test_a_broker_out_of_reach_is_told_without_the_password(spark):
    nowhere = tw.kafka("127.0.0.1:9", {"log_level": 0, "sasl.password": PLANTED}, timeout="1 second")
    with pytest.raises(Exception, match="could not list the partitions of 't'") as told:
        nowhere.read("t", schema="n LONG").count()
    assert "servers 127.0.0.1:9" in str(told.value)
    assert PLANTED not in str(told.value)


@pytest.mark.long
def test_the_page_runs(broker, spark):
    page = (Path(__file__).parents[3] / "docs" / "howto" / "kafka.md").read_text()
    names: dict[str, object] = {"__name__": "__main__"}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block.replace("broker:9092", broker.servers), "kafka.md", "exec"), names)
