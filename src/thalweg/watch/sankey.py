"""A Sankey diagram as SVG text: tuples of each class through the operators of its route.

One lane for each class; a band is as thick as the tuples that travel there, and what an operator drops leaves the band
behind it. Thickness is in one scale for all lanes, so bands can be compared. Colours follow the operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from thalweg.watch.summary import ClassSummary
from thalweg.watch.svg import short

WIDTH, LANE, GAP, TEXT = 720, 64, 26, 150
COLOURS = ("#3b7dd8", "#d1793b", "#3fa66b", "#b0508f", "#8a7a2d", "#5f63c9", "#c24f4f", "#3f9aa6")


def sankey(classes: Sequence[ClassSummary], names: Sequence[str]) -> str:
    """The diagram; empty where no class has met an operator yet."""
    shown = [c for c in classes if c.rows]
    if not shown:
        return ""
    most = max(c.rows for c in shown)
    height = len(shown) * (LANE + GAP) + 8
    parts = []
    for k, c in enumerate(shown):
        parts += _lane(c, names, GAP + k * (LANE + GAP), LANE / most)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" style="max-width:{WIDTH}px" role="img" '
        f'aria-label="tuples of each class through operators" font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _lane(c: ClassSummary, names: Sequence[str], top: float, scale: float) -> list[str]:
    step = (WIDTH - TEXT - 20) / max(len(c.route), 1)
    label = c.label if len(c.label) <= 60 else c.label[:57] + "..."
    parts = [
        f'<text x="0" y="{top - 8}" fill="currentColor">{escape(label)} <tspan opacity="0.6">{c.rows:,} tuples</tspan></text>'
    ]
    came = c.rows
    for place, op in enumerate(c.route):
        met, left = c.came[op], c.left[op]
        x = 10 + place * step
        colour = COLOURS[op % len(COLOURS)]
        before, after = max(met * scale, 0.5), max(left * scale, 0.5)
        title = f"{names[op]}: {met:,} in, {left:,} out"
        middle = top + LANE / 2
        parts.append(
            f'<path d="M{x:.1f},{middle - before / 2:.1f} C{x + step / 2:.1f},{middle - before / 2:.1f} '
            f"{x + step / 2:.1f},{middle - after / 2:.1f} {x + step:.1f},{middle - after / 2:.1f} "
            f"V{middle + after / 2:.1f} C{x + step / 2:.1f},{middle + after / 2:.1f} {x + step / 2:.1f},"
            f'{middle + before / 2:.1f} {x:.1f},{middle + before / 2:.1f} Z" fill="{colour}" fill-opacity="0.55">'
            f"<title>{escape(title)}</title></path>"
            f'<text x="{x + 2:.1f}" y="{top + LANE + 10:.1f}" fill="{colour}">{escape(short(names[op], step, 6.5))}</text>'
        )
        came = left
    parts.append(
        f'<text x="{10 + len(c.route) * step + 6:.1f}" y="{top + LANE / 2 + 4:.1f}" fill="currentColor">{came:,} out</text>'
    )
    return parts
