"""Workloads F and FN: four classes of rows, six predicates, and a drift that moves everything once a phase.

In each phase every class has one predicate that drops nearly everything (5 % pass), one that drops half, and four that
hardly matter (95 % pass); phase and class decide which. F hashes repeated text (cost in KB). FN nests md5 (cost in md5
calls), which even engines that don't reorder what may throw can reorder. Definition, seeds and answers are those of the
workloads on which the design was measured.
"""

from __future__ import annotations

import numpy as np

from benchmarks.filters.hashed import COUNT, Hashed
from benchmarks.filters.workload import Workload

CLASSES = 4
NESTED = (10, 10, 20, 20, 40, 40)
REPEATED = (500, 500, 1000, 1000, 2000, 2000)


def pass_rates(phase: int, label: int) -> list[float]:
    """Pass rate of each predicate for one class in one phase.

    >>> pass_rates(0, 1)
    [0.95, 0.95, 0.05, 0.95, 0.95, 0.5]
    """
    rates = [0.95] * 6
    killer = (2 * label + phase) % 6
    rates[killer] = 0.05
    rates[(killer + 3) % 6] = 0.5
    return rates


def drifting_classes(
    name: str, title: str, predicates: tuple[Hashed, ...], rows: int, phase: int, seed: int,
    known: tuple[int, int] | None = None,
) -> Workload:  # fmt: skip
    """Draw in the order of the published generator: shuffles, classes, then verdicts and values by column."""
    random = np.random.Generator(np.random.PCG64(seed))
    shuffles = tuple(random.permutation(COUNT) for _ in predicates)
    classes = random.integers(0, CLASSES, rows).astype(np.int32)
    phases = np.arange(rows) // phase
    rates = np.array([[pass_rates(p, c) for c in range(CLASSES)] for p in range(phases.max() + 1)])
    bits = np.empty((rows, len(predicates)), np.bool_)
    draws = []
    for j in range(len(predicates)):
        bits[:, j] = random.random(rows) < rates[phases, classes, j]
        draws.append(random.random(rows))
    return Workload(name, title, bits, predicates, phase, tuple(draws), shuffles, classes, known)


def fn() -> Workload:
    return drifting_classes(
        "fn", "FN: four classes, nested md5, a new killer for each class every 40,000 rows",
        tuple(Hashed("nested", k) for k in NESTED), 400_000, 40_000, seed=7, known=(8045, 1612906538),
    )  # fmt: skip


LONGER = 4


def fn_long(rows: int = 640_000) -> Workload:
    return drifting_classes(
        "fn, long phases", f"FN with a new killer for each class every {40_000 * LONGER:,} rows",
        tuple(Hashed("nested", k) for k in NESTED), rows, 40_000 * LONGER, seed=7,
    )  # fmt: skip


def f_long(rows: int = 640_000) -> Workload:
    return drifting_classes(
        "f, long phases", f"F with a new killer for each class every {20_000 * LONGER:,} rows",
        tuple(Hashed("repeated", r) for r in REPEATED), rows // 2, 20_000 * LONGER, seed=6,
    )  # fmt: skip


def f() -> Workload:
    return drifting_classes(
        "f", "F: four classes, md5 of long text, a new killer for each class every 20,000 rows",
        tuple(Hashed("repeated", r) for r in REPEATED), 200_000, 20_000, seed=6, known=(4050, 409693578),
    )  # fmt: skip
