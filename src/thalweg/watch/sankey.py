"""A Sankey diagram as SVG text: the rows of each class on their way through the operators.

The columns are the classes, the places of the routes from first to last, and what comes out. A bar is an operator at one
place, as tall as the rows that reach it. A band is the rows of one class, in its colour; all bands have one scale. What
an operator drops tapers off behind it. A probe may let more rows out than came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from thalweg.contract.report import ClassReport
from thalweg.watch.svg import brief, short

WIDTH, TALL = 820, 230
FIRST, CLASSES, LAST, BAR = 8, 230, 84, 7
"""Room left of the first bar, for the names of classes, and right of the last bar; width of a bar."""
ABOVE, LEAST = 20, 1.0
"""Room for the name above a bar, and height of what is hardly there."""
LETTER = 6.2
COLOURS = ("#3b7dd8", "#d1793b", "#3fa66b", "#b0508f", "#8a7a2d", "#5f63c9", "#c24f4f", "#3f9aa6")


@dataclass
class _Bar:
    """An operator at one place, a class before it sets out, or what comes out in the end."""

    name: str
    flows: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By class: rows in and rows out; a probe may let more out than came in."""
    x: float = 0.0
    top: float = 0.0

    @property
    def came(self) -> int:
        return sum(came for came, _ in self.flows.values())

    @property
    def tall(self) -> int:
        return sum(max(flow) for flow in self.flows.values())


def sankey(classes: Sequence[ClassReport], names: Sequence[str]) -> str:
    """The diagram; empty where no class has met an operator yet."""
    shown = [c for c in classes if c.rows]
    if not shown:
        return ""
    columns = _columns(shown, names)
    scale = TALL / max(sum(bar.tall for bar in column) for column in columns)
    height, step = _place(columns, scale)
    parts: list[str] = []
    for before, after in pairwise(columns):
        parts += _bands(before, after, shown, scale)
    start, *places, end = columns
    parts += [_bar(bar, scale, _above(bar, _clipped(bar.name), f" {bar.came:,}")) for bar in start]
    parts += [_bar(bar, scale, _above(bar, short(bar.name, step - 4, LETTER))) for column in places for bar in column]
    parts += [_bar(bar, scale, _behind(bar, scale)) for bar in end]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="100%" style="max-width:{WIDTH}px" role="img" '
        f'aria-label="rows of each class through operators" font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _columns(classes: Sequence[ClassReport], names: Sequence[str]) -> list[list[_Bar]]:
    """Bars by column, in the order in which classes come to them."""
    columns = [[_Bar(c.label, {k: (c.rows, c.rows)}) for k, c in enumerate(classes)]]
    for place in range(len(names)):
        bars: dict[str, _Bar] = {}
        for k, c in enumerate(classes):
            name = c.route[place]
            at = names.index(name)
            bars.setdefault(name, _Bar(brief(name))).flows[k] = (c.came[at], c.left[at])
        columns.append(list(bars.values()))
    out = {k: (c.left[names.index(c.route[-1])],) * 2 for k, c in enumerate(classes)}
    columns.append([_Bar(f"{sum(n for n, _ in out.values()):,} out", out)])
    return columns


def _place(columns: Sequence[Sequence[_Bar]], scale: float) -> tuple[float, float]:
    """Set the bars of a column below each other, in the middle; returns the height of the picture and the width of a
    column."""
    heights = [sum(ABOVE + _tall(bar.tall, scale) for bar in column) for column in columns]
    step = (WIDTH - FIRST - CLASSES - LAST - BAR) / (len(columns) - 2)
    for place, (column, height) in enumerate(zip(columns, heights, strict=True)):
        y = (max(heights) - height) / 2
        for bar in column:
            bar.x = FIRST + (CLASSES + (place - 1) * step if place else 0.0)
            bar.top = y + ABOVE
            y = bar.top + _tall(bar.tall, scale)
    return max(heights) + 8, step


def _tall(rows: float, scale: float) -> float:
    return max(rows * scale, LEAST)


def _bands(before: Sequence[_Bar], after: Sequence[_Bar], classes: Sequence[ClassReport], scale: float) -> list[str]:
    """The rows that go on from one column to the next, and those that do not."""
    parts = []
    entry = {id(bar): bar.top for bar in after}
    for bar in before:
        x, y = bar.x + BAR, bar.top
        for k, (came, left) in bar.flows.items():
            target = next(b for b in after if k in b.flows)
            colour, wide = COLOURS[k % len(COLOURS)], target.x - x
            thick, there = _tall(left, scale), entry[id(target)]
            label = classes[k].label
            told = f"{came:,} rows" if bar.name == label else f"{bar.name}, {came:,} in, {left:,} out"
            parts.append(_band(x, y, wide, there, thick, colour, f"{label}: {told}"))
            entry[id(target)] += thick
            if came > left:
                parts.append(_taper(x, y + left * scale, wide, (came - left) * scale, colour, f"{label}: {told}"))
            y += max(came * scale, thick)
    return parts


def _band(x: float, y: float, wide: float, there: float, thick: float, colour: str, told: str) -> str:
    half, end = x + wide / 2, x + wide
    return (
        f'<path d="M{x:.1f},{y:.1f} C{half:.1f},{y:.1f} {half:.1f},{there:.1f} {end:.1f},{there:.1f} V{there + thick:.1f} '
        f'C{half:.1f},{there + thick:.1f} {half:.1f},{y + thick:.1f} {x:.1f},{y + thick:.1f} Z" fill="{colour}" '
        f'fill-opacity="0.5"><title>{escape(told)}</title></path>'
    )


def _taper(x: float, y: float, wide: float, thick: float, colour: str, told: str) -> str:
    tip = y + thick
    return (
        f'<path d="M{x:.1f},{y:.1f} Q{x + wide * 0.25:.1f},{y:.1f} {x + wide * 0.4:.1f},{tip:.1f} H{x:.1f} Z" '
        f'fill="{colour}" fill-opacity="0.15"><title>{escape(told)}</title></path>'
    )


def _clipped(label: str, most: int = 34) -> str:
    """Both ends of a long label: classes often begin alike and differ in their last test."""
    return label if len(label) <= most else f"{label[:12]}…{label[13 - most :]}"


def _bar(bar: _Bar, scale: float, label: str) -> str:
    return (
        f'<rect x="{bar.x:.1f}" y="{bar.top:.1f}" width="{BAR}" height="{_tall(bar.tall, scale):.1f}" fill="currentColor" '
        f'fill-opacity="0.75"><title>{escape(bar.name)}: {bar.came:,}</title></rect>{label}'
    )


def _above(bar: _Bar, name: str, more: str = "") -> str:
    return (
        f'<text x="{bar.x:.1f}" y="{bar.top - 5:.1f}" fill="currentColor">{escape(name)}'
        f'<tspan opacity="0.6">{more}</tspan></text>'
    )


def _behind(bar: _Bar, scale: float) -> str:
    y = bar.top + _tall(bar.tall, scale) / 2 + 4
    return f'<text x="{bar.x + BAR + 5:.1f}" y="{y:.1f}" fill="currentColor">{escape(bar.name)}</text>'
