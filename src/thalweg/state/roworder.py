"""Row windows: when does a tuple leave `[ROWS n]` or `[PARTITION BY a, b ROWS n]`?

At moment τ such a window holds the last n tuples (of each partition) with time <= τ in the order (time, arrival). So a
tuple leaves when the n-th tuple after it arrives: its expiry is that tuple's time less one, and unknown until then.
Windows count every tuple of the stream, including those that filters later drop. NULLs form one partition, as in GROUP
BY.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.keys import canonical
from thalweg.state.slice import FOREVER

Ints = NDArray[np.int64]


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass
class RowOrder:
    """The tuples of one input whose n-th successor has not arrived yet.

    >>> order = RowOrder(2)
    >>> order.release(np.array([1, 2, 2]))[0].tolist() == [1, FOREVER, FOREVER]
    True
    >>> numbers, expiries = order.release(np.array([5]))[1:]
    >>> numbers.tolist(), expiries.tolist()
    ([1], [4])
    """

    rows: int
    by: tuple[pa.DataType, ...] = ()
    """Types of the partition columns."""
    released: int = 0
    _times: Ints = field(default_factory=_none)
    _numbers: Ints = field(default_factory=_none)
    _groups: Ints = field(default_factory=_none)
    _known: dict[Any, int] = field(default_factory=dict)
    """Normalised partition values to partition number."""
    _values: list[tuple[Any, ...]] = field(default_factory=list)

    def release(self, times: Ints, partitions: list[pa.Array] | None = None) -> tuple[Ints, Ints, Ints]:
        """Add tuples, sorted by (time, arrival).

        Returns their expiries (FOREVER while unknown), and the places in the order and expiries of earlier tuples that
        just became known.
        """
        numbers = np.arange(self.released, self.released + len(times))
        self.released += len(times)
        groups = self._group(partitions, len(times)) if self.by else np.zeros(len(times), np.int64)
        waiting = np.isin(self._groups, groups) if self.by else np.ones(len(self._groups), np.bool_)
        all_times = np.concatenate([self._times[waiting], times])
        all_numbers = np.concatenate([self._numbers[waiting], numbers])
        all_groups = np.concatenate([self._groups[waiting], groups])
        together = np.argsort(all_groups, kind="stable") if self.by else np.arange(len(all_times))
        expiries = np.full(len(all_times), FOREVER)
        before, after = together[: -self.rows], together[self.rows :]
        if self.by and len(before):
            same = all_groups[before] == all_groups[after]
            before, after = before[same], after[same]
        expiries[before] = all_times[after] - 1
        earlier = len(all_times) - len(times)
        told = np.flatnonzero(expiries[:earlier] < FOREVER)
        told = told[np.argsort(all_numbers[told], kind="stable")]
        still = expiries == FOREVER
        self._times = np.concatenate([self._times[~waiting], all_times[still]])
        self._numbers = np.concatenate([self._numbers[~waiting], all_numbers[still]])
        self._groups = np.concatenate([self._groups[~waiting], all_groups[still]])
        return expiries[earlier:], all_numbers[told], expiries[told]

    def _group(self, partitions: list[pa.Array] | None, count: int) -> Ints:
        """A number for each combination of partition values, stable across calls."""
        assert partitions is not None
        numbers = np.empty(count, np.int64)
        for k, values in enumerate(zip(*(p.to_pylist() for p in partitions), strict=True)):
            numbers[k] = self._number(values)
        return numbers

    def _number(self, values: tuple[Any, ...]) -> int:
        key = canonical(values)
        number = self._known.setdefault(key, len(self._known))
        if number == len(self._values):
            self._values.append(values)
        return number

    def dump(self) -> tuple[pa.Table, pa.Table]:
        """The waiting tuples, and the partitions in order of their numbers."""
        waiting = pa.table({"time": self._times, "number": self._numbers, "group": self._groups})
        columns = {f"by.{k}": pa.array([v[k] for v in self._values], t) for k, t in enumerate(self.by)}
        return waiting, pa.table(columns)

    def load(self, waiting: pa.Table, partitions: pa.Table, released: int) -> None:
        self._times, self._numbers, self._groups = (
            np.array(waiting[name].to_numpy(), np.int64) for name in ("time", "number", "group")
        )
        self._known, self._values = {}, []
        for values in zip(*(c.to_pylist() for c in partitions.columns), strict=True):
            self._number(values)
        self.released = released
