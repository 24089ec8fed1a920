"""Bring the records of one range from the broker.

A range is done when a record or the end of the log is met at or behind its end: offsets have holes, where a log was
compacted or where transactions left their marks. One consumer serves all ranges that a worker process reads, one after
the other. Records that are gone before they were read (retention) are an error, or skipped if the user said so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thalweg.errors import ConnectorError
from thalweg.spark.kafka.client import Client
from thalweg.spark.kafka.offsets import Range

CHUNK = 10_000
"""Records in an Arrow batch: Spark's own number of rows (spark.sql.execution.arrow.maxRecordsPerBatch)."""
WAIT = 0.1
"""Seconds after which a chunk that is not full goes on its way."""
USUAL = {
    "group.id": "thalweg",  # asked for by the library; nothing is ever committed to it
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 10,  # what we ask for is there: nothing to wait for
    "fetch.queue.backoff.ms": 10,  # the default of a second is longer than most of our reads
}
FIXED = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}


@dataclass(frozen=True)
class Fetching:
    """How ranges are read: `seconds` without any record until we give up; whether a gap is an error."""

    client: Client
    seconds: float
    fail_on_data_loss: bool


_consumers: dict[Client, Any] = {}
"""One in each worker process."""
_complaints: dict[Client, str] = {}
"""What its connections complained of last."""


def consumer(client: Client) -> Any:
    """The consumer of this process."""
    from confluent_kafka import Consumer

    if client not in _consumers:
        heard = {"error_cb": lambda error: _complaints.__setitem__(client, client.safe(error.str()))}
        _consumers[client] = client.attempt("make a consumer", lambda: Consumer(client.conf(USUAL, FIXED | heard)))
    return _consumers[client]


def forget(client: Client) -> None:
    """Close this process's consumer of a broker."""
    gone = _consumers.pop(client, None)
    if gone is not None:
        gone.close()


def fetch(how: Fetching, part: Range) -> Iterator[list[Any]]:
    """The records of a range, in chunks."""
    from confluent_kafka import TopicPartition

    source = consumer(how.client)
    # By itself, the library looks for a topic that is new to it once a second.
    how.client.attempt(f"find '{part.topic}'", lambda: source.list_topics(part.topic, how.seconds))
    source.assign([TopicPartition(part.topic, part.partition, part.start)])
    try:
        yield from _chunks(how, source, part)
    finally:
        source.unassign()


def _chunks(how: Fetching, source: Any, part: Range) -> Iterator[list[Any]]:
    from confluent_kafka import KafkaError, TopicPartition

    passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
    place, heard, last = part.start, time.monotonic(), ""
    while place < part.end:
        got = how.client.attempt(f"read {part}", lambda: source.consume(min(CHUNK, part.end - place), WAIT))  # noqa: B023
        records = []
        for record in got:
            error = record.error()
            if error is None and record.offset() < part.end:
                records.append(record)
                place = record.offset() + 1
            elif error is None:
                place = part.end
                break
            elif error.code() == KafkaError._PARTITION_EOF:
                if record.offset() >= part.end:
                    place = part.end
                last = f"the log ends at offset {record.offset()}"
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                place = _after_the_gap(how, source, part, place)
                source.assign([TopicPartition(part.topic, part.partition, place)])
            elif error.fatal() or not (error.retriable() or error.code() in passing):
                raise how.client.failed(f"read {part}", error)
            else:
                last = how.client.safe(error.str())
        if records:
            heard = time.monotonic()
            yield records
        elif place < part.end and time.monotonic() - heard > how.seconds:
            raise ConnectorError(
                f"read {part} up to {place} and then nothing for {how.seconds:g} seconds: "
                + (last or _complaints.get(how.client, "no answer")),
                where=f"servers {how.client.servers}",
                hint="is the broker up? timeout= says how long to wait",
            )


def _after_the_gap(how: Fetching, source: Any, part: Range, place: int) -> int:
    """Where the log begins now, if that is behind what was asked for and the user accepts the gap."""
    from confluent_kafka import TopicPartition

    low, high = how.client.attempt(
        f"ask where {part.topic}[{part.partition}] begins",
        lambda: source.get_watermark_offsets(TopicPartition(part.topic, part.partition), how.seconds),
    )
    if how.fail_on_data_loss:
        raise lost(f"offset {place} of {part.topic}[{part.partition}] is gone: the log holds {low} to {high}")
    return max(place, min(low, part.end)) if low > place else part.end


def lost(what: str) -> ConnectorError:
    """The broker no longer has records that the query has not read."""
    return ConnectorError(
        what,
        hint="the topic's retention is shorter than the query's pause, or the topic was made again; "
        "fail_on_data_loss=False goes on with what is there",
    )
