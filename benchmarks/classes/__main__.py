"""`python -m benchmarks.classes [--rounds N]`: what many classes cost a batch, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.classes import lookups
from benchmarks.classes.measure import CLASSES, ROWS, Point, points

HERE = Path(__file__).parent


def main(
    rounds: Annotated[int, typer.Option(help="Rounds in which all numbers of classes take turns.")] = 30,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = HERE,
) -> None:
    found = markdown(list(points(rounds))) + lookups.markdown(list(lookups.times(max(rounds // 6, 1))))
    text = "\n".join(found) + "\n"
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.md").write_text(text)
    print(text)


def markdown(found: list[Point]) -> list[str]:
    lines = [
        "# What many classes cost",
        "",
        "Made by `python -m benchmarks.classes`: rows of a batch take 1 to 64 random routes through six predicates or six",
        "look-ups. *Python*: processor time of a batch less that of its operators, in microseconds. *Ratio*: that time",
        "over the time with one class, the median of ratios within a round. With more than one class rows are sorted by",
        "route, or before each round of predicates by the one they meet next, and a predicate may be called in every round;",
        "beyond that the number of classes must not matter.",
    ]
    for kind in ("filters", "joins"):
        titles = " | ".join(f"{c} classes | ratio" if c > 1 else "1 class" for c in CLASSES)
        lines += ["", f"## {kind.capitalize()}", "", f"| rows a batch | {titles} |", "|---:" * 2 * len(CLASSES) + "|"]
        for rows in ROWS:
            mine = [p for p in found if (p.kind, p.rows) == (kind, rows)]
            cells = [f"{p.python:,.0f}" + (f" | {p.ratio:.2f}" if p.classes > 1 else "") for p in mine]
            lines.append(f"| {rows:,} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    typer.run(main)
