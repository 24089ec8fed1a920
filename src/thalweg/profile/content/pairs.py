"""Content: single attributes and, if requested, pairs of them, cut into partitions.

Pairs go beyond content-based routing: some facts, such as a corner of a plane, show only in two attributes together.
Numbers from `len(attributes)` on stand for the pairs in order; a pair's partition is a coarse cell of the grid of its
members' partitions, so a pair has no more partitions than a single attribute.
"""

from __future__ import annotations

from itertools import combinations
from math import isqrt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Attributes, Values
from thalweg.profile.content.partitions import Partitions

Parts = NDArray[np.int64]
Codes = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Sorted combinations of partitions, and the place of every possible one; empty if there are too many."""


class Content:
    """Attributes with their partitions.

    >>> attributes, partitions = Attributes(), Partitions(24)
    >>> values = attributes.look(pa.record_batch({"a": [0, 10, 0, 10], "b": [0, 0, 10, 10]}))
    >>> _ = partitions.widen(values, attributes.category)
    >>> content = Content(attributes, partitions, pairs=True)
    >>> len(content), content.name(2), content.parts(values, [2]).tolist()
    (3, 'a & b', [[0, 20, 4, 24]])
    """

    def __init__(self, attributes: Attributes, partitions: Partitions, pairs: bool) -> None:
        self.attributes = attributes
        self.partitions = partitions
        self.pairs = pairs
        self._grid = isqrt(partitions.d + 1)
        self._lines: dict[tuple[int, ...], tuple[list[int], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        k = len(self.attributes)
        return k + (k * (k - 1) // 2 if self.pairs else 0)

    def members(self, j: int) -> tuple[int, ...]:
        """The attributes behind number j."""
        k = len(self.attributes)
        return (j,) if j < k else list(combinations(range(k), 2))[j - k]

    def name(self, j: int) -> str:
        return " & ".join(self.attributes.names[m] for m in self.members(j))

    @property
    def usable(self) -> NDArray[np.bool_]:
        single = self.attributes.usable
        return np.array([all(single[m] for m in self.members(j)) for j in range(len(self))], np.bool_)

    def touched(self, changed: list[int]) -> list[int]:
        """The numbers affected when the partitions of these attributes change their meaning."""
        return [j for j in range(len(self)) if any(m in changed for m in self.members(j))]

    def parts(self, values: Values, wanted: list[int]) -> Parts:
        """A line of partitions for each requested number, for rows with all attributes."""
        used, members = self._needed(wanted)
        return self._cut(np.ascontiguousarray(values[:, used].T), used, members)

    def parts_of(self, batch: pa.RecordBatch, wanted: list[int]) -> Parts:
        """The same for a batch; reads only the columns that are needed."""
        used, members = self._needed(wanted)
        return self._cut(self.attributes.lines(batch, used), used, members)

    def places(self, values: Values, wanted: list[int], codes: Codes) -> NDArray[np.int32]:
        """The place of each row's code among known codes, for rows with all attributes."""
        used, members = self._needed(wanted)
        return self._place(np.ascontiguousarray(values[:, used].T), used, members, codes)

    def places_of(self, batch: pa.RecordBatch, wanted: list[int], codes: Codes) -> NDArray[np.int32]:
        """The same for a batch."""
        used, members = self._needed(wanted)
        return self._place(self.attributes.lines(batch, used), used, members, codes)

    def _place(self, lines: Values, used: list[int], members: Parts, codes: Codes) -> NDArray[np.int32]:
        from thalweg.profile.content import kernels

        low, scale = self.partitions.cuts(used, self.attributes.category)
        out = np.empty(lines.shape[1], np.int32)
        kernels.places(lines, members, low, scale, self.partitions.d, self._grid, *codes, out)
        return out

    def _needed(self, wanted: list[int]) -> tuple[list[int], NDArray[np.int64]]:
        """The attributes behind some numbers, and for each number the places of its members among them."""
        key = (len(self.attributes), *wanted)
        if key not in self._lines:
            used = sorted({m for j in wanted for m in self.members(j)})
            members = np.full((len(wanted), 2), -1, np.int64)
            for k, j in enumerate(wanted):
                mine = self.members(j)
                members[k, : len(mine)] = [used.index(m) for m in mine]
            self._lines[key] = used, members
        return self._lines[key]

    def _cut(self, lines: Values, used: list[int], members: NDArray[np.int64]) -> Parts:
        from thalweg.profile.content import kernels

        low, scale = self.partitions.cuts(used, self.attributes.category)
        out = np.empty((len(members), lines.shape[1]), np.int64)
        kernels.parts(lines, members, low, scale, self.partitions.d, self._grid, out)
        return out

    def describe(self, j: int, part: int) -> str:
        """A part as text."""
        members = self.members(j)
        if len(members) == 1:
            return self.partitions.describe(j, part, self.attributes)
        # Equal cells of both grids, named by the first partition of each.
        d = self.partitions.d
        cells = divmod(part, self._grid)
        firsts = [-(-cell * d // self._grid) for cell in cells]
        named = zip(members, firsts, strict=True)
        return " & ".join(f"about {self.partitions.describe(m, p, self.attributes)}" for m, p in named)
