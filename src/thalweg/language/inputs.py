"""What a name in a query's FROM stands for, as users give it: a stream with its time, or a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from thalweg.errors import DefinitionError
from thalweg.language.windows import UNITS


@dataclass(frozen=True)
class StreamInput:
    """A DataFrame to be read as a stream: its time column, how late tuples may come, and when it counts as silent."""

    df: Any
    time: str
    lateness: int
    idle: int | None
    rate: float | None = None
    """Rows per second, as far as the user declares them; only how inputs compare matters."""


@dataclass(frozen=True)
class TableInput:
    """A static DataFrame to be read as a table."""

    df: Any


def micros(text: str | int, what: str) -> int:
    """A duration such as "10 minutes" in microseconds.

    >>> micros("1 hour 30 minutes", "lateness")
    5400000000
    """
    if isinstance(text, int):
        return text
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?\b", text.lower())
    left = re.sub(r"(\d+(?:\.\d+)?)\s*([a-z]+)|interval|[\s,]", "", text.lower())
    if not parts or left or any(unit not in UNITS for _, unit in parts):
        raise DefinitionError(f"{what} '{text}' is no duration", hint="for example '10 minutes' or '500 milliseconds'")
    return round(sum(float(n) * UNITS[unit] for n, unit in parts))
