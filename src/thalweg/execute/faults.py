"""Faults: rows on which a predicate raised though nothing else drops them, set aside instead of ending the query.

Without a collector, such a row raises (`PredicateError`). With one, it is left out, counted and, if asked for, kept with
the reason. A row counts once, however many combinations it was part of.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

OnError = Literal["raise", "skip", "quarantine"]
MODES = ("raise", "skip", "quarantine")


@dataclass(frozen=True)
class Fault:
    """One row, or one combination of rows, that was set aside."""

    input: str
    predicate: str
    reason: str
    row: str
    """Its values, as JSON."""
    at: int = 0
    """Its place in the data that was judged."""


@dataclass
class Faults:
    """Collects faults. `keep` says whether rows are wanted, or only their number."""

    keep: bool
    counts: Counter[str] = field(default_factory=Counter)
    """By predicate."""
    found: list[Fault] = field(default_factory=list)
    _data: pa.RecordBatch | None = None
    _seen: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, on_error: str) -> Faults | None:
        return None if on_error == "raise" else cls(on_error == "quarantine")

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def go_on(self, count: int) -> None:
        """Go on counting where earlier ones stopped."""
        self.counts["before"] = count

    def row(self, stream: str, predicate: str, error: Exception, data: pa.RecordBatch, row: int) -> None:
        """A row of a batch."""
        if data is not self._data:
            self._data, self._seen = data, set()
        if row in self._seen:
            return
        self._seen.add(row)
        values = {name: data.column(name)[row].as_py() for name in data.schema.names} if self.keep else {}
        self.add(stream, predicate, error, values, row)

    def add(self, stream: str, predicate: str, error: Exception, values: Mapping[str, Any], at: int = 0) -> None:
        self.counts[predicate] += 1
        if self.keep:
            self.found.append(Fault(stream, predicate, described(error), as_json(values), at))

    def take(self) -> list[Fault]:
        """What was found since the last call."""
        found, self.found = self.found, []
        return found


def described(error: Exception) -> str:
    """
    >>> described(ValueError("no number"))
    'ValueError: no number'
    """
    said = getattr(error, "message", None)
    return str(said) if said else f"{type(error).__name__}: {error}"


def as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), default=str, ensure_ascii=False)
