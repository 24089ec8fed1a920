"""What random queries call: a window and an aggregate of a user's own. Their texts in SQL stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa

STAY = "v + 1"
"""How long a row stays in the window `stay`, in microseconds; NULL is for ever, and what has gone before it comes is
never there."""


def stay(rows: pa.RecordBatch) -> list[Any]:
    """A window: each row says how long it stays."""
    ends = []
    for time, v in zip(rows["ts"].to_pylist(), rows["v"].to_pylist(), strict=True):
        length = None if v is None else timedelta(microseconds=v + 1) if hasattr(time, "tzinfo") else v + 1
        ends.append(None if time is None or length is None else time + length)
    return ends


class Spread:
    """An aggregate: the distance between the least and the greatest value."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def add(self, value: int | None) -> None:
        if value is not None:
            self.values.append(value)

    def remove(self, value: int | None) -> None:
        if value is not None:
            self.values.remove(value)

    def merge(self, other: Spread) -> None:
        self.values += other.values

    def value(self) -> int | None:
        return max(self.values) - min(self.values) if self.values else None


FUNCTIONS: Mapping[str, Callable[..., Any]] = {"stay": stay, "spread": Spread}
