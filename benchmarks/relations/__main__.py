"""`python -m benchmarks.relations [--quick]`: the comparison, from making the rows to the report."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.markdown import wrapped
from benchmarks.relations import contenders
from benchmarks.relations.contenders import ALONE, OURS, SPARKS, Run
from benchmarks.relations.workloads import WORKLOADS, Feed, write

HERE = Path(__file__).parent
DATA = Path("out/benchmarks/relations")
TARGET = 5.0
"""Times Spark's rate on the anti join and on the aggregate behind the join."""


class WrongAnswer(Exception):
    """Two contenders disagree, so their times mean nothing."""


def main(
    quick: Annotated[bool, typer.Option(help="Fewer rows, one round; a few minutes.")] = False,
    only: Annotated[str, typer.Option(help="Only workloads whose name contains this.")] = "",
    size: Annotated[list[int] | None, typer.Option(help="Rows a batch; may be given several times.")] = None,
    rounds: Annotated[int, typer.Option(help="Runs of each contender; they take turns.")] = 3,
    limit: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 120.0,
    seed: Annotated[int, typer.Option(help="Of the generated rows.")] = 1,
) -> None:
    console = Console()
    batches = 6 if quick else 8
    rounds = 1 if quick else rounds
    sizes = (10_000,) if quick else tuple(size or (50_000, 200_000))
    spark = contenders.session()
    found: list[Runs] = []
    with console.status("making rows") as status:
        for workload, each in product([w for w in WORKLOADS if only in w.name], sizes):
            shutil.rmtree(DATA, ignore_errors=True)
            feed = write(workload, each * batches, batches, DATA / workload.name, seed)
            runs: dict[str, list[Run]] = {}
            for turn in range(rounds):
                for who, job in _contenders(spark, feed, limit):
                    status.update(f"{workload.name}, {each:,} rows a batch, round {turn + 1}: {who}")
                    run = _checked(job(), runs)
                    runs.setdefault(who, []).append(run)
            found += [Runs(each, several) for several in runs.values()]
            _write(found, batches, rounds, DATA if quick or only or size else HERE)
    spark.stop()
    console.print(_table(found))
    if not quick and not only and not size:
        console.print(f"written to {HERE / 'results.md'}")


@dataclass(frozen=True)
class Runs:
    """The rounds of one contender."""

    size: int
    """Rows a batch."""
    runs: list[Run]

    @property
    def one(self) -> Run:
        return self.runs[0]

    @property
    def cut_off(self) -> bool:
        return any(r.cut_off for r in self.runs)

    def median(self, name: str) -> float | None:
        values = [v for r in self.runs if (v := getattr(r, name)) is not None]
        return statistics.median(values) if values else None

    def against(self, other: Runs, name: str) -> float:
        """The median over rounds of this rate relative to that of another contender."""
        return statistics.median(
            getattr(a, name) / getattr(b, name) for a, b in zip(self.runs, other.runs, strict=True)
        )


def _checked(run: Run, runs: dict[str, list[Run]]) -> Run:
    """The run, if its answer is that of the first contender."""
    first = next(iter(runs.values()))[0] if runs else run
    if not run.cut_off and (differs := _differ(run.answer, first.answer)):
        raise WrongAnswer(f"{run.workload}: {run.who} differs from {first.who}: {differs}")
    return run


def _contenders(spark: SparkSession, feed: Feed, limit: float) -> Iterator[tuple[str, Callable[[], Run]]]:
    yield "DuckDB", partial(contenders.on_duckdb, feed)
    yield "Polars", partial(contenders.on_polars, feed)
    yield ALONE, partial(contenders.engine, feed)
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


HEAD = (
    "question", "rows a batch", "who", "rows/s", "Thalweg's rate is", "the same by processor time", "rows kept",
    "s to a row", "batches late",
)  # fmt: skip


def _table(found: list[Runs]) -> Table:
    table = Table(title="relations")
    for name in HEAD:
        table.add_column(name)
    for line in _lines(found):
        table.add_row(*line)
    return table


def _lines(found: list[Runs]) -> list[tuple[str, ...]]:
    lines = []
    for f in found:
        peers = {g.one.who: g for g in found if g.size == f.size and g.one.workload == f.one.workload}
        alone, ours = peers[ALONE], peers[OURS]
        kept = alone.one.state_rows if f is ours else f.one.state_rows
        times = [
            "" if f in (ours, alone) else f"{ours.against(f, name):.{2 if f.one.who in SPARKS else 3}f} x"
            for name in ("rate", "processor_rate")
        ]
        latency, late = f.median("latency"), f.median("batches_late")
        lines.append((
            f.one.workload, f"{f.size:,}", f.one.who + (" (cut off)" if f.cut_off else ""), f"{f.median('rate'):,.0f}", *times,
            f"{kept:,}" if kept else "", "" if latency is None else f"{latency:.2f}", "" if late is None else f"{late:.2f}",
        ))  # fmt: skip
    return lines


def _goals(found: list[Runs]) -> Iterator[str]:
    for f in found:
        if f.one.who in SPARKS and f.one.workload != "visits":
            ours = next(g for g in found if (g.size, g.one.workload, g.one.who) == (f.size, f.one.workload, OURS))
            ratio = ours.against(f, "rate")
            verdict = "met" if ratio >= TARGET else "missed"
            where = f"{f.one.workload}, {f.size:,} rows a batch, against {f.one.who}"
            yield f"- {where}: {ratio:.1f} x; the goal of {TARGET:.0f} x is {verdict}."


NOTES = """Streaming rates leave out the first quarter of the batches, in which code is compiled, and the closing one.
DuckDB and Polars see the whole history at once and keep no state between batches: they are a floor, not a rival. Rows
kept are the most at the end of any batch; Thalweg's are those of one cell. Seconds to a row count from the start of the
batch that brings time past a row's instant to the end of the batch that gives the row; batches late is how many batches
lie between them, on average: Spark applies a watermark one batch after it is known. Spark can't count distinct values on
a stream: it collects a set there. A run that is cut off reached the limit of time; its rate is that of the batches it
finished."""


def _write(found: list[Runs], batches: int, rounds: int, folder: Path) -> None:
    systems = ", ".join(f"{name} {version(name.lower())}" for name in ("PySpark", "DuckDB", "Polars"))
    text = [
        "# Relations", "",
        f"`python -m benchmarks.relations`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {systems}. {batches} batches, one file of each stream a batch, and closing rows. "
        f"Contenders took turns, {rounds} rounds; rates and times are medians over them, ratios medians of each round's "
        f"ratio. The machine was shared (load at the end: {os.getloadavg()[0]:.1f}), so trust ratios rather than rates. "
        "Every answer is compared with DuckDB's, row by row.", "",
        *(f"- **{w.name}**: {w.title}." for w in WORKLOADS), "",
        "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|",
        *("| " + " | ".join(line) + " |" for line in _lines(found)), "",
        *_goals(found), "", NOTES.replace("\n", " "), "",
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(wrapped(text))


if __name__ == "__main__":
    typer.run(main)
