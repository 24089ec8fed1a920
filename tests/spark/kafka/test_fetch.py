"""Ranges read from a broker, without Spark: holes, gaps, silence, and the sources of every Spark version."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.spark.kafka.client import Client
from thalweg.spark.kafka.fetch import Fetching, fetch, forget
from thalweg.spark.kafka.offsets import Range, from_json
from thalweg.spark.kafka.source import KafkaBatch, KafkaStream, KafkaStreamBefore42, Reading
from thalweg.spark.kafka.topics import Topics

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def client(broker):
    made = Client.of(broker.servers, QUIET)
    yield made
    forget(made)


def reading(topic, **changed):
    usual = {"topics": (topic,), "columns": ("value", "offset"), "starting": "earliest", "ending": "latest",
             "limit": None, "pieces": None, "seconds": 10, "fail_on_data_loss": True}  # fmt: skip
    return Reading.from_json(Reading(**usual | changed).to_json())


def rows(reader, parts):
    return sorted(
        (value.decode(), offset)
        for part in parts
        for batch in reader.read(part)
        for value, offset in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    )


def offsets_of(client, part, **how):
    return [
        r.offset()
        for chunk in fetch(Fetching(client, **{"seconds": 10, "fail_on_data_loss": True} | how), part)
        for r in chunk
    ]


def test_a_range_is_read_to_its_end_and_no_further(broker, client):
    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(50)], partition=1)
    assert offsets_of(client, Range(topic, 1, 0, 50)) == list(range(50))
    assert offsets_of(client, Range(topic, 1, 7, 9)) == [7, 8]
    assert offsets_of(client, Range(topic, 1, 49, 50)) == [49]


def test_records_that_are_gone_are_an_error_or_skipped(broker, client):
    topic = broker.topic()
    broker.send(topic, *[b"x" * 900_000] * 8, partition=0)  # the mock keeps five megabytes of a partition
    first = Topics(client, [topic], 10).starting("earliest")[topic, 0]
    assert 0 < first < 8
    with pytest.raises(tw.ConnectorError, match=rf"offset 0 of {topic}\[0\] is gone: the log holds {first} to 8"):
        offsets_of(client, Range(topic, 0, 0, 8))
    assert offsets_of(client, Range(topic, 0, 0, 8), fail_on_data_loss=False) == list(range(first, 8))
    assert offsets_of(client, Range(topic, 0, 0, first), fail_on_data_loss=False) == []


def test_records_that_were_promised_and_do_not_come_are_an_error(broker, client):
    topic = broker.topic()
    broker.send(topic, b"one", partition=0)
    with pytest.raises(tw.ConnectorError, match="up to 1 and then nothing for 1 seconds: the log ends at offset 1"):
        offsets_of(client, Range(topic, 0, 0, 5), seconds=1)


def test_an_abandoned_read_leaves_the_consumer_usable(broker, client):
    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(20)], partition=0)
    begun = fetch(Fetching(client, 10, True), Range(topic, 0, 0, 20))
    next(begun)
    begun.close()
    assert offsets_of(client, Range(topic, 0, 3, 6)) == [3, 4, 5]


@pytest.mark.parametrize("pieces", [None, 8])
def test_a_batch_reader_reads_each_record_once(broker, client, pieces):
    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(100)])
    reader = KafkaBatch(client, reading(topic, pieces=pieces))
    parts = reader.partitions()
    assert len(parts) >= (pieces or 1)
    assert sorted(int(v) for v, _ in rows(reader, parts)) == list(range(100))


def test_the_source_of_42_admits_no_more_than_spark_allows(broker, client):
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(100)])
    reader = KafkaStream(client, reading(topic, limit=30))
    start, limit, seen = reader.initialOffset(), reader.getDefaultReadLimit(), []
    for _ in range(4):
        end = reader.latestOffset(start, limit)
        seen += rows(reader, reader.partitions(start, end))
        assert sum(from_json(end).values()) <= sum(from_json(start).values()) + 30
        start = end
    assert sorted(int(v) for v, _ in seen) == list(range(100))
    reader.prepareForTriggerAvailableNow()
    broker.send(topic, b"later")
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.reportLatestOffset() != start


def test_the_source_of_41_bounds_itself_and_after_a_restart_takes_what_waits(broker, client):
    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(100)])
    reader = KafkaStreamBefore42(client, reading(topic, limit=30))
    start = reader.initialOffset()
    first = reader.latestOffset()
    assert sum(from_json(first).values()) == 30
    seen = rows(reader, reader.partitions(start, first))
    second = reader.latestOffset()
    assert sum(from_json(second).values()) == 60
    restarted = KafkaStreamBefore42(client, reading(topic, limit=30))
    seen += rows(restarted, restarted.partitions(first, restarted.latestOffset()))
    assert sorted(int(v) for v, _ in seen) == list(range(100))


def test_a_partition_that_came_later_is_read_from_its_beginning(broker, client):
    topic = broker.topic()
    broker.send(topic, b"old", partition=0)
    broker.send(topic, b"new", partition=3)
    reader = KafkaStream(client, reading(topic))
    assert rows(reader, reader.partitions({topic: {"0": 1}}, {topic: {"0": 1, "3": 1}})) == [("new", 0)]


@pytest.mark.parametrize("end", [{"0": 3}, {}])
def test_a_log_that_was_made_again_is_told(broker, client, end):
    topic = broker.topic()
    broker.send(topic, b"0", b"1", b"2", partition=0)
    strict, lax = (KafkaStream(client, reading(topic, fail_on_data_loss=f)) for f in (True, False))
    with pytest.raises(tw.ConnectorError, match=rf"{topic}\[0\] was read up to offset 9"):
        strict.partitions({topic: {"0": 9}}, {topic: end})
    assert lax.partitions({topic: {"0": 9}}, {topic: end}) == []


@pytest.mark.parametrize(
    ("starting", "first"),
    [("earliest", 0), ("latest", 5), ({0: 2}, 2), ({0: -1}, 5), ({0: -2}, 0), ({}, 0)],
)
def test_where_a_query_begins(broker, client, starting, first):
    topic = broker.topic()
    broker.send(topic, *[b"x"] * 5, partition=0)
    asked = starting if isinstance(starting, str) else {topic: starting}
    assert Topics(client, [topic], 10).starting(asked)[topic, 0] == first


def test_a_partition_that_is_not_there_is_refused(broker, client):
    topic = broker.topic()
    broker.send(topic, b"x")
    with pytest.raises(tw.DefinitionError, match="names partition 9"):
        Topics(client, [topic], 10).starting({topic: {9: 0}})
