"""Explain: a view as text for a terminal and as HTML for a notebook.

Both are drawn from the same blocks: labelled lines, tables, and pictures that text leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from thalweg.contract.report import ClassReport
from thalweg.profile.prices import RECORDED
from thalweg.watch import bottleneck
from thalweg.watch.sankey import sankey
from thalweg.watch.view import CutView, IndexView, InputView, OperatorView, PathView, QueryView

LABEL = 11
"""Letters that a label takes at least, so that lines of all blocks are aligned."""
UNKNOWN = "–"
TEXTS = ("input", "window", "predicate", "runs in", "class", "route", "probes", "way")


@dataclass(frozen=True)
class Lines:
    """Labels, each with its text; an empty label goes on with the one before."""

    each: Sequence[tuple[str, str]]

    def text(self) -> list[str]:
        width = max([LABEL, *(len(label) + 1 for label, _ in self.each)])
        return [f"{label:<{width}} {words}".rstrip() for label, words in self.each]

    def html(self) -> str:
        rows = "".join(f"<b>{escape(label)}</b><span>{escape(words)}</span>" for label, words in self.each)
        return f"<div style='display:grid;grid-template-columns:max-content 1fr;gap:0 1em'>{rows}</div>"


@dataclass(frozen=True)
class Table:
    """A table; columns with one of the headings of `TEXTS` are text, the others are numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> list[str]:
        widths = [max(len(r[k]) for r in (self.heads, *self.rows)) for k in range(len(self.heads))]
        sides = [str.ljust if head in TEXTS else str.rjust for head in self.heads]
        return [
            "  ".join(side(c, w) for side, c, w in zip(sides, row, widths, strict=True)).rstrip()
            for row in (self.heads, *self.rows)
        ]

    def html(self) -> str:
        sides = [f" style='text-align:{'left' if head in TEXTS else 'right'}'" for head in self.heads]

        def line(cells: Sequence[str], tag: str) -> str:
            made = (f"<{tag}{side}>{escape(c)}</{tag}>" for side, c in zip(sides, cells, strict=True))
            return f"<tr>{''.join(made)}</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        return f"<table><thead>{line(self.heads, 'th')}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Picture:
    """Rows of each class on their routes."""

    classes: Sequence[ClassReport]
    names: Sequence[str]

    def text(self) -> list[str]:
        return []

    def html(self) -> str:
        return sankey(self.classes, self.names)


@dataclass(frozen=True)
class Quoted:
    """A heading and lines to be shown as they are."""

    heading: str
    lines: Sequence[str]

    def text(self) -> list[str]:
        return [self.heading, *(f"  {line}" for line in self.lines)]

    def html(self) -> str:
        return f"<div><b>{escape(self.heading)}</b></div><pre style='margin:.5em 0'>{escape(chr(10).join(self.lines))}</pre>"


Block = Lines | Table | Picture | Quoted


def text(view: QueryView) -> str:
    """Plain text, as wide as it needs to be."""
    shown = [lines for block in blocks(view) if (lines := block.text())]
    return "\n\n".join("\n".join(lines) for lines in [[heading(view)], *shown]).replace("\n\n", "\n", 1)


def html(view: QueryView, *, pictures: bool = True) -> str:
    """A small self-contained block for notebooks; `pictures` draws classes of rows, where there are some."""
    shown = (block.html() for block in blocks(view) if pictures or not isinstance(block, Picture))
    parts = "".join(f"<div style='margin:.7em 0'>{part}</div>" for part in shown if part)
    return f"<div><h4 style='margin:0'>{escape(heading(view).replace('   ', ' · '))}</h4>{parts}</div>"


def heading(view: QueryView) -> str:
    kind = "streaming" if view.streaming else "batch"
    batches = f"{view.batches:,} batch{'es' * (view.batches != 1)}, " if view.streaming else ""
    out = "results" if view.kind == "join" else "out"
    return f"query '{view.name}'   policy {view.policy}   {kind}   {batches}{view.rows_in:,} rows in, {view.rows_out:,} {out}"


def blocks(view: QueryView) -> Iterator[Block]:
    """All that is to be said, in order."""
    top = [("pinned", "by freeze(), from the next batch on")] if pending(view) else []
    if view.kind == "join":
        yield Lines([*top, *_cells(view.cut)])
        yield _inputs(view)
        yield Lines(_state(view))
        for i in view.inputs:
            if i.index is not None:
                yield Lines(_index(i.alias, i.index))
        top = []
    for i in view.inputs:
        for path in i.paths:
            yield Lines([*top, *_routes(i, path)])
            if path.classes:
                yield from _classes(path)
    judged = [(i.alias, o) for i in view.inputs if i.filters is not None for o in i.filters.operators]
    if judged or view.elsewhere:
        yield _predicates(view, judged)
    if view.kind == "join" and any(i.probes is not None for i in view.inputs):
        yield _probes(view)
    yield Lines(bottleneck.lines(view.spent))
    if view.calls:
        yield Lines([("calls", savings(view))])


def pending(view: QueryView) -> bool:
    """Whether freeze() was asked for and no task has followed yet."""
    return view.frozen and not any(p.frozen for i in view.inputs for p in i.paths)


def savings(view: QueryView) -> str:
    """One sentence: predicate calls made, and saved."""
    if view.saved_against_spark is None:
        return ""
    words = (
        f"{view.calls:,} predicate calls where Spark makes {view.spark_calls:,}: {view.saved_against_spark:.0%} saved"
    )
    if view.saved_against_written is not None:
        words += (
            f"; the written order would make about {view.written_calls:,.0f}: {view.saved_against_written:.0%} saved"
            f" (estimated from {view.sampled:,} sampled rows)"
        )
    return words


def state(view: QueryView) -> str:
    """What is stored against the least that the windows need."""
    if not view.stored:
        return ""
    least = (
        f"{view.stored / view.needed:.2f} x the {view.needed:,} that the windows need" if view.needed else "none needed"
    )
    return f"{view.stored:,} rows, {least}"


def _cells(cut: CutView | None) -> list[tuple[str, str]]:
    if cut is None:
        return [("cells", "none: one stream and tables, each task joins its own rows; no shuffle, no state")]
    keys = "; ".join(f"{columns} in {parts} parts" for columns, parts in cut.keys)
    lines = [("cells", f"{cut.cells}: {keys}   ({cut.why})" if keys else f"{cut.cells}   ({cut.why})")]
    if cut.rows:
        copies = cut.sent / cut.rows
        lines.append(("copies", f"{cut.sent:,} rows sent to cells for {cut.rows:,} read: {copies:.2f} per row"))
    if cut.better is not None:
        lines.append(
            ("rates", f"at the measured rates another cut would send {cut.better:.0%} of these rows: declare rates with "
             "tw.stream(..., rate=) and start a new checkpoint")
        )  # fmt: skip
    if cut.busiest is not None:
        lines.append(("balance", f"the busiest cell gets {cut.busiest:.2f} x the mean"))
    for column, value, share, fair in cut.heavy:
        lines.append(
            ("heavy", f"{column} = {value} has {share:.0%} of the rows, where each part should get {fair:.0%}; rows with "
             "one value are never split")
        )  # fmt: skip
    return lines


def _inputs(view: QueryView) -> Table:
    heads = ("input", "window", "rows in", "late", "stored", "needed", "bytes", "probe work")
    rows = [
        (i.alias, i.window, *(f"{n:,}" for n in (i.rows_in, i.late, i.stored, i.needed, i.row_bytes)), f"{i.work:,.0f}")
        for i in view.inputs
    ]
    return Table(heads, rows)


def _state(view: QueryView) -> list[tuple[str, str]]:
    lines, cut = [], view.cut
    if cut is not None and view.streaming:
        if view.needed:
            lines.append(("state", f"{state(view)}; {cut.state_bytes:,} bytes in the state store"))
        if not cut.fits:
            lines.append(
                ("tasks", f"{cut.cells} cells in {cut.tasks} of {cut.partitions} tasks: set "
                 f"spark.sql.shuffle.partitions={cut.cells} before you start a new checkpoint")
            )  # fmt: skip
    lines += [("warning", f"{said} in the newest batch") for said in view.floods]
    left_out = {
        "without a usable time": "timeless",
        "too far ahead of the clock": "ahead",
        "on which a predicate raised": "failed",
    }
    for what, name in left_out.items():
        counts = [f"{getattr(i, name):,} of {i.alias}" for i in view.inputs if getattr(i, name)]
        if counts:
            lines.append(("left out", f"rows {what}: {', '.join(counts)}"))
    quiet = ", ".join(i.alias for i in view.inputs if i.silent)
    if quiet:
        lines.append(("silent", f"{quiet}: nothing came for longer than idle=, so the other streams no longer wait"))
    return lines


def _index(alias: str, index: IndexView) -> list[tuple[str, str]]:
    spent = (
        f"{index.candidates:,.3g} candidates and {index.buckets:,.3g} buckets per match, {index.size / 1000:,.0f} kB"
    )
    lines = [(f"index of {alias}", f"{index.layout}   {spent}")]
    if index.patterns:
        lines.append(("asked for", ", ".join(f"{name} {share:.0%}" for name, share in index.patterns)))
        others = ", ".join(f"{name} {times:.3g} times as much" for name, times in index.alternatives)
        lines.append(("would cost", others))
    return [*lines, ("tuned by", index.why)] if index.why else lines


def _routes(i: InputView, path: PathView) -> list[tuple[str, str]]:
    label = "route now" if not i.alias else f"filters of {i.alias}" if path.kind == "filters" else f"route of {i.alias}"
    lines = []
    for k, route in enumerate(path.routes):
        share = f"   ({route.share:.0%} of rows)" if len(path.routes) > 1 else ""
        lines.append((label if not k else "", f"{route}{share}"))
    lines.append(("why", path.why))
    return [*lines, ("to change", path.to_change)] if path.to_change else lines


def _classes(path: PathView) -> Iterator[Block]:
    rows = [(c.label, f"{c.share:.0%}", _work(path, c.estimate), " → ".join(c.route)) for c in path.classes]
    yield Table(("class", "share", "work per row", "route"), rows)
    if path.tree:
        yield Quoted("rows are classified by", path.tree.splitlines())
    yield Picture(path.classes, path.names)


def _work(path: PathView, seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    # Work of a join is shown as probes at a fixed price, so that numbers of different machines can be compared.
    return microseconds(seconds) if path.kind == "filters" else f"{seconds / RECORDED.candidate:.1f} probes"


def _predicates(view: QueryView, judged: Sequence[tuple[str, OperatorView]]) -> Table:
    heads = ("predicate", "runs in", "pass rate", "cost per call", "calls", "as written", "on Spark")
    rows = [(name, place, "", "", "", "", "") for name, place in view.elsewhere]
    rows += [
        (
            o.name, o.place, share(o.rate), UNKNOWN if o.cost is None else microseconds(o.cost), f"{o.calls:,}",
            UNKNOWN if o.written_calls is None else f"{o.written_calls:,.0f}", f"{o.spark_calls:,}",
        )
        for _, o in judged
    ]  # fmt: skip
    if view.kind == "filter":
        return Table(heads, rows)
    owners = [""] * len(view.elsewhere) + [alias for alias, _ in judged]
    return Table(("input", *heads), [(owner, *row) for owner, row in zip(owners, rows, strict=True)])


def _probes(view: QueryView) -> Table:
    heads = ("input", "probes", "rows in", "rows out", "out per row", "work")
    rows = [
        (i.alias, o.name, f"{o.rows_in:,}", f"{o.rows_out:,}", UNKNOWN if o.rate is None else f"{o.rate:.3g}", f"{o.work:,.0f}")
        for i in view.inputs if i.probes is not None for o in i.probes.operators
    ]  # fmt: skip
    return Table(heads, rows)


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def microseconds(seconds: float) -> str:
    """
    >>> microseconds(3.14e-6), microseconds(0.0021)
    ('3.1 µs', '2.10 ms')
    """
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
