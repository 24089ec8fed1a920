"""The contract of a relation: it takes results with their lifetimes and says how what lives changes over time.

A result lives in [start, end): start is the newest time of its rows, end the first instant at which one of them has left
its window. Where a window counts rows, the end may not be known yet: then it is FOREVER, and a closing with the result's
number follows once it is. Times are the engine's ticks. Relations: CQL; thesis 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
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


@dataclass(frozen=True, eq=False)
class Closings:
    """Ends that were not known when the results came."""

    number: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class Changes:
    """Rows that enter (1) or leave (-1) a relation, in the order of their times."""

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
