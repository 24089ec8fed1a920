"""Shares: how the space of join keys is cut into cells (hypercube shares).

Every key class gets a share; a cell is one combination of shares. A tuple goes to every cell that agrees with the
hashes of its keys, so the tuples of one result meet in exactly one cell: the one that all their keys agree on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod


@dataclass(frozen=True)
class Shares:
    """A share for each key class of the query; their product is the number of cells.

    >>> shares = Shares((2, 3))
    >>> shares.cells, shares.replication([0])
    (6, 3)
    >>> shares.offsets([0])
    [0, 1, 2]
    """

    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        return prod(self.sizes)

    def stride(self, key: int) -> int:
        """How much one step along a class adds to a cell number."""
        return prod(self.sizes[key + 1 :])

    def replication(self, keys: Sequence[int]) -> int:
        """The number of cells that get a tuple with these classes."""
        return self.cells // prod(self.sizes[k] for k in keys)

    def offsets(self, keys: Sequence[int]) -> list[int]:
        """The offsets from the cell of a tuple's own keys to all its cells."""
        free = [k for k in range(len(self.sizes)) if k not in keys]
        return sorted(sum(p) for p in product(*([i * self.stride(k) for i in range(self.sizes[k])] for k in free)))
