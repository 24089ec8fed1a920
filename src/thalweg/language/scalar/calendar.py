"""Dates moved by months: the same day of another month, or its last day if it has fewer, as in Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from thalweg.language.scalar.expression import Expression, Frame, Unanswerable
from thalweg.language.scalar.kernels import Datum

_LAST = 2932896
"""Days from 1970-01-01 to 9999-12-31, and to 0001-01-01: dates that every part of the way can show."""
_FIRST = -719162


@dataclass(frozen=True)
class Moved(Expression):
    """A date plus a number of months."""

    of: Expression
    months: int

    @cached_property
    def careful(self) -> bool:
        return True

    def evaluate(self, frame: Frame) -> Datum:
        array = self.of.array(frame).cast(pa.date32())
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        days = array.cast(pa.int32()).fill_null(0).to_numpy().astype("datetime64[D]")
        month = days.astype("datetime64[M]")
        target = month + np.timedelta64(self.months, "M")
        length = ((target + 1).astype("datetime64[D]") - target.astype("datetime64[D]")).astype(np.int64)
        day = np.minimum((days - month.astype("datetime64[D]")).astype(np.int64), length - 1)
        found = (target.astype("datetime64[D]") + day).astype(np.int64)
        if (valid & ((found > _LAST) | (found < _FIRST))).any():
            raise Unanswerable("a date leaves the years 1 to 9999")
        return pa.array(found.astype(np.int32), pa.int32(), mask=~valid).cast(pa.date32())
