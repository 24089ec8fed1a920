"""A client of the broker: how to reach it, and what of that must never be shown.

Options are librdkafka's. What opens doors (passwords, tokens, keys) is left out of `repr` and struck out of every
message before it becomes an error: a text from the client library may quote the option it did not like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from thalweg.errors import ConnectorError, DefinitionError
from thalweg.spark.secrets import SECRET, SHOWN, struck

OURS = ("bootstrap.servers", "enable.auto.commit", "enable.partition.eof", "auto.offset.reset", "transactional.id",
        "enable.idempotence", "delivery.report.only.error")  # fmt: skip
"""Options that reading and writing rest on."""
T = TypeVar("T")


@dataclass(frozen=True)
class Client:
    """The servers to start from, and librdkafka's options."""

    servers: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, servers: str, options: Mapping[str, Any] | None) -> Client:
        """Checked: what a user gave."""
        library()
        if not isinstance(servers, str) or not servers.strip():
            raise DefinitionError(f"the servers are {servers!r}", hint='for example "broker-1:9092,broker-2:9092"')
        taken = sorted(set(options or {}) & set(OURS))
        if taken:
            raise DefinitionError(f"the option '{taken[0]}' is set by Thalweg", hint="leave it out")
        return cls(servers, tuple(sorted((k, _text(v)) for k, v in (options or {}).items())))

    def conf(self, usual: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
        """The client library's configuration: our usual options, which users may set otherwise, and the fixed ones."""
        return {**usual, **dict(self.options), **fixed, "bootstrap.servers": self.servers}

    def safe(self, text: object) -> str:
        """A text without the values of secret options."""
        return struck(text, dict(self.options))

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={SHOWN if SECRET.search(k) else v}" for k, v in self.options)
        return f"Client({self.servers}{', ' if shown else ''}{shown})"

    def attempt(self, what: str, call: Callable[[], T]) -> T:
        """Call the client library; its failure is an error that says what was tried and where."""
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as e:
            raise self.failed(what, e.args[0] if e.args else e) from None

    def failed(self, what: str, why: object) -> ConnectorError:
        """An error that says what was tried, where, and why it failed."""
        reason = why.str() if hasattr(why, "str") else str(why)
        return ConnectorError(
            f"could not {what}: {self.safe(reason)}",
            where=f"servers {self.servers}",
            hint="are the servers' addresses and the security options right, and can this machine reach them?",
        )


def library() -> Any:
    """confluent_kafka, or an error that says how to get it."""
    try:
        import confluent_kafka
    except ImportError:
        raise DefinitionError("tw.kafka needs confluent-kafka", hint="pip install 'thalweg[kafka]'") from None
    return confluent_kafka


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
