"""`thalweg lab`: lists the experiments; runs one, or a whole chapter, and writes plots, a page and numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from thalweg.lab.experiment import Experiment, Outcome, Trial
    from thalweg.lab.record import Settings

app = typer.Typer(help="Repeat the papers' experiments.", no_args_is_help=True)


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    from rich.console import Console
    from rich.table import Table

    from thalweg.lab import catalogue

    console = Console()
    for group in catalogue.GROUPS:
        table = Table(title=f"{group}: run them all, or one by its name or figure", title_justify="left")
        for column in ("name", "section", "title", "varies", "claims"):
            table.add_column(column, justify="right" if column == "claims" else "left")
        for e in catalogue.experiments(group):
            table.add_row(e.name, e.section, e.title, e.varies, str(len(e.claims)))
        console.print(table)


@app.command("run")
def run_experiments(
    name: Annotated[str, typer.Argument(help="A group such as chapter4, or one experiment or figure (see list).")],
    quick: Annotated[bool, typer.Option("--quick", help="Short streams and few seeds; takes under a minute.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write [default: out/lab/NAME].")] = None,
    seed: Annotated[int, typer.Option(help="First seed; the others follow it.")] = 7,
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core.")] = 0,
) -> None:
    """Run experiments and compare the papers' claims with our measurements."""
    from rich.console import Console

    from thalweg.errors import ThalwegError
    from thalweg.lab import catalogue, chart
    from thalweg.lab.record import Settings

    console = Console()
    try:
        experiments = catalogue.find(name)
        chart.pyplot()  # if it is missing, fail now rather than after the run
        outcomes = _progress(console, experiments, quick, seed, jobs or os.cpu_count() or 1)
        folder = out or Path("out") / "lab" / name
        settings = Settings(name, quick, seed)
        write(folder, settings, outcomes)
    except ThalwegError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(2) from error
    show(console, outcomes)
    console.print(f"page, plots and numbers: {folder / 'index.html'}", highlight=False, soft_wrap=True)


def _progress(console: Console, experiments: list[Experiment], quick: bool, seed: int, jobs: int) -> list[Outcome]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from thalweg.lab.run import run

    columns = (
        TextColumn("{task.fields[name]:<12}"), BarColumn(bar_width=28), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("[dim]{task.description}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        bars = {
            e.name: progress.add_task(e.title, name=e.name, total=len(e.trials(quick, seed)), start=False)
            for e in experiments
        }

        def step(experiment: Experiment, trial: Trial) -> None:
            progress.start_task(bars[experiment.name])
            bar = bars[experiment.name]
            progress.update(bar, advance=1, description=f"{experiment.title}: {trial.label}")
            if progress.tasks[bar].finished:
                progress.update(bar, description=experiment.title)
                if not console.is_terminal:
                    console.print(f"{experiment.name}: done", highlight=False)

        return run(experiments, quick=quick, seed=seed, jobs=jobs, step=step)


def write(folder: Path, settings: Settings, outcomes: list[Outcome]) -> None:
    """Write index.html, a PNG for each panel, raw.json, summary.json and claims.md."""
    from thalweg.lab import chart, record
    from thalweg.lab.experiment import curves
    from thalweg.lab.page import page

    folder.mkdir(parents=True, exist_ok=True)
    drawings = {}
    for outcome in outcomes:
        e = outcome.experiment
        for panel in e.panels:
            png, svg = chart.draw(panel, curves(panel, outcome.measured), e.cast)
            (folder / f"{e.name}-{panel.name}.png").write_bytes(png)
            drawings[f"{e.name}-{panel.name}"] = svg
    summary = record.summary(settings, outcomes)
    title = f"Thalweg lab: {settings.name}"
    (folder / "index.html").write_text(page(title, summary, outcomes, drawings), encoding="utf-8")
    (folder / "raw.json").write_text(record.raw(settings, outcomes), encoding="utf-8")
    (folder / "summary.json").write_text(record.written(summary), encoding="utf-8")
    (folder / "claims.md").write_text(record.claims_table(summary), encoding="utf-8")


def show(console: Console, outcomes: list[Outcome]) -> None:
    """Print the claims beside our measurements."""
    from rich.table import Table
    from rich.text import Text

    from thalweg.lab.experiment import counted

    colors = {"agrees": "green", "does not": "red", "can't say": "yellow"}
    for outcome in outcomes:
        e = outcome.experiment
        table = Table(
            title=f"{e.name}  {e.title} ({e.section})", title_justify="left", title_style="bold", show_lines=True
        )
        table.add_column("claim", ratio=5)
        table.add_column("", width=9)
        table.add_column("measured", ratio=6, style="dim")
        for claim, finding in outcome.findings:
            says = claim.says if claim.source == "paper" else f"(ours) {claim.says}"
            table.add_row(Text(says), Text(finding.verdict, style=colors[finding.verdict]), Text(finding.numbers))
        console.print(table, highlight=False)
    tally = counted(outcomes)
    console.print(", ".join(f"{n} {verdict}" for verdict, n in tally.items()), style="bold", highlight=False)
