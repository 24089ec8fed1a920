"""Arena: growing arrays that hold many blocks, so one kernel call sees all slices of a stem.

New blocks go on top; when the top is reached, blocks move down into the gaps that freed ones left. Invariant: the rows
of a block stay together and in order; only `allocate` changes offsets or reuses the rows of freed blocks, and it then
changes `version`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Stretch:
    """A run of rows of an arena."""

    __slots__ = ("offset", "size")

    def __init__(self, offset: int, size: int) -> None:
        self.offset = offset
        self.size = size

    @property
    def span(self) -> slice:
        return slice(self.offset, self.offset + self.size)


class Arena:
    """Arrays of one length, sharing their blocks.

    >>> arena = Arena({"x": np.empty(0, np.int64)})
    >>> a, b = arena.allocate(200), arena.allocate(50)
    >>> arena.arrays["x"][b.span] = 7
    >>> arena.free(a)
    >>> c = arena.allocate(300)
    >>> b.offset, c.offset, arena.arrays["x"][b.span].tolist() == [7] * 50
    (0, 50, True)
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = dict(arrays)
        self.version = 0
        self._blocks: list[Stretch] = []
        self._top = 0
        self._live = 0

    @property
    def capacity(self) -> int:
        return len(next(iter(self.arrays.values())))

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays.values())

    def add(self, name: str, dtype: Any, fill: Any) -> NDArray[Any]:
        """A further array, filled with one value."""
        self.arrays[name] = np.full(self.capacity, fill, dtype)
        return self.arrays[name]

    def allocate(self, size: int) -> Stretch:
        if self._top + size > self.capacity:
            self._make_room(size)
        block = Stretch(self._top, size)
        self._blocks.append(block)
        self._top += size
        self._live += size
        return block

    def free(self, block: Stretch) -> None:
        """Give a block back. Its rows stay as they are until the next `allocate` that changes `version`."""
        self._blocks.remove(block)
        self._live -= block.size

    def _make_room(self, size: int) -> None:
        """Move all blocks down; into arrays of another size if these would be over half or under an eighth full."""
        need, capacity = self._live + size, self.capacity
        fits = 2 * need <= capacity < 8 * need
        wanted = capacity if fits else 2 * need
        self.version += 1
        fresh = self.arrays if fits else {n: np.empty((wanted, *a.shape[1:]), a.dtype) for n, a in self.arrays.items()}
        top = 0
        for block in self._blocks:
            for name, array in self.arrays.items():
                if not fits or block.offset != top:
                    fresh[name][top : top + block.size] = array[block.span]
            block.offset = top
            top += block.size
        self.arrays = fresh
        self._top = top
