"""Pairs of attributes as further attributes (beyond content-based routing, which looks at single ones).

What only two attributes together tell, such as a corner of their plane, no single one does. Numbers from `len(attributes)`
on stand for the pairs in order; a pair's partition is a coarse cell of the grid of its members' partitions, so that pairs
have no more partitions than single attributes. Without pairs this is a plain view of attributes and partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Attributes, Values
from thalweg.profile.content.partitions import Partitions


class Content:
    """Single attributes and, if asked for, pairs of them.

    >>> import pyarrow as pa
    >>> attributes, partitions = Attributes(), Partitions(24)
    >>> values = attributes.look(pa.record_batch({"a": [0, 10, 0, 10], "b": [0, 0, 10, 10]}))
    >>> _ = partitions.widen(values, attributes.category)
    >>> content = Content(attributes, partitions, pairs=True)
    >>> len(content), content.name(2), content.parts(lambda j: values[:, j], 2).tolist()
    (3, 'a & b', [0, 20, 4, 24])
    """

    def __init__(self, attributes: Attributes, partitions: Partitions, pairs: bool) -> None:
        self.attributes = attributes
        self.partitions = partitions
        self.pairs = pairs
        self._grid = isqrt(partitions.d + 1)

    def __len__(self) -> int:
        k = len(self.attributes)
        return k + (k * (k - 1) // 2 if self.pairs else 0)

    def members(self, j: int) -> tuple[int, ...]:
        """The attributes that number j stands for."""
        k = len(self.attributes)
        return (j,) if j < k else list(combinations(range(k), 2))[j - k]

    def name(self, j: int) -> str:
        return " & ".join(self.attributes.names[m] for m in self.members(j))

    @property
    def usable(self) -> NDArray[np.bool_]:
        single = self.attributes.usable
        return np.array([all(single[m] for m in self.members(j)) for j in range(len(self))], np.bool_)

    def touched(self, changed: list[int]) -> list[int]:
        """The numbers whose partitions mean something else once those of some attributes do."""
        return [j for j in range(len(self)) if any(m in changed for m in self.members(j))]

    def parts(self, column: Callable[[int], Values], j: int) -> NDArray[np.int64]:
        category, d = self.attributes.category, self.partitions.d
        each = [self.partitions.parts(column(m), m, category[m]) for m in self.members(j)]
        if len(each) == 1:
            return each[0]
        rows, columns = (np.minimum(p, d - 1) * self._grid // d for p in each)
        return np.asarray(rows * self._grid + columns)

    def describe(self, j: int, part: int) -> str:
        """A part as a reader knows it."""
        members = self.members(j)
        if len(members) == 1:
            return self.partitions.describe(j, part, self.attributes)
        # Equal cells of both grids: told by the first partition of each.
        d = self.partitions.d
        cells = divmod(part, self._grid)
        firsts = [-(-cell * d // self._grid) for cell in cells]
        told = zip(members, firsts, strict=True)
        return " & ".join(f"about {self.partitions.describe(m, p, self.attributes)}" for m, p in told)
