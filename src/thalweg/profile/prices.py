"""Prices: what single operations cost on this machine, in seconds. One currency for every decision.

A value, so decisions can be reproduced: measured when the first engine of a process starts
(`engine/machine.py`), or `RECORDED`, which tests, the lab and counted benchmarks use. The first six are AMRI's C_h,
C_c, C_insert and C_delete (table 1, section 8.1) and two that the paper omits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Prices:
    """Seconds of one operation. The defaults were measured on one machine and rounded.

    >>> Prices.of(Prices(bucket=2e-9).record()) == Prices(bucket=2e-9)
    True
    """

    hash: float = 1.2e-9
    """Hash one attribute, to store or to probe."""
    candidate: float = 9.0e-9
    """Look at a candidate."""
    bucket: float = 8.1e-9
    """Look up a bucket. Not in the paper: in memory an empty bucket is not free."""
    insert: float = 6.0e-9
    """Enter a row in an index, besides its hashes."""
    delete: float = 2.3e-9
    """Drop a row with its slice."""
    request: float = 20.0e-9
    """Probe, besides hashes, buckets and candidates. The same for all layouts, but part of the work done."""
    lookup: float = 14.0e-9
    """Look up a key in a cache of partial results."""
    recall: float = 7.0e-9
    """Write one row from a cached combination."""
    keep: float = 20.0e-9
    """Add a combination to a cache."""
    visit: float = 30.0e-6
    """Take a batch to a cache, whatever it meets."""
    classify: float = 10.0e-9
    """Find the class of a row."""
    call: float = 0.1e-6
    """Call a Python function that does nothing, for one row."""
    send: float = 60.0e-6
    """Send a ruster, whatever it meets."""
    ask: float = 150.0e-6
    """Ask a policy for routes, report the outcome, and let it decide."""
    select: float = 300.0e-6
    """Weigh the layouts of a stem against each other."""
    teach: float = 1.8e-3
    """Teach a lesson of profiled rows to the policies that learn classes."""

    @property
    def probe(self) -> float:
        """One probe by one attribute that meets no candidate."""
        return self.request + self.hash + self.bucket

    @property
    def entry(self) -> float:
        """Enter a row in an index on one attribute, and drop it again."""
        return self.hash + self.insert + self.delete

    def record(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, float]) -> Prices:
        """Read what `record` wrote."""
        return cls(**{f.name: float(record[f.name]) for f in fields(cls) if f.name in record})


RECORDED = Prices()
