"""Runs the demo: the stream through Thalweg with a live view, then through Spark's own udf chain, then compares the
two.

Everything shown is measured in this run: calls from the board, seconds from the clock, the answers row by row.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from thalweg import api
from thalweg.demo import intrusion
from thalweg.watch.explain import microseconds
from thalweg.watch.handle import QueryHandle
from thalweg.watch.stop import Stop

NAME = "intrusions"


@dataclass(frozen=True)
class Size:
    files: int
    rows: int


FULL, QUICK = Size(files=48, rows=10_000), Size(files=16, rows=8_000)
PER_BATCH = 2
"""Files of one micro-batch: one task each."""


@dataclass(frozen=True)
class Outcome:
    """One way of running the query: seconds of its micro-batches, rows in, predicate calls, and its answer."""

    seconds: float
    rows: int
    calls: int
    answer: list[int]


def run(quick: bool = False, policy: str = "auto", console: Console | None = None, keep: Path | None = None) -> bool:
    """Run it all; True if both gave the same rows."""
    console = console or Console()
    size = QUICK if quick else FULL
    folder = keep or Path(tempfile.mkdtemp(prefix="thalweg-demo-"))
    try:
        console.print(f"Making a stream of {size.files * size.rows:,} packets in {len(intrusion.PHASES)} phases")
        stream = intrusion.write(folder / "packets", size.files, size.rows)
        console.print("Starting Spark")
        spark = api.session("thalweg-demo")
        with Stop() as stop:  # after Spark has set its own handler
            try:
                _warm_up(spark, stream)
                ours = _thalweg(spark, stream, folder, policy, console, stop)
                console.print("The same through Spark's own where, with the six predicates as udfs")
                theirs = _spark(spark, stream, folder, console, stop)
                same = ours.answer == theirs.answer
                console.print(_verdict(ours, theirs, same))
                page = api.query(NAME).report(Path(tempfile.gettempdir()) / "thalweg-demo.html")
                console.print(f"report: {page}", highlight=False, soft_wrap=True)
            finally:
                spark.sparkContext.setLogLevel("OFF")  # tasks cut short are what was asked for
                spark.stop()
        return same
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _warm_up(spark: SparkSession, stream: intrusion.Stream) -> None:
    """Workers and the JVM's compiler start once, for both alike."""
    first = spark.read.schema(intrusion.SCHEMA).parquet(str(stream.folder / "packets-0000.parquet"))
    api.where(first, *intrusion.PREDICATES, name="warm up", seed=0).count()
    _chain(first).count()


def _source(spark: SparkSession, stream: intrusion.Stream) -> DataFrame:
    return spark.readStream.schema(intrusion.SCHEMA).option("maxFilesPerTrigger", PER_BATCH).parquet(str(stream.folder))


def _start(df: DataFrame, folder: Path, name: str) -> StreamingQuery:
    return (
        df.select("id").writeStream.format("parquet").option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True).start(str(folder / name))
    )  # fmt: skip


def _chain(df: DataFrame) -> DataFrame:
    for predicate in intrusion.PREDICATES:
        (column,) = predicate.__code__.co_varnames[: predicate.__code__.co_argcount]
        df = df.where(F.udf(predicate, "boolean")(column))
    return df


def _over(query: StreamingQuery, seconds: float, stop: Stop) -> bool:
    """Wait a moment; whether the query has ended. (pyspark's own hint wants whole seconds, its code does not.)"""
    stop.check()
    return bool(query.awaitTermination(seconds))  # type: ignore[arg-type]


def _seconds(query: StreamingQuery) -> float:
    """Time spent in micro-batches; the first is left out on both sides, it pays for what is compiled once."""
    return sum(float(p["durationMs"]["triggerExecution"]) for p in query.recentProgress[1:]) / 1000


def _answer(folder: Path) -> list[int]:
    files = sorted(str(p) for p in folder.glob("part-*.parquet"))
    return sorted(ds.dataset(files).to_table()["id"].to_pylist()) if files else []


def _thalweg(
    spark: SparkSession, stream: intrusion.Stream, folder: Path, policy: str, console: Console, stop: Stop
) -> Outcome:
    out = api.where(_source(spark, stream), *intrusion.PREDICATES, policy=policy, name=NAME, seed=7)
    handle = api.query(NAME)
    query = _start(out, folder, "thalweg")
    view = View(handle, stream, console)
    try:
        view.watch(query, stop)
    except BaseException:
        spark.sparkContext.setLogLevel("OFF")
        query.stop()
        raise
    summary = handle.summary()
    return Outcome(
        _seconds(query), stream.rows * (stream.files - PER_BATCH), summary.calls, _answer(folder / "thalweg")
    )


def _spark(spark: SparkSession, stream: intrusion.Stream, folder: Path, console: Console, stop: Stop) -> Outcome:
    query = _start(_chain(_source(spark, stream)), folder, "spark")
    try:
        with console.status("0 batches") as status:
            while not _over(query, 0.5, stop):
                done = query.lastProgress["batchId"] + 1 if query.lastProgress else 0
                status.update(f"{done} of {-(-stream.files // PER_BATCH)} batches")
    except BaseException:
        spark.sparkContext.setLogLevel("OFF")
        query.stop()
        raise
    rows = stream.rows * stream.files
    return Outcome(
        _seconds(query),
        stream.rows * (stream.files - PER_BATCH),
        rows * len(intrusion.PREDICATES),
        _answer(folder / "spark"),
    )


class View:
    """The live view; plain lines where there is no terminal."""

    def __init__(self, handle: QueryHandle, stream: intrusion.Stream, console: Console) -> None:
        self.handle, self.stream, self.console = handle, stream, console
        self.batches = -(-stream.files // PER_BATCH)
        self._told = 0
        self._events = 0

    def watch(self, query: StreamingQuery, stop: Stop) -> None:
        if self.console.is_terminal:
            with Live(self._frame(query), console=self.console, refresh_per_second=4, transient=False) as live:
                while not _over(query, 0.3, stop):
                    live.update(self._frame(query))
                live.update(self._frame(query))
        else:
            while not _over(query, 0.5, stop):
                self._lines()
            self._lines()
        error = query.exception()
        if error is not None:
            raise error

    def _phase(self, batches: int) -> str:
        return self.stream.phases[min(max(batches - 1, 0) * PER_BATCH, len(self.stream.phases) - 1)]

    def _lines(self) -> None:
        s = self.handle.summary()
        events = self.handle.events()
        for event in events.iloc[self._events :].itertuples():
            self.console.print(
                f"  {event.kind}: {event.after}  ({event.why})", markup=False, highlight=False, soft_wrap=True
            )
        self._events = len(events)
        if s.batches > self._told:
            self._told = s.batches
            route = s.routes[0][0] if s.routes else ""
            self.console.print(
                f"batch {s.batches:>3}/{self.batches}  {self._phase(s.batches):<13} {s.rows_in:>9,} rows  "
                f"{s.saved_against_spark:.0%} of Spark's calls saved  now {route}", markup=False, highlight=False, soft_wrap=True,
            )  # fmt: skip

    def _frame(self, query: StreamingQuery) -> Group:
        s = self.handle.summary()
        progress = query.lastProgress
        rate = progress["processedRowsPerSecond"] if progress else 0.0
        title = Text.assemble(
            ("Thalweg  ", "bold cyan"), f"batch {s.batches} of {self.batches}   ", (self._phase(s.batches), "bold yellow"),
            f"   {s.rows_in:,} packets   {rate or 0:,.0f} rows/s",
        )  # fmt: skip
        table = Table(box=None, pad_edge=False, header_style="dim")
        for header, justify in (("predicate", "left"), ("pass rate", "right"), ("cost", "right"), ("calls", "right"),
                                ("Spark", "right"), ("", "left")):  # fmt: skip
            table.add_column(header, justify=justify)  # type: ignore[arg-type]
        order = self.handle.plan().route
        for place, i in enumerate(order, 1):
            p = s.predicates[i]
            share = p.calls / s.rows_in if s.rows_in else 0.0
            bar = Text("█" * round(20 * share), "cyan") + Text("░" * (20 - round(20 * share)), "dim")
            table.add_row(
                f"{place}. {p.name}", "" if p.pass_rate is None else f"{p.pass_rate:.0%}",
                "" if p.cost is None else microseconds(p.cost), f"{p.calls:,}", f"{s.rows_in:,}", bar,
            )  # fmt: skip
        saved = Text.assemble(
            ("calls saved  ", "dim"), (f"{s.saved_against_spark:.0%}", "bold green"), (" against Spark's chain", "dim"),
            *([("   ", ""), (f"{s.saved_against_written:.0%}", "bold green"), (" against the written order", "dim")]
              if s.saved_against_written is not None else []),
        )  # fmt: skip
        decisions = Table(box=None, pad_edge=False, show_header=False)
        decisions.add_column(style="yellow", no_wrap=True)
        decisions.add_column(overflow="fold")
        for event in self.handle.events().tail(4).itertuples():
            decisions.add_row(str(event.kind), f"{event.after}\n[dim]{event.why}[/dim]" if event.before != event.after
                              else f"[dim]{event.why}[/dim]")  # fmt: skip
        return Group(Panel(Group(title, Text(""), table, Text(""), saved), border_style="cyan"), decisions)


def _verdict(ours: Outcome, theirs: Outcome, same: bool) -> Table:
    table = Table(title="As written on Spark, and with Thalweg", title_justify="left")
    for header in ("", "Spark's udf chain", "Thalweg", "ratio"):
        table.add_column(header, justify="left" if not header else "right")
    table.add_row(
        "predicate calls", f"{theirs.calls:,}", f"{ours.calls:,}", f"{theirs.calls / max(ours.calls, 1):.1f} x fewer"
    )
    fast, slow = ours.rows / max(ours.seconds, 1e-9), theirs.rows / max(theirs.seconds, 1e-9)
    table.add_row("rows/s, micro-batches", f"{slow:,.0f}", f"{fast:,.0f}", f"{fast / slow:.1f} x")
    table.add_row(
        "alerts", f"{len(theirs.answer):,}", f"{len(ours.answer):,}", "same rows: yes" if same else "NOT THE SAME ROWS"
    )
    return table


def main(quick: bool, policy: str) -> int:
    """The command: 0 if the answers agree, 130 after Ctrl-C."""
    console = Console()
    started = time.perf_counter()
    try:
        same = run(quick, policy, console)
    except KeyboardInterrupt:
        console.print("\nstopped")
        return 130
    console.print(
        f"[dim]{time.perf_counter() - started:.0f} s in all; try: thalweg demo --policy written, or --policy chaos[/dim]"
    )
    return 0 if same else 1
