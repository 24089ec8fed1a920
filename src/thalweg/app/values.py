"""An application as plain values: sources, tables, functions, queries and their sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thalweg.app.lines import line_of
from thalweg.errors import DefinitionError
from thalweg.language.query import Unit

MODES = ("append", "update", "complete")
NOW = ("available now", "once")
EPHEMERAL = ("console", "memory", "noop")
"""Sinks that keep nothing, so a restart has nothing to continue from."""


class AppError(DefinitionError):
    """Something in the file is wrong; the message starts with file and line."""


@dataclass(frozen=True)
class Source:
    """Where rows come from: a format and its options, as Spark's reader takes them."""

    name: str
    format: str
    path: str | None
    schema: str | None
    options: Mapping[str, str] = field(repr=False)
    """Not shown: there may be passwords among them."""
    select: tuple[str, ...]


@dataclass(frozen=True)
class StreamSource(Source):
    """A source read as a stream."""

    time: str | None = None
    lateness: str | int = 0
    idle: str | int | None = None
    ahead: str | int | None = None
    unit: Unit | None = None


@dataclass(frozen=True)
class Sink:
    """Where results go, as Spark's writer takes it."""

    format: str
    path: str | None
    mode: str
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class AppQuery:
    """One continuous query: windowed SQL, or a stream and its predicates."""

    name: str
    sql: str | None
    source: str | None
    where: tuple[str, ...]
    policy: str
    cells: int | None
    seed: int | None
    sink: Sink
    trigger: str
    line: int


@dataclass(frozen=True)
class App:
    """The whole file."""

    path: Path
    text: str = field(repr=False)
    checkpoint: Path | None
    spark: Mapping[str, str] = field(repr=False)
    streams: Mapping[str, StreamSource]
    tables: Mapping[str, Source]
    functions: Mapping[str, str]
    queries: Mapping[str, AppQuery]
    metrics: tuple[str, int] | None = None
    """Address and port of the Prometheus endpoint."""
    loaded: dict[str, Callable[..., Any]] = field(default_factory=dict, compare=False)

    def fault(self, path: Sequence[str], message: str, hint: str | None = None) -> AppError:
        """An error at the line that sets a path of keys."""
        line = line_of(self.text, tuple(path))
        return AppError(f"{self.path.name}:{line}: {message}", hint=hint)
