"""`python -m benchmarks.relations [--quick]`: the comparison, from making the rows to the report.

Each question and size of batches is a part; `--only`, `--size` and `--minutes` run one of them within a given time, and the
report is put together from all parts that are there.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import statistics
import time
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
from benchmarks.relations.contenders import ALONE, FILES, OURS, SPARKS, Run
from benchmarks.relations.workloads import WORKLOADS, Feed, write

HERE = Path(__file__).parent
DATA = Path("out/benchmarks/relations")
PARTS = Path("out/benchmarks/relations-parts")
SIZES = (50_000, 200_000)
BATCHES = 8
TARGET = 5.0
"""Times Spark's rate on the anti join and on the aggregate behind the join."""


class WrongAnswer(Exception):
    """Two contenders disagree, so their times mean nothing."""


def main(
    quick: Annotated[
        bool, typer.Option(help="Fewer rows, one round; a few minutes. The report stays as it is.")
    ] = False,
    only: Annotated[str, typer.Option(help="Only workloads whose name contains this.")] = "",
    size: Annotated[list[int] | None, typer.Option(help="Rows a batch; may be given several times.")] = None,
    rounds: Annotated[int, typer.Option(help="Runs of each contender; they take turns.")] = 3,
    limit: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 90.0,
    minutes: Annotated[float, typer.Option(help="No further round begins that would end later than this.")] = math.inf,
    seed: Annotated[int, typer.Option(help="Of the generated rows.")] = 1,
) -> None:
    console = Console()
    began = time.monotonic()
    batches = 6 if quick else BATCHES
    rounds = 1 if quick else rounds
    sizes = (10_000,) if quick else tuple(size or SIZES)
    spark = contenders.session()
    found: list[Runs] = []
    with console.status("making rows") as status:
        for workload, each in product([w for w in WORKLOADS if only in w.name], sizes):
            shutil.rmtree(DATA, ignore_errors=True)
            feed = write(workload, each * batches, batches, DATA / workload.name, seed)
            runs: dict[str, list[Run]] = {}
            longest = 0.0
            contenders.warm(spark, feed, DATA / "run")
            for turn in range(rounds):
                start = time.monotonic()
                if turn and start - began + longest > minutes * 60:
                    console.print(f"{workload.name}, {each:,} rows a batch: no time for round {turn + 1}")
                    break
                for who, job in _contenders(spark, feed, limit):
                    status.update(f"{workload.name}, {each:,} rows a batch, round {turn + 1}: {who}")
                    run = _checked(job(), runs)
                    runs.setdefault(who, []).append(run)
                    console.print(
                        f"{workload.name}, {each:,} rows a batch, round {turn + 1}: {who} {_rate(run.rate)} rows/s"
                    )
                longest = max(longest, time.monotonic() - start)
            told = f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f} at the end"
            found += [Runs(each, several, told) for several in runs.values()]
            if not quick:
                _keep(PARTS / f"{workload.name}-{each}.json", found[-len(runs) :])
    spark.stop()
    console.print(_table(found))
    if not quick:
        _write(_kept())
        console.print(f"{HERE / 'results.md'} is made from {', '.join(sorted(p.stem for p in PARTS.glob('*.json')))}")


def _keep(path: Path, part: list[Runs]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([
        {"size": f.size, "told": f.told, "runs": [{k: v for k, v in vars(r).items() if k != "answer"} for r in f.runs]}
        for f in part
    ]))  # fmt: skip


def _kept() -> list[Runs]:
    """All parts, in the order of the questions."""
    order = [w.name for w in WORKLOADS]
    parts = [json.loads(p.read_text()) for p in PARTS.glob("*.json")]
    found = [Runs(f["size"], [Run(**r) for r in f["runs"]], f["told"]) for part in parts for f in part]
    return sorted(found, key=lambda f: (order.index(f.one.workload), f.size))


@dataclass(frozen=True)
class Runs:
    """The rounds of one contender."""

    size: int
    """Rows a batch."""
    runs: list[Run]
    told: str
    """When, and what else the machine did."""

    @property
    def one(self) -> Run:
        return self.runs[0]

    @property
    def cut_off(self) -> bool:
        return any(r.cut_off for r in self.runs)

    def median(self, name: str) -> float | None:
        values = [v for r in self.runs if (v := getattr(r, name)) is not None and not math.isnan(v)]
        return statistics.median(values) if values else None

    def against(self, other: Runs, name: str) -> float:
        """The median over rounds of this rate relative to that of another contender; not a number if there is no round in
        which both finished a batch."""
        ratios = [getattr(a, name) / getattr(b, name) for a, b in zip(self.runs, other.runs, strict=True)]
        known = [r for r in ratios if not math.isnan(r)]
        return statistics.median(known) if known else math.nan


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
    for who in (OURS, FILES):
        yield who, partial(contenders.thalweg, spark, who, feed, DATA / "run", limit)
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
    "question", "rows a batch", "who", "rows/s", "Thalweg's rate is", "with state in files", "by processor time",
    "with state in files", "rows kept", "s to a row", "batches late",
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
        alone = peers[ALONE]
        kept = alone.one.state_rows if f.one.who in (OURS, FILES) else f.one.state_rows
        times = [
            "" if f in (ours, alone) else _times(ours.against(f, name), 2 if f.one.who in (*SPARKS, OURS, FILES) else 3)
            for name in ("rate", "processor_rate") for ours in (peers[OURS], peers[FILES])
        ]  # fmt: skip
        latency, late = f.median("latency"), f.median("batches_late")
        lines.append((
            f.one.workload, f"{f.size:,}", f.one.who + (" (cut off)" if f.cut_off else ""), _rate(f.median("rate")), *times,
            f"{kept:,}" if kept else "", "" if latency is None else f"{latency:.2f}", "" if late is None else f"{late:.2f}",
        ))  # fmt: skip
    return lines


def _rate(rate: float | None) -> str:
    return "no batch finished" if rate is None or math.isnan(rate) else f"{rate:,.0f}"


def _times(ratio: float, digits: int) -> str:
    return "" if math.isnan(ratio) else f"{ratio:.{digits}f} x"


def _goals(found: list[Runs]) -> Iterator[str]:
    for f in found:
        if f.one.who not in SPARKS or f.one.workload == "visits":
            continue
        for who in (OURS, FILES):
            ours = next(g for g in found if (g.size, g.one.workload, g.one.who) == (f.size, f.one.workload, who))
            ratio = ours.against(f, "rate")
            where = f"{f.one.workload}, {f.size:,} rows a batch, {who} against {f.one.who}"
            if math.isnan(ratio):
                yield f"- {where}: no round in which both finished a batch."
            else:
                yield f"- {where}: {ratio:.1f} x; the goal of {TARGET:.0f} x is {'met' if ratio >= TARGET else 'missed'}."


NOTES = """Streaming rates leave out the first quarter of the batches, in which code is compiled, and the closing one.
DuckDB and Polars see the whole history at once and keep no state between batches: they are a floor, not a rival. Rows
kept are the most at the end of any batch; Thalweg's are those of one cell. Seconds to a row count from the start of the
batch that brings time past a row's instant to the end of the batch that gives the row; batches late is how many batches
lie between them, on average: Spark applies a watermark one batch after it is known. Spark can't count distinct values on
a stream: it collects a set there. A run that is cut off reached the limit of time; its rate is that of the batches it
finished. Processor time is that of all processes of a run, over the same batches; other load changes it less than
the clock."""


def _write(found: list[Runs]) -> None:
    systems = ", ".join(f"{name} {version(name.lower())}" for name in ("PySpark", "DuckDB", "Polars"))
    rounds = {(f.one.workload, f.size): (len(f.runs), f.told) for f in found}
    text = [
        "# Relations", "",
        f"`python -m benchmarks.relations`, {os.cpu_count()} cores, Python {platform.python_version()}, {systems}. {BATCHES} "
        "batches, one file of each stream a batch, and closing rows. Contenders take turns; rates and times are medians over "
        "rounds, ratios medians of each round's ratio. Where the load is above the cores, other programs ran too: trust "
        "ratios rather than rates. Every answer of a run that was not cut off is compared with DuckDB's, row by row.", "",
        *(f"- **{w.name}**: {w.title}." for w in WORKLOADS), "",
        *(f"- {name}, {size:,} rows a batch: {n} round{'s' * (n > 1)}, {told}." for (name, size), (n, told) in rounds.items()),
        "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|",
        *("| " + " | ".join(line) + " |" for line in _lines(found)), "",
        *_goals(found), "", NOTES.replace("\n", " "), "",
    ]  # fmt: skip
    (HERE / "results.md").write_text(wrapped(text))


if __name__ == "__main__":
    typer.run(main)
