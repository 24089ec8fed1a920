"""The `thalweg` command. Each sub-command imports what it needs when it runs, so `--help` stays fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from thalweg.lab.cli import app as lab

app = typer.Typer(
    name="thalweg",
    help="Continuous queries on Spark whose plans follow the data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
app.add_typer(lab, name="lab")


def _version(asked: bool) -> None:
    if asked:
        from thalweg import __version__

        typer.echo(f"thalweg {__version__}")
        raise typer.Exit


@app.callback()
def thalweg(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Continuous queries on Spark whose plans follow the data."""


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller streams: about a minute.")] = False,
    policy: Annotated[str, typer.Option(help="Who decides the orders.")] = "auto",
    only: Annotated[str | None, typer.Option(help="One part: flights or intrusions.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write the live view at its end to this SVG file.")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
) -> None:
    """Watch orders follow the data on local Spark: flights joined with the weather, then intrusion detection."""
    from thalweg.demo.run import main

    _end(lambda: main("tiny" if tiny else "quick" if quick else "full", policy, only, picture))


AppFile = Annotated[Path, typer.Argument(help="The application: streams, tables, functions, queries, sinks.")]
Only = Annotated[list[str] | None, typer.Option("--query", "-q", help="Only this query; may be given several times.")]


@app.command()
def run(
    file: AppFile,
    query: Only = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="A live view instead of lines.")] = False,
) -> None:
    """Run an application file: all its queries side by side, until they end or Ctrl-C. A restart continues."""
    from thalweg.app.run import run

    _end(lambda: run(file, only=tuple(query or ()), watch=watch))


@app.command()
def explain(file: AppFile, query: Only = None) -> None:
    """Show how the queries of an application file would run, without starting them."""
    from thalweg.app.run import explain

    _end(lambda: explain(file, only=tuple(query or ())))


@app.command()
def check(file: AppFile, query: Only = None) -> None:
    """Say whether the queries of an application file may go on with their checkpoints. Nothing is started or changed."""
    from thalweg.app.run import check

    _end(lambda: check(file, only=tuple(query or ())))


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path()) -> None:
    """Write a commented application that runs as it is, as a starting point for your own."""
    from thalweg.app.init import init

    def write() -> int:
        for path in init(folder):
            typer.echo(f"wrote {path}")
        typer.echo(f"try: thalweg run {folder / 'app.toml'} --watch")
        return 0

    _end(write)


@app.command()
def doctor(
    spark: Annotated[bool, typer.Option(help="Start Spark and run a query.")] = True,
) -> None:
    """Check Python, Java, Spark and the rest, and say what to fix."""
    from rich.console import Console

    from thalweg.app.doctor import doctor

    _end(lambda: doctor(Console(), spark))


def _end(command: Callable[[], int]) -> None:
    """Exit with the command's code; show errors the user can fix without a traceback."""
    from thalweg.errors import ThalwegError

    try:
        raise typer.Exit(command())
    except ThalwegError as error:
        typer.echo(f"thalweg: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    app()
