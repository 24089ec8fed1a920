"""The matrix view of the profile window for the order in force (thesis 4.3.2).

V[i, j] counts the tuples that the filter at place j drops among those that no filter before place i drops, so V[i, j]
is proportional to d(j | i-1). Updated by adding new tuples and subtracting expired ones, a batch at
once: with B the drop vectors in the order in force and G[t, i] = 1 iff tuple t reaches place i, V changes by GᵀB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.rates.window import Bits


class MatrixView:
    """V for one order. Places count from 0; entries below the diagonal are 0.

    >>> view = MatrixView([2, 0, 1, 3])
    >>> drops = {2: [0, 0, 1, 0], 4: [0, 1, 1, 1], 7: [1, 0, 0, 0], 5: [1, 1, 0, 1]}
    >>> view.insert(np.array([drops[s] for s in (2, 4, 7, 2, 5, 4)], np.uint8))
    >>> view.V.tolist()
    [[4, 2, 3, 3], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    """

    def __init__(self, order: Sequence[int]) -> None:
        self.order = list(order)
        self.V: NDArray[np.int64] = np.zeros((len(self.order), len(self.order)), np.int64)

    def insert(self, bits: Bits) -> None:
        self.V += self._share(bits)

    def delete(self, bits: Bits) -> None:
        self.V -= self._share(bits)

    def _share(self, bits: Bits) -> NDArray[np.int64]:
        if not len(bits):
            return np.zeros_like(self.V)
        placed = bits[:, self.order].astype(np.int64)
        reached = np.argmax(placed, axis=1)[:, None] >= np.arange(len(self.order))[None, :]
        counted: NDArray[np.int64] = reached.astype(np.int64).T @ placed
        return counted

    def row(self, place: int, bits: Bits) -> NDArray[np.int64]:
        """Row `place` recounted from the window, as the correction of figure 4.7 needs it."""
        placed = bits[:, self.order]
        reaching = placed[~placed[:, :place].any(axis=1)]
        return np.concatenate([np.zeros(place, np.int64), reaching[:, place:].sum(axis=0, dtype=np.int64)])

    def move(self, source: int, target: int) -> None:
        """Move the filter at place `source` forward to `target`; the ones between shift back by one."""
        self.order.insert(target, self.order.pop(source))
        columns = list(range(len(self.order)))
        columns.insert(target, columns.pop(source))
        self.V[: target + 1] = self.V[: target + 1, columns]

    def rebuild(self, order: Sequence[int], bits: Bits) -> None:
        self.order = list(order)
        self.V[:] = 0
        self.insert(bits)
