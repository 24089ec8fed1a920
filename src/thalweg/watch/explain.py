"""Explain: the routes in force and what they save, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import re
from html import escape

from thalweg.watch.classes import Classes
from thalweg.watch.summary import PredicateSummary, Summary

HEADERS = ("predicate", "runs in", "pass rate", "cost a call", "calls", "as written", "on Spark")


def text(s: Summary) -> str:
    """Plain text, as wide as it needs to be."""
    kind = "streaming" if s.streaming else "batch"
    batches = f"{s.batches:,} batches, " if s.streaming else ""
    lines = [f"query '{s.name}'   policy {s.policy}   {kind}   {batches}{s.rows_in:,} rows in, {s.rows_out:,} out"]
    for k, (route, share) in enumerate(s.routes):
        lines.append(
            f"{'route now' if not k else '':<11} {route}" + (f"   ({share:.0%} of rows)" if len(s.routes) > 1 else "")
        )
    if s.predicates:
        lines.append(f"{'why':<11} {s.why}")
    if s.to_change:
        lines.append(f"{'to change':<11} {s.to_change}")
    if s.classes:
        lines += ["", *_classes(s).text()]
    lines.append("")
    lines += _table(s)
    saved = savings(s)
    if saved:
        lines += ["", saved]
    return "\n".join(lines)


def _classes(s: Summary) -> Classes:
    return Classes(s.classes, [p.name for p in s.predicates], s.tree, microseconds)


def savings(s: Summary) -> str:
    """One sentence: calls made, and saved."""
    if not s.calls:
        return ""
    sentence = f"{s.calls:,} predicate calls where Spark makes {s.spark_calls:,}: {s.saved_against_spark:.0%} saved"
    if s.policy != "written" and s.written_calls is not None and s.saved_against_written is not None:
        sentence += f"; as written about {s.written_calls:,.0f}: {s.saved_against_written:.0%} saved"
        sentence += f" (from {s.sampled:,} sampled rows)"
    return sentence


def _rows(s: Summary) -> list[tuple[str, ...]]:
    rows = [(name, place, "", "", "", "", "") for name, place in s.in_spark]
    return rows + [_row(p, s.rows_in) for p in s.predicates]


def _row(p: PredicateSummary, rows_in: int) -> tuple[str, ...]:
    return (
        p.name, p.place,
        "–" if p.pass_rate is None else f"{p.pass_rate:.1%}",
        "–" if p.cost is None else microseconds(p.cost),
        f"{p.calls:,}",
        "–" if p.written_calls is None else f"{p.written_calls:,.0f}",
        f"{rows_in:,}",
    )  # fmt: skip


def brief(text: str) -> str:
    """Predicates without their arguments, in a name or a route.

    >>> brief("dark(f.lands, f.lat) → late(f.delay)")
    'dark → late'
    """
    return re.sub(r"\b([A-Za-z_]\w*)\([^()]*\)", r"\1", text)


def microseconds(seconds: float) -> str:
    """
    >>> microseconds(3.14e-6), microseconds(0.0021)
    ('3.1 µs', '2.10 ms')
    """
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _table(s: Summary) -> list[str]:
    rows = [HEADERS, *_rows(s)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEADERS))]
    left = (0, 1)
    return [
        "  ".join(
            c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in rows
    ]


def html(s: Summary, *, picture: bool = True) -> str:
    """A small self-contained block for notebooks; `picture` draws the classes, where there are some."""
    head = "".join(f"<th style='text-align:{'left' if i < 2 else 'right'}'>{h}</th>" for i, h in enumerate(HEADERS))
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:{'left' if i < 2 else 'right'}'>{escape(c)}</td>" for i, c in enumerate(r))
        + "</tr>"
        for r in _rows(s)
    )
    routes = "".join(
        f"<div><b>{'route now' if not k else ''}</b> {escape(route)}"
        + (f" <i>({share:.0%} of rows)</i>" if len(s.routes) > 1 else "") + "</div>"
        for k, (route, share) in enumerate(s.routes)
    )  # fmt: skip
    change = f"<div><b>to change</b> {escape(s.to_change)}</div>" if s.to_change else ""
    classes = _classes(s).html(picture=picture) if s.classes else ""
    return (
        f"<div><h4 style='margin:0'>{escape(s.name)} <small>policy {escape(s.policy)}, {s.rows_in:,} rows in, "
        f"{s.rows_out:,} out</small></h4>{routes}<div><b>why</b> {escape(s.why)}</div>{change}{classes}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><div>{escape(savings(s))}</div></div>"
    )
