"""Where the results of a fabric go."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.execute.arrival import Arrival
from thalweg.execute.sheet import Sheet

Ints = NDArray[np.int64]


class Outlet(Protocol):
    """Takes results."""

    def receive(self, i: int, arrival: Arrival, chunk: Ints) -> None:
        """Take full results of rows of input i, in a buffer that is reused afterwards."""
        ...

    def sheet(self) -> Sheet | None:
        """Where the kernel may write columns of results itself; None if full results are needed."""
        ...

    def flush(self, i: int, arrival: Arrival) -> None:
        """Hand on what the sheet holds; it belongs to these rows of input i."""
        ...
