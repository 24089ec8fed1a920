"""Instants: the engine's times as timestamps, and the multiples of a span since 1970-01-01 UTC.

ALWAYS, the time of what was there before all rows, is no timestamp: it becomes NULL, and stays as it is on any grid.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.slice import ALWAYS, FOREVER

Ints = NDArray[np.int64]
Ticks = Literal["us", "ns"]
"""What the engine's times count."""
TIMESTAMP = pa.timestamp("us", tz="UTC")


def in_ticks(microseconds: int, ticks: Ticks) -> int:
    return microseconds * (1000 if ticks == "ns" else 1)


def timestamps(times: Ints, ticks: Ticks, dtype: pa.DataType = TIMESTAMP, per: int = 1) -> pa.Array:
    """Times as Spark shows them: in microseconds, unless another type is asked for. A count or a date is `per` ticks."""
    known = (times != ALWAYS) & (times != FOREVER)
    values = np.where(known, times, 0)
    if pa.types.is_timestamp(dtype):
        coarser = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[dtype.unit]
        values = values // 1000 if ticks == "ns" and dtype.unit != "ns" else values
        values = values * 1000 if ticks == "us" and dtype.unit == "ns" else values // coarser
    else:
        values = values // per
    array = pa.array(values, pa.int64(), mask=~known)
    return array.cast(pa.int32()).view(dtype) if pa.types.is_date32(dtype) else array.cast(dtype)


def next_multiple(times: Ints, span: int) -> Ints:
    """The first multiple of the span that is not before each time."""
    fixed = (times == ALWAYS) | (times == FOREVER)
    return np.where(fixed, times, -(-np.where(fixed, 0, times) // span) * span)


def multiples(begin: int, end: int, span: int) -> Ints:
    """The multiples in [begin, end)."""
    return np.arange(-(-begin // span), -(-end // span), dtype=np.int64) * span
