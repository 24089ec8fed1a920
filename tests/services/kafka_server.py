"""A real Kafka broker, from Maven Central's jars, in KRaft mode: one process that is broker and controller."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class KafkaServer:
    """Started when made; `stop()` ends it. `kill()` and `start()` again make a broker that was away for a while."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._folder = folder
        self._java = ["java", "-Xmx768m", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        port, control = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._settings = folder / "server.properties"
        self._settings.write_text(SETTINGS.format(port=port, control=control, folder=folder))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        form = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        subprocess.run(form, check=True, capture_output=True, timeout=120)
        self.start()

    def start(self) -> None:
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen([*self._java, "kafka.Kafka", str(self._settings)], stdout=log, stderr=log)
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        until = time.monotonic() + 120
        while True:
            try:
                self._admin.list_topics(timeout=2)
                break
            except KafkaException:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < until, "the broker does not answer"
        self._producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, "linger.ms": 20,
                                   "queue.buffering.max.messages": 1_000_000})  # fmt: skip

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def make(self, topic: str, partitions: int = 3, **config: Any) -> str:
        named = {k.replace("_", "."): str(v) for k, v in config.items()}
        made = self._admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
        made[topic].result()
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        until = time.monotonic() + 60
        while len(self._producer.list_topics(topic, timeout=10).topics[topic].partitions) < partitions:
            assert time.monotonic() < until

    def configure(self, topic: str, **config: Any) -> None:
        named = {k.replace("_", "."): str(v) for k, v in config.items()}
        for done in self._admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config=named)]).values():
            done.result()

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset, as retention does."""
        for done in self._admin.delete_records([TopicPartition(topic, partition, before)]).values():
            done.result()

    def send(self, topic: str, *records: Any, **options: Any) -> None:
        """Records: a dict is JSON, bytes or None are values as they are; a pair is a key and a value."""
        for number, record in enumerate(records):
            key, value = record if isinstance(record, tuple) else (None, record)
            encoded = json.dumps(value).encode() if isinstance(value, dict) else value
            self._producer.produce(topic, key=key, value=encoded, **options)
            if number % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def values(self, topic: str, **options: Any) -> list[bytes | None]:
        """All committed records of a topic, read with another client than the code under test uses in its tasks."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": str(uuid.uuid4()), "log_level": 0,
                             "isolation.level": "read_committed", "enable.partition.eof": True} | options)  # fmt: skip
        parts = self._admin.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in parts])
        left, found = set(parts), []
        until = time.monotonic() + 120
        while left:
            assert time.monotonic() < until
            for record in consumer.consume(1000, 0.2):
                if record.error() is None:
                    found.append(record.value())
                else:
                    left.discard(record.partition())
        consumer.close()
        return found
