"""Runs a query case on the engine, step by step, and says which rows came out when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg.engine.engine import Engine
from thalweg.language.bind import bind
from thalweg.testing.joincase import Advance, Push, micros
from thalweg.testing.joinrun import dressed, mark
from thalweg.testing.querycase import QueryCase
from thalweg.testing.queryfunctions import FUNCTIONS


@dataclass(frozen=True)
class QueryOutcome:
    """What an engine made of a case."""

    kind: str
    """How the query's rows leave: results, changes, istream, dstream or rstream."""
    names: list[str]
    rows: list[tuple[Any, ...]]
    steps: list[int]
    """For each row the step that brought it; the number of steps where it came at the close."""
    late: dict[str, int]
    stats: dict[str, Any]


def run_query(case: QueryCase, *, restarts: bool = True) -> QueryOutcome:
    """The rows of a case, in the order in which they came."""
    bound = bind(case.text, case.specs, FUNCTIONS, computed=True)

    def make() -> Engine:
        return Engine(
            bound, policy=case.policy, seed=case.seed % 1000, tables=case.tables, slice_rows=case.slice_rows,
            buffer=case.buffer,
        )  # fmt: skip

    engine = make()
    found: list[tuple[int, pa.Table]] = []
    for k, step in enumerate(case.steps):
        if isinstance(step, Push):
            rows = case.source(step.source).table(step.rows)
            found.append((k, engine.push(step.source, dressed(rows, case.seed + k))))
        elif isinstance(step, Advance):
            marks = None
            if step.watermarks is not None:
                marks = {name: mark(case.source(name), value) for name, value in step.watermarks}
            found.append((k, engine.advance(marks)))
        elif restarts:
            state = engine.snapshot()
            engine = make()
            engine.restore(state)
    found.append((len(case.steps), engine.close()))
    whole = pa.concat_tables([table for _, table in found])
    columns = [[_plain(v) for v in column.to_pylist()] for column in whole.columns]
    rows_out = list(zip(*columns, strict=True))
    steps = [k for k, table in found for _ in range(table.num_rows)]
    stats = engine.stats()
    late = {s.name: stats["sources"][s.name]["late"] for s in case.sources if s.time is not None}
    return QueryOutcome(bound.root.kind, whole.column_names, rows_out, steps, late, stats)


def _plain(value: Any) -> Any:
    """Times as microseconds."""
    return micros(value) if hasattr(value, "tzinfo") else value
