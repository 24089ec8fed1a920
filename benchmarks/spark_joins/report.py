"""The report of a run: a table in the terminal, JSON for machines, Markdown and a plot for people."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.markdown import wrapped
from benchmarks.spark_joins.flink import ABSENT, FEW, HEAP, WARM_UP, FlinkRun
from benchmarks.spark_joins.onspark import OURS, SPARK, Run
from thalweg.watch.stages import STAGES

TARGETS = {"times Spark, clique": 50.0, "rows/s, 2 cells": 250_000.0}
SPARKS = (
    " Spark's own joins run over the first batches of the smaller sizes, with Spark's default state store (in the heap) at the "
    "smallest and with RocksDB above, where the heap of 5 GB does not hold their state."
)


@dataclass
class Report:
    runs: list[Run] = field(default_factory=list)
    small: list[Run] = field(default_factory=list)
    """Runs with small batches, for the breakdown of latency."""
    load: list[float] = field(default_factory=list)
    flink: list[FlinkRun] = field(default_factory=list)
    command: str = "python -m benchmarks.spark_joins"

    def note_load(self) -> None:
        self.load.append(round(os.getloadavg()[0], 1))

    def rate(self, shape: str, who: str, batch: int | None = None, cells: int = 2) -> float | None:
        found = [r for r in self.runs if (r.feed, r.who, r.cells) == (shape, who, cells) and r.triggers]
        if batch is not None:
            found = [r for r in found if r.batch == batch]
        return found[-1].rows_per_second if found else None

    def best(self, shape: str, who: str, clock: str = "rows_per_second") -> float | None:
        """The best rate of a contender over all batch sizes and numbers of cells."""
        runs = [r for r in self.runs if (r.feed, r.who) == (shape, who) and len(r.triggers) > 1]
        rates = [float(getattr(r, clock)) for r in runs]
        return max((x for x in rates if not math.isnan(x)), default=None)

    def ratio(self, shape: str, clock: str = "rows_per_second") -> float | None:
        """Our best relative to Spark's best."""
        mine, theirs = self.best(shape, OURS, clock), self.best(shape, SPARK, clock)
        return mine / theirs if mine and theirs else None

    def same_files(self, shape: str) -> dict[int, float]:
        """Rows/s relative to Spark's own joins on the same files, by rows per batch."""
        theirs = {r.batch: r.rows_per_second for r in self.runs if r.feed == shape and r.who == SPARK and r.triggers}
        ours = {batch: self.rate(shape, OURS, batch) for batch in theirs}
        return {batch: mine / theirs[batch] for batch, mine in ours.items() if mine is not None}

    # Terminal.

    def show(self, console: Console) -> None:
        for shape in dict.fromkeys(r.feed for r in self.runs):
            table = Table(title=shape)
            for name in HEAD:
                table.add_column(name, justify="left" if name == "who" else "right")
            for r in self.runs:
                if r.feed == shape and r.triggers:
                    table.add_row(*cells_of(r))
            console.print(table)
        for line in self.verdicts():
            console.print("  " + line.replace("**", ""))

    # Files.

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        record = {
            "when": datetime.now(UTC).isoformat(timespec="minutes"), "machine": machine(), "load": self.load,
            "runs": [asdict(r) for r in self.runs], "small": [asdict(r) for r in self.small],
            "flink": [asdict(r) for r in self.flink],
        }  # fmt: skip
        (folder / "results.json").write_text(json.dumps(record, indent=1) + "\n")
        self.plot(folder / "spark_joins.png")
        (folder / "results.md").write_text(wrapped(self.markdown()))

    def verdicts(self) -> list[str]:
        lines = []
        for shape, target in (("clique", TARGETS["times Spark, clique"]), ("common key", None)):
            same, best = self.same_files(shape), self.ratio(shape)
            if not same or best is None:
                continue
            processor = self.ratio(shape, "rows_per_processor_second")
            told = " and ".join(f"{ratio:.1f} x at {batch:,} rows a batch" for batch, ratio in same.items())
            verdict = f"; target {target:.0f} x, at the larger {met(same[max(same)], target)}" if target else ""
            lines.append(
                f"**{shape}, rows/s against Spark's own joins on the same files: {told}**{verdict}. Our best batch size "
                f"against Spark's: {best:.0f} x the rows/s"
                + (f", {processor:.0f} x per processor second." if processor is not None else ".")
            )
        for shape in ("clique", "common key"):
            rate = self.rate(shape, OURS)
            if rate is not None:
                batch = max(r.batch for r in self.runs if r.feed == shape and r.who == OURS)
                target = TARGETS["rows/s, 2 cells"]
                lines.append(
                    f"**{shape}: {rate:,.0f} input rows/s at {batch:,} rows a batch, 2 cells**; target {target:,.0f}, "
                    f"{met(rate, target)}."
                )
        return [*lines, *self._flink_verdicts()]

    def _flink_verdicts(self) -> list[str]:
        if not self.flink:
            return [f"PyFlink: {ABSENT}."]
        return [
            f"**{r.feed}, {r.rows:,} rows, against PyFlink's interval joins: more than {r.ratio:.1f} x the rows/s**; it was cut "
            f"off after {r.seconds:.0f} s."
            if r.cut_off
            else f"**{r.feed}, {r.rows:,} rows, against PyFlink's interval joins: {r.ratio:.1f} x the rows/s, "
            f"{r.processor_ratio:.1f} x per processor second**, answers equal."
            for r in self.flink
        ]

    def markdown(self) -> list[str]:
        lines = [
            "# Joins on Spark", "",
            f"Made by `{self.command}` on {datetime.now(UTC):%Y-%m-%d}; {machine()}, `local[2]`; load average "
            f"{min(self.load):.1f} to {max(self.load):.1f} on {os.cpu_count()} cores while it ran. Other programs on "
            "the machine slowed both contenders. Rows/s are input rows divided by the median trigger (all of it: finding files, "
            "running, Spark's logs), without the first quarter of the batches. Both sides use the same files and sink (noop); "
            "answers (count and weighted sum of times) were equal. Rows per processor second count the time of all processes, "
            "including the JVM." + (SPARKS if any(r.who == SPARK for r in self.runs) else ""), "",
            *[f"- {line}" for line in self.verdicts()],
            "", "![rows per second](spark_joins.png)",
        ]  # fmt: skip
        for shape in dict.fromkeys(r.feed for r in self.runs):
            lines += ["", f"## {shape}", "", "| " + " | ".join(HEAD) + " |", "|---|" + "---:|" * (len(HEAD) - 1)]
            lines += ["| " + " | ".join(cells_of(r)) + " |" for r in self.runs if r.feed == shape and r.triggers]
        if self.flink:
            lines += ["", "## PyFlink's interval joins", "", *self._beside_flink()]
        if self.small:
            lines += ["", f"## Latency at {self.small[0].batch:,} rows per batch", "", *self._latency()]
        lines += ["", "## Where the time goes at the largest batches", "", *self._parts(self._largest())]
        return lines

    def _largest(self) -> list[Run]:
        most = max((r.batch for r in self.runs), default=0)
        return [r for r in self.runs if r.batch == most and r.who == OURS]

    def _latency(self) -> list[str]:
        lines = ["Median seconds per batch, by stage:", "", *self._parts(self.small)]
        return lines

    def _beside_flink(self) -> list[str]:
        versions = ", ".join(dict.fromkeys(r.version for r in self.flink if r.version)) or "version unknown"
        head = ("", "who", "rows", "s", "rows/s", "rows/processor s", "results", "rows between joins", "memory MB")
        lines = [
            f"apache-flink {versions}, parallelism {self.flink[0].parallelism}, its local cluster, {HEAP} of heap, state in the "
            "heap, no checkpoints (Thalweg commits its state in each batch). Flink's wheel reads no Parquet, so it gets the same "
            f"rows as CSV, one file per stream. A job over the first {WARM_UP:,} rows of each stream lets Java compile. Flink's "
            f"seconds are those of the job (in brackets) minus those of the same job over {FEW} rows of each stream; its processor "
            "seconds are those of the whole job. Thalweg's seconds include all batches, in 2 cells. As for Spark, streams are "
            "joined in the order written; each join has one interval on event times, and the other windows are conditions on "
            "numbers. The rows between joins, as last seen while the job ran, are what the next join keeps. Without checkpoints "
            "Flink does not report how many rows of state it holds at a time.", "",
            "| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2),
        ]  # fmt: skip
        for r in self.flink:
            ours = [
                r.feed, OURS, f"{r.rows:,}", f"{r.ours:.1f}", f"{r.rows / r.ours:,.0f}", f"{r.rows / r.ours_cpu:,.0f}",
                "" if r.cut_off else f"{r.count:,}", "", "",
            ]  # fmt: skip
            lines.append("| " + " | ".join(ours) + " |")
            theirs = (
                [f"over {r.seconds:.0f}, cut off", f"under {r.rows_per_second:,.0f}", "", "", "", ""]
                if r.cut_off
                else [
                    f"{r.net:.1f} (of {r.seconds:.1f})", f"{r.rows_per_second:,.0f}", f"{r.rows / r.cpu:,.0f}", f"{r.count:,}",
                    " + ".join(f"{n:,}" for n in r.between), f"{r.memory / 1e6:,.0f}",
                ]
            )  # fmt: skip
            lines.append("| " + " | ".join([r.feed, "PyFlink", f"{r.rows:,}", *theirs]) + " |")
        return lines

    def _parts(self, runs: Sequence[Run]) -> list[str]:
        head = ["", "cells", "trigger", *STAGES]
        lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
        for r in runs:
            steady = r.stages[max(1, len(r.stages) // 4) :]
            if steady:
                mid = {k: statistics.median(s[k] for s in steady) for k in ("trigger", *STAGES)}
                lines.append(f"| {r.feed} | {r.cells} | " + " | ".join(f"{v:.2f}" for v in mid.values()) + " |")
        return lines

    def plot(self, path: Path) -> None:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        shapes = list(dict.fromkeys(r.feed for r in self.runs))
        if not shapes:
            return
        figure, axes = pyplot.subplots(1, len(shapes), figsize=(5.2 * len(shapes), 3.6), squeeze=False, sharey=True)
        for axis, shape in zip(axes[0], shapes, strict=True):
            for cells, colour in ((2, "#0b6e99"), (1, "#6db3d1")):
                line = [r for r in self.runs if (r.feed, r.who, r.cells) == (shape, OURS, cells)]
                axis.loglog(
                    [r.batch for r in line],
                    [r.rows_per_second for r in line],
                    "o-",
                    color=colour,
                    label=f"Thalweg, {cells} cell{'s' if cells > 1 else ''}",
                )
            theirs = [r for r in self.runs if (r.feed, r.who) == (shape, SPARK) and r.triggers]
            if theirs:
                axis.loglog(
                    [r.batch for r in theirs], [r.rows_per_second for r in theirs], "s", color="#d2691e", label=SPARK
                )
            axis.set_title(shape, loc="left", fontsize=10)
            sizes = sorted({r.batch for r in self.runs if r.feed == shape})
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axis.set_xticks([], minor=True)
            axis.set_xlabel("rows per batch")
            axis.legend(frameon=False, fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
        axes[0][0].set_ylabel("input rows per second")
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        pyplot.close(figure)


HEAD = (
    "who", "cells", "rows per batch", "batches", "rows/s", "s per batch", "rows/processor s", "results", "state rows",
    "state MB",
)  # fmt: skip


def cells_of(r: Run) -> list[str]:
    rate = r.rows_per_processor_second
    per_processor = "not measured" if math.isnan(rate) else f"{rate:,.0f}"
    return [
        r.who, str(r.cells), f"{r.batch:,}", str(len(r.triggers)) + (" (cut off)" if r.cut_off else ""),
        f"{r.rows_per_second:,.0f}", f"{statistics.median(r.steady):.2f}", per_processor,
        f"{r.count:,}", f"{max(r.state_rows):,}", f"{max(r.state_bytes) / 1e6:.1f}",
    ]  # fmt: skip


def met(value: float, target: float) -> str:
    return "met" if value >= target else "missed"


def machine() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numba", "numpy"))
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}"


__all__: Sequence[Any] = ("Report", "machine")
