"""A bound query: inputs with windows, predicates sorted by who evaluates them, and the output list.

The values here are what the binder makes of SQL text and what the engine and the Spark layer obey. They hold no data
and no decision: every plan of a query gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

WindowKind = Literal["range", "rows", "partition", "now", "unbounded"]


@dataclass(frozen=True, slots=True)
class Window:
    """Which tuples of an input a moment τ sees (CQL, thesis 2.1).

    `range`: those with time in [τ - span, τ]; `now`: span 0; `rows`: the last n in (time, input's order);
    `partition`: the last n of each combination of `by`; `unbounded`: all up to τ.
    """

    kind: WindowKind
    span: int = 0
    """Length of a range in microseconds."""
    rows: int = 0
    by: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether the content depends on the order of arrival, so that results must wait for the watermark."""
        return self.kind in ("rows", "partition")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one input, by the input's alias."""

    input: str
    name: str

    def __str__(self) -> str:
        return f"{self.input}.{self.name}"


@dataclass(frozen=True)
class Source:
    """What a name in FROM stands for, as the caller declares it.

    A source with a time column is a stream, one without is a table. `unit` says what an integer time column counts;
    timestamp columns carry their own unit. `lateness` is in microseconds.
    """

    schema: pa.Schema
    time: str | None = None
    unit: Literal["s", "ms", "us", "ns"] = "ms"
    lateness: int = 0


@dataclass(frozen=True)
class Input:
    """One entry of FROM: a source under an alias with a window. A self-join has two inputs of one source."""

    alias: str
    source: str
    spec: Source
    window: Window

    @property
    def is_stream(self) -> bool:
        return self.spec.time is not None


@dataclass(frozen=True)
class KeyClass:
    """Columns that the equality predicates make equal, closed under transitivity; at least two inputs."""

    columns: tuple[Column, ...]
    type: pa.DataType
    """The type in which the values are compared."""


@dataclass(frozen=True)
class Filter:
    """A conjunct over one input. With functions it is an adaptive filter; without, Spark evaluates it before."""

    input: str
    text: str
    columns: tuple[str, ...]
    evaluate: Callable[[Mapping[str, pa.Array]], pa.Array] | None
    """Vectorised: arrays of `columns` in, booleans (or nulls) out; None where only Spark can evaluate the text."""
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Residual:
    """A conjunct over several inputs that is no equality of columns."""

    inputs: tuple[str, ...]
    text: str
    columns: tuple[Column, ...]
    evaluate: Callable[[Mapping[Column, pa.Array]], pa.Array] | None
    """Vectorised over candidate pairs; None: left to Spark after the join (the engine refuses it without Spark)."""


@dataclass(frozen=True)
class OutputColumn:
    """One entry of SELECT: its name, its SQL text (for Spark) and, where it is a plain column, which one."""

    name: str
    text: str
    column: Column | None
    needs: tuple[Column, ...]


@dataclass(frozen=True)
class Query:
    """A continuous query, ready to plan."""

    text: str
    inputs: tuple[Input, ...]
    keys: tuple[KeyClass, ...]
    filters: tuple[Filter, ...]
    residuals: tuple[Residual, ...]
    output: tuple[OutputColumn, ...]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    cross: bool = False
    """Whether inputs that no predicate connects were asked for (CROSS JOIN)."""

    def input(self, alias: str) -> Input:
        return next(i for i in self.inputs if i.alias == alias)

    @property
    def streams(self) -> Sequence[Input]:
        return [i for i in self.inputs if i.is_stream]
