"""Runs the demo: a year of flights joined with the weather, then a drifting intrusion-detection stream.

Each runs on Thalweg with a live view, then on Spark alone. One table compares them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group
from rich.table import Table

from thalweg import api
from thalweg.demo import flights, intrusion
from thalweg.demo.part import Compared, DemoPart
from thalweg.demo.part import run as run_part
from thalweg.demo.written import probe_work
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.durations import micros
from thalweg.spark import BRIEF
from thalweg.spark.session import LOCAL
from thalweg.watch.stop import Stop


@dataclass(frozen=True)
class Size:
    """How much is replayed: files per stream and every how many days; files and rows of packets."""

    months: int
    every: int
    files: int
    rows: int
    java: str = ""
    """Options of the JVM."""


SIZES = {
    "full": Size(months=24, every=1, files=48, rows=10_000),
    "quick": Size(months=8, every=4, files=16, rows=6_000, java=BRIEF),
    "tiny": Size(months=4, every=28, files=8, rows=1_000, java=BRIEF),
}
CELLS, LATENESS = 2, "1 hour"
WIDTH = 118


def run(
    size: str = "full", policy: str = "auto", only: str | None = None, console: Console | None = None,
    picture: Path | None = None,
) -> bool:  # fmt: skip
    """Run it all; True if each part gave the same rows on Thalweg and on Spark."""
    console = console or Console()
    if only is not None and only not in PARTS:
        raise DefinitionError(f"the demo has no part '{only}'", hint=did_you_mean(only, PARTS))
    names = [n for n in PARTS if only in (None, n)]
    folder = Path(tempfile.mkdtemp(prefix="thalweg-demo-"))
    try:
        console.print("Starting Spark")
        with ThreadPoolExecutor(1) as meanwhile:
            data = {n: meanwhile.submit(PARTS[n][0], folder / n, SIZES[size]) for n in names}
            spark = _session(SIZES[size], folder / "spark.log")
        with Stop() as stop, warnings.catch_warnings():  # after Spark has set its own handler
            # With this warning pyspark falls back to row functions, and our annotated functions are just that.
            warnings.filterwarnings("ignore", "Cannot infer the eval type", UserWarning)
            try:
                done = []
                for name in names:
                    part = PARTS[name][1](spark, data[name].result(), policy)
                    console.print(part.what, highlight=False, soft_wrap=True)
                    done.append(run_part(part, folder / name, console, stop))
                console.print(summary(done))
                for name in (c.part.name for c in done):
                    page = api.query(name).report(Path(tempfile.gettempdir()) / f"thalweg-demo-{name}.html")
                    console.print(f"report: {page}", highlight=False, soft_wrap=True)
                if picture is not None:
                    _draw(done, picture)
                    console.print(f"picture: {picture}", highlight=False, soft_wrap=True)
            finally:
                spark.sparkContext.setLogLevel("OFF")  # interrupted tasks are expected here
                spark.stop()
        return all(c.same for c in done)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _session(size: Size, log: Path) -> SparkSession:
    options = f"{LOCAL['spark.driver.extraJavaOptions']} {size.java}"
    # Spark starts workers of stateful operators without this setting. Without it everywhere, one process forks all workers.
    return api.session(
        "thalweg-demo", log, spark_driver_extraJavaOptions=options,
        spark_sql_execution_pyspark_udf_simplifiedTraceback_enabled="false",
    )  # fmt: skip


def _year(folder: Path, size: Size) -> tuple[flights.Year, list[int]]:
    """The streams, and the probe work of the written order after each micro-batch."""
    year = flights.write(folder / "year", size.months, size.every)
    return year, [work for work, _ in probe_work(year, CELLS, micros(LATENESS, "lateness"))]


def _flights(spark: SparkSession, data: tuple[flights.Year, list[int]], policy: str) -> DemoPart:
    year, written = data
    tables = {n: spark.createDataFrame(t.to_pandas(), flights.TABLES[n]) for n, t in year.tables.items()}

    def streams() -> dict[str, DataFrame]:
        reader = spark.readStream.option("maxFilesPerTrigger", flights.PER_BATCH)
        return {n: reader.schema(ddl).parquet(str(year.folder / n)) for n, ddl in flights.STREAMS.items()}

    def thalweg() -> DataFrame:
        given: dict[str, Any] = {n: api.stream(df, time="ts", lateness=LATENESS) for n, df in streams().items()}
        given |= {**tables, **flights.FUNCTIONS}
        joined: DataFrame = api.sql(flights.THALWEG, policy=policy, cells=CELLS, seed=7, name="flights", **given)
        return joined

    def alone() -> DataFrame:
        for n, df in (streams() | tables).items():
            (df.withWatermark("ts", LATENESS) if n in flights.STREAMS else df).createOrReplaceTempView(n)
        for n, function in flights.FUNCTIONS.items():
            spark.udf.register(n, function, "boolean")
        return spark.sql(flights.SPARK)

    def note(batches: int) -> tuple[str, str]:
        k = min(batches, year.batches) - 1
        work = api.query("flights").now().work
        saved = f"probes saved  {1 - work / written[k]:.0%} of the written order's work" if work else ""
        return year.seasons[k], saved

    calls = sum(year.rows[n] * count for n, count in flights.JUDGED.items())
    what = (
        f"A windowed join of {year.rows['flights']:,} flights and {year.rows['weather']:,} hours of weather with planes and "
        "airlines, four Python predicates"
    )
    return DemoPart("flights", what, year.batches, thalweg, alone, calls, note)


def _packets(folder: Path, size: Size) -> intrusion.Stream:
    return intrusion.write(folder / "packets", size.files, size.rows)


def _intrusions(spark: SparkSession, stream: intrusion.Stream, policy: str) -> DemoPart:
    def source() -> DataFrame:
        reader = spark.readStream.schema(intrusion.SCHEMA).option("maxFilesPerTrigger", intrusion.PER_BATCH)
        return reader.parquet(str(stream.folder))

    def note(batches: int) -> tuple[str, str]:
        return stream.phases[min(batches * intrusion.PER_BATCH, stream.files) - 1], ""

    def thalweg() -> DataFrame:
        return api.where(source(), *intrusion.PREDICATES, policy=policy, name="intrusions", seed=7).select("id")

    rows = stream.files * stream.rows
    what = f"A filter of {rows:,} packets in {len(intrusion.PHASES)} phases, six Python predicates"
    return DemoPart(
        "intrusions", what, -(-stream.files // intrusion.PER_BATCH), thalweg, lambda: chain(source()).select("id"),
        rows * len(intrusion.PREDICATES), note,
    )  # fmt: skip


PARTS: dict[str, tuple[Callable[[Path, Size], Any], Callable[[SparkSession, Any, str], DemoPart]]] = {
    "flights": (_year, _flights),
    "intrusions": (_packets, _intrusions),
}
"""For each part: a function that makes the data while Spark starts, and one that makes the query."""


def chain(df: DataFrame) -> DataFrame:
    """The packets that pass all predicates, as a chain of udfs."""
    for predicate in intrusion.PREDICATES:
        (column,) = predicate.__code__.co_varnames[: predicate.__code__.co_argcount]
        df = df.where(F.udf(predicate, "boolean")(column))
    return df


def summary(done: list[Compared]) -> Table:
    """A table: Spark as written, Thalweg, the ratio, and whether the answers are the same."""
    table = Table(title="As written on Spark, and with Thalweg", title_justify="left")
    for header in ("", "", "Spark", "Thalweg", "ratio", "same answer"):
        table.add_column(header, justify="right" if header in ("Spark", "Thalweg", "ratio") else "left")
    for c in done:
        ours, theirs = c.ours, c.theirs
        count = sum(ours.answer.values())
        verdict = (
            f"yes, checked: {count:,} rows" if c.same else f"NO: {sum(theirs.answer.values()):,} rows, {count:,} rows"
        )
        table.add_row(
            c.part.name, "predicate calls", f"{theirs.calls:,}", f"{ours.calls:,}",
            f"{theirs.calls / max(ours.calls, 1):.1f} x fewer", verdict,
        )  # fmt: skip
        table.add_row("", "rows/s", f"{theirs.rate:,.0f}", f"{ours.rate:,.0f}", f"{ours.rate / theirs.rate:.1f} x")
        if ours.state and theirs.state:
            times = f"{theirs.state / ours.state:.1f} x fewer"
            table.add_row("", "rows of state, at most", f"{theirs.state:,}", f"{ours.state:,}", times)
        table.add_section()
    return table


def _draw(done: list[Compared], path: Path) -> None:
    """The final live views and the summary as one SVG that loads no fonts."""
    recorder = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    recorder.print(Group(*(c.view for c in done), summary(done)))
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recorder.export_svg(title="thalweg demo --quick", code_format=plain), encoding="utf-8")


def main(size: str, policy: str, only: str | None = None, picture: Path | None = None) -> int:
    """The command: 0 if the answers agree, 130 after Ctrl-C."""
    console = Console()
    started = time.perf_counter()
    try:
        same = run(size, policy, only, console, picture)
    except KeyboardInterrupt:
        console.print("\nstopped")
        return 130
    took = time.perf_counter() - started
    console.print(f"[dim]{took:.0f} s in all; try: thalweg demo --policy written, or --policy chaos[/dim]")
    return 0 if same else 1
