"""Chunks: cut batches into pieces small enough to learn between, and large enough that learning costs nothing.

A policy decides once for each chunk. About 1,000 rows follow a change quickly; where predicates are so cheap that a
chunk takes less than `WORTH` seconds the chunks grow, so that the few dozen microseconds of a decision stay below a
percent or so of the work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

LEAST, MOST = 1000, 1 << 16
WORTH = 0.008


class Chunks:
    """Cuts batches, and adjusts the size to what chunks cost.

    >>> chunks = Chunks()
    >>> batch = pa.record_batch({"x": list(range(2500))})
    >>> [piece.num_rows for piece in chunks.cut(batch)]
    [1000, 1000, 500]
    >>> chunks.observe(rows=1000, seconds=0.001)
    >>> chunks.size
    2000
    """

    def __init__(self, size: int = LEAST) -> None:
        self.size = size

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Consecutive pieces; a remainder of less than half a chunk goes with the piece before it."""
        start = 0
        while start < batch.num_rows:
            left = batch.num_rows - start
            rows = left if left < self.size + self.size // 2 else self.size
            yield batch.slice(start, rows)
            start += rows

    def observe(self, rows: int, seconds: float) -> None:
        if rows < self.size:
            return
        if seconds < WORTH / 2 and self.size < MOST:
            self.size = min(2 * self.size, MOST)
        elif seconds > 2 * WORTH and self.size > LEAST:
            self.size = max(self.size // 2, LEAST)
