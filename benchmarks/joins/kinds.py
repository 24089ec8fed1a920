"""Two kinds of tuples in one stream that need opposite orders: one order for all, and routes by class.

Classes save probes on every tuple and cost something in every batch, so whether they also save time depends on the size
of a micro-batch. `auto` should adopt them only then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.joins import thalweg_runs, workloads

BEST = "best single order"
POLICIES: tuple[str, ...] = ("auto", "cbr", "mesh")
BATCHES = (2_500, 10_000)


@dataclass(frozen=True)
class Kinds:
    """Measurements by policy, for one size of micro-batch."""

    batch: int
    work: dict[str, float]
    """Probe work, including learning."""
    seconds: dict[str, float]
    """Processor time relative to `BEST`, median of the passes."""


def measure(quick: bool, tell: Callable[[str], None]) -> list[Kinds]:
    found = []
    for batch in BATCHES:
        w = workloads.kinds((16 if quick else 80) * batch)
        best = thalweg_runs.hindsight(w, w.data, batch=batch).best_fixed()
        choosers: list[thalweg_runs.Chooser] = [best, *POLICIES]
        seconds = []
        for k in range(3 if quick else 7):
            tell(f"kinds of tuples: {batch:,} in a batch, pass {k + 1}")
            took, work = thalweg_runs.side_by_side(w, choosers, batch=batch, turn=k)
            seconds.append(took / took[0])
        named = (BEST, *POLICIES)
        times = np.median(seconds[1:], axis=0).tolist()  # the first pass contains one-time compilation and allocation
        found.append(Kinds(batch, dict(zip(named, work, strict=True)), dict(zip(named, times, strict=True))))
    return found
