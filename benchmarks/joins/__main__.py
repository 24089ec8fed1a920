"""`python -m benchmarks.joins [--quick]`: the whole comparison, from making the data to the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console

from benchmarks.joins import handwritten, idle, kinds, rivals, scaling, start, thalweg_runs
from benchmarks.joins.measure import Contender, race
from benchmarks.joins.report import ADAPTED, LIMIT, POLARS, Effort, Report, Result, note_load
from benchmarks.joins.workloads import FULL, QUICK, Workload, j, j3

HERE = Path(__file__).parent
DATA = Path("out/benchmarks/joins")
HandWritten = Callable[..., tuple[int, int, int]]


def main(
    quick: Annotated[bool, typer.Option(help="Smaller data, fewer rounds; a minute or so.")] = False,
    rounds: Annotated[int, typer.Option(help="Passes of each contender.")] = 0,
    only: Annotated[
        str, typer.Option(help="Only workloads whose name contains this, 'kinds', 'idle' or 'scaling'.")
    ] = "",
    batch: Annotated[int, typer.Option(help="Milliseconds in a micro-batch.")] = thalweg_runs.BATCH,
    out: Annotated[Path | None, typer.Option(help="Where the report goes; a quick one stays in out/.")] = None,
) -> None:
    console = Console()
    report = Report(batch=batch, rounds=rounds or (2 if quick else 5))
    folder = out or (DATA if quick or only else HERE)
    warm_up()
    note_load(report.load)
    for make in QUICK if quick else FULL:
        w = make()
        if only not in w.name:
            continue
        note_load(report.load)
        report.results.append(compare(w, report, console, slow=0 if quick and w.name.startswith("J3") else 1))
        report.write(folder)  # save what is known so far, in case the run is interrupted
    if not only or only == "kinds":
        with console.status("kinds of tuples") as status:
            report.kinds = kinds.measure(quick, status.update)
        report.write(folder)
    if not only or only == "idle":
        with console.status("nothing to gain") as status:
            report.idle = idle.measure(quick, status.update)
        report.write(folder)
    if not only or only == "scaling":
        with console.status("scaling") as status:
            sizes = (20_000, 40_000, 80_000) if quick else (25_000, 50_000, 100_000, 200_000, 400_000)
            windows = (1_000, 4_000, 16_000) if quick else (1_250, 2_500, 5_000, 10_000, 20_000, 40_000)
            report.curves = scaling.curves(sizes, windows, 60_000 if quick else 160_000, status.update)
            status.update("micro-batch sizes")
            report.batches = batch_sizes(40_000 if quick else 200_000)
            status.update("start")
            report.starts = start.measure()
    report.show(console)
    report.write(folder)
    console.print(f"written to {folder / 'results.md'} and results.json")


def warm_up() -> None:
    """Compile everything before anything is timed. The cost of compiling is measured separately."""
    small = j(3_000)
    handwritten.run_clique(dict(small.data))
    handwritten.run_common_key(dict(j3(3_000).data))
    for policy in ("auto", "written"):
        thalweg_runs.feed(small, small.data, policy)


def compare(w: Workload, report: Report, console: Console, *, slow: int) -> Result:
    """Race all contenders on one workload, and compare the work of the orders."""
    with console.status(w.name) as status:
        folder = w.write(DATA)
        status.update(f"{w.name}: every order in hindsight")
        hindsight = thalweg_runs.hindsight(w, w.data, batch=report.batch)

        def tell(text: str) -> None:
            status.update(f"{w.name}: {text}")

        known = None if w.count is None or w.checksum is None else (w.count, w.checksum)
        contenders = [
            Contender(ADAPTED, thalweg(w, folder, "auto", report.batch)),
            Contender("thalweg agreedy", thalweg(w, folder, "agreedy", report.batch)),
            Contender("thalweg oracle order", thalweg(w, folder, hindsight.oracle(), report.batch)),
            Contender("thalweg fixed order", thalweg(w, folder, "written", report.batch)),
            Contender(POLARS, lambda: rivals.polars_batch(w, folder)),
            Contender("duckdb batch", lambda: rivals.duckdb_batch(w, folder)),
            Contender("duckdb micro-batch", lambda: rivals.duckdb_micro(w, folder, report.batch), rounds=slow),
        ]
        kernel = hand_written(w)
        if kernel is not None:
            contenders.insert(0, Contender(LIMIT, by_hand(w, folder, kernel, known=True)))
            contenders.append(Contender("hand-written, fixed order", by_hand(w, folder, kernel, known=False)))
        timings = race(contenders, report.rounds, known, tell)
        tell("probe work")
        adapted = thalweg_runs.feed(w, w.data, "auto", batch=report.batch)
        works = [
            thalweg_runs.feed(w, w.data, policy, batch=report.batch).work
            for policy in (hindsight.oracle(), hindsight.best_fixed(), "written", hindsight.worst_fixed())
        ]
    effort = Effort(adapted.total_work, adapted.profiling, *works, adapted.events)
    return Result(w.name, w.rows, w.sql, timings, effort, adapted.stored)


def answer(run: thalweg_runs.Run) -> rivals.Answer:
    return run.count, run.checksum


def thalweg(w: Workload, folder: Path, policy: thalweg_runs.Chooser, batch: int) -> Callable[[], rivals.Answer]:
    return lambda: answer(thalweg_runs.run(w, folder, policy, batch=batch))


def hand_written(w: Workload) -> HandWritten | None:
    if w.name.startswith("J3"):
        return handwritten.run_common_key
    return handwritten.run_clique if w.name.startswith("J") else None


def by_hand(w: Workload, folder: Path, kernel: HandWritten, *, known: bool) -> Callable[[], rivals.Answer]:
    def go() -> rivals.Answer:
        tables: dict[str, pa.Table] = {s: pq.read_table(folder / f"{s}.parquet") for s in w.streams}
        count, checksum, _ = kernel(tables, known=known)
        return count, checksum

    return go


def batch_sizes(tuples: int) -> dict[int, float]:
    """Rows per processor second of J, by the size of a micro-batch."""
    w = j(tuples)
    speeds = {}
    for batch in (250, 1_000, 2_000, 4_000, 8_000):
        began = time.process_time()
        thalweg_runs.feed(w, w.data, "auto", batch=batch)
        speeds[batch] = w.rows / (time.process_time() - began)
    return speeds


if __name__ == "__main__":
    typer.run(main)
