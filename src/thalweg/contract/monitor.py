"""The contract of a monitor: it watches a property of one input's data and reports facts. It decides nothing.

The engine feeds it what arrives and what probes meet. Tuners and people read what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.visits import Visits
from thalweg.plan.reason import Fact


@runtime_checkable
class Monitor(Protocol):
    """Watches the rows of one input."""

    name: str

    def arrived(self, times: NDArray[np.int64], rows: pa.RecordBatch) -> None:
        """Rows in the order in which they came, late ones left out, with their times in the engine's ticks."""
        ...

    def visited(self, visits: Visits) -> None:
        """What the rows met on their way."""
        ...

    def found(self) -> Mapping[str, Fact]:
        """The facts so far. It changes nothing."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The whole state as one record of plain JSON values. It has no side effect."""
        ...

    def restore(self, record: dict[str, Any]) -> None:
        """Go on from the record of an equal monitor."""
        ...


MakeMonitor = Callable[[str], Monitor]
"""Makes a monitor for an input, by its alias."""
