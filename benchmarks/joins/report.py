"""The report of a run: a table in the terminal, JSON for machines, Markdown and plots for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.joins.idle import TARGET, Idle
from benchmarks.joins.kinds import BEST, POLICIES, Kinds
from benchmarks.joins.measure import Timing, ratio
from benchmarks.joins.scaling import Curve
from benchmarks.joins.start import Start
from benchmarks.markdown import wrapped

ADAPTED, LIMIT, POLARS = "thalweg auto", "hand-written, oracle order", "polars batch"
LIBRARIES = ("duckdb", "polars", "numba", "numpy", "pyarrow")


@dataclass(frozen=True)
class Effort:
    """Probe work of a workload for several ways of choosing orders; it has no noise."""

    adapted: float
    profiling: float
    """The part of it spent on learning."""
    oracle: float
    best_fixed: float
    written: float
    worst_fixed: float
    changes: int
    """Decisions taken."""

    @property
    def regret(self) -> float:
        return self.adapted / self.oracle


@dataclass
class Result:
    """One workload."""

    name: str
    rows: int
    sql: str
    timings: list[Timing]
    effort: Effort
    stored: int
    """Peak number of stream rows stored."""

    def timing(self, name: str) -> Timing | None:
        return next((t for t in self.timings if t.name == name and t.wall), None)

    def against(self, rival: str, clock: str = "wall") -> float | None:
        """Thalweg's rows per second as a share of the rival's."""
        ours, theirs = self.timing(ADAPTED), self.timing(rival)
        return ratio(theirs, ours, clock) if ours and theirs else None


@dataclass
class Report:
    results: list[Result] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    starts: tuple[Start, Start] | None = None
    batches: dict[int, float] = field(default_factory=dict)
    """Rows per processor second of J by milliseconds per micro-batch."""
    kinds: list[Kinds] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    batch: int = 0
    rounds: int = 0
    load: list[float] = field(default_factory=list)
    """Load averages of the machine, taken before each workload."""

    # Terminal.

    def show(self, console: Console) -> None:
        for r in self.results:
            answer = r.timings[0].answer
            assert answer is not None
            table = Table(title=f"{r.name}: {r.rows:,} rows in, {answer[0]:,} results, checksum {answer[1]}")
            for name in ("", "rows/s", "seconds", "processor s", f"{ADAPTED} is"):
                table.add_column(name, justify="left" if not name else "right")
            for t in sorted((t for t in r.timings if t.wall), key=lambda t: t.seconds):
                mine = r.against(t.name)
                table.add_row(
                    t.name, f"{r.rows / t.seconds:,.0f}", f"{t.seconds:.2f}", f"{t.processor_seconds:.2f}",
                    "" if mine is None or t.name == ADAPTED else f"{mine:.2f} x as fast",
                    style="bold" if t.name == ADAPTED else None,
                )  # fmt: skip
            console.print(table)
            e = r.effort
            console.print(
                f"  probe work: adapted {e.regret:.3f} x oracle (profiling {e.profiling / e.adapted:.1%} of it, "
                f"{e.changes} decisions), best fixed order {e.best_fixed / e.oracle:.2f} x, written "
                f"{e.written / e.oracle:.2f} x, worst fixed {e.worst_fixed / e.oracle:.2f} x\n"
            )
        for c in self.curves:
            console.print(f"  cost against {c.against}: slope {c.slope():.2f} (work {c.slope('work'):.2f})")
        for k in self.kinds:
            for policy in POLICIES:
                console.print(
                    f"  kinds of tuples, {k.batch:,} in a batch: {policy} takes {k.work[policy] / k.work[BEST]:.2f} of the probe "
                    f"work and {k.seconds[policy]:.2f} of the processor time of the best single order"
                )
        for i in self.idle:
            low, middle, high = i.quartiles
            console.print(
                f"  {'little' if i.changing else 'nothing'} to gain, {i.what}, {i.rows:,} rows: auto takes {middle:.3f} "
                f"({low:.3f} to {high:.3f}) of the processor time of written, which takes {median(i.control):.3f} of its own"
            )
        if self.starts:
            cold, warm = self.starts
            console.print(f"  start: {cold.own:.1f} s with nothing compiled, {warm.own:.2f} s from the cache")

    # Files.

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(self.record(), indent=1) + "\n")
        if self.curves:
            self.plot(folder / "scaling.png")
        (folder / "results.md").write_text(wrapped(self.markdown()))

    def record(self) -> dict[str, Any]:
        return {
            "when": datetime.now(UTC).isoformat(timespec="minutes"),
            "machine": machine(),
            "load": self.load,
            "batch": self.batch,
            "rounds": self.rounds,
            "results": [asdict(r) for r in self.results],
            "curves": [asdict(c) | {"slope": c.slope(), "work slope": c.slope("work")} for c in self.curves],
            "batches": self.batches,
            "kinds": [asdict(k) for k in self.kinds],
            "idle": [asdict(i) for i in self.idle],
            "starts": [asdict(s) for s in self.starts or ()],
        }

    def markdown(self) -> list[str]:
        lines = [
            "# Joins",
            "",
            f"Made by `python -m benchmarks.joins` on {datetime.now(UTC):%Y-%m-%d}; {machine()}; load average "
            f"{min(self.load):.1f} to {max(self.load):.1f} while it ran. Contenders take turns, {self.rounds} rounds, "
            "medians; ratios are formed within a round. All answers were equal (count and checksum). Thalweg and "
            f"DuckDB's micro-batches have {self.batch:,} ms; batch engines see all data at once. Seconds include "
            "reading Parquet. Thalweg and the hand-written kernel use one core, Polars and DuckDB what there is.",
            "",
            "## In short",
            "",
        ]
        lines += [f"- {line}" for line in self.headlines()]
        for r in self.results:
            lines += ["", f"## {r.name}", "", f"`{r.sql}`", "", *self._race(r), "", *self._effort(r)]
        if self.curves:
            lines += ["", "## How cost grows", "", "![against tuples and window](scaling.png)", "", *self._growth()]
        if self.batches:
            lines += ["", "## Size of a micro-batch (J, processor time)", "", "| ms per batch | rows/s |", "|---|---|"]
            lines += [f"| {b:,} | {v:,.0f} |" for b, v in self.batches.items()]
        if self.kinds:
            lines += ["", "## Two kinds of tuples in one stream", "", *self._kinds()]
        if self.idle:
            lines += ["", "## Nothing to gain", "", *self._idle()]
        if self.starts:
            lines += ["", "## Start", "", "| processor s | libraries | Thalweg | first results |", "|---|---|---|---|"]
            for name, s in zip(("nothing compiled", "from the cache"), self.starts, strict=True):
                lines.append(f"| {name} | {s.libraries:.2f} | {s.thalweg:.2f} | {s.first:.2f} |")
        return lines

    def headlines(self) -> list[str]:
        said = []
        for r in self.results:
            parts = [f"{x:.2f} x {name}" for name in (LIMIT, POLARS) if (x := r.against(name)) is not None]
            said.append(
                f"**{r.name}**: rows/s {', '.join(parts)}; probe work {r.effort.regret:.2f} x the oracle's (best "
                f"fixed order: {r.effort.best_fixed / r.effort.oracle:.2f} x)"
            )
        return said

    def _race(self, r: Result) -> list[str]:
        lines = [
            f"| | rows/s | seconds | processor s | {ADAPTED} is (wall) | (processor) |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for t in sorted((t for t in r.timings if t.wall), key=lambda t: t.seconds):
            ratios = [r.against(t.name, clock) for clock in ("wall", "processor")]
            shown = ["" if t.name == ADAPTED or x is None else f"{x:.2f} x" for x in ratios]
            lines.append(
                f"| {t.name} | {r.rows / t.seconds:,.0f} | {t.seconds:.2f} | {t.processor_seconds:.2f} "
                f"| {shown[0]} | {shown[1]} |"
            )
        return lines

    def _effort(self, r: Result) -> list[str]:
        e = r.effort
        rows = (
            ("oracle: best order of each phase, in hindsight", e.oracle), (f"{ADAPTED}, including profiling", e.adapted),
            ("best fixed order, in hindsight", e.best_fixed), ("as written", e.written),
            ("worst fixed order", e.worst_fixed),
        )  # fmt: skip
        lines = ["| probe work | buckets and candidates | x oracle |", "|---|---:|---:|"]
        lines += [f"| {name} | {work:,.0f} | {work / e.oracle:.3f} |" for name, work in rows]
        return [*lines, "", f"{e.changes} decisions; at most {r.stored:,} stream rows stored."]

    def _kinds(self) -> list[str]:
        lines = [
            "Another table drops each kind, so the best order for one is the worst for the other. Target: the best single order "
            "takes at least 1.5 times the probe work of routes by class, including learning. Classes cost something in every "
            "batch; `auto` adopts them where that pays. Engines were fed side by side, batch by batch.",
            "",
            "| tuples per batch | policy | probe work | best single order / policy | processor time / best single order |",
            "|---:|---|---:|---:|---:|",
        ]
        for k in self.kinds:
            for policy, work in k.work.items():
                less = k.work[BEST] / work
                lines.append(f"| {k.batch:,} | {policy} | {work:,.0f} | {less:.2f} | {k.seconds[policy]:.2f} |")
        return lines

    def _idle(self) -> list[str]:
        return [
            "All orders are equally good, and nothing changes. The table shows the processor time of `auto` relative to "
            f"`written`, with a second `written` as a control. Engines were fed side by side. Target: at most {TARGET:g}.",
            "",
            *_beside_written([i for i in self.idle if not i.changing]),
            "",
            "Little to gain: the best order changes with every other batch. Measured the same way, without a target.",
            "",
            *_beside_written([i for i in self.idle if i.changing]),
        ]

    def _growth(self) -> list[str]:
        lines = []
        for c in self.curves:
            lines += [
                f"Against {c.against}: slope {c.slope():.2f} in processor time, {c.slope('work'):.2f} in work "
                "(1 is linear; less is better).",
                "",
                "| size | processor s | work | rows held | results |",
                "|---:|---:|---:|---:|---:|",
                *(f"| {p.size:,} | {p.seconds:.2f} | {p.work:,.0f} | {p.stored:,} | {p.results:,} |" for p in c.points),
                "",
            ]
        return lines

    def plot(self, path: Path) -> None:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(1, len(self.curves), figsize=(4.2 * len(self.curves), 3.4), squeeze=False)
        for axis, curve in zip(axes[0], self.curves, strict=True):
            sizes = [p.size for p in curve.points]
            axis.loglog(sizes, [p.seconds for p in curve.points], "o-", label=f"measured, slope {curve.slope():.2f}")
            first = curve.points[0]
            axis.loglog(sizes, [first.seconds * s / first.size for s in sizes], ":", color="grey", label="linear")
            axis.set_xticks(sizes, [f"{x / 1000:g}k" for x in sizes])
            axis.set_xticks([], minor=True)
            axis.set_xlabel(curve.against)
            axis.set_ylabel("processor seconds")
            axis.legend(frameon=False)
        figure.tight_layout()
        figure.savefig(path, dpi=130)
        pyplot.close(figure)


def machine() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}"


def note_load(into: list[float]) -> None:
    into.append(round(os.getloadavg()[0], 1))


__all__: Sequence[str] = ("ADAPTED", "LIMIT", "POLARS", "Effort", "Report", "Result", "machine", "note_load")


def _beside_written(cases: list[Idle]) -> list[str]:
    lines = [
        "| | rows in | passes | auto, median | quartiles | control, median | probe work of auto, including learning |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    for i in cases:
        low, middle, high = i.quartiles
        lines.append(
            f"| {i.what} | {i.rows:,} | {len(i.times)} | {middle:.3f} | {low:.3f}–{high:.3f} | {median(i.control):.3f} "
            f"| {i.work:.3f} |"
        )
    return lines
