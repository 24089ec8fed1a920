"""`python -m benchmarks.spark_joins [--quick] [--flink PYTHON]`: the whole comparison, from making the data to the report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.spark_joins import flink
from benchmarks.spark_joins.onspark import HDFS, OURS, PROVIDER, ROCKSDB, SPARK, Run, ours, run, session, sparks
from benchmarks.spark_joins.report import Report
from benchmarks.spark_joins.streams import Feed, head, make

HERE = Path(__file__).parent
DATA = Path("out/benchmarks/spark_joins")
SIZES = {50_000: 7, 200_000: 5, 800_000: 10}
"""Rows per batch, and number of batches. The largest size has enough for Java to compile the code that reads files."""
RIVAL_BATCHES = {0: 4, 1: 3}
"""Number of batches for Spark's own joins, by size from the smallest. They take minutes where ours take seconds. At the
largest size they get none, because the rows they combine before they look at times grow with the square of the batch."""
FLINK_BATCHES = {"clique": (4, 3, 1), "common key": (7, 5, 4)}
"""Number of batches whose rows PyFlink gets, by size from the smallest; it reads them as one. On a common key it is fast
enough for more."""
LIMIT = 420.0
SMALL = 10_000
"""Rows per batch for the latency measurements."""


class WrongAnswer(Exception):
    """Two contenders disagree, so their times mean nothing."""


def main(
    quick: Annotated[bool, typer.Option(help="Smaller batches and fewer of them; a few minutes.")] = False,
    limit: Annotated[float, typer.Option(help="Seconds that one run may take.")] = LIMIT,
    only: Annotated[str, typer.Option(help="Only workloads whose name contains this.")] = "",
    size: Annotated[int, typer.Option(help="Only batches of so many rows.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where the report goes; a quick one stays in out/.")] = None,
    spark: Annotated[bool, typer.Option(help="Also Spark's own joins, which take most of the time.")] = True,
    flink_python: Annotated[
        Path | None, typer.Option("--flink", envvar="FLINK_PYTHON", help="A Python that has PyFlink, to compare with.")
    ] = None,
) -> None:
    if flink_python is not None and not flink.is_in(flink_python):
        raise typer.BadParameter(f"{flink_python} has no PyFlink: `{flink.INSTALL}`", param_hint="--flink")
    console = Console()
    sizes = {20_000: 4, 50_000: 4} if quick else SIZES
    folder = out or (DATA if quick or only or size else HERE)
    bench = Bench(console, limit, flink_python)
    chosen = (
        quick and " --quick", only and f" --only '{only}'", size and f" --size {size}",
        limit != LIMIT and f" --limit {limit:g}", not spark and " --no-spark", flink_python and " --flink PYTHON",
    )  # fmt: skip
    bench.report.command += "".join(words for words in chosen if words)
    with console.status("warming up") as status:
        bench.tell = status.update
        bench.warm_up()
        for shape in ("clique", "common key"):
            if only not in shape:
                continue
            for k, (batch, batches) in enumerate(sizes.items()):
                if size not in (0, batch):
                    continue
                # Spark's default store was faster where we tried both, but it lives in the JVM's heap, and the
                # state of the clique at 200,000 rows per batch does not fit into 5 GB.
                store = HDFS if k == 0 else ROCKSDB
                flinks = min(batches, FLINK_BATCHES[shape][k])
                rival = RIVAL_BATCHES.get(k, 0) if spark else 0
                bench.compare(shape, batch, batches, rival, store, flinks)
                bench.report.write(folder)  # save what is there so far, in case the rest is interrupted
        if not only and not size:
            bench.latency(SMALL, 6 if quick else 16)
    bench.spark.stop()
    bench.report.show(console)
    bench.report.write(folder)
    console.print(f"written to {folder / 'results.md'} and results.json")


class Bench:
    def __init__(self, console: Console, limit: float, flink_python: Path | None = None) -> None:
        self.console, self.limit = console, limit
        # Don't resolve it: the Python of a virtual environment is a link, and its target does not know the environment.
        self.flink = flink_python and flink_python.absolute()
        self.report = Report()
        self.spark: SparkSession = session(2)
        self.tell = console.print

    def warm_up(self) -> None:
        """Compile and import before anything is timed."""
        shutil.rmtree(DATA, ignore_errors=True)
        feed = make("clique", 20_000, 6, DATA)
        self._ours(feed, 2)

    def compare(self, shape: str, batch: int, batches: int, rival: int, store: str, flinks: int) -> None:
        """Run both numbers of cells, Spark's own joins where they are fast enough, and PyFlink if available. Answers must
        be equal."""
        feed = make(shape, batch, batches, DATA)
        self.report.note_load()
        runs = [self._ours(feed, cells) for cells in (2, 1)]
        if rival:
            few = head(feed, rival)
            theirs = self._sparks(few, store)
            if theirs.cut_off:
                # Only the answer of the batches that Spark finished can be compared.
                few = head(feed, len(theirs.triggers))
            if theirs.triggers:
                self._equal(self._ours(few, 2), theirs)
                runs.append(theirs)
            shutil.rmtree(few.folder)
        self._equal(runs[0], runs[1])
        known = (feed.workload.count, feed.workload.checksum)
        if known[0] is not None and runs[0].answer != known:
            raise WrongAnswer(f"{shape}, {batch:,} rows a batch: {runs[0].answer}, known is {known}")
        self.report.runs += runs
        if self.flink is not None:
            few = head(feed, flinks)
            self.beside_flink(self.flink, few)
            shutil.rmtree(few.folder)
        shutil.rmtree(feed.folder)

    def beside_flink(self, python: Path, feed: Feed) -> None:
        """PyFlink's interval joins and Thalweg, one after the other over the same rows."""
        ours = self._ours(feed, 2)
        self.tell(f"PyFlink, {feed.shape}, {feed.rows:,} rows")
        theirs = flink.run(python, feed, DATA / "flink", self.limit)
        theirs.ours, theirs.ours_cpu = sum(ours.triggers), ours.cpu
        if not theirs.cut_off and theirs.answer != ours.answer:
            raise WrongAnswer(f"{feed.shape}, {feed.rows:,} rows: {ours.answer}, PyFlink says {theirs.answer}")
        self.report.flink.append(theirs)
        shutil.rmtree(DATA / "flink")

    def latency(self, batch: int, batches: int) -> None:
        feed = make("clique", batch, batches, DATA)
        self.report.note_load()
        self.report.small = [self._ours(feed, cells) for cells in (2, 1)]
        shutil.rmtree(feed.folder)

    def _ours(self, feed: Feed, cells: int) -> Run:
        self.spark.conf.set("spark.sql.shuffle.partitions", cells)
        self.spark.conf.set(PROVIDER, ROCKSDB)
        return run(
            self.spark, OURS, feed, cells, lambda: ours(self.spark, feed, cells), DATA / "check", self.limit, self.tell
        )

    def _sparks(self, feed: Feed, store: str) -> Run:
        self.spark.conf.set("spark.sql.shuffle.partitions", 2)
        self.spark.conf.set(PROVIDER, store)
        return run(self.spark, SPARK, feed, 2, lambda: sparks(self.spark, feed), DATA / "check", self.limit, self.tell)

    def _equal(self, one: Run, other: Run) -> None:
        if one.answer != other.answer:
            raise WrongAnswer(
                f"{one.feed}, {one.batch:,} rows a batch: {one.who} in {one.cells} cells says {one.answer}, "
                f"{other.who} in {other.cells} says {other.answer}"
            )


if __name__ == "__main__":
    typer.run(main)
