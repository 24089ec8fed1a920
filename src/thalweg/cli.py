"""The `thalweg` command: demo, lab, and what later joins them. Each sub-command imports what it needs when it runs."""

from __future__ import annotations

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

if __name__ == "__main__":
    app()
