"""Reports as pandas frames: one row for each task and predicate, for each cell and input, for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from thalweg.contract.report import InputReport, TaskReport
from thalweg.watch.stages import STAGES
from thalweg.watch.view import BatchView

FILTERS = [
    "batch", "partition", "input", "predicate", "rows_in", "rows_out", "calls", "extra", "passed", "seconds", "route",
    "version",
]  # fmt: skip
CELLS = [
    "batch", "cell", "input", "rows in", "late", "stored", "needed", "bytes", "work", "profiling work", "results",
    "route", "load", "join", "save", "written", "state",
]  # fmt: skip


def filters(reports: Sequence[TaskReport]) -> pd.DataFrame:
    """One row for each task and predicate of an input that it filtered."""
    rows = [
        (r.batch, r.task, i.alias, o.name, i.rows_in, i.rows_out, o.calls, o.extra, o.rows_out, o.seconds, _route(i),
         i.routing.version if i.routing is not None else 0)
        for r in reports for i in r.inputs for o in i.operators
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=FILTERS)


def cells(reports: Sequence[TaskReport]) -> pd.DataFrame:
    """One row for each batch, cell and input. Counts are totals of the cell; where several tasks made up a cell's batch,
    after the last of them."""
    last: dict[tuple[int | None, int], TaskReport] = {}
    for r in reports:
        before = last.get((r.batch, r.task))
        last[r.batch, r.task] = r if before is None else replace(r, results=before.results + r.results)
    rows = [
        (r.batch, r.task, i.alias, i.rows_in, i.late, i.stored, i.needed, i.row_bytes, i.work, i.profiling_work, r.results,
         _route(i), *(r.timing.seconds.get(k) for k in ("load", "join", "save")), r.written, r.state)
        for r in last.values() for i in r.inputs
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=CELLS)


def stages(batches: Sequence[BatchView]) -> pd.DataFrame:
    """Rows and seconds of each batch whose times are known."""
    rows = [{"batch": b.number, "rows": sum(i.rows_in for i in b.filters), **b.seconds} for b in batches if b.seconds]
    return pd.DataFrame(rows, columns=["batch", "rows", "trigger", *STAGES])


def _route(i: InputReport) -> str:
    return " → ".join(i.routing.route) if i.routing is not None else ""
