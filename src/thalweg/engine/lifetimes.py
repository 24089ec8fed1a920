"""Lifetimes: results on their way to a sink of deltas, and those whose end is not known yet.

The end of a result is its first expiry plus one. Where a window counts rows, a row leaves when its n-th successor comes,
at a time not before the watermark: so an end is final once all expiries are known, or once the least of those known lies
before the watermark. Until then the result is remembered by the places of its rows in the order of their sources. An
engine without a sink of deltas has none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import FOREVER, Closings, Deltas, DeltaSink
from thalweg.engine.piece import Piece
from thalweg.engine.stage import Stage
from thalweg.execute.shape import Shape
from thalweg.state.kernels.layout import ALWAYS, EXPIRY, NEWEST

Ints = NDArray[np.int64]
KNOWN = -1
"""Mark: the place of a row whose expiry is known."""


class Lifetimes:
    """Numbers results, says when they end, and closes those that could not say."""

    def __init__(self, sink: DeltaSink, shape: Shape, stages: Sequence[Stage]) -> None:
        self.sink = sink
        self.shape = shape
        self.stages = stages
        self.count = 0
        self._until = ALWAYS
        """No expiry that is still unknown lies before this less one."""
        self._counted = [s.number for s in stages if s.order is not None]
        self._numbers = np.empty(0, np.int64)
        self._bounds = np.empty(0, np.int64)
        """Of results that are open: the least expiry known."""
        self._places = np.empty((0, len(self._counted)), np.int64)
        """Of these, by input whose window counts rows: the place of the row, or KNOWN."""
        self._order: Ints | None = None
        self._stay: Ints = self._bounds

    def arriving(self, i: int, piece: Piece, rows: Ints | None) -> None:
        """Which rows are about to be joined."""
        order, stay = piece.order, piece.stays[i]
        self._order = order if order is None or rows is None else order[rows]
        self._stay = stay if rows is None else stay[rows]

    def opened(self, i: int, chunk: Ints, batch: pa.RecordBatch) -> None:
        """Hand on results of rows of input i."""
        number = np.arange(self.count, self.count + len(chunk))
        self.count += len(chunk)
        bounds = np.ascontiguousarray(chunk[:, EXPIRY])
        end = np.where(bounds == FOREVER, FOREVER, bounds + (bounds < FOREVER))
        if self._counted:
            places = np.stack([self._unknown(i, j, chunk) for j in self._counted], axis=1)
            waiting = (places != KNOWN).any(axis=1) & (bounds >= self._until - 1)
            end[waiting] = FOREVER
            self._numbers = np.concatenate([self._numbers, number[waiting]])
            self._bounds = np.concatenate([self._bounds, bounds[waiting]])
            self._places = np.concatenate([self._places, places[waiting]])
        self.sink.opened(Deltas(batch, number, np.ascontiguousarray(chunk[:, NEWEST]), end))

    def _unknown(self, i: int, j: int, chunk: Ints) -> Ints:
        """The places of the rows of input j that have not been told when they leave; KNOWN for the others."""
        rows = chunk[:, self.shape.row_column(j)]
        stage = self.stages[j]
        if i == j:
            assert self._order is not None
            places, stay = self._order[rows], self._stay[rows]
        else:
            assert stage.stem is not None
            store = stage.stem.store
            places, stay = store.arena.arrays["order"][rows], store.expiries(stage.member)[rows]
        return np.where(stay == FOREVER, places, KNOWN)

    def told(self, i: int, places: Ints, expiries: Ints) -> None:
        """Rows of input i, by their sorted places, leave its window then."""
        if i not in self._counted or not len(places) or not len(self._numbers):
            return
        mine = self._places[:, self._counted.index(i)]
        at = np.minimum(np.searchsorted(places, mine), len(places) - 1)
        hit = places[at] == mine
        self._bounds[hit] = np.minimum(self._bounds[hit], expiries[at[hit]])
        mine[hit] = KNOWN

    def passed(self, until: int) -> None:
        """No row before `until` will come: only from here on can rows be pushed out of a window."""
        self._until = until

    def close(self) -> None:
        """Tell the ends that have become final."""
        settled = (self._places == KNOWN).all(axis=1) | (self._bounds < self._until - 1)
        ending = settled & (self._bounds < FOREVER)
        if ending.any():
            self.sink.closed(Closings(self._numbers[ending], self._bounds[ending] + 1))
        if settled.any():
            self._numbers, self._bounds, self._places = (
                a[~settled] for a in (self._numbers, self._bounds, self._places)
            )

    def snapshot(self) -> dict[str, Any]:
        tables = (self._numbers, self._bounds, self._places)
        return {"count": self.count, "until": self._until, "open": [a.tolist() for a in tables]}

    def restore(self, record: dict[str, Any]) -> None:
        self.count, self._until = record["count"], record["until"]
        numbers, bounds, places = (np.array(a, np.int64) for a in record["open"])
        self._numbers, self._bounds, self._places = numbers, bounds, places.reshape(len(numbers), len(self._counted))
