"""What a name in a query's FROM stands for, as users give it: a stream with its time, or a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from thalweg.language.query import Unit


@dataclass(frozen=True)
class StreamInput:
    """A DataFrame to read as a stream: its time column, how late rows may come, and when it counts as idle."""

    df: Any
    time: str
    lateness: int
    idle: int | None
    rate: float | None = None
    """Rows per second, if declared; only the ratio between inputs matters."""
    unit: Unit | None = None
    """What an integer time counts."""
    ahead: int | None = None
    """Microseconds by which a time may lie after the clock of its batch; None: any."""


@dataclass(frozen=True)
class TableInput:
    """A static DataFrame to read as a table."""

    df: Any
    refresh: int | Literal["batch"] | None = None
    """When to read it again: every few microseconds, as given, or after every batch with rows; None: never."""
    make: Callable[[], Any] | None = None
    """Makes the DataFrame anew; without it the same one is read."""
