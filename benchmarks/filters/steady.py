"""Workloads where nothing drifts: nothing to gain (one predicate; six equal ones), and the plain case (six unequal).

`one` and `equal` show what adapting costs where it cannot pay. `rates` is the case that a user meets first: predicates of
about 3 µs that pass 90, 80, 50, 30, 20 and 10 % of the rows, written from the weakest to the strongest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.filters.hashed import Hashed
from benchmarks.filters.workload import Workload

THREE_MICROSECONDS = 5
"""Nested md5 calls that take CPython about 3 µs. Each run measures and reports the actual time."""


def independent(name: str, title: str, rates: Sequence[float], rows: int, seed: int, times: int) -> Workload:
    random = np.random.default_rng(seed)
    bits = random.random((rows, len(rates))) < np.asarray(rates)
    draws = tuple(random.random(rows) for _ in rates)
    return Workload(name, title, bits, (Hashed("nested", times),) * len(rates), rows, draws)


def one(rows: int) -> Workload:
    return independent("one", "One predicate, half pass", [0.5], rows, 21, THREE_MICROSECONDS)


def equal(rows: int) -> Workload:
    return independent(
        "equal", "Six equal independent predicates, half pass each", [0.5] * 6, rows, 22, THREE_MICROSECONDS
    )


def rates(rows: int) -> Workload:
    return independent(
        "rates", "Six predicates of about 3 µs, the weakest written first", [0.9, 0.8, 0.5, 0.3, 0.2, 0.1], rows, 23,
        THREE_MICROSECONDS,
    )  # fmt: skip
