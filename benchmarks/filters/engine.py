"""Level one, the engine alone: a policy and the filter fabric over chunks of 1,000 rows, real predicates, real clock.

Policies see measured seconds. Work is counted exactly from the visits (calls times each predicate's known weight),
including profiling. Each run is checked against the constructed verdicts: one wrong row, and there is no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.filters.workload import CHUNK, Workload, in_second_half
from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.errors import ThalwegError
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter
from thalweg.plan import Operator, Pipeline

POLICIES = ("written", "independent", "agreedy", "sweep", "localswaps", "lottery", "chaos", "cbr", "mesh", "auto")


class WrongAnswer(ThalwegError):
    """A run gave other rows than the workload was constructed to give."""


@dataclass(frozen=True)
class EngineRun:
    """The cost of one policy: per chunk, the useful work and the work of profiling; calls, CPU, decisions."""

    policy: str
    rows: int
    useful: NDArray[np.float64]
    extra: NDArray[np.float64]
    evaluations: int
    cpu: float
    wall: float
    reorders: int
    changes_seen: int
    judged_seconds: float
    """Time inside predicates, by the policy's meter."""
    moments: list[int] = field(default_factory=list)
    """Number of rows seen at each change of the order."""

    @property
    def work(self) -> NDArray[np.float64]:
        return self.useful + self.extra

    @property
    def work_per_row(self) -> float:
        return float(self.work.sum()) / self.rows

    def settled_per_row(self, workload: Workload) -> float:
        """Work per row in the second halves of the phases."""
        late = in_second_half(workload)
        rows = np.full(len(late), CHUNK)
        rows[-1] = len(workload) - CHUNK * (len(late) - 1)
        return float(self.work[late].sum() / rows[late].sum())


def chunks(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows in pieces of 1,000, as the cell cuts Spark's Arrow batches."""
    whole = table.combine_chunks().to_batches()
    return [b.slice(a, CHUNK) for b in whole for a in range(0, b.num_rows, CHUNK)]


def filters(workload: Workload, order: Sequence[int]) -> tuple[Pipeline, list[Filter]]:
    """The predicates, written by a user in this order."""
    judges = [Filter(f"p{j + 1}", workload.predicates[j].function(), (f"x{j + 1}",)) for j in order]
    return Pipeline(workload.name, tuple(Operator(judge.name) for judge in judges)), judges


def run(
    workload: Workload, pieces: Sequence[pa.RecordBatch], policy: str, *,
    written: Sequence[int] | None = None, seed: int = 0, advance: Callable[[int], None] = lambda rows: None,
) -> EngineRun:  # fmt: skip
    """Send all chunks through one policy. `written` is the order the user wrote; by default the order of the columns."""
    order = list(range(len(workload.predicates)) if written is None else written)
    pipeline, judges = filters(workload, order)
    weights = [workload.weights[j] for j in order]
    chosen = optimize.make(policy, pipeline, seed)
    fabric = Fabric(pipeline, judges)
    kept: list[NDArray[np.bool_]] = []
    seen = []
    cpu, wall = process_time(), perf_counter()
    for number, piece in enumerate(pieces):
        batch = Batch(piece, number)
        keep, visits = fabric.filter(batch, chosen.route(batch))
        chosen.observe(visits)
        kept.append(keep)
        seen.append(visits)
        if number % 20 == 19:
            advance(20 * CHUNK)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    check(workload, np.concatenate(kept), policy)
    tallies = [[v for j in visits.journeys for v in j.visits] for visits in seen]
    events = chosen.drain()
    return EngineRun(
        policy, len(workload),
        np.array([sum(v.rows_in * weights[v.operator] for v in tally) for tally in tallies]),
        np.array([sum(v.extra * weights[v.operator] for v in tally) for tally in tallies]),
        sum(v.rows_in + v.extra for tally in tallies for v in tally),
        cpu, wall,
        sum(e.change is not None for e in events), sum(e.kind == "change seen" for e in events),
        sum(visits.seconds for visits in seen),
        [e.tuples for e in events if e.change is not None],
    )  # fmt: skip


def check(workload: Workload, keep: NDArray[np.bool_], who: str) -> None:
    if not np.array_equal(keep, workload.passing):
        wrong = int(np.flatnonzero(keep != workload.passing)[0])
        raise WrongAnswer(
            f"{who} on {workload.name}: row {wrong} {'left' if keep[wrong] else 'was dropped'} and must not have",
            hint="the predicates or the engine changed; the verdicts in `bits` are by construction",
        )
