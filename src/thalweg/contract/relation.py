"""The contract of a relation: it takes results with their lifetimes and says how what lives changes over time.

A result lives in [start, end): start is the newest time of its rows, end the first instant at which one of them has left
its window. Where a window counts rows, the end may not be known yet: then it is FOREVER, and a closing with the result's
number follows once it is. Times are the engine's ticks. Relations: CQL; thesis 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
FOREVER = (1 << 63) - 1
"""The end of what never ends, or of what does not know its end yet."""


@dataclass(frozen=True, eq=False)
class Deltas:
    """Results that begin to live: row k of every column is one result."""

    rows: pa.RecordBatch
    number: Ints
    """Counts the results of the engine."""
    start: Ints
    end: Ints
    told: Ints | None = None
    """The time of each result where it is not its start: that of the first partner in EXISTS."""

    @property
    def time(self) -> Ints:
        return self.start if self.told is None else self.told


@dataclass(frozen=True, eq=False)
class Closings:
    """Ends that were not known when the results came."""

    number: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class Changes:
    """Rows that enter (1) or leave (-1) a relation, in the order of their times.

    A relation is a bag: equal rows count, and a sign may be any number but zero.
    """

    rows: pa.Table
    sign: Ints
    time: Ints


class DeltaSink(Protocol):
    """Who takes deltas."""

    def opened(self, deltas: Deltas) -> None: ...

    def closed(self, closings: Closings) -> None: ...


@runtime_checkable
class Relation(DeltaSink, Protocol):
    """What lives, made of deltas."""

    def advance(self, frontier: int) -> Changes:
        """The changes with a time before the frontier that were not given yet. No later delta touches them."""
        ...

    def snapshot(self) -> dict[str, bytes]:
        """The whole state as named parts. It has no side effect."""
        ...

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Go on from the parts of an equal relation."""
        ...


@runtime_checkable
class Derived(Protocol):
    """A relation made of other relations: a group, a set operation, a match of two.

    Time moves in steps. Each step brings the changes of every input with times from the last frontier up to the new one,
    and returns the operator's own changes in that span. So an operator sees every instant whole, and only once. Rows of
    tables come at the time ALWAYS, in the first step. Changes that cancel at one instant do not leave it.
    """

    schema: pa.Schema

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        """Changes with a time before the frontier; the inputs' changes lie in the same span."""
        ...

    def size(self) -> int:
        """How many rows it keeps."""
        ...

    def snapshot(self) -> dict[str, bytes]: ...

    def restore(self, parts: Mapping[str, bytes]) -> None: ...


@dataclass(frozen=True, eq=False)
class Moves:
    """What became of results since the last step, where whole histories are compared."""

    opened: Deltas
    closed: Closings
    floor: int
    """No result that comes later begins before this."""


@runtime_checkable
class History(Protocol):
    """Results made of other results: a join of two histories, a projection.

    A step takes every input's new results at once, in whatever order they come. An end that is FOREVER may be told by a
    later closing; then every result that the step brings begins before that end is told.
    """

    schema: pa.Schema

    def step(self, inputs: Sequence[Moves]) -> Moves: ...

    def size(self) -> int:
        """How many rows it keeps."""
        ...

    def snapshot(self) -> dict[str, bytes]: ...

    def restore(self, parts: Mapping[str, bytes]) -> None: ...
