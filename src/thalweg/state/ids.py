"""Ids of stored rows: (slice, position) in one integer, stable while slices move in their arena.

To remember a stored row, keep its id and listen to the stem. Ids change only when a stem compacts its living rows, and
listeners hear about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.state.kernels.layout import SHIFT
from thalweg.state.slice import Slice

Ints = NDArray[np.int64]


class Listener(Protocol):
    """Hears what happens to stored rows, by their ids."""

    def built(self, ids: Ints) -> None: ...

    def evicted(self, ids: Ints) -> None: ...

    def renumbered(self, before: Ints, after: Ints) -> None:
        """Rows were compacted and got new ids. Unnamed rows of the same slices are gone."""
        ...


def ids_at(slices: Sequence[Slice], rows: Ints) -> Ints:
    """The ids of stored rows, stable however slices move."""
    by_start = sorted(slices, key=lambda s: s.start)
    starts = np.array([s.start for s in by_start], np.int64)
    numbers = np.array([s.number for s in by_start], np.int64)
    at = np.searchsorted(starts, rows, side="right") - 1
    return np.asarray(numbers[at] << SHIFT | rows - starts[at], np.int64)


def rows_of(slices: Sequence[Slice], ids: Ints) -> Ints:
    """Where rows are now; -1 if they were evicted. Valid until the next build or eviction."""
    by_number = sorted(slices, key=lambda s: s.number)
    numbers = np.array([s.number for s in by_number], np.int64)
    if not len(numbers):
        return np.full(len(ids), -1, np.int64)
    starts = np.array([s.start for s in by_number], np.int64)
    owners = ids >> SHIFT
    at = np.minimum(np.searchsorted(numbers, owners), len(numbers) - 1)
    return np.where(numbers[at] == owners, starts[at] + (ids & (1 << SHIFT) - 1), -1)


def ids_of(placed: Sequence[tuple[Slice, int, int]]) -> Ints:
    """The ids of rows by slice, first position and number of rows."""
    return np.concatenate(
        [(s.number << SHIFT) + np.arange(at, at + n) for s, at, n in placed] or [np.empty(0, np.int64)]
    )
