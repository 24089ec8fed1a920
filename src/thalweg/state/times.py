"""Times inside the engine: one 64-bit integer per tuple, microseconds, or nanoseconds if any stream counts in them.

Time columns are integers (in their source's `unit`), timestamps or dates. A watermark is given in the units of the
source's column, or as a datetime.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.language.query import Source
from thalweg.state.keys import Mask, plain, raw, validity
from thalweg.state.slice import FOREVER

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FAR = 1 << 62
"""Mark: a time beyond this is none: with it, adding a window's span could overflow."""


def unit_of(spec: Source) -> str:
    """The unit of a stream's time column: s, ms, us, ns or days."""
    assert spec.time is not None
    t = spec.schema.field(spec.time).type
    if pa.types.is_timestamp(t):
        return str(t.unit)
    if pa.types.is_date32(t):
        return "days"
    if pa.types.is_date64(t):
        return "ms"
    if pa.types.is_integer(t):
        assert spec.unit is not None
        return spec.unit
    raise DefinitionError(
        f"time column '{spec.time}' is {t}", hint="a time is a timestamp, a date, or an integer with a unit"
    )


@dataclass(frozen=True)
class Clock:
    """Converts the times of one stream. `tick` is the unit of the whole engine: us or ns."""

    spec: Source
    tick: str

    @cached_property
    def scale(self) -> int:
        """Engine ticks per unit of the column."""
        unit = unit_of(self.spec)
        if unit == "days":
            return 86_400 * PER_SECOND[self.tick]
        return PER_SECOND[self.tick] // PER_SECOND[unit]

    def read(self, column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], Mask | None]:
        """Times in ticks, and which rows have one; None: all. One that is out of range is none: no later row should
        suffer for it."""
        array = plain(column)
        width = array.type.bit_width // 8
        sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
        values = raw(array, f"{sign}{width}")
        valid = validity(array)
        if valid is not None:
            values = np.where(valid, values, 0)  # the value under a NULL is arbitrary
        far = self.scale << (8 * width) >= FAR  # whether the type can hold such times
        if far and len(values) and max(abs(int(values.min())), abs(int(values.max()))) * self.scale >= FAR:
            most = (FAR - 1) // self.scale
            possible = (values <= most) & ((values >= -most) if sign == "i" else True)
            values = np.where(possible, values, 0)
            valid = possible if valid is None else valid & possible
        return values.astype(np.int64) * self.scale, valid

    def mark(self, watermark: int | datetime) -> int:
        """A watermark in ticks."""
        if isinstance(watermark, datetime):
            moment = watermark if watermark.tzinfo else watermark.replace(tzinfo=UTC)
            since = moment - datetime(1970, 1, 1, tzinfo=UTC)
            micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
            return micros * (PER_SECOND[self.tick] // 10**6)
        return min(int(watermark) * self.scale, FOREVER)

    def unmark(self, ticks: int) -> int:
        """A time in ticks, in the column's unit, rounded down."""
        return ticks // self.scale


def tick_of(sources: list[Source]) -> Literal["us", "ns"]:
    return "ns" if any(unit_of(s) == "ns" for s in sources) else "us"
