"""A piece: rows of one source that travel together, sorted by time. All inputs that read the source share it.

Keys are coded once for all of them, and where a stem serves several inputs the rows are stored once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.keys import KeyCoder, Mask
from thalweg.state.slice import Slice

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Piece:
    data: pa.RecordBatch
    times: Ints
    stays: dict[int, Ints]
    """By input: the last moment at which each row is in its window."""
    order: Ints | None = None
    """Places in the order of the source; for row windows."""
    placed: list[tuple[Slice, int, int]] | None = None
    """Where a shared stem has stored the rows."""
    _codes: dict[tuple[str, str], tuple[Ints, Mask | None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)

    def code(self, name: str, coder: KeyCoder) -> tuple[Ints, Mask | None]:
        """A code for each value of a column, and which are not NULL."""
        key = (name, str(coder.type))
        if key not in self._codes:
            self._codes[key] = coder.code(self.data.column(name))
        return self._codes[key]

    def cut(self, first: int, last: int) -> Piece:
        """Some consecutive rows."""
        span = slice(first, last)
        order = None if self.order is None else self.order[span]
        stays = {i: s[span] for i, s in self.stays.items()}
        return Piece(self.data.slice(first, last - first), self.times[span], stays, order)
