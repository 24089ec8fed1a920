"""What the broker says of topics: their partitions, where their logs begin and end, where a time is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from thalweg.errors import ConnectorError, DefinitionError, did_you_mean
from thalweg.spark.kafka.client import Client
from thalweg.spark.kafka.offsets import Offsets, Place, from_json

Starting = str | Mapping[str, Mapping[Any, int]]
"""`earliest`, `latest`, a time in ISO 8601, or an offset for each partition (-2 the earliest, -1 the latest)."""
EDGES = {"earliest": -2, "latest": -1}


class Topics:
    """Asks the broker about some topics. Lives on the driver."""

    def __init__(self, client: Client, topics: Iterable[str], seconds: float) -> None:
        from confluent_kafka.admin import AdminClient

        self._client = client
        self._names = tuple(topics)
        self._seconds = seconds
        self._told: list[Any] = []
        self._admin = client.attempt(
            "make a client", lambda: AdminClient(client.conf({}, {"error_cb": self._told.append}))
        )

    def latest(self) -> Offsets:
        """Behind the newest record of each partition."""
        return self._offsets(dict.fromkeys(self.places(), "latest"))

    def starting(self, starting: Starting) -> Offsets:
        """The first record of each partition to read."""
        places = self.places()
        if isinstance(starting, str):
            asked: dict[Place, Any] = dict.fromkeys(places, starting if starting in EDGES else milliseconds(starting))
            return self._offsets(asked)
        given = from_json(starting)
        unknown = sorted(set(given) - set(places))
        if unknown:
            topic, partition = unknown[0]
            raise DefinitionError(
                f"starting= names partition {partition} of '{topic}', which is not there",
                hint=f"there are {', '.join(f'{t}[{p}]' for t, p in places)}",
            )
        words = {number: word for word, number in EDGES.items()}
        fixed = {place: offset for place, offset in given.items() if offset not in words}
        rest = {place: words.get(given.get(place, -2)) for place in places if place not in fixed}
        return fixed | self._offsets(rest)

    def places(self) -> list[Place]:
        """Every partition of the topics."""
        found: list[Place] = []
        for name in self._names:
            topic = self._ask(f"list the partitions of '{name}'", lambda: self._admin.list_topics(name, self._seconds))  # noqa: B023
            meta = topic.topics[name]
            if meta.error is not None or not meta.partitions:
                known = self._ask("list the topics", lambda: self._admin.list_topics(timeout=self._seconds))
                names = sorted(n for n in known.topics if n != name and not n.startswith("__"))
                raise ConnectorError(
                    f"the topic '{name}' is not there", where=f"servers {self._client.servers}",
                    hint=did_you_mean(name, names),
                )  # fmt: skip
            found += [(name, p) for p in sorted(meta.partitions)]
        return found

    def _offsets(self, asked: Mapping[Place, Any]) -> Offsets:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        specs = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}
        questions = {
            TopicPartition(t, p): specs[what] if what in specs else OffsetSpec.for_timestamp(what)
            for (t, p), what in asked.items()
        }
        if not questions:
            return {}
        answers = self._ask(
            "ask for offsets",
            lambda: self._admin.list_offsets(
                questions, isolation_level=self._isolation(), request_timeout=self._seconds
            ),
        )
        found = {
            (tp.topic, tp.partition): self._ask(f"ask for the offset of {tp.topic}[{tp.partition}]", f.result).offset
            for tp, f in answers.items()
        }
        behind = {place: "latest" for place, offset in found.items() if offset < 0}  # no record of that time or later
        return found | (self._offsets(behind) if behind else {})

    def _isolation(self) -> Any:
        from confluent_kafka import IsolationLevel

        level = dict(self._client.options).get("isolation.level", "read_committed")
        return IsolationLevel.READ_UNCOMMITTED if level == "read_uncommitted" else IsolationLevel.READ_COMMITTED

    def _ask(self, what: str, call: Any) -> Any:
        try:
            return self._client.attempt(what, call)
        except ConnectorError:
            self._admin.poll(0)  # brings what the connections complained of
            if not self._told:
                raise
            raise self._client.failed(what, self._told[-1]) from None


def milliseconds(moment: str) -> int:
    """A time in ISO 8601 since 1970; without a zone it is UTC.

    >>> milliseconds("1970-01-01 00:00:01")
    1000
    """
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        raise DefinitionError(
            f"starting='{moment}' is neither 'earliest', 'latest' nor a time",
            hint="a time is written like 2026-05-01T12:00:00+00:00",
        ) from None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
