"""Panels as pictures: PNG for documents, SVG for the page.

Both come from the same drawing. In the SVG every colour is a CSS variable, so the page can show it light or dark
without a second picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO, StringIO
from math import isfinite
from textwrap import fill
from typing import Any

from thalweg.errors import ThalwegError
from thalweg.lab.experiment import Curve, Panel

INK, FAINT, PAPER = "#1b1f24", "#d8dde3", "#fefefe"
LIGHT = ("#57606a", "#0969da", "#d1570c", "#1a7f4b", "#a33ba8", "#b08800", "#c01c4a", "#0b7285", "#7a4b1e", "#6e7781")
"""Colours of the series, by position in the cast."""
DARK = ("#adb6c0", "#58a6ff", "#f0883e", "#56d390", "#d58ae0", "#e3b341", "#ff7b9c", "#66c2cd", "#c69b6d", "#8b949e")
MARKERS = "osD^vPX*hp"
DASHES = ("-", "-", "-", "-", "-", "--", "--", ":", "-.", "-.")
WIDTH, PLOT = 5.8, 2.45
"""In inches: width of a picture, and height of its axes."""

STYLE = {
    "font.size": 11, "font.family": "sans-serif", "legend.fontsize": 9.5, "text.color": INK, "axes.labelcolor": INK,
    "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.grid": True, "grid.color": FAINT,
    "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": PAPER, "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER, "svg.fonttype": "none", "svg.hashsalt": "thalweg", "legend.frameon": False,
}  # fmt: skip


def pyplot() -> Any:
    """matplotlib without a screen."""
    try:
        import matplotlib
    except ImportError as missing:
        raise ThalwegError(
            "the lab draws with matplotlib, which is not installed", hint="pip install 'thalweg[lab]'"
        ) from missing
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def draw(panel: Panel, curves: Sequence[Curve], cast: Sequence[str] = ()) -> tuple[bytes, str]:
    """A panel as PNG, and as SVG whose colours are variables."""
    plt = pyplot()
    slots = _slots(curves, cast)
    title = fill(panel.title, 54)
    names = [str(x) for c in curves for x in c.x] if panel.kind in ("bars", "stack") else []
    top = 0.18 + 0.2 * (title.count("\n") + 1)
    legend = 0.12 + 0.2 * -(-len(curves) // 3) if len(curves) > 1 else 0.06
    bottom = 0.3 + (0.22 if panel.xlabel else 0.0) + _hanging(dict.fromkeys(names)) + legend
    height = top + PLOT + bottom
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, height))
        figure.subplots_adjust(0.92 / WIDTH, bottom / height, 1 - 0.15 / WIDTH, 1 - top / height)
        try:
            _DRAWN[panel.kind](axes, panel, curves, slots)
            figure.text(0.12 / WIDTH, 1 - 0.1 / height, title, va="top", weight="bold", size=11.5)
            axes.set_xlabel(panel.xlabel)
            axes.set_ylabel(panel.ylabel)
            axes.yaxis.set_label_coords(0.24 / WIDTH, bottom / height + PLOT / height / 2, transform=figure.transFigure)
            if len(curves) > 1:
                figure.legend(loc="lower center", ncols=3, handlelength=2.4, columnspacing=1.2, borderaxespad=0.1)
            png, svg = BytesIO(), StringIO()
            figure.savefig(png, format="png", dpi=130)
            figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            plt.close(figure)
    return png.getvalue(), _themed(svg.getvalue(), panel)


def _slots(curves: Sequence[Curve], cast: Sequence[str]) -> dict[str, int]:
    names = [*cast, *(c.series for c in curves if c.series not in cast)]
    return {name: i % len(LIGHT) for i, name in enumerate(names)}


def _lines(axes: Any, panel: Panel, curves: Sequence[Curve], slots: dict[str, int]) -> None:
    for curve in curves:
        slot = slots[curve.series]
        means = [e.mean for e in curve.y]
        low = [e.mean - e.low if isfinite(e.low) else 0.0 for e in curve.y]
        high = [e.high - e.mean if isfinite(e.high) else 0.0 for e in curve.y]
        axes.errorbar(
            curve.x, means, yerr=[low, high], label=curve.series, color=LIGHT[slot], marker=MARKERS[slot],
            markersize=4.5, linestyle=DASHES[slot], linewidth=1.6, capsize=2.5, elinewidth=0.9,
        )  # fmt: skip
    axes.yaxis.set_major_formatter(lambda y, place: _short(round(y, 9)))
    xs = sorted({x for c in curves for x in c.x})
    if panel.logx:
        axes.set_xscale("log")
        axes.minorticks_off()
    if len(xs) <= 9:
        axes.set_xticks(xs, [_short(x) for x in xs])


def _timelines(axes: Any, panel: Panel, curves: Sequence[Curve], slots: dict[str, int]) -> None:
    for curve in curves:
        slot = slots[curve.series]
        means = [e.mean for e in curve.y]
        axes.plot(curve.x, means, label=curve.series, color=LIGHT[slot], linewidth=1.1)
    axes.xaxis.set_major_formatter(lambda x, place: _short(x))
    axes.yaxis.set_major_formatter(lambda y, place: _short(y))


def _bars(axes: Any, panel: Panel, curves: Sequence[Curve], slots: dict[str, int]) -> None:
    names = list(dict.fromkeys(str(x) for c in curves for x in c.x))
    width = 0.8 / len(curves)
    for k, curve in enumerate(curves):
        at = [names.index(str(x)) + (k - (len(curves) - 1) / 2) * width for x in curve.x]
        errors = [e.high - e.mean if isfinite(e.high) else 0.0 for e in curve.y]
        color = LIGHT[slots[curve.series]] if len(curves) > 1 else [LIGHT[slots.get(str(x), 1)] for x in curve.x]
        axes.bar(
            at, [e.mean for e in curve.y], width * 0.92, yerr=errors, capsize=2.5, label=curve.series, color=color,
            error_kw={"elinewidth": 0.9, "ecolor": INK},
        )  # fmt: skip
    _named_ticks(axes, names)
    axes.yaxis.set_major_formatter(lambda y, place: _short(y))


def _stacks(axes: Any, panel: Panel, curves: Sequence[Curve], slots: dict[str, int]) -> None:
    names = [str(x) for x in curves[0].x]
    bottom = [0.0] * len(names)
    for k, curve in enumerate(curves):
        heights = [e.mean for e in curve.y]
        axes.bar(names, heights, 0.62, bottom=bottom, label=curve.series, color=LIGHT[(k + 1) % len(LIGHT)])
        bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
    _named_ticks(axes, names)


def _named_ticks(axes: Any, names: Sequence[str]) -> None:
    slanted = _slanted(names)
    axes.set_xticks(range(len(names)), names, rotation=28 if slanted else 0, ha="right" if slanted else "center")
    axes.grid(visible=False, axis="x")


def _short(value: float) -> str:
    """A tick label: 0.5, 25k, 1M, 10G."""
    if abs(value) >= 10_000_000_000:
        return f"{value / 1_000_000_000:g}G"
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{value:g}"


def _slanted(names: Iterable[str]) -> bool:
    """Whether the names are too long to fit side by side."""
    lengths = [len(n) for n in names]
    return sum(lengths) > 48 or len(lengths) * max(lengths, default=0) > 60


def _hanging(names: Iterable[str]) -> float:
    """Height in inches that slanted names need below the axis."""
    return max(0.5, 0.12 + 0.042 * max(map(len, names))) if _slanted(names) else 0.0


_DRAWN = {"line": _lines, "timeline": _timelines, "bars": _bars, "stack": _stacks}


def _themed(svg: str, panel: Panel) -> str:
    """Turn colours into variables; drop the XML head and the fixed size, so that the page sets the width."""
    body = svg[svg.index("<svg") :]
    for i, color in enumerate(LIGHT):
        body = body.replace(color, f"var(--series-{i})")
    for color, name in ((INK, "ink"), (FAINT, "faint"), (PAPER, "paper")):
        body = body.replace(color, f"var(--{name})")
    head, rest = body.split(">", 1)
    kept = [part for part in head.split(" ") if not part.startswith(("width=", "height="))]
    return " ".join([*kept, 'role="img"', f'aria-label="{panel.title}"']) + ">" + rest
