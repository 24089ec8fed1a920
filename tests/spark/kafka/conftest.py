"""A broker inside the test process: librdkafka's mock cluster, whose topics of four partitions make themselves."""

from __future__ import annotations

import json
from itertools import count

import pytest
from confluent_kafka import Producer

numbers = count()


class Broker:
    """A mock cluster and a producer into it."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{b.host}:{b.port}" for b in brokers)

    def topic(self) -> str:
        """The name of a topic that nobody has used."""
        return f"topic-{next(numbers)}"

    def send(self, topic: str, *records, **options) -> None:
        """Records: a dict is JSON, bytes or None are values as they are; a pair is a key and a value."""
        for record in records:
            key, value = record if isinstance(record, tuple) else (None, record)
            encoded = json.dumps(value).encode() if isinstance(value, dict) else value
            self._producer.produce(topic, key=key, value=encoded, **options)
        assert self._producer.flush(10) == 0


@pytest.fixture(scope="session")
def broker():
    return Broker()
