"""Which cells a tuple goes to: the hashes of its join keys, along the shares.

A tuple with a NULL key joins nothing and goes nowhere, unless its input has a row window, which counts it: then a NULL
goes to cell 0 of that class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.execute.shape import Shape
from thalweg.plan.shares import Shares
from thalweg.profile.rates.heavy import HeavyHitters
from thalweg.state.keys import plain

Cells = NDArray[np.int64]


class Placing:
    """Places the tuples of one input."""

    def __init__(self, shape: Shape, alias: str, shares: Shares) -> None:
        i = shape.number[alias]
        self._counts_nulls = shape.query.inputs[i].window.ordered
        self._keys = [c for c in shape.classes[i] if shares.sizes[c] > 1]
        self._columns = {c: shape.key_columns[i][c][0] for c in self._keys}
        self._coders = {c: shape.coders[c] for c in self._keys}
        self._shares = shares
        self._watched = {c: HeavyHitters(f"{alias}.{n}", shares.sizes[c]) for c, n in self._columns.items()}
        self.offsets = np.array(shares.offsets(shape.classes[i]), np.int64)

    def base(self, batch: pa.RecordBatch) -> tuple[Cells, NDArray[np.bool_] | None]:
        """The first cell of each row, and which rows go anywhere (None: all). `offsets` gives the other cells."""
        cell = np.zeros(batch.num_rows, np.int64)
        kept: NDArray[np.bool_] | None = None
        for c in self._keys:
            codes, valid = self._coders[c].code(batch.column(self._columns[c]))
            self._watched[c].observe(codes, plain(batch.column(self._columns[c])))
            slot = spread(codes) % np.uint64(self._shares.sizes[c])
            if valid is not None:
                slot = np.where(valid, slot, np.uint64(0))
                if not self._counts_nulls:
                    kept = valid if kept is None else kept & valid
            cell += slot.astype(np.int64) * self._shares.stride(c)
        return cell, kept

    def heavy(self) -> list[dict[str, Any]]:
        """What was seen of the most frequent values of each key that is cut."""
        return [w.record() for w in self._watched.values()]


def spread(codes: Cells) -> NDArray[np.uint64]:
    """Mix the bits of key codes, so that runs and multiples fall on all cells alike (the finaliser of splitmix64)."""
    z = codes.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)
