"""Heavy hitters: values of a join key so frequent that one cell gets more than its share of the work.

A key value is never split between cells, so a cut into s parts is fair only while no value has much more than 1/s of
the rows. Only a report reads this; nothing is decided by it. It sees a sample: the first rows of each batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SAMPLE, PER_BATCH = 4096, 512
"""Sizes: rows sampled of a task and of a batch, at most."""


class HeavyHitters:
    """The most frequent values of one column that is cut into `share` parts.

    >>> watch = HeavyHitters("s.k", share=4)
    >>> watch.observe(np.array([7, 7, 7, 1, 2, 7, 7, 3] * 20), pa.array([7, 7, 7, 1, 2, 7, 7, 3] * 20))
    >>> watch.record()
    {'column': 's.k', 'share': 4, 'sampled': 160, 'values': [['7', 100]]}
    """

    def __init__(self, column: str, share: int) -> None:
        self.column = column
        self.share = share
        self._codes: list[NDArray[np.int64]] = []
        self._values: list[pa.Array] = []
        self._rows = 0

    def observe(self, codes: NDArray[np.int64], values: pa.Array) -> None:
        """Codes of a batch's keys, and the values they stand for."""
        count = min(PER_BATCH, len(codes), SAMPLE - self._rows)
        if count > 0:
            self._codes.append(codes[:count])
            self._values.append(values.slice(0, count))
            self._rows += count

    def record(self) -> dict[str, Any]:
        """The number of sampled rows and the counts of values with over half of a part's fair share, in the form the board
        adds up."""
        if not self._rows:
            return {"column": self.column, "share": self.share, "sampled": 0, "values": []}
        codes = np.concatenate(self._codes)
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        starts = np.cumsum([0, *(len(c) for c in self._codes)])
        # What is too much for a part in all tasks together is too much in at least one.
        most = np.flatnonzero(2 * self.share * counts > self._rows)
        top = most[np.argsort(-counts[most], kind="stable")]
        values = []
        for k in top.tolist():
            piece = int(np.searchsorted(starts, first[k], side="right")) - 1
            value = self._values[piece][int(first[k] - starts[piece])].as_py()
            values.append([str(value)[:60], int(counts[k])])
        return {"column": self.column, "share": self.share, "sampled": self._rows, "values": values}


def heavy(record: dict[str, Any]) -> list[tuple[str, float]]:
    """Values with more than half of a part's fair share; beyond that the cut can't be even.

    >>> heavy({"share": 4, "sampled": 160, "values": [["7", 100], ["1", 20]]})
    [('7', 0.625)]
    """
    if not record["sampled"] or record["share"] < 2:
        return []
    shares = [(str(v), n / record["sampled"]) for v, n in record["values"]]
    return [(v, s) for v, s in shares if s > 0.5 / record["share"] and s * record["sampled"] >= 20]
