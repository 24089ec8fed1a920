"""`python -m benchmarks.shares [--rows N]`: the simulation, its table and its plot."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.markdown import wrapped
from benchmarks.shares.simulate import EDGES, KEYS, Point, points

HERE = Path(__file__).parent
SHOWN = (2, 4, 8, 16, 64, 256, 1000)


def main(
    rows: Annotated[int, typer.Option(help="Tuples of each stream.")] = 200_000,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = HERE,
) -> None:
    found = list(points(rows))
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps([asdict(p) for p in found], indent=1) + "\n")
    (out / "results.md").write_text(wrapped(markdown(found, rows)))
    plot(found, out / "shares.png")
    print("\n".join(markdown(found, rows)))


def markdown(found: list[Point], rows: int) -> list[str]:
    lines = [
        "# Shares, copies and skew", "",
        f"Made by `python -m benchmarks.shares`: four streams of {rows:,} tuples at equal rates, placed into cells by the "
        "same code that packs rows on Spark, with the shares that queries would choose. *Copies*: rows sent per row read. "
        "*Busiest*: rows of the busiest cell relative to the mean. *Speed-up*: all rows divided by those of the busiest cell; "
        "that is the most these cells can give if a row costs the same everywhere. One key value is never split, so with Zipf "
        "keys the most frequent value limits the speed-up, however many cells there are.", "",
        "![copies, skew and speed-up](shares.png)",
    ]  # fmt: skip
    for shape in EDGES:
        lines += [
            "",
            f"## {shape}",
            "",
            "| cells | shares | copies | busiest, uniform | speed-up | busiest, Zipf | speed-up |",
        ]
        lines.append("|---:|---|---:|---:|---:|---:|---:|")
        for cells in SHOWN:
            u, z = (next(p for p in found if (p.shape, p.keys, p.cells) == (shape, k, cells)) for k in KEYS)
            sizes = " x ".join(map(str, u.sizes))
            skew = [f"{p.busiest:.2f} | {p.speed_up:.1f}" for p in (u, z)]
            lines.append(f"| {cells:,} | {sizes} | {u.copies:.2f} | {skew[0]} | {skew[1]} |")
    return lines


def plot(found: list[Point], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12.5, 3.8))
    panels = (
        ("copies", "copies of a row"),
        ("busiest", "busiest cell over the mean"),
        ("speed_up", "speed-up at most"),
    )
    for axis, (name, label) in zip(axes, panels, strict=True):
        for colour, shape in zip(("#0b6e99", "#d2691e", "#4a7c3a"), EDGES, strict=True):
            for keys, style in zip(KEYS, ("o-", "s:"), strict=True):
                if name == "copies" and keys == "zipf":
                    continue
                line = [p for p in found if (p.shape, p.keys) == (shape, keys)]
                axis.loglog(
                    [p.cells for p in line], [getattr(p, name) for p in line], style, color=colour, markersize=3, linewidth=1.2,
                    label=shape if name == "copies" else f"{shape}, {keys}",
                )  # fmt: skip
        axis.set_xlabel("cells")
        axis.set_title(label, loc="left", fontsize=10)
        axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[2].loglog([2, 1000], [2, 1000], color="#9aa5b1", linewidth=0.8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    typer.run(main)
