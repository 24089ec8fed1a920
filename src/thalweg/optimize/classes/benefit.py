"""The benefit test: does measured work fall when a classifier attribute is used? (CBR 4.1)

The paper measures the eddy's rate before and after. Here half of the rows of each batch travel with the attribute and
half without, so drift can't look like a benefit; work is calls times measured cost.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.classtable import ClassTable

Floats = NDArray[np.float64]


@dataclass
class Arm:
    """Tuples of one side, and their cost."""

    tuples: float = 0.0
    cost: float = 0.0
    squares: float = 0.0

    def add(self, begun: Floats, came: Floats, orders: NDArray[np.int64], costs: Floats) -> None:
        """Rows of each route, and how many reached each of its operators. With several matches a row costs more than it
        counts for here, on both sides alike."""
        placed = np.take_along_axis(came, orders, axis=1)
        spent = np.cumsum(costs[orders], axis=1)
        following = np.concatenate([placed[:, 1:], np.zeros((len(placed), 1))], axis=1)
        self.tuples += float(begun.sum())
        self.cost += float((placed * costs[orders]).sum())
        self.squares += float((np.maximum(placed - following, 0.0) * spent**2).sum())

    @property
    def mean(self) -> float:
        return self.cost / self.tuples

    @property
    def error(self) -> float:
        """Squared standard error of the mean."""
        return max(self.squares / self.tuples - self.mean**2, 0.0) / self.tuples


@dataclass(eq=False)
class Tryout:
    """Attributes on trial: those of one operator, or of several that were profiled in the same batch."""

    chosen: dict[int, tuple[int, str]]
    """For each operator its attribute, and how much it tells beyond chance."""
    table: ClassTable
    """The classes with the attributes in use."""
    without: Arm = field(default_factory=Arm)
    under: Arm = field(default_factory=Arm)

    def verdict(self, sample: int, evidence: float) -> bool | None:
        """Whether work falls; None while unclear. Each side needs at least two samples of R tuples, and the test ends
        after ten."""
        fewer = min(self.without.tuples, self.under.tuples)
        if fewer < 2 * sample:
            return None
        before, after = self.without.mean, self.under.mean
        if abs(before - after) < evidence * sqrt(self.without.error + self.under.error) and fewer < 10 * sample:
            return None
        return after < before

    def record(self) -> dict[str, Any]:
        chosen = [[op, *told] for op, told in self.chosen.items()]
        arms = {"without": asdict(self.without), "under": asdict(self.under)}
        return {"chosen": chosen, "table": self.table.record()} | arms

    @classmethod
    def of(cls, record: dict[str, Any], table: ClassTable) -> Tryout:
        chosen = {op: (j, how_much) for op, j, how_much in record["chosen"]}
        return cls(chosen, table, Arm(**record["without"]), Arm(**record["under"]))
