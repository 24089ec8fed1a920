"""Following without flapping: a drift too slow to see between batches, and streams that do not change at all.

Both use the lab's simulation: known verdicts, recorded costs, exact work. The stationary case also runs with real
predicates and the real clock, where noise is one more reason to change an order for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.filters import engine
from benchmarks.filters.workload import Workload
from thalweg.lab.simulate import Simulated, run

STATIONARY: dict[str, Sequence[float]] = {
    "unequal": (0.9, 0.8, 0.5, 0.3, 0.2, 0.1),
    "nearly equal": (0.45, 0.47, 0.49, 0.51, 0.53, 0.55),
    "equal": (0.5,) * 6,
}
SETTLING = 50_000
"""Changes within this many tuples count as finding the order, not as changing it."""


UNIT_SECONDS = {"md5": 5e-7, "KB": 1.7e-6}
"""Roughly CPython's time for a unit of work. Policies weigh learning against it."""


def follow(workload: Workload, policy: str, seed: int = 0) -> Simulated:
    """Exact work in the workload's unit. The policy sees recorded seconds."""
    unit = UNIT_SECONDS[workload.unit]
    content = None
    if workload.classes is not None:
        content = {"ts": np.arange(len(workload)), "cls": workload.classes}
    done = run(policy, workload.bits, [w * unit for w in workload.weights], seed=seed, columns=content)
    return replace(done, useful=done.useful / unit, extra=done.extra / unit)


@dataclass(frozen=True)
class Flapping:
    """Order changes on a stream that does not change: while finding the order, and afterwards per million tuples."""

    finding: int
    per_million: float


def still(rates: Sequence[float], policy: str, tuples: int, seed: int = 31) -> Flapping:
    bits: NDArray[np.bool_] = np.random.default_rng(seed).random((tuples, len(rates))) < np.asarray(rates)
    done = run(policy, bits, [1.0] * len(rates), seed=seed)
    return count([e.tuples for e in done.events if e.change is not None], tuples)


def still_by_the_clock(workload: Workload, policy: str, advance: Callable[[int], None] = lambda rows: None) -> Flapping:
    """The same with the real engine, where costs are measured and noisy."""
    done = engine.run(workload, engine.chunks(workload.table()), policy, advance=advance)
    return count(done.moments, len(workload))


def count(moments: Sequence[int], tuples: int) -> Flapping:
    early = min(SETTLING, tuples // 2)
    later = sum(m > early for m in moments)
    return Flapping(len(moments) - later, later / (tuples - early) * 1e6)
