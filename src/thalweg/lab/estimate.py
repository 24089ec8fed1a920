"""A mean over seeds with its 95 % interval (Student's t, two-sided).

Invariant: a single value gives an infinite interval, so a single seed never decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isinf, isnan, sqrt

import numpy as np

T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % points of Student's t for 1 to 30 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, its 95 % confidence interval, and the number of values behind it.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2, low=-0.48434, high=4.4843, count=3)
    >>> print(estimate([1.02, 1.04, 1.03]))
    1.030 ±0.025
    """

    mean: float
    low: float
    high: float
    count: int

    def __repr__(self) -> str:
        return f"Estimate(mean={self.mean:.5g}, low={self.low:.5g}, high={self.high:.5g}, count={self.count})"

    def __str__(self) -> str:
        if isnan(self.mean):
            return "nothing"
        half = self.high - self.mean
        places = max(0, 4 - len(str(int(abs(self.mean)))))
        mean = "0" if self.mean == 0 else f"{self.mean:,.{places}f}"
        return mean if isinf(half) or half < 1e-12 else f"{mean} ±{half:,.{places}f}"


def estimate(values: Iterable[float]) -> Estimate:
    array = np.asarray(list(values), float)
    if not len(array):
        return Estimate(float("nan"), -inf, inf, 0)
    mean = float(array.mean())
    if len(array) == 1:
        return Estimate(mean, -inf, inf, 1)
    t = T_95[len(array) - 2] if len(array) - 2 < len(T_95) else 1.96
    half = t * float(array.std(ddof=1)) / sqrt(len(array))
    return Estimate(mean, mean - half, mean + half, len(array))
