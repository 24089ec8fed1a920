"""A bound query: what the binder makes of SQL text, and what the engine and the Spark layer carry out.

The leaf is a `Block`, a select-project-join over windows: its predicates are sorted by who evaluates them. A `Query`
is a block together with its text and its functions. These values hold no data and no decision: every plan of a query
gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from thalweg.errors import DefinitionError
from thalweg.language.durations import Duration, micros

Unit = Literal["s", "ms", "us", "ns"]
UNITS = ("s", "ms", "us", "ns")
WindowKind = Literal["range", "rows", "partition", "now", "unbounded", "custom"]


@dataclass(frozen=True, slots=True)
class Window:
    """The tuples of an input that are visible at an instant τ (CQL; thesis 2.1).

    `range`: times in [τ - span, τ]; `now`: a range of span 0; `rows`: the last n by time, then by arrival;
    `partition`: the last n for each combination of values in `by`; `unbounded`: everything up to τ; `custom`: what a
    user's function says (thesis 2.1: windows can be plugged in).
    """

    kind: WindowKind
    span: int = 0
    """Length of a range in microseconds."""
    rows: int = 0
    by: tuple[str, ...] = ()
    slide: int = 0
    """Of a range: the query looks only at instants that are multiples of it (microseconds); 0 for all. Then the root,
    or the Restream above, has it as `every`, and nobody else needs to look at it."""
    name: str = ""
    """Of a user's window, in the query."""
    ends: Callable[[pa.RecordBatch], Any] | None = None
    """Of a user's window: rows of the stream in, the instant at which each leaves out, in what the time column counts;
    NULL for never. A row enters at its own time. The answer may depend on the row alone, not on its neighbours."""

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

    A source with a time column is a stream; one without is a table. `unit` says what an integer time column counts, and
    is required there; timestamp columns carry their own unit. `lateness` is given in words, such as "5 seconds".
    """

    schema: pa.Schema
    time: str | None = None
    unit: Unit | None = None
    lateness: Duration = 0
    """Once made, in microseconds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lateness", micros(self.lateness, "lateness"))
        if self.unit is not None and self.unit not in UNITS:
            raise DefinitionError(f"no unit of time '{self.unit}'", hint="one of 's', 'ms', 'us' and 'ns'")
        if self.time in self.schema.names and self.unit is None:
            counted = self.schema.field(self.time).type
            if pa.types.is_integer(counted):
                raise DefinitionError(
                    f"time column '{self.time}' is {counted}: nothing says what it counts",
                    hint='give the unit, unit="s", "ms" or "us", or make it a timestamp',
                )


@dataclass(frozen=True)
class Input:
    """One entry of FROM: a source under an alias, with a window. A self-join has two inputs of one source."""

    alias: str
    source: str
    spec: Source
    window: Window
    origin: str = ""
    """The source's name in FROM, where each input was given a source of its own."""
    computed: tuple[tuple[str, str], ...] = ()
    """Columns that only Spark can compute, and computes before anything else: name and SQL text. They are part of the
    input's schema, and not of what a user passes."""

    @property
    def is_stream(self) -> bool:
        return self.spec.time is not None


@dataclass(frozen=True)
class KeyClass:
    """Columns of two or more inputs that equality predicates make equal, closed under transitivity."""

    columns: tuple[Column, ...]
    type: pa.DataType
    """The type in which values are compared."""


@dataclass(frozen=True)
class Filter:
    """A conjunct over one input. If it calls functions it is adaptive; if not, Spark evaluates it before the join."""

    input: str
    text: str
    columns: tuple[str, ...]
    evaluate: Callable[[Mapping[str, pa.Array]], pa.Array] | None
    """Arrays of `columns` in, booleans or nulls out; None if only Spark can evaluate the text."""
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Residual:
    """A conjunct over several inputs that is not an equality of columns."""

    inputs: tuple[str, ...]
    text: str
    columns: tuple[Column, ...]
    evaluate: Callable[[Mapping[Column, pa.Array]], pa.Array] | None
    """Arrays of candidate pairs in, booleans or nulls out; None if only Spark can evaluate it, after the join."""


@dataclass(frozen=True)
class OutputColumn:
    """One entry of SELECT: its name, its SQL text for Spark, the columns it needs, and which one it is if plain."""

    name: str
    text: str
    column: Column | None
    needs: tuple[Column, ...]


@dataclass(frozen=True)
class Block:
    """A select-project-join over windows.

    Invariant: filters, keys and residuals together hold for exactly the combinations that WHERE and ON hold for.
    """

    inputs: tuple[Input, ...]
    keys: tuple[KeyClass, ...]
    filters: tuple[Filter, ...]
    residuals: tuple[Residual, ...]
    output: tuple[OutputColumn, ...]
    cross: bool = False
    """Whether CROSS JOIN asks for inputs that no predicate connects."""


@dataclass(frozen=True)
class Query:
    """A continuous query, ready to plan."""

    text: str
    block: Block
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.block.inputs

    @property
    def output(self) -> tuple[OutputColumn, ...]:
        return self.block.output

    @property
    def streams(self) -> Sequence[Input]:
        return [i for i in self.inputs if i.is_stream]

    def input(self, alias: str) -> Input:
        return next(i for i in self.inputs if i.alias == alias)
