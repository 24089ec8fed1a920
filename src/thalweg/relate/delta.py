"""Deltas: results of a join block with their lifetimes, as columns.

A result lives in [start, end): start is the newest time of its rows, end the first instant at which one of them has left
its window. Where a window counts rows, the end may not be known yet: then it is FOREVER, and a closing with the result's
number follows once it is. Times are the engine's ticks. Relations: CQL; design, "What a query means".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.kernels.layout import FOREVER as FOREVER

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Deltas:
    """Results that begin to live: row k of every column is one result."""

    rows: pa.RecordBatch
    number: Ints
    """Counts the results of the engine."""
    start: Ints
    end: Ints
    """FOREVER: never, or not known yet."""


@dataclass(frozen=True, eq=False)
class Closings:
    """Ends that were not known when the results came."""

    number: Ints
    end: Ints


class DeltaSink(Protocol):
    """Who takes deltas."""

    def opened(self, deltas: Deltas) -> None: ...

    def closed(self, closings: Closings) -> None: ...
