"""CSRIA: counts of frequent access patterns only, by lossy counting (AMRI, section 5.3.2; Manku and Motwani 2002).

At the end of segment b of 1/ε requests each, patterns with count + δ <= b are forgotten; δ is the most a pattern may
have had before it was (re)entered. Invariants: count <= true count <= count + δ, δ <= ε·requests, so every pattern with
a share of θ or more is in the result, at most ε too low; at most (1/ε)·log(ε·requests) + 1/ε are kept.
"""

from __future__ import annotations

from typing import Any

from thalweg.errors import DefinitionError


class Csria:
    """Compact self reliant index assessment. Counting many requests of one pattern at once gives the same result as
    counting them one by one.

    >>> csria = Csria(3, epsilon=0.1, theta=0.3)
    >>> for mask in [7, 7, 7, 1, 7, 7, 2, 7, 7, 7] * 3:
    ...     csria.observe(mask)
    >>> csria.frequencies(), len(csria)
    ({7: 0.8}, 1)
    """

    name = "csria"

    def __init__(self, attributes: int, epsilon: float = 0.05, theta: float = 0.1) -> None:
        if not 0 < epsilon < theta <= 1:
            raise DefinitionError(
                f"error rate {epsilon:g} and threshold {theta:g} do not fit", hint="0 < error rate < threshold <= 1"
            )
        self.attributes = attributes
        self.epsilon = epsilon
        self.theta = theta
        self.segment = max(1, round(1 / epsilon))
        self.requests = 0
        self.counts: dict[int, list[int]] = {}
        """Pattern to count and δ."""

    def observe(self, mask: int, count: int = 1) -> None:
        # Up to the end of this segment, then whole segments at once, then the rest. A pattern that fills segments is
        # never forgotten, and the others may be forgotten at the last segment as well as one by one.
        part = min(count, self.segment - self.requests % self.segment)
        while count:
            entry = self.counts.get(mask)
            if entry is None:
                self.counts[mask] = [part, self.requests // self.segment]
            else:
                entry[0] += part
            self.requests += part
            if not self.requests % self.segment:
                self._compress(self.requests // self.segment)
            count -= part
            part = count - count % self.segment or count

    def _compress(self, segment: int) -> None:
        if min(count + delta for count, delta in self.counts.values()) <= segment:
            self.counts = {m: e for m, e in self.counts.items() if e[0] + e[1] > segment}

    def frequencies(self) -> dict[int, float]:
        least = (self.theta - self.epsilon) * self.requests
        return {m: c / self.requests for m, (c, delta) in self.counts.items() if c + delta >= least}

    def __len__(self) -> int:
        return len(self.counts)

    def reset(self) -> None:
        self.requests = 0
        self.counts = {}

    def snapshot(self) -> dict[str, Any]:
        return {"requests": self.requests, "counts": [[m, *e] for m, e in sorted(self.counts.items())]}

    def restore(self, record: dict[str, Any]) -> None:
        self.requests = int(record["requests"])
        self.counts = {int(m): [int(c), int(d)] for m, c, d in record["counts"]}
