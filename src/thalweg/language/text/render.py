"""A bound query as text: what was understood, and who evaluates each predicate. The tests compare it line by line."""

from __future__ import annotations

from thalweg.language.durations import shown
from thalweg.language.query import Block, Filter, Query, Residual, Window
from thalweg.language.text.quoting import quoted


def rendered(query: Query) -> str:
    """A query, without the code of its functions."""
    lines = block_lines(query.block)
    lines += [f"output {o.name}: {o.text}" for o in query.output]
    lines += ["product"] if query.block.cross else []
    return "\n".join(lines)


def block_lines(block: Block) -> list[str]:
    """What a block joins, and how: a line for each input, key and predicate."""
    lines = [
        f"input {i.alias}: {'stream' if i.is_stream else 'table'} {i.source}{' ' * i.is_stream}"
        f"{window_text(i.window) if i.is_stream else ''}"
        for i in block.inputs
    ]
    lines += [f"column {i.alias}: {text} (only Spark)" for i in block.inputs for _, text in i.computed]
    lines += [f"key {' = '.join(str(c) for c in k.columns)} as {k.type}" for k in block.keys]
    lines += [f"filter {f.input}: {f.text} ({_place(f)})" for f in block.filters]
    lines += [f"residual {', '.join(r.inputs)}: {r.text} ({_place(r)})" for r in block.residuals]
    return lines


def window_text(window: Window) -> str:
    """A window as it would be written.

    >>> window_text(Window("range", span=5_400_000_000))
    '[RANGE 90 MINUTES]'
    >>> window_text(Window("partition", rows=1, by=("car", "road no")))
    '[PARTITION BY car, `road no` ROWS 1]'
    """
    match window.kind:
        case "range":
            slide = f" SLIDE {shown(window.slide).upper()}" if window.slide else ""
            return f"[RANGE {shown(window.span).upper()}{slide}]"
        case "rows":
            return f"[ROWS {window.rows}]"
        case "partition":
            return f"[PARTITION BY {', '.join(quoted(c) for c in window.by)} ROWS {window.rows}]"
        case "custom":
            return f"[{quoted(window.name)}]"
        case _:
            return f"[{window.kind.upper()}]"


def _place(part: Filter | Residual) -> str:
    if isinstance(part, Filter) and part.functions:
        return f"adaptive, calls {', '.join(part.functions)}"
    after = ", after the join" if isinstance(part, Residual) else ""
    return "vectorised" if part.evaluate is not None else f"only Spark{after}"
