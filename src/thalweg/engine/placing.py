"""Which cells a tuple goes to: the hashes of the columns that its input is cut by.

A join block is cut by the shares of its keys (`ByShares`), a whole query by one value that all its parts agree on
(`ByValue`). A tuple with a NULL there joins nothing and goes nowhere, unless its row matters all the same: a row window
counts it, an outer join keeps it. Then it goes to the first cell of that axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.execute.shape import Shape
from thalweg.plan.shares import Shares
from thalweg.profile.rates.heavy import HeavyHitters
from thalweg.state.keys import KeyCoder, plain

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """A column whose hash decides about the cell, in steps of `stride`."""

    column: str
    coder: KeyCoder
    size: int
    stride: int


class Placing:
    """Places the tuples of one input."""

    def __init__(self, alias: str, axes: Sequence[Axis], offsets: Sequence[int], *, keeps_nulls: bool) -> None:
        self._axes = axes
        self._keeps_nulls = keeps_nulls
        self._watched = [HeavyHitters(f"{alias}.{a.column}", a.size) for a in axes]
        self.offsets = np.array(offsets, np.int64)

    def base(self, batch: pa.RecordBatch) -> tuple[Cells, NDArray[np.bool_] | None]:
        """The first cell of each row, and which rows go anywhere (None: all). `offsets` gives the other cells."""
        cell = np.zeros(batch.num_rows, np.int64)
        kept: NDArray[np.bool_] | None = None
        for axis, watched in zip(self._axes, self._watched, strict=True):
            values = batch.column(axis.column)
            codes, valid = axis.coder.code(values)
            watched.observe(codes, plain(values))
            slot = spread(codes) % np.uint64(axis.size)
            if valid is not None:
                slot = np.where(valid, slot, np.uint64(0))
                if not self._keeps_nulls:
                    kept = valid if kept is None else kept & valid
            cell += slot.astype(np.int64) * axis.stride
        return cell, kept

    def heavy(self) -> list[dict[str, Any]]:
        """What was seen of the most frequent values of each key that is cut."""
        return [w.record() for w in self._watched]


class Division(Protocol):
    """How the rows of a block are divided among cells."""

    @property
    def cells(self) -> int: ...

    def placing(self, shape: Shape, alias: str) -> Placing: ...


@dataclass(frozen=True)
class ByShares:
    """By the hypercube shares of the block's keys."""

    shares: Shares

    @property
    def cells(self) -> int:
        return self.shares.cells

    def placing(self, shape: Shape, alias: str) -> Placing:
        i, sizes = shape.number[alias], self.shares.sizes
        axes = [
            Axis(shape.key_columns[i][c][0], shape.coders[c], sizes[c], self.shares.stride(c))
            for c in shape.classes[i]
            if sizes[c] > 1
        ]
        keeps = shape.query.inputs[i].window.ordered
        return Placing(alias, axes, self.shares.offsets(shape.classes[i]), keeps_nulls=keeps)


@dataclass(frozen=True)
class ByValue:
    """By one column of each input; an input without one is copied to every cell."""

    cells: int
    columns: Mapping[str, str | None]
    type: pa.DataType
    kept: frozenset[str]
    """Inputs whose rows matter even with a NULL."""

    def placing(self, shape: Shape, alias: str) -> Placing:
        column = self.columns[alias]
        if column is None:
            return Placing(alias, (), range(self.cells), keeps_nulls=True)
        axis = Axis(column, KeyCoder(self.type), self.cells, 1)
        return Placing(alias, (axis,), (0,), keeps_nulls=alias in self.kept)


def spread(codes: Cells) -> NDArray[np.uint64]:
    """Mix the bits of key codes, so that runs and multiples fall on all cells alike (the finaliser of splitmix64)."""
    z = codes.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)
