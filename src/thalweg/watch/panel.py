"""One query as a panel of the terminal: its rate, the routes in force, calls and probes, state, the last decisions.

Drawn from the view alone, so it shows what `explain` and the report say.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from thalweg.watch.explain import microseconds, state
from thalweg.watch.svg import brief
from thalweg.watch.view import EventView, PathView, QueryView

DECISIONS = 3
BAR = 20


def panel(view: QueryView, heading: str, *, note: str = "", failed: bool = False) -> Panel:
    """The panel of a query; `heading` says how far it is, `note` is a last line."""
    body: list[RenderableType] = [Text.assemble((view.name, "bold cyan"), f"   {heading}")]
    if view.filters:
        body += [Text(""), _filters(view), *_routes(view)]
    if view.kind == "join":
        body += [Text(""), _inputs(view)]
    results = ("results", f"{view.rows_out:,}") if view.kind == "join" else ("", "")
    told = [("calls saved", _savings(view)), ("state", state(view)), results]
    lines = [_line(f"{key:<12}  {words}") for key, words in told if words] + ([_line(note)] if note else [])
    body += [Text(""), *lines] if lines else []
    decisions = _decisions(view.events)
    body += [Text(""), decisions] if decisions is not None else []
    return Panel(Group(*body), border_style="red" if failed else "cyan")


def _savings(view: QueryView) -> str:
    """How many of the calls that Spark makes, and that the written order would make, were not made."""
    if view.saved_against_spark is None:
        return ""
    written = view.saved_against_written
    more = "" if written is None else f"   {written:.0%} against the written order"
    return f"{view.saved_against_spark:.0%} against Spark's chain{more}"


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        texts = ("predicate", "", "of", "input", "window", "probes")
        table.add_column(head, justify="left" if head in texts else "right", no_wrap=True)
    return table


def _filters(view: QueryView) -> Table:
    named = [(i.alias, i.filters) for i in view.inputs if i.filters is not None]
    owned = view.kind == "join"
    table = _table("predicate", "pass rate", "cost", "calls", "Spark", "", *(["of"] if owned else []))
    for alias, path in named:
        _predicates(table, path, [alias] if owned else [])
    return table


def _predicates(table: Table, path: PathView, owner: Sequence[str]) -> None:
    """The predicates in the order that most rows take."""
    for place, name in enumerate(path.order, 1):
        p = path.operator(name)
        full = round(BAR * p.calls / p.spark_calls) if p.spark_calls else 0
        table.add_row(
            f"{place}. {brief(name)}", "" if p.rate is None else f"{p.rate:.0%}",
            "" if p.cost is None else microseconds(p.cost), f"{p.calls:,}", f"{p.spark_calls:,}",
            Text("█" * full, "cyan") + Text("░" * (BAR - full), "dim"), *owner,
        )  # fmt: skip


def _routes(view: QueryView) -> list[Text]:
    """A line for each order in force, where there are several."""
    paths = [i.filters for i in view.inputs if i.filters is not None and len(i.filters.routes) > 1]
    return [Text(f"{r.share:>6.0%} of rows  {brief(str(r))}", "dim") for path in paths for r in path.routes]


def _inputs(view: QueryView) -> Table:
    table = _table("input", "window", "rows in", "stored", "needed", "probe work", "probes")
    for i in view.inputs:
        kept = [f"{n:,.0f}" if i.is_stream else "" for n in (i.stored, i.needed, i.work)]
        probes = str(i.probes.routes[0]) if i.probes is not None and i.probes.routes else ""
        table.add_row(i.alias, i.window, f"{i.rows_in:,}", *kept, probes)
    return table


def _line(text: str) -> Text:
    """`what   value` with the first word or two dimmed and numbers bright."""
    key, _, rest = text.partition("  ")
    line = Text.assemble((key, "dim"), "  ", rest)
    line.highlight_regex(r"\b\d[\d,.]*%?", "bold green")
    return line


def _decisions(events: Sequence[EventView]) -> RenderableType | None:
    """The last changes of a plan; where there were none, what else was noticed."""
    shown = ([e for e in events if e.changed] or list(events))[-DECISIONS:]
    if not shown:
        return None
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="yellow", no_wrap=True)
    table.add_column(overflow="fold")
    for e in shown:
        when = "" if e.batch is None else f"batch {e.batch}"
        table.add_row(e.kind, Text.assemble(brief(e.after), ("  " + when, "dim"), ("\n" + e.why, "dim")))
    return table
