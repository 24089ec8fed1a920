"""The gate: which rows of a stream have a time that can be.

A row without a time, or with an impossible one, is left out and counted. With `ahead`, so is a row whose time lies
further than that after the clock of its batch: it would move the watermark, and every honest row would be late. The
clock is the batch's own, so a batch that is run again is judged alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.times import PER_SECOND, Clock

NOTHING = -(1 << 63)
"""Mark: no time seen yet."""
TIMELESS, AHEAD = "no usable time", "too far ahead"


@dataclass
class Gate:
    """Judges the batches of one stream.

    >>> from thalweg.language.query import Source
    >>> clock = Clock(Source(pa.schema({"ts": pa.int64()}), "ts", "s"), "us")
    >>> gate = Gate(clock, ahead=60_000_000)
    >>> kept = gate.judge(pa.record_batch({"ts": [5, None, 500]}), now=10_000_000)
    >>> kept.num_rows, gate.timeless, gate.ahead_rows, gate.newest
    (1, 1, 1, 5000000)
    """

    clock: Clock
    ahead: int | None = None
    """Microseconds."""
    newest: int = NOTHING
    """In ticks, of the rows let through."""
    timeless: int = 0
    ahead_rows: int = 0
    refused: list[tuple[str, pa.RecordBatch]] = field(default_factory=list)
    """Rows left out since they were last taken, with the reason."""

    def judge(self, batch: pa.RecordBatch, now: int | None = None) -> pa.RecordBatch:
        """The rows that may pass; `now` is the clock of the batch in microseconds."""
        times, valid = self.clock.read(batch.column(str(self.clock.spec.time)))
        keep: NDArray[np.bool_] | None = None
        if valid is not None and not valid.all():
            self.timeless += int((~valid).sum())
            self.refused.append((TIMELESS, batch.filter(pa.array(~valid))))
            keep = valid
        if self.ahead is not None and now is not None:
            far = times > (now + self.ahead) * (PER_SECOND[self.clock.tick] // 10**6)
            far = far if keep is None else far & keep
            if far.any():
                self.ahead_rows += int(far.sum())
                self.refused.append((AHEAD, batch.filter(pa.array(far))))
                keep = ~far if keep is None else keep & ~far
        known = times if keep is None else times[keep]
        if len(known):
            self.newest = max(self.newest, int(known.max()))
        return batch if keep is None else batch.filter(pa.array(keep))
