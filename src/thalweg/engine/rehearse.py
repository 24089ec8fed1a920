"""A rehearsal of filters: every predicate judges a sample of rows once, and ways to run them are replayed from that.

The predicates are called as Spark calls them, once for each row (a guarded one only where its guards hold). What they
said and what they cost is recorded; the written order and a policy then run on the record through the real fabric, so
their calls are exact for these rows and cost the user nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg import optimize
from thalweg.engine import machine
from thalweg.engine.chunks import Chunks
from thalweg.engine.filtercell import FilterCell
from thalweg.execute.filters import Filter
from thalweg.execute.meter import RecordedMeter, Shared, clock, own_nanoseconds
from thalweg.plan import Pipeline

ROW = "__thalweg_row"
"""A column that tells the record which row is judged."""


@dataclass(frozen=True)
class Way:
    """One way to run the predicates: calls of each, and the seconds that those take."""

    name: str
    calls: tuple[int, ...]
    seconds: float

    @property
    def total(self) -> int:
        return sum(self.calls)


@dataclass(frozen=True)
class Judged:
    """What a predicate said about the rows it was asked about."""

    name: str
    asked: int
    held: int
    raised: int
    cost: float
    """Seconds per call."""

    @property
    def rate(self) -> float | None:
        return self.held / self.asked if self.asked else None


@dataclass(frozen=True)
class Rehearsal:
    """What came of it. `ways` are Spark's, the written order's, and the policy's while it learns and after."""

    rows: int
    kept: int
    policy: str
    predicates: tuple[Judged, ...]
    spark: Way
    written: Way
    learning: Way
    learned: Way
    order: tuple[str, ...]
    """The order that most rows take in the end; with several classes of rows, that of the largest."""
    classes: int
    overhead: float
    """Seconds a row that the policy and the fabric take themselves."""

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Rehearsal:
        """From JSON."""
        ways = {
            k: Way(record[k]["name"], tuple(record[k]["calls"]), record[k]["seconds"])
            for k in ("spark", "written", "learning", "learned")
        }
        judged = tuple(Judged(**p) for p in record["predicates"])
        return cls(**{**record, **ways, "predicates": judged, "order": tuple(record["order"])})


def rehearse(
    pipeline: Pipeline, filters: Sequence[Filter], batches: Iterable[pa.RecordBatch],
    policy: str = "auto", seed: int = 0, seconds: float = 10.0,
) -> Rehearsal | None:  # fmt: skip
    """Judge rows until there are none, or for about `seconds`; None if there are no rows."""
    kept: list[pa.RecordBatch] = []
    verdicts: list[NDArray[np.int8]] = []
    errors: list[dict[int, Exception]] = [{} for _ in filters]
    spent, seen = [0.0] * len(filters), 0
    for batch in batches:
        for piece in Chunks().cut(batch):
            verdicts.append(_judge(pipeline, filters, piece, seen, errors, spent))
            kept.append(piece)
            seen += piece.num_rows
            if sum(spent) > seconds:
                break
        if sum(spent) > seconds:
            break
    if not seen:
        return None
    said = np.concatenate(verdicts)
    return _replayed(pipeline, filters, kept, said, errors, spent, policy, seed)


NOT_ASKED, RAISED = np.int8(-1), np.int8(2)
"""Beside 0 and 1: a guard did not hold, or the predicate raised."""


def _judge(
    pipeline: Pipeline, filters: Sequence[Filter], piece: pa.RecordBatch, first: int,
    errors: Sequence[dict[int, Exception]], spent: list[float],
) -> NDArray[np.int8]:  # fmt: skip
    """What every predicate says about the rows of a piece; the time that takes is added to `spent`."""
    said = np.full((piece.num_rows, len(filters)), NOT_ASKED)
    meter = clock()
    for op in pipeline.written:
        guards = sorted(pipeline.operators[op].after)
        rows = np.flatnonzero((said[:, guards] == 1).all(axis=1))
        if not len(rows):
            continue
        started = meter.start()
        verdict = filters[op].evaluate(piece, rows)
        spent[op] += meter.stop(started, op, len(rows))
        said[rows, op] = verdict.holds
        for i, error in verdict.errors.items():
            said[rows[i], op] = RAISED
            errors[op][first + int(rows[i])] = error
    return said


def _replayed(
    pipeline: Pipeline, filters: Sequence[Filter], pieces: Sequence[pa.RecordBatch], said: NDArray[np.int8],
    errors: Sequence[dict[int, Exception]], spent: Sequence[float], policy: str, seed: int,
) -> Rehearsal:  # fmt: skip
    rows, prices = len(said), machine.prices()
    asked = [int((said[:, k] != NOT_ASKED).sum()) for k in range(len(filters))]
    costs = [s / n if n else 0.0 for s, n in zip(spent, asked, strict=True)]
    recorded = [_repeated(f.name, said[:, k], errors[k]) for k, f in enumerate(filters)]
    batches, reading = _numbered(pieces), _Reading(costs)

    def run(name: str) -> FilterCell:
        chosen = optimize.make(name, pipeline, seed, prices)
        return FilterCell(pipeline, recorded, chosen, meter=reading, chunks=Chunks(prices=prices))

    def way(name: str, calls: Sequence[int]) -> Way:
        return Way(name, tuple(calls), sum(n * c for n, c in zip(calls, costs, strict=True)))

    plain = run("written")
    kept = sum(plain.feed(b).num_rows for b in batches)
    adaptive = run(policy)
    for b in batches:
        adaptive.feed(b)
    first = list(adaptive.tally.calls)
    started = own_nanoseconds() - reading.spent
    for b in batches:
        adaptive.feed(b)
    took = own_nanoseconds() - reading.spent - started
    told = adaptive.policy.explain()
    largest = max(told.routes, key=lambda r: r.share)
    return Rehearsal(
        rows, kept, policy,
        tuple(
            Judged(f.name, asked[k], int((said[:, k] == 1).sum()), len(errors[k]), costs[k])
            for k, f in enumerate(filters)
        ),
        way("Spark", [rows] * len(filters)),
        way("written", plain.tally.calls),
        way("learning", first),
        way("learned", [b - a for a, b in zip(first, adaptive.tally.calls, strict=True)]),
        tuple(pipeline.names[op] for op in largest.route), len(told.routes), took / rows / 1e9,
    )  # fmt: skip


def _numbered(pieces: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows as one task would get them, with their numbers: policies may tell kinds of rows apart by their columns."""
    out, first = [], 0
    for whole in pa.Table.from_batches(pieces).to_batches():
        out.append(whole.append_column(ROW, pa.array(np.arange(first, first + whole.num_rows))))
        first += whole.num_rows
    return out


def _repeated(name: str, verdicts: NDArray[np.int8], errors: Mapping[int, Exception]) -> Filter:
    """A predicate that repeats what it said about each row."""
    if not errors:
        return Filter(name, lambda rows: pa.array(verdicts[rows.to_numpy()] == 1), (ROW,), "arrow")

    def one(row: int) -> bool:
        if row in errors:
            raise errors[row]
        return bool(verdicts[row] == 1)

    return Filter(name, one, (ROW,), "row")


class _Reading(Shared):
    """Tells the recorded costs, and adds up what reading the record takes."""

    def __init__(self, costs: Sequence[float]) -> None:
        self.costs, self.spent = RecordedMeter(costs), 0

    def start(self) -> int:
        return own_nanoseconds()

    def stop(self, started: int, operator: int, rows: int) -> float:
        self.spent += own_nanoseconds() - started
        return self.costs.stop(0.0, operator, rows)
