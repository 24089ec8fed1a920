"""Charts as SVG text: lines over batches, places in an order over batches, what was in force when, stacked bars, and the
flow along a route.

Colours are classes (`s0`, `s1`, ...) that the page's style sheet sets for light and dark; `colours` gives a name the same
one in every chart. Every mark has a title, so that a pointer over it shows its number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 36
COLOURS = 8
Points = Sequence[tuple[float, float]]
Colours = Mapping[str, int] | None
CHANGES = '<span class="changed">┆ the plan changed</span>'


def lines(
    series: Mapping[str, Points], *, marks: Sequence[tuple[float, str]] = (), share: bool = False, label: str = "",
    bounds: Sequence[str] = (), colours: Colours = None,
) -> str:  # fmt: skip
    """A line for each series, dashed for those that bound the others; `marks` are changes of the plan."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    if not xs:
        return ""
    frame = _Frame(min(xs), max(xs), 0.0, 1.0 if share else max(ys))
    parts = [*frame.axes(share), *(frame.mark(x, title) for x, title in marks if frame.x0 <= x <= frame.x1)]
    for name, points in series.items():
        k = colour(name, series, colours)
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
        dashed = " dashed" if name in bounds else ""
        parts.append(f'<polyline class="line{dashed} s{k}" points="{path}"/>')
        for x, y in points if len(points) <= 80 else ():
            parts.append(
                f'<circle class="dot s{k}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.5">'
                f"<title>{escape(name)}, batch {x:g}: {number(y, share)}</title></circle>"
            )
    return _figure(parts, label, legend(series, colours, CHANGES if marks else ""))


def places(
    orders: Sequence[tuple[float, Sequence[str]]], names: Sequence[str], *, label: str = "", colours: Colours = None
) -> str:
    """Where each operator stood in the order, batch by batch; the first place is on top."""
    if not orders:
        return ""
    rows = max(len(names), 1)
    height = 30 * rows + TOP + BOTTOM
    x0, x1 = orders[0][0], orders[-1][0]
    frame = _Frame(x0, x1, 0.5, rows + 0.5, height=height, down=True, inset=0.5 if x0 == x1 else 0.0)
    parts = [
        f'<text class="tick" x="{LEFT - 8}" y="{frame.y(k + 1) + 4:.1f}" text-anchor="end">{k + 1}.</text>'
        for k in range(rows)
    ]
    parts += frame.below()
    for name in names:
        points = [(x, order.index(name) + 1) for x, order in orders if name in order]
        if x0 == x1:  # a single batch: a short line, for a point draws nothing
            points = [(x + d, y) for x, y in points for d in (-0.25, 0.25)]
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
        parts.append(
            f'<polyline class="line wide s{colour(name, names, colours)}" points="{path}"><title>{escape(name)}</title></polyline>'
        )
    return _figure(parts, label, legend(names, colours), height)


def stacked(rows: Sequence[tuple[float, Mapping[str, float]]], *, unit: str = "", label: str = "") -> str:
    """A bar for each batch, made of its parts."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for _, parts in rows for name in parts))
    top = max(sum(parts.values()) for _, parts in rows)
    frame = _Frame(rows[0][0], rows[-1][0], 0.0, top, inset=0.5)
    width = max((WIDTH - LEFT - RIGHT) / len(rows) * 0.8, 1.0)
    drawn = frame.axes(False)
    for x, parts in rows:
        base = 0.0
        for name, value in parts.items():
            k = names.index(name)
            upper, lower = frame.y(base + value), frame.y(base)
            drawn.append(
                f'<rect class="bar s{k % COLOURS}" x="{frame.x(x) - width / 2:.1f}" y="{upper:.1f}" width="{width:.1f}" '
                f'height="{max(lower - upper, 0):.1f}"><title>{escape(name)}, batch {x:g}: {number(value)}{unit}</title></rect>'
            )
            base += value
    return _figure(drawn, label, legend(names))


def flow(stations: Sequence[tuple[str, float]], out: float, *, label: str = "", colours: Colours = None) -> str:
    """Rows along a route: a band as wide as the rows that come to each operator, and what leaves at the end.

    Names and numbers stand below the picture, in the order of the route, so that long ones have room on a phone too.

    >>> flow([("far", 10.0), ("late", 4.0)], 1.0).count("<path"), flow([], 0.0)
    (2, '')
    """
    if not stations:
        return ""
    whole = max([rows for _, rows in stations] + [out, 1.0])
    most, middle, height = 84.0, 52.0, 104
    step = (WIDTH - 20) / len(stations)
    thick = [max(rows / whole * most, 1.0) for _, rows in stations] + [max(out / whole * most, 0.5 if out else 0.0)]
    parts, below = [], []
    for k, (name, rows) in enumerate(stations):
        x, nxt = 10 + k * step, 10 + (k + 1) * step
        a, b = thick[k] / 2, thick[k + 1] / 2
        bend = (x + nxt) / 2
        hue = (colours or {}).get(name, k) % COLOURS
        told = f"{escape(name)}: {number(rows)} rows"
        parts.append(
            f'<path class="band" d="M{x:.1f},{middle - a:.1f} C{bend:.1f},{middle - a:.1f} {bend:.1f},{middle - b:.1f} '
            f"{nxt:.1f},{middle - b:.1f} L{nxt:.1f},{middle + b:.1f} C{bend:.1f},{middle + b:.1f} {bend:.1f},{middle + a:.1f} "
            f'{x:.1f},{middle + a:.1f} Z"><title>{told}</title></path>'
            f'<rect class="station s{hue}" x="{x:.1f}" y="{middle - most / 2 - 6:.1f}" width="5" '
            f'height="{most + 12:.1f}" rx="2"><title>{told}</title></rect>'
        )
        below.append(f'<span><i class="s{hue}"></i>{escape(name)} <b>{number(rows)}</b></span>')
    below.append(f"<span>out <b>{number(out)}</b></span>")
    return _figure(parts, label, f'<div class="legend route">{"".join(below)}</div>', height)


def lanes(rows: Mapping[str, Sequence[tuple[float, str]]], *, label: str = "") -> str:
    """What was in force, batch by batch: a lane for each name, a new colour and its words where it changed.

    >>> lanes({"s": [(0, "a"), (1, "a"), (2, "b")]}).count("<rect")
    2
    """
    known = {name: points for name, points in rows.items() if points}
    if not known:
        return ""
    height = 34 * len(known) + TOP + BOTTOM
    xs = [x for points in known.values() for x, _ in points]
    frame = _Frame(min(xs), max(xs), 0.0, float(len(known)), height=height, down=True, inset=0.5)
    colours = {v: k % COLOURS for k, v in enumerate(dict.fromkeys(v for points in known.values() for _, v in points))}
    parts = frame.below()
    for lane, (name, points) in enumerate(known.items()):
        y = frame.y(lane) + 4
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 15:.1f}" text-anchor="end">{escape(short(name, LEFT))}</text>'
        )
        starts = [k for k, (_, v) in enumerate(points) if k == 0 or v != points[k - 1][1]]
        for k, end in zip(starts, [*starts[1:], len(points)], strict=True):
            left = frame.x(points[k][0] - 0.5)
            right = frame.x(points[end][0] - 0.5) if end < len(points) else frame.x(points[-1][0] + 0.5)
            value = points[k][1]
            parts.append(
                f'<rect class="bar s{colours[value]}" x="{left:.1f}" y="{y:.1f}" width="{max(right - left - 1, 1):.1f}" '
                f'height="24" rx="3" opacity="0.5"><title>{escape(f"{name} from batch {points[k][0]:g}: {value}")}</title></rect>'
                f'<text class="tick lane" x="{left + 6:.1f}" y="{y + 16:.1f}">{escape(short(value, right - left))}</text>'
            )
    return _figure(parts, label, "", height)


def colour(name: str, names: Mapping[str, object] | Sequence[str], colours: Colours) -> int:
    """The number of a name's colour: its own on all charts, or else by its place on this one."""
    return (colours or {}).get(name, list(names).index(name)) % COLOURS


def legend(names: Mapping[str, object] | Sequence[str], colours: Colours = None, more: str = "") -> str:
    entries = [f'<span><i class="s{colour(n, names, colours)}"></i>{escape(n)}</span>' for n in names]
    return f'<div class="legend">{"".join(entries)}{more}</div>'


def number(value: float, share: bool = False) -> str:
    """As a person would write it.

    >>> number(1234567), number(0.25, True), number(0.0123), number(12.0)
    ('1,234,567', '25%', '0.0123', '12')
    """
    if share:
        return f"{value:.1%}".replace(".0%", "%")
    if value == 0 or (abs(value) >= 100 or float(value).is_integer()):
        return f"{value:,.0f}"
    return f"{value:.3g}"


class _Frame:
    """From values to places on the picture."""

    def __init__(
        self,
        x0: float,
        x1: float,
        y0: float,
        y1: float,
        *,
        height: int = HEIGHT,
        down: bool = False,
        inset: float = 0.0,
    ) -> None:
        self.x0, self.x1 = x0 - inset, x1 + inset
        self.y0, self.y1 = y0, y1 if y1 > y0 else y0 + 1.0
        self.height, self.down = height, down

    def x(self, value: float) -> float:
        span = self.x1 - self.x0
        part = (value - self.x0) / span if span else 0.5
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        part = (value - self.y0) / (self.y1 - self.y0)
        room = self.height - TOP - BOTTOM
        return TOP + (part if self.down else 1 - part) * room

    def axes(self, share: bool) -> list[str]:
        parts = []
        for tick in ticks(self.y1):
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(tick, share)}</text>'
            )
        return parts + self.below()

    def below(self) -> list[str]:
        y = self.height - 12
        inside = sorted({ceil(self.x0), round((self.x0 + self.x1) / 2), floor(self.x1)})
        return [
            f'<text class="tick" x="{self.x(v):.1f}" y="{y}" text-anchor="{_anchor(self.x(v))}">batch {v:g}</text>'
            for v in inside
        ]

    def mark(self, x: float, title: str) -> str:
        at = self.x(x)
        return (
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{self.height - BOTTOM}">'
            f"<title>{escape(title)}</title></line>"
        )


def ticks(top: float) -> list[float]:
    """Three to six round numbers from 0 to `top`.

    >>> ticks(1.0), ticks(730)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 200.0, 400.0, 600.0])
    """
    if top <= 0:
        return [0.0]
    power = 10.0 ** floor(log10(top / 4))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if top / (power * m) <= 5)
    return [round(k * step, 12) for k in range(int(top / step + 1e-9) + 1)]


def _anchor(x: float) -> str:
    return "end" if x > WIDTH - 40 else "middle"


def short(name: str, width: float, letter: float = 8) -> str:
    """As much of a name as fits; a title tells the rest.

    >>> short("known_signature", 72), short("beacon", 72)
    ('known_s…', 'beacon')
    """
    most = max(int(width / letter) - 1, 4)
    return name if len(name) <= most else name[: most - 1] + "…"


def brief(text: str) -> str:
    """Predicates without their arguments, in a name or a route.

    >>> brief("dark(f.lands, f.lat) → late(f.delay)")
    'dark → late'
    """
    return re.sub(r"\b([A-Za-z_]\w*)\([^()]*\)", r"\1", text)


def _figure(parts: Sequence[str], label: str, below: str, height: int = HEIGHT) -> str:
    picture = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    caption = f"<figcaption>{escape(label)}</figcaption>" if label else ""
    return f"<figure>{caption}{picture}{below}</figure>"
