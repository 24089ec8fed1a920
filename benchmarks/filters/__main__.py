"""`python -m benchmarks.filters`: runs the benchmark, shows tables, writes results.json, results.md and pictures.

A full run writes beside this file, so that its results stay with the code. A quick or partial run writes to out/.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.filters import plots, report, sections
from benchmarks.filters.hashed import CACHE
from thalweg.errors import DefinitionError, did_you_mean

NAMES = ("fn", "f", "long", "groups", "nslkdd", "nothing", "slow", "stationary", "spark")


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: less than a minute.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"Only these: {', '.join(NAMES)}.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where results go.")] = None,
    level: Annotated[int, typer.Option(help="1: the engine alone, no Spark. 2: everything.")] = 2,
) -> None:
    """Measure adaptive filters."""
    chosen = list(only or NAMES)
    for name in chosen:
        if name not in NAMES:
            raise DefinitionError(f"no benchmark '{name}'", hint=did_you_mean(name, NAMES))
    size = sections.QUICK if quick else sections.FULL
    whole = not quick and not only and level == 2
    folder = out or (Path(__file__).parent if whole else CACHE / "results")
    console = Console() if Console().is_terminal else Console(width=150)
    started = perf_counter()
    made: dict[str, report.Section] = {}
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        for name in chosen:
            if name in sections.WORKLOADS:
                made[name] = sections.engine_section(name, size, progress)
            elif name == "long":
                made[name] = sections.long_section(size, progress)
            elif name == "nslkdd":
                made[name] = sections.nsl_section(size, progress)
            elif name == "nothing":
                made[name] = sections.nothing_section(size, progress)
            elif name == "slow":
                made[name] = sections.slow_section(size, progress)
            elif name == "stationary":
                made[name] = sections.still_section(size, progress)
        if level == 2 and any(name in sections.WORKLOADS or name == "spark" for name in chosen):
            sections.spark_sections(chosen, made, size, progress)
    done = [made[name] for name in NAMES if name in made]
    for section in done:
        if section.series:
            picture = f"{section.name}.png"
            series = section.series
            plots.draw(
                folder / picture, section.title, series["unit"], series["phase"], series["best"], series["work"],
                series["borders"], series.get("smooth", 2),
            )  # fmt: skip
            section.pictures.append(picture)
        report.show(section, console)
    command = " ".join(
        ["python -m benchmarks.filters", *(["--quick"] if quick else []), *(f"--only {n}" for n in only or [])]
    )
    about = report.circumstances(command, perf_counter() - started, quick)
    report.show_targets(done, console, about)
    report.keep(done, about, folder)
    console.print(f"{about['seconds']} s; results.json, results.md and pictures are in {folder}")


if __name__ == "__main__":
    typer.run(main)
