"""Two kinds of tuples in one stream that want opposite orders: one order for all, and routes by class.

Classes save probes in every tuple and cost something in every batch, so it depends on the size of a micro-batch whether
they also save time. `auto` is to take them only then.
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
    """By policy, for one size of micro-batches."""

    batch: int
    work: dict[str, float]
    """Probe work, learning included."""
    seconds: dict[str, float]
    """Processor time, the median of the passes, with `BEST` = 1."""


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
        times = np.median(seconds[1:], axis=0).tolist()  # what is compiled or allocated once is in the first pass
        found.append(Kinds(batch, dict(zip(named, work, strict=True)), dict(zip(named, times, strict=True))))
    return found
