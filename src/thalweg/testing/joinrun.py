"""Runs a join case on the engine, step by step, and says which rows came out when.

For tests of anything that may change plans: whatever policy, layout or restart, the rows must be the definition's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from thalweg.contract.policy import Policy
from thalweg.engine.engine import Engine
from thalweg.engine.output import RESULT_TIME
from thalweg.execute.shape import Shape
from thalweg.language.bind import bind
from thalweg.language.query import Query
from thalweg.optimize.caches.tuner import CacheTuner
from thalweg.optimize.indexes.tuner import IndexTuner
from thalweg.plan import Pipeline
from thalweg.plan.layout import Layout
from thalweg.testing.chance import Seeded
from thalweg.testing.joincase import UNITS, Advance, CaseSource, JoinCase, Push, Row, micros

MakePolicy = Callable[[Pipeline, int], Policy]
MakeTuner = Callable[[], IndexTuner]
MakeCaches = Callable[[], CacheTuner]


@dataclass(frozen=True)
class Outcome:
    """What an engine made of a case."""

    rows: tuple[Row, ...]
    steps: tuple[int, ...]
    """For each row the step that brought it; the number of steps where it came at the close."""
    times: tuple[int | None, ...]
    """For each row its result time in microseconds; empty unless asked for."""
    late: dict[str, int]
    timeless: dict[str, int]
    stats: dict[str, Any]
    looked_up: int
    """Rows that came to a cache."""


def run(
    case: JoinCase, *, policy: str | MakePolicy | None = None, timed: bool = False, tuner: MakeTuner | None = None,
    caches: str | MakeCaches | None = None,
) -> Outcome:  # fmt: skip
    """The results of a case, in the order in which they came; `policy` and `caches` instead of the case's own; with an
    index tuner if one is given.

    With `timed`, the engine is asked for raw columns and result times, as the Spark layer does.
    """
    runner = _Runner(case, policy or case.policy, timed, tuner, case.caches if caches is None else caches)
    for k, step in enumerate(case.steps):
        runner.take(k, step)
    return runner.close()


class _Runner:
    def __init__(
        self, case: JoinCase, policy: str | MakePolicy, timed: bool, tuner: MakeTuner | None, caches: str | MakeCaches
    ) -> None:  # fmt: skip
        self.tuner = tuner
        self.caches = caches
        self.case = case
        self.policy = policy
        self.timed = timed
        self.query = bind(case.text, case.specs, case.functions).query
        self.starts = self.looked_up = 0
        self.engine = self._engine()
        self.found: list[tuple[int, pa.Table]] = []

    def _engine(self) -> Engine:
        self.starts += 1
        return Engine(
            self.query, policy=self.policy, seed=self.case.seed % 1000,
            index=layouts(self.case, self.query, self.starts) if self.tuner is None else self.tuner(),
            tables=self.case.tables,
            output="columns" if self.timed else "select", slice_rows=self.case.slice_rows, buffer=self.case.buffer,
            caches=self.caches if isinstance(self.caches, str) else self.caches(), cache_bytes=self.case.cache_bytes,
        )  # fmt: skip

    def take(self, k: int, step: object) -> None:
        if isinstance(step, Push):
            rows = self.case.source(step.source).table(step.rows)
            self.found.append((k, self.engine.push(step.source, dressed(rows, self.case.seed + k))))
        elif isinstance(step, Advance):
            self.found.append((k, self.engine.advance(watermarks(self.case, step))))
        else:
            self._count()
            state = self.engine.snapshot()
            self.engine = self._engine()
            self.engine.restore(state)

    def close(self) -> Outcome:
        self.found.append((len(self.case.steps), self.engine.close()))
        whole = pa.concat_tables([table for _, table in self.found])
        names = [f"{r.alias}.{r.column}" if self.timed else f"{r.alias}_{r.column}" for r in self.case.select]
        # The engine hands on one column where SELECT names it twice.
        rows = zip(*(whole[n].to_pylist() for n in names), strict=True)
        steps = [k for k, table in self.found for _ in range(table.num_rows)]
        times = [self._micros(v) for v in whole[RESULT_TIME].to_pylist()] if self.timed else []
        self._count()
        stats = self.engine.stats()
        streams = [s.name for s in self.case.sources if s.time is not None]
        late = {name: stats["sources"][name]["late"] for name in streams}
        timeless = {name: stats["sources"][name]["without time"] for name in streams}
        return Outcome(tuple(rows), tuple(steps), tuple(times), late, timeless, stats, self.looked_up)

    def _count(self) -> None:
        kept = [block.flow.caching for block in self.engine.blocks]
        self.looked_up += sum(c.caches.met.probes for c in kept if c is not None)

    def _micros(self, value: Any) -> int | None:
        if value is None or isinstance(value, datetime):
            return micros(value)
        # A count comes back only where all streams count alike.
        unit = next(s.unit for s in self.case.sources if s.time is not None)
        return int(value) * UNITS[unit]


def dressed(rows: pa.Table, turn: int) -> pa.Table | pa.RecordBatch:
    """The same rows in one of the forms in which Arrow may hand them over."""
    match turn % 5:
        case 1:
            return (
                rows.combine_chunks().to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)
            )
        case 2:
            # Behind other rows in the same buffers: every array has an offset.
            return pa.concat_tables([rows, rows]).combine_chunks().slice(rows.num_rows)
        case 3:
            return pa.concat_tables([rows.slice(0, 1), rows.slice(1)])
        case 4:
            coded = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in rows.columns]
            return pa.table([*coded[::-1], pa.nulls(rows.num_rows)], names=[*rows.column_names[::-1], "unused"])
        case _:
            return rows


def watermarks(case: JoinCase, step: Advance) -> dict[str, int | datetime] | None:
    if step.watermarks is None:
        return None
    return {name: mark(case.source(name), micros) for name, micros in step.watermarks}


def mark(source: CaseSource, micros: int) -> int | datetime:
    """A watermark as a count where the source's times are counts, as a moment where they are moments."""
    if pa.types.is_timestamp(source.schema.field(source.time).type):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return micros // UNITS[source.unit]


def layouts(case: JoinCase, query: Query, turn: int = 1) -> str | dict[str, Layout | str]:
    """The index layout of each input; "mixed" ones change with every restart."""
    if case.layout != "mixed":
        return case.layout
    chance = Seeded(case.seed * 7 + turn)
    chosen: dict[str, Layout | str] = {}
    for store in Shape(query, leave=True).stores:
        bits = tuple(chance.integer(0, 4) for _ in store.attributes)
        options: tuple[Layout | str, ...] = ("hash", "bits", Layout("bits", bits))
        chosen[store.name] = chance.choice(options)
    return chosen
