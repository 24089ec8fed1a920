"""A real broker: Spark's own connector and `tw.kafka`, in and out, with everything that a log can do to a reader."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.services import pages
from tests.services.conftest import jars

import thalweg as tw

PROGRAM = Path(__file__).parent / "programs" / "pump.py"
ROOT = Path(__file__).parents[2]
numbers = count()


@pytest.fixture(scope="module")
def kafka(kafka_server, spark):
    return tw.kafka(kafka_server.servers, {"log_level": 0})


@pytest.fixture
def topic(kafka_server):
    return kafka_server.make(f"topic-{next(numbers)}")


def sparks(spark, servers, topic, schema, **options):
    """A topic read by Spark's own connector."""
    told = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"} | options
    raw = spark.readStream.format("kafka").options(**told).load()
    return raw.select(F.from_json(F.col("value").cast("string"), schema).alias("v"), "offset", "timestamp")


def run(writer, place):
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(400)
        return query.recentProgress
    finally:
        query.stop()


def second(n):
    return f"2026-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}Z"


@pytest.mark.parametrize("source", ["spark", "thalweg"])
def test_three_topics_joined_and_written(kafka_server, kafka, spark, tmp_path, source):
    seed = 7
    rng = random.Random(seed)
    names = ("orders", "payments", "parcels")
    rows = {name: [{"ts": second(i // 2), "id": rng.randrange(60), name[0]: i} for i in range(300)] for name in names}
    topics = {name: kafka_server.make(f"{source}-{name}") for name in names}
    for name in names:
        kafka_server.send(topics[name], *[(str(r["id"]), r) for r in rows[name]])
    text = """
        SELECT o.id, o.o, p.p AS pay, q.p AS parcel
        FROM orders [RANGE 20 SECONDS] AS o, payments [RANGE 20 SECONDS] AS p, parcels [RANGE 20 SECONDS] AS q
        WHERE o.id = p.id AND p.id = q.id
    """
    inputs = {}
    for name in names:
        schema = f"ts TIMESTAMP, id LONG, {name[0]} LONG"
        if source == "thalweg":
            df = kafka.read_stream(topics[name], schema=schema, max_offsets=120)
        else:
            df = sparks(spark, kafka_server.servers, topics[name], schema, maxOffsetsPerTrigger="120").select("v.*")
        inputs[name] = tw.stream(df, time="ts", lateness="10 minutes")
    out = kafka_server.make(f"{source}-three-out")
    joined = tw.sql(text, **inputs, cells=2, name=f"three of {source}")
    if source == "thalweg":
        writer = kafka.write(joined, out, key="id")
    else:
        writer = joined.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value").writeStream.format(
            "kafka"
        )
        writer = writer.option("kafka.bootstrap.servers", kafka_server.servers).option("topic", out)
    progress = run(writer, tmp_path / "check")
    assert len([p for p in progress if p.numInputRows]) >= 3
    con = duckdb.connect()
    for name in names:
        con.register(name, pa.Table.from_pylist([r | {"ts": i // 2} for i, r in enumerate(rows[name])]))
    wanted = con.execute("""
        SELECT o.id, o.o, p.p, q.p FROM orders o, payments p, parcels q
        WHERE o.id = p.id AND p.id = q.id AND greatest(o.ts, p.ts, q.ts) - least(o.ts, p.ts, q.ts) <= 20
    """).fetchall()
    got = [json.loads(v) for v in kafka_server.values(out)]
    assert len(wanted) > 20, seed
    assert Counter((g["id"], g["o"], g["pay"], g["parcel"]) for g in got) == Counter(wanted), seed


def test_a_batch_that_is_repeated_writes_nothing_twice(kafka_server, kafka, topic, tmp_path):
    kafka_server.send(topic, *[{"n": i} for i in range(100)])
    outs = {exact: kafka_server.make(f"{topic}-{exact}") for exact in (True, False)}
    for exact, out in outs.items():
        check = tmp_path / str(exact)
        df = kafka.read_stream(topic, schema="n LONG", max_offsets=40)
        options = {"exactly_once": True, "tasks": 3} if exact else {}
        run(kafka.write(df, out, key="n", **options), check)
        last = max(int(p.name) for p in (check / "commits").iterdir() if p.name.isdigit())
        for name in (str(last), f".{last}.crc"):  # as if the driver had died before it wrote this
            (check / "commits" / name).unlink(missing_ok=True)
        run(kafka.write(df, out, key="n", **options), check)
        ns = Counter(json.loads(v)["n"] for v in kafka_server.values(out))
        assert set(ns) == set(range(100))
        assert (max(ns.values()) == 1) is exact, "at least once, the repeated batch is there twice"


def test_the_number_of_tasks_of_an_exactly_once_sink_is_fixed(kafka_server, kafka, topic, tmp_path):
    kafka_server.send(topic, *[{"n": i} for i in range(10)])
    out = kafka_server.make(f"{topic}-out")
    df = kafka.read_stream(topic, schema="n LONG")
    run(kafka.write(df, out, exactly_once=True, tasks=2), tmp_path / "check")
    kafka_server.send(topic, {"n": 10})
    with pytest.raises(Exception, match="sink of 2 tasks can't go on with 3"):
        run(kafka.write(df, out, exactly_once=True, tasks=3), tmp_path / "check")
    run(kafka.write(df, out, exactly_once=True, tasks=2), tmp_path / "check")
    assert sorted(json.loads(v)["n"] for v in kafka_server.values(out)) == list(range(11))


def test_a_new_checkpoint_writes_again_from_its_first_batch(kafka_server, kafka, topic, tmp_path):
    kafka_server.send(topic, *[{"n": i} for i in range(10)])
    out = kafka_server.make(f"{topic}-out")
    for check in ("one", "two"):
        run(kafka.write(kafka.read_stream(topic, schema="n LONG"), out, exactly_once=True, tasks=2), tmp_path / check)
    assert sorted(json.loads(v)["n"] for v in kafka_server.values(out)) == sorted([*range(10)] * 2)


@pytest.mark.parametrize("source", ["thalweg", "spark"])
def test_exactly_once_across_kills(kafka_server, tmp_path, source):
    seed = random.randrange(1_000_000)
    print("seed", seed)
    rng = random.Random(seed)
    for name in ("a", "b"):
        kafka_server.make(f"{source}-{name}")
        kafka_server.send(f"{source}-{name}", *[{"ts": second(i // 10), "id": i} for i in range(3000)])
    kafka_server.make(f"{source}-out")
    check = tmp_path / "check"
    jar = ",".join(str(j) for j in sorted(jars("kafka-connector").glob("*.jar")))
    command = [sys.executable, str(PROGRAM), kafka_server.servers, source, str(check), jar]
    kills = 0
    for batch in (0, 2, 4):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        until = time.monotonic() + 300
        while not (check / "offsets" / str(batch)).exists() and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 1.5))  # somewhere in the batch, its write or its commit
        kills += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert "done" in done.stdout, done.stderr[-3000:]
    ids = Counter(json.loads(v)["id"] for v in kafka_server.values(f"{source}-out"))
    assert kills == 3, "the program ended before it was killed"
    assert ids == Counter(range(3000)), f"seed {seed}: {[i for i, n in ids.items() if n != 1][:5]}"


def test_a_json_schema_that_changes_and_tombstones(kafka_server, kafka, topic, spark, tmp_path):
    old = [{"ts": second(i), "id": i} for i in range(5)]
    new = [{"ts": second(i), "id": i, "gate": f"G{i}", "nested": {"a": 1}} for i in range(5, 10)]
    kafka_server.send(topic, *[(str(r["id"]), r) for r in old], ("3", None), *[(str(r["id"]), r) for r in new])
    before, after = "ts TIMESTAMP, id LONG", "ts TIMESTAMP, id LONG, gate STRING, nested STRUCT<a: LONG>"
    assert sorted(r.id for r in kafka.read(topic, schema=before).collect()) == list(range(10))
    got = {r.id: r for r in kafka.read(topic, schema=after).collect()}
    assert (got[1].gate, got[7].gate, got[7].nested.a) == (None, "G7", 1)
    kept = kafka.read(topic, schema=after, tombstones="keep", record=["key"]).where("_tombstone").collect()
    assert [bytes(r["_key"]) for r in kept] == [b"3"]
    theirs = sparks(spark, kafka_server.servers, topic, after)
    run(theirs.where("v IS NOT NULL").writeStream.format("parquet").option("path", str(tmp_path / "o")), tmp_path / "c")
    assert {r.id: r.gate for r in spark.read.parquet(str(tmp_path / "o")).select("v.*").collect()} == {
        i: r.gate for i, r in got.items()
    }


def test_empty_skewed_and_new_partitions(kafka_server, kafka, spark, tmp_path):
    topic = kafka_server.make(f"skewed-{next(numbers)}", 4)
    kafka_server.send(topic, *[{"n": i} for i in range(5000)], partition=0)
    kafka_server.send(topic, *[{"n": i} for i in range(5000, 5010)], partition=1)
    reader = kafka.read(topic, schema="n LONG", min_partitions=8)
    assert reader.rdd.getNumPartitions() >= 8
    assert reader.selectExpr("count(n)", "sum(n)").collect()[0] == (5010, sum(range(5010)))
    stream = kafka.read_stream(topic, schema="n LONG", max_offsets=1000)
    out = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    progress = run(out, tmp_path / "check")
    assert [p.numInputRows for p in progress if p.numInputRows] == [1000] * 5 + [10]
    kafka_server.grow(topic, 6)
    kafka_server.send(topic, *[{"n": i} for i in range(5010, 5020)], partition=5)
    run(out, tmp_path / "check")
    assert sorted(r.n for r in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(5020))


def test_records_that_retention_took(kafka_server, kafka, spark, topic, tmp_path):
    kafka_server.send(topic, *[{"n": i} for i in range(50)], partition=0)

    def step(**options):
        df = kafka.read_stream(topic, schema="n LONG", **options)
        run(df.writeStream.format("parquet").option("path", str(tmp_path / "out")), tmp_path / "check")

    step()
    kafka_server.send(topic, *[{"n": i} for i in range(50, 100)], partition=0)
    kafka_server.forget(topic, 0, 80)
    with pytest.raises(Exception, match=rf"offset 50 of {topic}\[0\] is gone: the log holds 80 to 100"):
        step()
    step(fail_on_data_loss=False)
    got = sorted(r.n for r in spark.read.parquet(str(tmp_path / "out")).collect())
    assert got == [*range(50), *range(80, 100)]


def test_committed_records_only_and_the_holes_that_transactions_leave(kafka_server, kafka, topic):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka_server.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number, end in enumerate(("commit", "abort", "commit", "abort")):
        producer.begin_transaction()
        for i in range(5):
            producer.produce(topic, json.dumps({"n": 10 * number + i}), partition=0)
        producer.flush()
        getattr(producer, f"{end}_transaction")(30)
    wanted = [0, 1, 2, 3, 4, 20, 21, 22, 23, 24]
    assert sorted(r.n for r in kafka.read(topic, schema="n LONG").collect()) == wanted
    assert sorted(r.n for r in kafka.read(topic, schema="n LONG", min_partitions=9).collect()) == wanted
    producer.begin_transaction()
    producer.produce(topic, b'{"n": 99}', partition=0)
    producer.flush()
    assert sorted(r.n for r in kafka.read(topic, schema="n LONG").collect()) == wanted, (
        "an open transaction is not read"
    )
    producer.abort_transaction(30)
    every = tw.kafka(kafka_server.servers, {"isolation.level": "read_uncommitted"}).read(topic, schema="n LONG")
    assert every.count() == 21


@pytest.mark.parametrize("source", ["thalweg", "spark"])
def test_a_topic_that_stops_does_not_hold_the_others_with_idle(kafka_server, kafka, spark, tmp_path, source):
    topics = {name: kafka_server.make(f"{source}-idle-{name}") for name in ("a", "b")}
    kafka_server.send(topics["a"], *[{"ts": second(i), "id": i} for i in range(3000)])
    kafka_server.send(topics["b"], *[{"ts": second(i), "id": i} for i in range(50)])
    text = "SELECT a.id FROM a [RANGE 20 SECONDS] AS a, b [RANGE 20 SECONDS] AS b WHERE a.id = b.id"

    def stored(idle):
        inputs = {}
        for name, one in topics.items():
            if source == "thalweg":
                df = kafka.read_stream(one, schema="ts TIMESTAMP, id LONG", max_offsets=600)
            else:
                df = sparks(
                    spark, kafka_server.servers, one, "ts TIMESTAMP, id LONG", maxOffsetsPerTrigger="600"
                ).select("v.*")
            inputs[name] = tw.stream(df, time="ts", lateness="10 minutes", idle=idle)
        name = f"idle {source} {idle}"
        progress = run(tw.sql(text, **inputs, cells=1, name=name).writeStream.format("noop"), tmp_path / name)
        last = max(p.batchId for p in progress if p.numInputRows)
        stats, until = tw.query(name).stats(), time.monotonic() + 60
        while stats.batch.max() < last:  # on a busy machine the listener hears of a batch long after it
            assert time.monotonic() < until
            time.sleep(0.2)
            stats = tw.query(name).stats()
        return int(stats[(stats.batch == stats.batch.max()) & (stats.input == "a")].stored.iloc[0])

    waits, goes_on = stored(None), stored("1 minute")
    assert goes_on < waits / 2, (waits, goes_on)


def test_the_broker_goes_away_and_comes_back(kafka_server, kafka, topic):
    kafka_server.send(topic, *[{"n": i} for i in range(20)])
    assert kafka.read(topic, schema="n LONG").count() == 20
    kafka_server.stop()
    impatient = tw.kafka(kafka_server.servers, {"log_level": 0}, timeout="1 second")
    with pytest.raises(Exception, match="could not list the partitions") as told:
        impatient.read(topic, schema="n LONG").count()
    assert kafka_server.servers in str(told.value)
    kafka_server.start()
    assert kafka.read(topic, schema="n LONG").count() == 20


def test_a_topic_that_is_not_there_is_named_with_its_neighbours(kafka_server, kafka):
    kafka_server.make("departures")
    with pytest.raises(Exception, match=r"the topic 'departurs' is not there(?s:.*)did you mean 'departures'"):
        kafka.read("departurs", schema="n LONG").count()


def test_where_a_time_begins(kafka_server, kafka, topic):
    for n, at in enumerate((1_700_000_000_000, 1_700_000_060_000, 1_700_000_120_000)):
        kafka_server.send(topic, {"n": n}, partition=0, timestamp=at)
    later = kafka.read(topic, schema="n LONG", starting="2023-11-14T22:14:00+00:00")
    assert sorted(r.n for r in later.collect()) == [1, 2]
    assert kafka.read(topic, schema="n LONG", starting="2030-01-01T00:00:00+00:00").count() == 0
    assert kafka.read(topic, schema="n LONG", starting={topic: {0: 1}}, ending={topic: {0: 2}}).collect() == [(1,)]


def test_the_page_runs(kafka_server, spark):
    for name in ("flights", "calls", "called"):
        kafka_server.make(name)
    assert pages.run("kafka.md", {"broker:9092": kafka_server.servers}) == 3
