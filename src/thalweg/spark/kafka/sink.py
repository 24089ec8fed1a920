"""DataFrames into topics. Every row is a record: columns key, value, and perhaps topic and headers.

The plain sink uses an idempotent producer and writes a task's rows again if Spark repeats the task: at least once.

The exactly-once sink gives each task of a batch one transaction, which holds the rows and a mark: «batch n of this
query and task is written», kept as the committed offset of a consumer group. A repeated task first fences whoever may
still be at it (`init_transactions` of the same transactional id), then reads the mark, and leaves if its batch is
there. That is sound because a repeated batch has the same rows, and rows are spread over tasks by their content alone:
`broker.py` repartitions by all columns into a fixed number of tasks, and the mark holds that number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from thalweg.errors import ConnectorError
from thalweg.spark.kafka.avro import AvroWriter
from thalweg.spark.kafka.client import Client

USUAL = {
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "compression.type": "lz4",
    "transaction.timeout.ms": 300_000,
}
FIXED = {
    "enable.idempotence": True,  # retries inside the client write nothing twice
    "delivery.report.only.error": True,
}
SPARE = 0.1
"""Seconds to let a full queue drain."""


@dataclass(frozen=True)
class Writing:
    """What to write, as plain values: it travels in an option of the sink."""

    topic: str | None
    seconds: float
    tasks: int | None = None
    """Tasks of a batch, if each shall write exactly once."""
    avro: Any = None
    number: int | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Writing:
        return cls(**json.loads(text))


class Writer(DataSourceArrowWriter):
    """Rows of a batch job."""

    def __init__(self, client: Client, writing: Writing) -> None:
        self.client = client
        self.writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return at_least_once(self.client, self.writing, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Rows of a micro-batch."""

    def __init__(self, client: Client, writing: Writing) -> None:
        self.client = client
        self.writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        send = at_least_once if self.writing.tasks is None else exactly_once
        return send(self.client, self.writing, iterator)


def at_least_once(client: Client, writing: Writing, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """Write the rows and wait until the broker has them."""
    sender = Sender(client, writing, {})
    sender.send(batches)
    sender.flush()
    return WriterCommitMessage()


def exactly_once(client: Client, writing: Writing, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """Write the rows and the mark of their batch in one transaction, unless the mark is there."""
    from confluent_kafka import KafkaException

    task = TaskContext.get()
    query = task.getLocalProperty("sql.streaming.queryId") if task else None
    if task is None or query is None:
        raise ConnectorError("exactly_once=True outside a streaming query", hint="leave it out for a batch job")
    batch = int(task.getLocalProperty("streaming.sql.batchId") or 0)
    names = [f"thalweg-{query}-{number}" for number in (task.partitionId(), 0)]
    sender = Sender(client, writing, {"transactional.id": names[0]})
    producer, seconds = sender.producer, writing.seconds
    try:
        producer.init_transactions(seconds)
        marks = Marks(client, str(writing.topic), names, seconds)
        try:
            if marks.written(batch, writing.tasks or 1):
                return WriterCommitMessage()
            producer.begin_transaction()
            try:
                sender.send(batches)
                sender.flush()
                marks.put(producer, batch, writing.tasks or 1)
            except BaseException:
                with suppress(KafkaException):
                    producer.abort_transaction(seconds)
                raise
            producer.commit_transaction(seconds)
        finally:
            marks.close()
    except KafkaException as e:
        raise client.failed(f"write batch {batch} in a transaction", e.args[0] if e.args else e) from None
    return WriterCommitMessage()


class Sender:
    """A producer, and the rows that it has been given."""

    def __init__(self, client: Client, writing: Writing, more: dict[str, Any]) -> None:
        from confluent_kafka import Producer

        self._client = client
        self._writing = writing
        self._avro = None if writing.avro is None else AvroWriter(writing.avro, writing.number)
        self._failed: list[Any] = []
        self.producer = client.attempt("make a producer", lambda: Producer(client.conf(USUAL, FIXED | more)))

    def send(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Hand the rows to the producer, which sends them in the background."""
        for rows in batches:
            given = {name: rows.column(name).to_pylist() for name in rows.schema.names}
            count = rows.num_rows
            absent = [None] * count
            values = given["value"] if self._avro is None else [v and self._avro.write(v) for v in given["value"]]
            topics = given.get("topic") or [self._writing.topic] * count
            headers = given.get("headers") or absent
            for topic, key, value, held in zip(topics, given.get("key") or absent, values, headers, strict=True):
                self._one(topic, key, value, held and [(h["key"], h["value"]) for h in held])
            self.producer.poll(0)

    def _one(self, topic: str | None, key: bytes | None, value: bytes | None, headers: Any) -> None:
        if topic is None:
            raise ConnectorError("a row has no topic", hint="name one: write(df, topic), or fill the column 'topic'")
        while True:
            try:
                self._client.attempt(
                    f"write to '{topic}'",
                    lambda: self.producer.produce(topic, value, key, headers=headers or {}, on_delivery=self._report),
                )
                return
            except BufferError:
                self.producer.poll(SPARE)

    def _report(self, error: Any, record: Any) -> None:
        if error is not None:
            self._failed.append(error)

    def flush(self) -> None:
        """Wait until the broker has all rows; an error if it does not take one."""
        left = self.producer.flush(self._writing.seconds)
        if self._failed:
            raise self._client.failed("write rows", self._failed[0])
        if left:
            raise self._client.failed("write rows", f"{left} of them not taken in {self._writing.seconds:g} seconds")


class Marks:
    """Which batches a task has written, as the committed offset of a consumer group of its own.

    The mark of the first task also tells whether the number of tasks has changed, which would spread rows otherwise.
    """

    def __init__(self, client: Client, topic: str, groups: list[str], seconds: float) -> None:
        from confluent_kafka import Consumer, TopicPartition

        fixed = {"enable.auto.commit": False, "isolation.level": "read_committed"}
        self._client = client
        self._seconds = seconds
        self._place = TopicPartition(topic, 0)
        self._groups = [
            client.attempt("make a consumer", lambda: Consumer(client.conf({}, fixed | {"group.id": group})))  # noqa: B023
            for group in dict.fromkeys(groups)
        ]

    def written(self, batch: int, tasks: int) -> bool:
        found = [g.committed([self._place], self._seconds)[0] for g in self._groups]
        for mark in found:
            if mark.offset >= 0 and mark.metadata and int(mark.metadata) != tasks:
                raise ConnectorError(
                    f"an exactly-once sink of {mark.metadata} tasks can't go on with {tasks}",
                    hint=f"keep tasks={mark.metadata} as long as the checkpoint lives",
                )
        return bool(found[0].offset > batch)

    def put(self, producer: Any, batch: int, tasks: int) -> None:
        from confluent_kafka import TopicPartition

        mark = TopicPartition(self._place.topic, self._place.partition, batch + 1, str(tasks))
        producer.send_offsets_to_transaction([mark], self._groups[0].consumer_group_metadata(), self._seconds)

    def close(self) -> None:
        for group in self._groups:
            group.close()
