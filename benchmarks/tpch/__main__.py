"""`python -m benchmarks.tpch [--quick]`: time of a batch in the early and in the late third of the history."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.markdown import wrapped
from benchmarks.tpch.feed import CONTINUOUS, Step, cut, generate, maintain

HERE = Path(__file__).parent
HEAD = (
    "query", "early ms", "late ms", "late / early", "changes a batch, early", "late", "rows kept, after the early third",
    "at the end",
)  # fmt: skip


def main(
    quick: Annotated[bool, typer.Option(help="A tenth of the rows, one round; nothing is recorded.")] = False,
    only: Annotated[str, typer.Option(help="Only this query, such as q03; nothing is recorded.")] = "",
    rounds: Annotated[int, typer.Option(help="Passes over the history.")] = 3,
    batches: Annotated[int, typer.Option(help="How many batches the history has.")] = 30,
) -> None:
    console = Console()
    scale, rounds = ("0.01", 1) if quick else ("0.1", rounds)
    with tempfile.TemporaryDirectory() as folder:
        data = generate(scale, Path(folder))
    parts = cut(data, batches)
    lines = []
    with console.status("") as status:
        for name in [n for n in CONTINUOUS if only in n]:
            status.update(name)
            list(maintain(name, data, parts[:2]))  # compiles what it needs
            lines.append(line(name, [list(maintain(name, data, parts)) for _ in range(rounds)]))
            console.print(" | ".join(lines[-1]))
    rows = sum(len(t) for t in parts[-1].values())
    text = [
        "# TPC-H, kept up to date", "",
        f"`python -m benchmarks.tpch`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}. Scale {scale}: orders with their lines arrive in {batches} batches of about {rows:,} "
        "rows, both streams unbounded; the other tables are static. Queries as printed, without the last ORDER BY and LIMIT. "
        f"Milliseconds of the processor a batch, the least of {rounds} passes for each batch, the median over a third of "
        "the batches (the first batch, which reads the tables, is left out). Batches of the late third find about "
        "four times the history of those of the early one: a query whose cost followed the history would show about 4. The "
        f"machine was shared (load at the end: {os.getloadavg()[0]:.1f}). Q2, Q11 and Q16 read no stream.", "",
        "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|", *("| " + " | ".join(line) + " |" for line in lines), "",
    ]  # fmt: skip
    if not quick and not only:
        (HERE / "results.md").write_text(wrapped(text))
        console.print(f"written to {HERE / 'results.md'}")


def line(name: str, passes: Sequence[Sequence[Step]]) -> tuple[str, ...]:
    """What is reported of a query."""
    steps = passes[0]
    third = len(steps) // 3
    seconds = [min(p[k].seconds for p in passes) for k in range(len(steps))]
    early, late = (statistics.median(part) for part in (seconds[1 : third + 1], seconds[-third:]))
    changes = [statistics.median(s.changes for s in part) for part in (steps[1 : third + 1], steps[-third:])]
    return (
        name, f"{early * 1000:.1f}", f"{late * 1000:.1f}", f"{late / early:.2f}", *(f"{c:,.0f}" for c in changes),
        f"{steps[third].kept:,}", f"{steps[-1].kept:,}",
    )  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
