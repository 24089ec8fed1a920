"""`python -m benchmarks.caches [--rounds N]`: rows per second with caches and without, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.caches.measure import Point, measure, sweep
from benchmarks.caches.workloads import every, fact
from benchmarks.markdown import wrapped

HERE = Path(__file__).parent
LIMITS: list[int | None] = [0, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, None]


def main(
    rounds: Annotated[int, typer.Option(help="Rounds in which the contenders take turns.")] = 5,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = HERE,
) -> None:
    found = [measure(w, rounds) for w in every()]
    memory = list(sweep(fact(np.random.default_rng(0), 20, 0.05), LIMITS, rounds))
    text = wrapped(markdown(found, memory))
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.md").write_text(text)
    print(text)


def markdown(found: list[Point], memory: list[tuple[int | None, float, float]]) -> list[str]:
    lines = [
        "# Where caches of partial results pay",
        "",
        "Made by `python -m benchmarks.caches`. Rows per second of processor time (the best round) with the policy `auto` and "
        'caches off; then how many times faster the query is with `caches="auto"` and with `caches="all"`: the median of '
        "ratios within a round. Answers are compared. The machine was not quiet.",
    ]
    group = ""
    for p in found:
        if p.workload.group != group:
            group = p.workload.group
            titles = "| | rows/s without | auto | all | caches that auto uses at the end | kB |"
            lines += ["", f"## {group[0].upper()}{group[1:]}", "", titles, "|---|---:|---:|---:|---|---:|"]
        lines.append(
            f"| {p.workload.name} | {p.rate('off'):,.0f} | {p.ratio('auto'):.2f} | {p.ratio('all'):.2f} | {p.caches} | "
            f"{p.bytes / 1024:,.0f} |"
        )
    lines += ["", "## Less memory", "", "The fact stream with 20 rows a key, of which 5 % pass.", "",
              "| kB for caches | times as fast | rows that miss |", "|---:|---:|---:|"]  # fmt: skip
    for limit, ratio, miss in memory:
        lines.append(f"| {'any' if limit is None else f'{limit / 1024:,.0f}'} | {ratio:.2f} | {miss:.1%} |")
    return lines


if __name__ == "__main__":
    typer.run(main)
