"""Schedule: in which turns the rows of one batch are pushed when several inputs come at once.

Rows go in spans of time, oldest first, so that expired rows are evicted before the next span comes. The scheduler chooses
whose rows go first within a span. No choice here changes a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.scheduler import Scheduler
from thalweg.state.slice import ALWAYS
from thalweg.state.times import Clock

Ints = NDArray[np.int64]
SPAN_ROWS = 500
"""Tested: rows of a span, at least, on average: a span has a cost of its own."""


@dataclass(frozen=True)
class Turn:
    """Rows to push, by source, and the time at which their span ends; None for the last, open one."""

    rows: tuple[tuple[str, pa.Table], ...]
    until: int | None


def turns(
    tables: Mapping[str, pa.Table], clocks: Mapping[str, Clock], length: int | None, scheduler: Scheduler
) -> Iterator[Turn]:
    """Cut a batch. `length` is the shortest slice of any stem, or None where spans would not help eviction."""
    sorted_rows = {name: _by_time(table, clocks[name]) for name, table in tables.items()}
    order = scheduler.order({name: len(times) for name, (times, _) in sorted_rows.items()})
    begun = dict.fromkeys(order, 0)
    for until in spans([sorted_rows[name][0] for name in order], length):
        rows = []
        for name in order:
            times, table = sorted_rows[name]
            first = begun[name]
            end = len(times) if until is None else int(np.searchsorted(times, until))
            if end > first:
                rows.append((name, table.slice(first, end - first)))
                begun[name] = end
        yield Turn(tuple(rows), until)


def _by_time(table: pa.Table, clock: Clock) -> tuple[Ints, pa.Table]:
    """Rows sorted by time, those without one first."""
    table = table.combine_chunks()
    times, valid = clock.read(table.column(str(clock.spec.time)))
    if valid is not None:
        times = np.where(valid, times, ALWAYS)
    if len(times) > 1 and (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        times, table = times[order], table.take(pa.array(order))
    return times, table


def spans(times: Sequence[Ints], length: int | None) -> Iterator[int | None]:
    """Where spans end: every two slices, or less often where few rows come. None is the last, open end."""
    known = [t[t > ALWAYS] for t in times]
    known = [t for t in known if len(t)]
    if length is not None and known:
        first, last = min(int(t[0]) for t in known), max(int(t[-1]) for t in known)
        most = sum(len(t) for t in known) // SPAN_ROWS + 1
        step = max(2 * length, (last - first) // most + 1)
        yield from range(first + step, last, step)
    yield None
