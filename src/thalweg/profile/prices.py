"""What single operations on an index cost: the C_h, C_c, C_insert and C_delete of AMRI, Table 1 and section 8.1.

A value, so that a decision can be made again: measured on the running machine by `execute/calibrate.py`, kept in the
state with what was learned, or `RECORDED`, which tests, lab and counted benchmarks use. Only their ratios matter to a
decision; the unit is nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Prices:
    """Nanoseconds of one operation. The defaults are rounded from many measurements on one machine, with other programs
    running: a bucket at 0.7 to 1.2 of a candidate, 0.9 in the middle.

    >>> Prices.of(Prices(bucket=2.0).record()) == Prices(bucket=2.0)
    True
    """

    hash: float = 1.2
    """Of one attribute, to store or to probe."""
    compare: float = 9.0
    """A candidate looked at."""
    bucket: float = 8.1
    """A bucket looked up. Not in the paper: in memory an empty bucket is not free."""
    insert: float = 6.0
    """A row entered, beside its hashes."""
    delete: float = 2.3
    """A row that goes with its slice."""
    request: float = 20.0
    """A probe, beside its hashes, buckets and candidates. No layout changes it; it is part of the work done."""

    def record(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, float]) -> Prices:
        """What `record` wrote."""
        return cls(**{f.name: float(record[f.name]) for f in fields(cls) if f.name in record})


RECORDED = Prices()
