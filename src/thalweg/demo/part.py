"""One part of the demo: the same streaming query through Thalweg, watched live, and through Spark's own operators.

Everything is measured in this run: predicate calls from the board, seconds from Spark's progress reports, state from
both, the answers row by row. The seconds leave out the first micro-batch on both sides, because it compiles and starts
things once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, RenderableType

from thalweg import api
from thalweg.errors import ThalwegError
from thalweg.watch.live import Note, Watcher
from thalweg.watch.stop import Stop
from thalweg.watch.view import QueryView


@dataclass(frozen=True)
class Measured:
    """One run of a query: rows per second of its later micro-batches, predicate calls, peak rows of state, and the answer
    as a bag of rows."""

    rate: float
    calls: int
    state: int | None
    answer: Counter[Any]


@dataclass(frozen=True)
class DemoPart:
    """A query to run on Thalweg and on Spark."""

    name: str
    """Name of the query, and of its line in the summary."""
    what: str
    batches: int
    thalweg: Callable[[], DataFrame]
    spark: Callable[[], DataFrame]
    spark_calls: int
    """Spark calls every Python predicate on every row of its input."""
    note: Note


@dataclass(frozen=True)
class Compared:
    """A part that has run."""

    part: DemoPart
    ours: Measured
    theirs: Measured
    view: RenderableType
    """The final state of the live view."""

    @property
    def same(self) -> bool:
        return self.ours.answer == self.theirs.answer


def run(part: DemoPart, folder: Path, console: Console, stop: Stop) -> Compared:
    """Run both; the live view shows Thalweg's run."""
    query = _start(part.thalweg(), folder, "thalweg")
    watcher = Watcher({part.name: query}, console, live=True, notes={part.name: part.note})
    _finish(query, stop, lambda: watcher.until_over(stop))
    view = watcher.frame()
    handle = api.query(part.name)
    told = handle.view()
    ours = Measured(_rate(query), told.calls, _most_state(told), _answer(folder / "thalweg"))
    console.print("The same on Spark alone, as written")
    query = _start(part.spark(), folder, "spark")
    with console.status("0 batches") as status:
        _finish(query, stop, lambda: _wait(query, stop, lambda n: status.update(f"{n} of {part.batches} batches")))
    kept = [
        sum(int(s["numRowsTotal"]) for s in p["stateOperators"]) for p in query.recentProgress if p["stateOperators"]
    ]
    theirs = Measured(_rate(query), part.spark_calls, max(kept) if kept else None, _answer(folder / "spark"))
    return Compared(part, ours, theirs, view)


def _start(df: DataFrame, folder: Path, name: str) -> StreamingQuery:
    return (
        df.writeStream.format("parquet").option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True).start(str(folder / name))
    )  # fmt: skip


def _wait(query: StreamingQuery, stop: Stop, tell: Callable[[int], None]) -> None:
    while not stop.wished and not query.awaitTermination(0.5):  # type: ignore[arg-type]  # whole seconds is only a hint
        tell(query.lastProgress["batchId"] + 1 if query.lastProgress else 0)


def _finish(query: StreamingQuery, stop: Stop, wait: Callable[[], object]) -> None:
    """Wait for a query. A failed query is an error; on request the query is stopped."""
    try:
        wait()
        stop.check()
    except BaseException:
        query.stop()
        raise
    error = query.exception()
    if error is not None:
        raise ThalwegError(f"the demo's query failed: {error}", hint="thalweg doctor checks the installation")


def _rate(query: StreamingQuery) -> float:
    later = query.recentProgress[1:]
    seconds = sum(float(p["durationMs"]["triggerExecution"]) for p in later) / 1000
    return sum(int(p["numInputRows"]) for p in later) / max(seconds, 1e-9)


def _most_state(view: QueryView) -> int | None:
    """The largest number of stream rows that a join stored after any batch."""
    streams = {i.alias for i in view.streams}
    stored = [sum(i.stored for i in b.cells if i.alias in streams) for b in view.recent]
    return max(stored, default=0) if view.kind == "join" else None


def _answer(folder: Path) -> Counter[Any]:
    files = sorted(str(p) for p in folder.glob("part-*.parquet"))
    if not files:
        return Counter()
    table = ds.dataset(files).to_table()
    columns = [table[c].to_pylist() for c in sorted(table.column_names)]
    return Counter(zip(*columns, strict=True))
