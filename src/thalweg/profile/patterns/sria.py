"""SRIA: a count for every access pattern that occurs (AMRI, section 5.3.1). Exact; up to 2^N - 1 counts."""

from __future__ import annotations

from typing import Any


class Sria:
    """Self reliant index assessment.

    >>> sria = Sria(3)
    >>> sria.observe(0b100, 3)
    >>> sria.observe(0b111)
    >>> sria.frequencies()
    {4: 0.75, 7: 0.25}
    """

    name = "sria"

    def __init__(self, attributes: int) -> None:
        self.attributes = attributes
        self.requests = 0
        self.counts: dict[int, int] = {}

    def observe(self, mask: int, count: int = 1) -> None:
        if count > 0:
            self.requests += count
            self.counts[mask] = self.counts.get(mask, 0) + count

    def frequencies(self) -> dict[int, float]:
        return {mask: count / self.requests for mask, count in self.counts.items()}

    def __len__(self) -> int:
        return len(self.counts)

    def reset(self) -> None:
        self.requests = 0
        self.counts = {}

    def snapshot(self) -> dict[str, Any]:
        return {"requests": self.requests, "counts": sorted(self.counts.items())}

    def restore(self, record: dict[str, Any]) -> None:
        self.requests = int(record["requests"])
        self.counts = {int(mask): int(count) for mask, count in record["counts"]}
