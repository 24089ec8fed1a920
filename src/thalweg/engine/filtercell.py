"""A cell that only filters: batches in, surviving rows out, and a tally of what it took.

The cell joins a policy to the fabric: cut, route, run, observe. While it is frozen every row takes the frozen route, or
that of its class where the routes of all classes are pinned, and the policy neither decides nor learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from thalweg.contract import learned
from thalweg.contract.batch import Batch
from thalweg.contract.visits import DROPPED, UNTRIED, Visits
from thalweg.engine.chunks import Chunks
from thalweg.engine.counts import ClassCounts
from thalweg.execute.fabric import Fabric
from thalweg.execute.faults import Fault, Faults
from thalweg.execute.filters import Filter
from thalweg.execute.meter import Meter, clock
from thalweg.plan import Event, Pipeline, Route, Ruster

if TYPE_CHECKING:
    from thalweg.contract.policy import Policy


Frozen = Route | Literal["classes"] | None
"""A route for all, or the routes of the classes as they are."""


@dataclass
class Tally:
    """What a cell did: per predicate, and against what the written order would have done on the sampled rows."""

    predicates: int
    rows_in: int = 0
    rows_out: int = 0
    calls: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    sampled: int = 0
    written_calls: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("calls", "extra", "passed", "tried", "held", "written_calls"):
            setattr(self, name, [0] * self.predicates)
        self.seconds = [0.0] * self.predicates
        self.classes = ClassCounts(self.predicates)

    def add(self, visits: Visits, kept: int, written: Sequence[int]) -> None:
        self.rows_in += visits.rows
        self.rows_out += kept
        self.classes.add(visits.journeys)
        for journey in visits.journeys:
            for v in journey.visits:
                self.calls[v.operator] += v.rows_in + v.extra
                self.extra[v.operator] += v.extra
                self.passed[v.operator] += v.rows_out
                self.seconds[v.operator] += v.seconds + v.extra_seconds
            if journey.passed is not None and journey.ruster.also == "all":
                self._compare(journey.passed, written)

    def _compare(self, passed: np.ndarray[Any, np.dtype[np.int8]], written: Sequence[int]) -> None:
        """Rows tried on everything tell each predicate's own pass rate, and what the written order would have
        called."""
        self.sampled += len(passed)
        alive = np.ones(len(passed), np.bool_)
        for op in written:
            self.written_calls[op] += int(alive.sum())
            alive &= passed[:, op] != DROPPED
            self.tried[op] += int((passed[:, op] != UNTRIED).sum())
            self.held[op] += int((passed[:, op] == 1).sum())


class FilterCell:
    """Filters batches along the routes a policy chooses."""

    def __init__(
        self, pipeline: Pipeline, filters: Sequence[Filter], policy: Policy, *,
        meter: Meter | None = None, chunks: Chunks | None = None, frozen: Frozen = None, events: Sequence[Event] = (),
        faults: Faults | None = None, seen: int = 0,
    ) -> None:  # fmt: skip
        self.pipeline = pipeline
        self.policy = policy
        self.frozen = frozen
        self.fabric = Fabric(pipeline, filters, meter or clock())
        self.fabric.filters.faults = self.faults = faults
        self.bad: list[tuple[int, Fault]] = []
        """Rows set aside since they were last taken, by their place in the batch that `feed` took."""
        self.chunks = chunks or Chunks()
        self.tally = Tally(len(pipeline))
        self.events = list(events)
        self._number = 0
        self._seen = seen
        """Rows from which the policy had learned before."""

    def learned(self, *, light: bool = False) -> dict[str, Any]:
        return learned.record(self.policy, self._seen + self.tally.rows_in, light=light)

    def feed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the batch that pass every predicate, in their order."""
        masks, start = [], 0
        for piece in self.chunks.cut(batch):
            masks.append(self._chunk(piece))
            if self.faults is not None:
                self.bad += [(start + fault.at, fault) for fault in self.faults.take()]
            start += piece.num_rows
        if not masks:
            return batch
        keep = masks[0] if len(masks) == 1 else np.concatenate(masks)
        if keep.all():
            return batch
        return batch.filter(pa.array(keep))

    def _chunk(self, piece: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        batch = Batch(piece, self._number, self.pipeline.stream)
        self._number += 1
        rusters = self._pinned(batch) if self.frozen else self.policy.route(batch)
        keep, visits = self.fabric.filter(batch, rusters)
        if not self.frozen:
            self.policy.observe(visits)
            self.events += self.policy.drain()
        self.chunks.observe(len(batch), visits.seconds)
        self.tally.add(visits, int(keep.sum()), self.pipeline.written.operators)
        return keep

    def _pinned(self, batch: Batch) -> list[Ruster]:
        """Rows on their frozen routes. A policy without classes has one."""
        if isinstance(self.frozen, Route):
            return [Ruster(None, self.frozen)]
        assign = getattr(self.policy, "assign", None)
        return assign(batch) if assign is not None else [Ruster(None, self.policy.plan.route)]
