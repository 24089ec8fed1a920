"""`python -m benchmarks.relations [--quick]`: the comparison, from making the rows to the report."""

from __future__ import annotations

import os
import platform
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.markdown import wrapped
from benchmarks.relations import contenders
from benchmarks.relations.contenders import OURS, SPARKS, Run
from benchmarks.relations.workloads import WORKLOADS, Feed, write

HERE = Path(__file__).parent
DATA = Path("out/benchmarks/relations")
TARGET = 5.0
"""Times Spark's rate on the anti join and on the aggregate behind the join."""


class WrongAnswer(Exception):
    """Two contenders disagree, so their times mean nothing."""


def main(
    quick: Annotated[bool, typer.Option(help="Fewer rows; a few minutes.")] = False,
    only: Annotated[str, typer.Option(help="Only workloads whose name contains this.")] = "",
    limit: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 420.0,
    seed: Annotated[int, typer.Option(help="Of the generated rows.")] = 1,
) -> None:
    console = Console()
    rows, batches = (60_000, 6) if quick else (600_000, 12)
    spark = contenders.session()
    runs: list[Run] = []
    with console.status("making rows") as status:
        for workload in WORKLOADS:
            if only not in workload.name:
                continue
            shutil.rmtree(DATA, ignore_errors=True)
            feed = write(workload, rows, batches, DATA / workload.name, seed)
            answer: Counter[Any] | None = None
            for who, job in _contenders(spark, feed, limit):
                status.update(f"{workload.name}: {who}")
                run = job()
                runs.append(run)
                answer = run.answer if answer is None else answer
                if not run.cut_off and _differ(run.answer, answer):
                    raise WrongAnswer(
                        f"{workload.name}: {run.who} differs from {runs[0].who}: {_differ(run.answer, answer)}"
                    )
            _write(runs, rows, batches, DATA if quick or only else HERE)
    spark.stop()
    console.print(_table(runs))
    if not quick and not only:
        console.print(f"written to {HERE / 'results.md'}")


def _contenders(spark: SparkSession, feed: Feed, limit: float) -> Iterator[tuple[str, Callable[[], Run]]]:
    yield "DuckDB", partial(contenders.on_duckdb, feed)
    yield "Polars", partial(contenders.on_polars, feed)
    yield OURS, partial(contenders.thalweg, spark, feed, DATA / "run", limit)
    for who in SPARKS:
        yield who, partial(contenders.sparks, spark, who, feed, DATA / "run", limit)


def _differ(one: Counter[Any], other: Counter[Any]) -> str:
    """What only one of two answers has; empty if they are equal."""
    more, fewer = one - other, other - one
    return (
        f"{sum(more.values())} more, {sum(fewer.values())} fewer, such as {next(iter(more or fewer))}"
        if more or fewer
        else ""
    )


def _ratio(runs: list[Run], run: Run) -> float | None:
    """Our rate relative to this contender's."""
    ours = next((r for r in runs if r.who == OURS and r.workload == run.workload), None)
    return None if ours is None or run is ours else ours.rate / run.rate


def _table(runs: list[Run]) -> Table:
    table = Table(title="relations")
    for name in ("workload", "who", "rows/s", "ours is", "CPU s", "rows kept", "batch s"):
        table.add_column(name)
    for line in _lines(runs):
        table.add_row(*line)
    return table


def _lines(runs: list[Run]) -> list[tuple[str, ...]]:
    lines = []
    for r in runs:
        ratio = _ratio(runs, r)
        lines.append((
            r.workload, r.who + (" (cut off)" if r.cut_off else ""), f"{r.rate:,.0f}",
            "" if ratio is None else f"{ratio:.2f} x", f"{r.cpu:.1f}", f"{r.state_rows:,}" if r.state_rows else "",
            "" if r.latency is None else f"{r.latency:.2f}",
        ))  # fmt: skip
    return lines


def _write(runs: list[Run], rows: int, batches: int, folder: Path) -> None:
    head = ("question", "who", "rows/s", "Thalweg's rate is", "processor s", "rows kept", "s a batch")
    text = [
        "# Relations", "",
        f"`python -m benchmarks.relations`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, "
        f"{platform.python_version()}, Spark {version('pyspark')}, DuckDB {version('duckdb')}, Polars {version('polars')}. "
        f"About {rows:,} rows in {batches} files, one file of each stream a batch. Load of the machine: "
        f"{os.getloadavg()[0]:.1f}. Every answer is compared with DuckDB's, row by row.", "",
        *(f"- **{w.name}**: {w.title}." for w in WORKLOADS), "",
        "| " + " | ".join(head) + " |", "|---" * len(head) + "|",
        *("| " + " | ".join(line) + " |" for line in _lines(runs)), "",
        "Streaming rates leave out the first quarter of the batches, in which code is compiled. DuckDB and Polars see the "
        "whole history at once and keep no state between batches: they are a floor, not a rival. Rows kept are the most "
        "at the end of any batch. A row of the answer comes in the batch whose watermark passes its instant, so the time of "
        "a batch is the delay that the engine adds. Spark can't count distinct values on a stream: it collects a set there.",
        "",
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(wrapped(text))


if __name__ == "__main__":
    typer.run(main)
