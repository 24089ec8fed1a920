"""One query as a panel of the terminal: its rate, the routes in force, calls and probes, state, the last decisions.

Drawn from the summary of its handle alone, so what is shown is what `explain` and the report tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from thalweg.watch.explain import brief, microseconds
from thalweg.watch.handle import QueryHandle
from thalweg.watch.joinsummary import JoinSummary
from thalweg.watch.summary import Summary

DECISIONS = 3
BAR = 20


def panel(handle: Any, heading: str, *, note: str = "", failed: bool = False) -> Panel:
    """The panel of a query; `heading` says how far it is, `note` is a last line."""
    body: list[RenderableType] = [Text.assemble((handle.name, "bold cyan"), f"   {heading}"), Text("")]
    summary = handle.summary()
    if isinstance(handle, QueryHandle):
        body += _filters([summary])[:-1]
    else:
        body += _join(summary)
    if note:
        body.append(_line(note))
    decisions = _decisions(handle.events())
    body += [Text(""), decisions] if decisions is not None else []
    return Panel(Group(*body), border_style="red" if failed else "cyan")


def savings(filters: Sequence[Summary]) -> str:
    """How many of the calls that Spark makes, and that the written order would make, were not made."""
    calls, spark = sum(s.calls for s in filters), sum(s.spark_calls for s in filters)
    if not spark:
        return ""
    written = [s.written_calls for s in filters]
    text = f"calls saved   {1 - calls / spark:.0%} against Spark's chain"
    known = sum(w for w in written if w is not None)
    if None not in written and known > 0 and any(s.policy != "written" for s in filters):
        text += f"   {1 - calls / known:.0%} against the written order"
    return text


def state(s: JoinSummary) -> str:
    """What is stored against the least that the windows need."""
    if not s.stored:
        return ""
    least = f"{s.stored / s.needed:.2f} x the {s.needed:,}" if s.needed else "where 0 are all"
    return f"state         {s.stored:,} rows, {least} that the windows need"


def _filters(filters: Sequence[Summary], owners: Sequence[str] = ()) -> list[RenderableType]:
    if not filters:
        return []
    table = Table(box=None, pad_edge=False, header_style="dim")
    headers = ["predicate", "pass rate", "cost", "calls", "Spark", "", *(["of"] if owners else [])]
    for header in headers:
        table.add_column(header, justify="left" if header in ("predicate", "", "of") else "right", no_wrap=True)
    for number, s in enumerate(filters):
        for place, i in enumerate(_order(s), 1):
            p = s.predicates[i]
            full = round(BAR * p.calls / s.rows_in) if s.rows_in else 0
            table.add_row(
                f"{place}. {brief(p.name)}", "" if p.pass_rate is None else f"{p.pass_rate:.0%}",
                "" if p.cost is None else microseconds(p.cost), f"{p.calls:,}", f"{s.rows_in:,}",
                Text("█" * full, "cyan") + Text("░" * (BAR - full), "dim"), *owners[number : number + 1],
            )  # fmt: skip
        if len(s.routes) > 1 or s.classes:
            for route, share in s.routes:
                table.add_row(Text(f"   {share:.0%} of rows", "dim"), Text(brief(route), "dim"))
    told = savings(filters)
    return [table, Text(""), *([_line(told), Text("")] if told else [])]


def _order(s: Summary) -> Sequence[int]:
    """Predicates by their place in the route that most rows take; in the written order before the first batch."""
    names = [p.name for p in s.predicates]
    if not s.routes:
        return range(len(names))
    return [names.index(n) for n in s.routes[0][0].split(" → ")]


def _join(s: JoinSummary) -> list[RenderableType]:
    owners = [i.alias for i in s.inputs if i.filters is not None]
    body = _filters(s.filters, owners)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for header in ("input", "window", "rows in", "stored", "needed", "probe work", "probes"):
        table.add_column(header, justify="left" if header in ("input", "window", "probes") else "right", no_wrap=True)
    for i in s.inputs:
        table.add_row(
            i.alias, i.window, f"{i.read:,}", f"{i.stored:,}" if i.is_stream else "", f"{i.needed:,}" if i.is_stream else "",
            f"{i.work:,.0f}" if i.is_stream else "", i.route,
        )  # fmt: skip
    body += [table, Text("")]
    kept = state(s)
    if kept:
        body.append(_line(kept))
    body.append(_line(f"results       {s.results:,}"))
    return body


def _line(text: str) -> Text:
    """`what   value` with the first word or two dimmed and numbers bright."""
    key, _, rest = text.partition("  ")
    line = Text.assemble((key, "dim"), "  ", rest)
    line.highlight_regex(r"\b\d[\d,.]*%?", "bold green")
    return line


def _decisions(events: pd.DataFrame) -> RenderableType | None:
    """The last changes of a plan; where there were none, what else was noticed."""
    changes = events[events["before"] != events["after"]]
    shown = (changes if len(changes) else events).tail(DECISIONS)
    if not len(shown):
        return None
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="yellow", no_wrap=True)
    table.add_column(overflow="fold")
    for e in shown.itertuples():
        when = "" if e.batch is None or pd.isna(e.batch) else f"batch {int(float(str(e.batch)))}"
        table.add_row(f"{e.kind}", Text.assemble(brief(str(e.after)), ("  " + when, "dim"), ("\n" + str(e.why), "dim")))
    return table
