"""The cost of `auto` where there is nothing to gain: all orders are equally good, and nothing changes.

Also its gain where the best order changes with every other batch and differs little. Engines are fed side by side.
`written` takes part twice; the distance of its twin from 1 shows how precise the measurement is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.joins.thalweg_runs import side_by_side
from benchmarks.joins.workloads import WINDOW, Workload, chain, j3, lookups, one_key, star, steady

POLICIES = ("auto", "written", "written")
TARGET = 1.03


@dataclass(frozen=True)
class Idle:
    """`auto` and a second `written`, relative to `written`."""

    what: str
    changing: bool
    """Whether the best order changes with every other batch, so that there is something to gain."""
    rows: int
    times: list[float]
    """Processor time of `auto`, per pass."""
    control: list[float]
    """Processor time of the second `written`, per pass."""
    work: float
    """Probe work of `auto`, including learning."""

    @property
    def quartiles(self) -> tuple[float, float, float]:
        low, middle, high = np.quantile(self.times, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)


def cases(quick: bool) -> list[tuple[str, bool, Workload, int]]:
    """Description, whether it changes, the workload, and the number of passes."""
    tuples, passes = (50_000, 2) if quick else (1_000_000, 7)
    return [
        ("four streams, all linked", False, steady(tuples // 5, WINDOW, streams=4), 2 * passes + 1),
        ("four streams, all linked", False, steady(tuples, WINDOW, streams=4), passes),
        ("four streams, one key", False, one_key(tuples // 2), passes),
        ("a stream and three tables", False, lookups(tuples), passes),
        ("four streams, one key (J3)", True, j3(tuples // 5), passes),
        ("a star of two streams and three tables", True, star(tuples // 5), passes),
        ("a star of two streams and three tables", True, star(tuples), passes),
        ("a chain of six streams", True, chain(tuples // 10), passes),
    ]


def measure(quick: bool, tell: Callable[[str], None]) -> list[Idle]:
    found = []
    for what, changing, w, passes in cases(quick):
        side_by_side(w, POLICIES)  # one-time compilation and allocation do not count
        seconds = np.empty((passes, len(POLICIES)))
        for k in range(passes):
            tell(f"{'little' if changing else 'nothing'} to gain: {what}, {w.rows:,} rows, pass {k + 1} of {passes}")
            seconds[k], work = side_by_side(w, POLICIES, turn=k)
        auto, written, again = seconds.T
        found.append(
            Idle(what, changing, w.rows, (auto / written).tolist(), (again / written).tolist(), work[0] / work[1])
        )
    return found
