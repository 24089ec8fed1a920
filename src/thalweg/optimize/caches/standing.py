"""Where a candidate of a cache stands: watched, used or neither, and what was last seen of it (thesis 5.5.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from thalweg.optimize.caches.candidates import Candidate
from thalweg.optimize.caches.costs import Estimate
from thalweg.optimize.caches.estimating import Estimating
from thalweg.plan import Reason
from thalweg.profile.rates.flows import WINDOW

State = Literal["used", "profiled", "unused"]


@dataclass
class Standing:
    """A candidate and what is known of it."""

    candidate: Candidate
    closed: bool
    """Whether it satisfies the prefix invariant."""
    state: State = "profiled"
    misses: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """The last observations: rows, and how many of them missed."""
    estimate: Estimate | None = None
    why: Reason = field(default_factory=lambda: Reason("being watched"))

    @property
    def miss(self) -> float:
        rows = sum(r for r, _ in self.misses)
        return min(sum(m for _, m in self.misses) / rows, 1.0) if rows else 1.0

    def weigh(self, estimating: Estimating, miss: float | None = None) -> Estimate:
        """What it saves and costs; with `miss=0.0`, what it would if it never missed."""
        return estimating.estimate(self.candidate, self.misses, self.miss if miss is None else miss, closed=self.closed)

    def snapshot(self) -> dict[str, Any]:
        estimate = None if self.estimate is None else self.estimate.record()
        misses = [list(m) for m in self.misses]
        return {"state": self.state, "misses": misses, "estimate": estimate, "why": self.why.record()}

    def restore(self, record: Mapping[str, Any]) -> None:
        estimate = record["estimate"]
        self.state, self.why = record["state"], Reason(**record["why"])
        self.estimate = None if estimate is None else Estimate(self.candidate, **estimate)
        self.misses.clear()
        self.misses.extend((rows, missed) for rows, missed in record["misses"])


def covered(standings: Iterable[Standing], i: int) -> set[int]:
    """The places of an input's order that caches in use replace."""
    used = [s.candidate for s in standings if s.state == "used" and s.candidate.placed.input == i]
    return {k for c in used for k in range(c.first, c.last + 1)}


def group_net(standing: Standing, standings: Iterable[Standing]) -> float:
    """Net benefit of a store: benefits of all its uses, its cost once."""
    cached = standing.candidate.placed.cached
    used = [s.estimate for s in standings if s.state == "used" and s.candidate.placed.cached == cached and s.estimate]
    assert standing.estimate is not None
    return sum(e.benefit for e in used) - standing.estimate.cost
