"""The training sample of a query mesh: which rows to try on every operator, and when to search again.

It starts with a burst, then samples less as the reservoir fills. A class that drifted requests rows of its own.
Searches that find nothing become rarer: each waits for twice as many new tuples as the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Values
from thalweg.profile.content.reservoir import Reservoir
from thalweg.profile.rates.given import ENOUGH

Ids = NDArray[np.int32]


@dataclass
class MeshSample:
    """Sampled tuples, and the number due."""

    operators: int
    p: float
    """Long-run share of rows to sample."""
    burst: float
    """Largest share of a batch to sample at once."""
    size: int
    training: int
    reservoir: Reservoir = field(init=False)
    owed: float = 0.0
    added: int = 0
    """Tuples since the last search."""
    ever: int = 0
    """All tuples since the last change of the data."""
    again: int = field(init=False)
    """Tuples that the next search waits for."""
    searched: bool = False

    def __post_init__(self) -> None:
        self.reservoir = Reservoir(self.size, self.operators)
        self.again = self.enough

    @property
    def enough(self) -> int:
        """Tuples that can fill the leaves of the training tree."""
        return ENOUGH * self.training

    def __len__(self) -> int:
        return len(self.reservoir)

    def share(self) -> float:
        """Share of the rows to sample: without drift, the fuller the reservoir, the less another row can tell, as the
        error of a mean falls with the root of the sample."""
        if len(self) < self.enough and not self.searched:
            return self.burst
        return self.p * min(sqrt(self.enough / max(len(self), 1)), 2.0)

    def clump(self) -> int:
        """Tuples to sample together, so that a few do not cost a ruster each time."""
        return max(2 * ENOUGH, len(self) // (2 * ENOUGH))

    def lacking(self) -> float:
        """Rows until a clump is due."""
        return max(self.clump() - self.owed, 0.0) / self.share()

    def pass_by(self, rows: int) -> None:
        """Count rows that nobody could sample."""
        self.owed = min(self.owed + self.share() * rows, float(self.enough))

    def choose(
        self, ids: Ids | None, count: int, wanted: Sequence[int], random: np.random.Generator
    ) -> NDArray[np.bool_] | None:
        """Rows to sample: all that drifted classes need, else a few of all once a clump is due."""
        self.pass_by(count)
        if any(wanted):
            sizes = np.array([count]) if ids is None else np.bincount(ids, minlength=len(wanted))
            share = np.minimum(np.array(wanted) / np.maximum(sizes, 1), 2 * self.burst)
            chosen = random.random(count) < (share[0] if ids is None else share[ids])
        elif self.owed < self.clump():
            return None
        else:
            chosen = random.random(count) < min(self.owed / count, self.burst)
            self.owed -= min(self.owed, float(chosen.sum()))
        return chosen if chosen.any() else None

    def add(self, values: Values, bits: NDArray[np.int8], random: np.random.Generator) -> None:
        self.reservoir.add(values, bits, random)
        self.added += len(bits)
        self.ever += len(bits)

    @property
    def due(self) -> bool:
        """Whether there are enough new tuples to search."""
        return len(self) >= self.enough and self.added >= self.again

    def begin(self) -> None:
        """A search on the current sample begins."""
        self.searched, self.added = True, 0

    def found(self, anything: bool, tuples: int) -> None:
        """A search on `tuples` tuples ended. Until the reservoir has been filled once, a sample half as large again may
        succeed where this one did not."""
        if anything:
            self.again = 2 * self.enough
        else:
            self.again = tuples // 2 if self.ever < self.size else 2 * max(self.again, self.enough)

    def drift(self, wanted: int) -> None:
        """Some classes changed and need tuples; the next search waits for those alone."""
        self.again = 2 * self.enough
        self.added = max(self.added, self.again - wanted)

    def forget(self, gone: NDArray[np.bool_]) -> None:
        """Drop outdated tuples."""
        self.reservoir.forget(gone)

    def start_over(self) -> None:
        """Drop all tuples as outdated."""
        self.forget(np.ones(len(self), np.bool_))
        self.again, self.added, self.ever = self.enough, 0, 0

    def snapshot(self) -> dict[str, Any]:
        return {
            "reservoir": self.reservoir.snapshot(), "owed": self.owed, "added": self.added, "ever": self.ever,
            "again": self.again, "searched": self.searched,
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        if record["reservoir"] is not None:
            self.reservoir.restore(record["reservoir"])
        self.owed, self.added, self.ever = float(record["owed"]), int(record["added"]), int(record["ever"])
        self.again, self.searched = int(record["again"]), bool(record["searched"])
