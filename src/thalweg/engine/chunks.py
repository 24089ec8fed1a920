"""Chunks: cut batches into pieces small enough to learn between, and large enough that learning costs nothing.

A policy decides once per chunk. About 1,000 rows follow a change quickly. Where predicates are so cheap that a decision
(`Prices.ask`) would take more than `SHARE` of a chunk's time, chunks grow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from thalweg.optimize.auto.ledger import SHARE
from thalweg.profile.prices import RECORDED, Prices

LEAST, MOST = 1000, 1 << 16
"""Sizes: rows of a chunk."""


class Chunks:
    """Cuts batches, and fits the size to the time that chunks take.

    >>> chunks = Chunks()
    >>> batch = pa.record_batch({"x": list(range(2500))})
    >>> [piece.num_rows for piece in chunks.cut(batch)]
    [1000, 1000, 500]
    >>> chunks.observe(rows=1000, seconds=0.001)
    >>> chunks.size
    2000
    """

    def __init__(self, size: int = LEAST, prices: Prices = RECORDED) -> None:
        self.size = size
        self._least = prices.ask / SHARE
        """Seconds of a chunk, at least."""

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Consecutive pieces. A remainder of less than half a chunk joins the piece before it."""
        start = 0
        while start < batch.num_rows:
            left = batch.num_rows - start
            rows = left if left < self.size + self.size // 2 else self.size
            yield batch.slice(start, rows)
            start += rows

    def observe(self, rows: int, seconds: float) -> None:
        if rows < self.size:
            return
        if seconds < self._least and self.size < MOST:
            self.size = min(2 * self.size, MOST)
        elif seconds > 4 * self._least and self.size > LEAST:
            self.size = max(self.size // 2, LEAST)
