"""Page-Hinkley: has the mean of a quantity moved?

Fed with batch means and their standard errors, it adds up how many errors each lies above (or below) the mean so far,
less an allowance; when a sum passes the threshold the mean has moved. Noise keeps the sums near 0, a small lasting move
is found after a while, a large one at once. The price of a false alarm is one re-search, never a wrong answer.

Means may scatter more than their own noise without drifting: in a join, tuples at the end of a push meet fewer partners
than those at its beginning, push after push. We learn the ratio of scatter to error from recent batches, keep it across
alarms, and enlarge the errors by it.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

RECENT, WILD = 0.1, 36.0
"""Statistics: weight of the newest batch in the scatter of means, and the most squared errors that one batch adds."""


class PageHinkley:
    """Two-sided, on standardised batch means.

    >>> drift = PageHinkley()
    >>> [drift.observe(1.0, 0.05, 500) for _ in range(20)].count(True), drift.observe(2.0, 0.05, 500)
    (0, True)
    """

    def __init__(self, allowance: float = 0.5, threshold: float = 8.0, least: float = 100.0) -> None:
        """`allowance` and `threshold` in standard errors; `least` values stand behind a mean before it is compared."""
        self.allowance = allowance
        self.threshold = threshold
        self.least = least
        self.restless = 1.0
        """Usual squared distance of means from the mean so far, in squared errors: 1 for pure noise."""
        self.reset()

    def reset(self) -> None:
        self.count = self.mean = self.spread = self.up = self.down = 0.0

    def observe(self, mean: float, error: float, count: int) -> bool:
        """Add the mean of `count` values and its standard error; returns whether the mean has moved."""
        moved = False
        if self.count >= self.least:
            # Use the spread so far: a jump often widens the spread, which must not hide the jump.
            unsure = sqrt(self.spread * (1 / count + 1 / self.count)) or 1e-12
            z = (mean - self.mean) / (unsure * sqrt(self.restless))
            self.restless = max(self.restless + RECENT * (min(z * z * self.restless, WILD) - self.restless), 1.0)
            self.up = max(0.0, self.up + z - self.allowance)
            self.down = max(0.0, self.down - z - self.allowance)
            moved = max(self.up, self.down) > self.threshold
        self.count += count
        step = count / self.count
        self.mean += (mean - self.mean) * step
        self.spread += (error * error * count - self.spread) * step
        return moved

    def snapshot(self) -> dict[str, Any]:
        return {
            "count": self.count, "mean": self.mean, "spread": self.spread, "up": self.up, "down": self.down,
            "restless": self.restless,
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        self.count, self.mean, self.spread = record["count"], record["mean"], record["spread"]
        self.up, self.down, self.restless = record["up"], record["down"], record["restless"]
