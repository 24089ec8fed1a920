"""The `thalweg` command: demo, lab, and what later joins them. Each sub-command imports what it needs when it runs."""

from __future__ import annotations

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


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A smaller stream: under a minute.")] = False,
    policy: Annotated[str, typer.Option(help="Who decides the order of the predicates.")] = "auto",
) -> None:
    """Watch six costly predicates find their order on a drifting intrusion-detection stream, on local Spark."""
    from thalweg.demo.run import main
    from thalweg.errors import ThalwegError

    try:
        raise typer.Exit(main(quick, policy))
    except ThalwegError as error:
        typer.echo(f"thalweg: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    app()
