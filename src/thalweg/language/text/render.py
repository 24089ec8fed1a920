"""A bound query as text: what was understood, and who evaluates each predicate. The tests compare it line by line."""

from __future__ import annotations

from thalweg.language.durations import UNITS
from thalweg.language.query import Filter, Query, Residual, Window
from thalweg.language.text.quoting import quoted


def rendered(query: Query) -> str:
    """A query, without the code of its functions."""
    lines = [
        f"input {i.alias}: {'stream' if i.is_stream else 'table'} {i.source}{' ' * i.is_stream}"
        f"{window_text(i.window) if i.is_stream else ''}"
        for i in query.inputs
    ]
    lines += [f"key {' = '.join(str(c) for c in k.columns)} as {k.type}" for k in query.block.keys]
    lines += [f"filter {f.input}: {f.text} ({_place(f)})" for f in query.block.filters]
    lines += [f"residual {', '.join(r.inputs)}: {r.text} ({_place(r)})" for r in query.block.residuals]
    lines += [f"output {o.name}: {o.text}" for o in query.output]
    lines += ["product"] if query.block.cross else []
    return "\n".join(lines)


def window_text(window: Window) -> str:
    """A window as it would be written.

    >>> window_text(Window("range", span=5_400_000_000))
    '[RANGE 90 MINUTES]'
    >>> window_text(Window("partition", rows=1, by=("car", "road no")))
    '[PARTITION BY car, `road no` ROWS 1]'
    """
    match window.kind:
        case "range":
            units = [(u, s) for u, s in UNITS.items() if window.span % s == 0 and u != "week"]
            unit, size = units[-1] if window.span else ("second", 1)
            count = window.span // size
            return f"[RANGE {count} {unit.upper()}{'' if count == 1 else 'S'}]"
        case "rows":
            return f"[ROWS {window.rows}]"
        case "partition":
            return f"[PARTITION BY {', '.join(quoted(c) for c in window.by)} ROWS {window.rows}]"
        case _:
            return f"[{window.kind.upper()}]"


def _place(part: Filter | Residual) -> str:
    if isinstance(part, Filter) and part.functions:
        return f"adaptive, calls {', '.join(part.functions)}"
    after = ", after the join" if isinstance(part, Residual) else ""
    return "vectorised" if part.evaluate is not None else f"only Spark{after}"
