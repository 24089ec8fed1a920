"""Topics as a source of Spark: positions in the checkpoint, ranges as tasks, admission control.

Spark asks how far a batch may go, writes the answer into its offset log, and only then has the ranges read, so a
restarted query reads exactly the same records again. From Spark 4.2 on the limit is Spark's own (`ReadMaxRows`), and
`availableNow` stops at what was there when it began. Before, a source is not told where a batch starts: it remembers
the last batch, and takes all that waits in the first one after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from thalweg.spark.compat import ADMISSION, SupportsTriggerAvailableNow, arrow_schema, read_limit, rows_allowed
from thalweg.spark.kafka.avro import AvroReader
from thalweg.spark.kafka.client import Client
from thalweg.spark.kafka.columns import batch, schema_of
from thalweg.spark.kafka.fetch import Fetching, fetch, lost
from thalweg.spark.kafka.offsets import Offsets, Range, admit, from_json, ranges, to_json
from thalweg.spark.kafka.sink import StreamWriter, Writer, Writing
from thalweg.spark.kafka.topics import Starting, Topics

FORMAT = "thalweg-kafka"
CLIENT = "client.secret"
"""The option that holds the client's options. Spark hides options whose name holds «secret» wherever it shows them."""
READING, WRITING = "reading", "writing"


@dataclass(frozen=True)
class Reading:
    """What to read, as plain values: it travels in an option of the source."""

    topics: tuple[str, ...]
    columns: tuple[str, ...]
    starting: Starting
    ending: Starting
    limit: int | None
    pieces: int | None
    seconds: float
    fail_on_data_loss: bool
    avro: Any = None
    writers: Any = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Reading:
        told = json.loads(text)
        return cls(**(told | {"topics": tuple(told["topics"]), "columns": tuple(told["columns"])}))

    def decoder(self) -> AvroReader | None:
        return None if self.avro is None else AvroReader(self.avro, self.writers)


class KafkaSource(DataSource):
    """Registered with the session by `tw.kafka`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        reading = self._reading()
        return schema_of(reading.columns, reading.decoder())

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaBatch(self._client(), self._reading())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return (KafkaStream if ADMISSION else KafkaStreamBefore42)(self._client(), self._reading())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return Writer(self._client(), Writing.from_json(self.options[WRITING]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(self._client(), Writing.from_json(self.options[WRITING]))

    def _client(self) -> Client:
        servers, options = json.loads(self.options[CLIENT])
        return Client(servers, tuple((k, v) for k, v in options))

    def _reading(self) -> Reading:
        return Reading.from_json(self.options[READING])


class OffsetRange(InputPartition):
    """A range as Spark carries it to its task; None for none."""

    def __init__(self, range: Range | None) -> None:
        super().__init__(range)


class _Records:
    """What every reader has: the ranges between two positions, and the records of a range."""

    def __init__(self, client: Client, reading: Reading) -> None:
        self.client = client
        self.reading = reading
        self._topics: Topics | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_topics": None}  # connections stay on the driver

    @property
    def topics(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self.client, self.reading.topics, self.reading.seconds)
        return self._topics

    def parts(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        fresh = set(end) - set(start)
        if fresh:  # partitions that came while the query ran are read from their beginning
            first = self.topics.starting("earliest")
            start = start | {place: first[place] for place in fresh}
        gone = [p for p in start if p not in end or end[p] < start[p]]
        if gone and self.reading.fail_on_data_loss:
            topic, partition = gone[0]
            now = end.get(gone[0])
            raise lost(
                f"{topic}[{partition}] was read up to offset {start[gone[0]]} and now "
                + ("is not there" if now is None else f"ends at {now}")
            )
        return [OffsetRange(r) for r in ranges(start, end, self.reading.pieces)]

    def records(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value
        if part is None:
            return
        reading = self.reading
        avro = reading.decoder()
        schema = arrow_schema(schema_of(reading.columns, avro))
        how = Fetching(self.client, reading.seconds, reading.fail_on_data_loss)
        for chunk in fetch(how, part):
            yield batch(chunk, reading.columns, schema, avro)


class KafkaBatch(_Records, DataSourceReader):
    """What the topics hold when the job is planned."""

    def partitions(self) -> list[InputPartition]:
        return self.parts(self.topics.starting(self.reading.starting), self.topics.starting(self.reading.ending))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.records(partition)


class _Stream(_Records, DataSourceStreamReader):
    """What the readers of all Spark versions share."""

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self.topics.starting(self.reading.starting))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self.parts(from_json(start), from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.records(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: positions live in Spark's checkpoint."""


class KafkaStream(_Stream, SupportsTriggerAvailableNow):
    """Spark 4.2 and newer: Spark says where a batch starts and how many rows it may have."""

    def __init__(self, client: Client, reading: Reading) -> None:
        super().__init__(client, reading)
        self._target: Offsets | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.topics.latest()

    def getDefaultReadLimit(self) -> Any:
        return read_limit(self.reading.limit)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        latest = self.topics.latest() if self._target is None else self._target
        return to_json(admit(from_json(start), latest, rows_allowed(limit)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self.topics.latest())


class KafkaStreamBefore42(_Stream):
    """Spark 4.1: only the end of a batch is asked for."""

    def __init__(self, client: Client, reading: Reading) -> None:
        super().__init__(client, reading)
        self._start: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        first = super().initialOffset()
        self._start = from_json(first)
        return first

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        limit = None if self._start is None else self.reading.limit
        return to_json(admit(self._start or {}, self.topics.latest(), limit))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._start = from_json(end)
        return super().partitions(start, end)
