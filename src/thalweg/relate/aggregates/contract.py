"""The contract of an accumulator: one aggregate of every group, over rows that come and go.

A step's events are cut into entries, one for each group and instant. A *version* is the state of a group: version k
below `len(groups)` is touched group k before the step, version `len(groups) + e` is the group of entry e after it.
An accumulator takes the events and returns its value at every version, so old and new rows are picked from one array.
Per-group state lies in fields of the groups' dictionary, or in structures keyed by group number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Touched:
    """What a step changes: events in the order of their times, entries, groups."""

    entry: Ints
    """Of each event, its entry."""
    sign: Ints
    """Of each event: how many equal rows enter or (below zero) leave."""
    groups: Ints
    """The groups touched, by their numbers."""
    group: Ints
    """Of each entry, its group's number."""
    old: Ints
    """Of each entry, the version before it."""
    last: Ints
    """Of each touched group, its version after the step."""

    @property
    def versions(self) -> int:
        return len(self.groups) + len(self.old)


class Accumulator(Protocol):
    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        """Take the events in; the value at every version."""
        ...

    def take(self, touched: Touched, arguments: Sequence[pa.Array]) -> None:
        """Take the events in where nobody asks for a value; a value out of range raises only when it is asked for."""
        self.step(touched, arguments)

    def settle(self, groups: Ints) -> None:
        """Called at the end of the step with the groups that were released; what is no longer needed is forgotten."""
        ...

    def size(self) -> int:
        """Values kept besides the groups themselves."""
        ...

    @property
    def nbytes(self) -> int: ...

    def snapshot(self) -> dict[str, bytes]:
        """State besides the fields of the groups' dictionary."""
        ...

    def restore(self, parts: Mapping[str, bytes]) -> None: ...


class InFields(Accumulator):
    """An accumulator whose whole state is in fields of the groups."""

    def settle(self, groups: Ints) -> None:
        pass

    def size(self) -> int:
        return 0

    @property
    def nbytes(self) -> int:
        return 0

    def snapshot(self) -> dict[str, bytes]:
        return {}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        pass
