"""A workload: rows, predicates, their verdicts, and the exact work of the orders that nobody can know in advance.

`bits` are the constructed verdicts; every run of every engine is checked against them. The oracles are exact: the
best order for all rows, for each phase, and for each class in each phase, by dynamic programming over the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.filters.hashed import CACHE, Hashed
from thalweg.lab.simulate import best_order, order_work

CHUNK = 1000


@dataclass(frozen=True, eq=False)
class Workload:
    """`draws` and `shuffles` make the values on demand, because the verdicts alone are often enough."""

    name: str
    title: str
    bits: NDArray[np.bool_]
    predicates: tuple[Hashed, ...]
    phase: int
    """Rows per phase, or per block if the drift has no phases."""
    draws: tuple[NDArray[np.float64], ...]
    shuffles: tuple[NDArray[np.int64] | None, ...] = ()
    classes: NDArray[np.int32] | None = None
    known: tuple[int, int] | None = None
    """The known answer (rows out, sum of ts), if there is one."""
    phases_called: str = "phase"

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def weights(self) -> list[float]:
        return [p.weight for p in self.predicates]

    @property
    def unit(self) -> str:
        return self.predicates[0].unit

    @cached_property
    def passing(self) -> NDArray[np.bool_]:
        return np.asarray(self.bits.all(axis=1))

    @cached_property
    def answer(self) -> tuple[int, int]:
        """Rows out, and the sum of their ts."""
        return int(self.passing.sum()), int(np.flatnonzero(self.passing).sum())

    @property
    def columns(self) -> list[str]:
        return [f"x{j + 1}" for j in range(len(self.predicates))]

    def table(self) -> pa.Table:
        """The rows, from the cache if they exist."""
        path = self.parquet()
        return pq.read_table(path)

    def parquet(self) -> str:
        """Path of the rows as one parquet file."""
        path = CACHE / f"{self.name}-{len(self)}.parquet"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            pq.write_table(self._make(), partial, use_dictionary=False)
            partial.rename(path)
        return str(path)

    def _make(self) -> pa.Table:
        columns: dict[str, NDArray[np.int32]] = {"ts": np.arange(len(self), dtype=np.int32)}
        if self.classes is not None:
            columns["cls"] = self.classes
        shuffles = self.shuffles or (None,) * len(self.predicates)
        for j, predicate in enumerate(self.predicates):
            columns[f"x{j + 1}"] = predicate.values(self.bits[:, j], self.draws[j], shuffles[j])
        return pa.table(columns)

    def head(self, rows: int) -> Workload:
        """Only the first rows, under a separate name."""
        if rows >= len(self):
            return self
        return Workload(
            self.name, self.title, self.bits[:rows], self.predicates, self.phase, tuple(d[:rows] for d in self.draws),
            self.shuffles, None if self.classes is None else self.classes[:rows], None, self.phases_called,
        )  # fmt: skip


@dataclass(frozen=True)
class Oracles:
    """Exact work per row of the orders that perfect knowledge would choose; `settled`: second halves only."""

    best_static: float
    best_phase: float
    best_class_phase: float | None
    worst_static: float
    settled_phase: float
    static_order: tuple[int, ...]
    worst_order: tuple[int, ...]
    evaluations: dict[str, float] = field(default_factory=dict)
    settled_class: float | None = None
    """Best per class and phase, second halves only."""
    phase_by_chunk: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Work of the best order of each phase, for each chunk."""


def oracles(workload: Workload) -> Oracles:
    bits, weights, rows = workload.bits, workload.weights, len(workload)
    ones = [1.0] * len(weights)
    static, static_work = best_order(bits, weights)
    worst = _worst_order(bits, weights)
    by_chunk: list[float] = []
    phase_work = phase_calls = settled = class_work = class_calls = class_settled = 0.0
    for start in range(0, rows, workload.phase):
        piece = bits[start : start + workload.phase]
        order, work = best_order(piece, weights)
        phase_work += work
        phase_calls += order_work(piece, order, ones)
        by_chunk += [order_work(piece[a : a + CHUNK], order, weights) for a in range(0, len(piece), CHUNK)]
        settled += best_order(piece[workload.phase // 2 :], weights)[1]
        if workload.classes is not None:
            labels = workload.classes[start : start + workload.phase]
            for label in np.unique(labels):
                own = piece[labels == label]
                order, work = best_order(own, weights)
                class_work += work
                class_calls += order_work(own, order, ones)
                late = workload.phase // 2
                class_settled += order_work(piece[late:][labels[late:] == label], order, weights)
    evaluations = {"best static": order_work(bits, static, ones) / rows, "best per phase": phase_calls / rows}
    if workload.classes is not None:
        evaluations["best per class and phase"] = class_calls / rows
    return Oracles(
        static_work / rows, phase_work / rows, class_work / rows if workload.classes is not None else None,
        order_work(bits, worst, weights) / rows, settled / max(settled_rows(workload), 1), static, worst,
        evaluations, class_settled / max(settled_rows(workload), 1) if workload.classes is not None else None,
        np.array(by_chunk),
    )  # fmt: skip


def settled_rows(workload: Workload) -> int:
    """Rows in the second halves of the phases."""
    whole, rest = divmod(len(workload), workload.phase)
    half = workload.phase // 2
    return whole * (workload.phase - half) + max(rest - half, 0)


def in_second_half(workload: Workload) -> NDArray[np.bool_]:
    """Which chunks lie in the second half of their phase."""
    starts = np.arange(0, len(workload), CHUNK)
    return np.asarray(starts % workload.phase >= workload.phase // 2)


def _worst_order(bits: NDArray[np.bool_], weights: Sequence[float]) -> tuple[int, ...]:
    """The order of most work: the best one for negated weights, since the recursion is the same."""
    return best_order(bits, [-w for w in weights])[0]
