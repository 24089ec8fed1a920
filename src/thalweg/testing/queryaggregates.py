"""Draws aggregates: plain ones, those that need the order of rows, and those over time windows and frames.

Where DuckDB spells an aggregate in another way, both spellings are given (`Said`).
"""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.testing.chance import Chance
from thalweg.testing.querycase import Item, Said

Columns = Sequence[tuple[str, str]]
"""Texts and kinds."""
SHOWN = "shown"
"""The kind of a value that is only shown: nothing compares it."""
PLAIN = ("count(*)", "count", "sum", "min", "max", "avg", "distinct", "sumdistinct", "var")
OURS = ("truth", "approx", "list", "set", "spread")


def draw_aggregate(c: Chance, columns: Columns, single: str = "", *, last: bool = True) -> tuple[Item, str]:
    """An aggregate and its kind. `single` is the one stream that is read, whose rows have an order; `last` says that
    nothing stands above."""
    text, kind = c.choice(columns)
    function = c.choice((*PLAIN, *OURS, *(("first", "last") if single else ())) if last else PLAIN)
    numbers = [t for t, k in columns if k == "int"]
    match function:
        case "count" | "distinct":
            return _filtered(c, f"count({'DISTINCT ' if function == 'distinct' else ''}{text})", columns), "int"
        case "min" | "max":
            return f"{function}({text})", kind
        case "approx":
            return Said(f"approx_count_distinct({text})", f"count(DISTINCT {text})"), "int"
        case "list" | "set":
            ours = "collect_set" if function == "set" else c.choice(("collect_list", "array_agg"))
            known = f"list({'DISTINCT ' if function == 'set' else ''}{text}) FILTER (WHERE {text} IS NOT NULL)"
            return Said(f"{ours}({text})", f"coalesce({known}, [])"), SHOWN
        case "first" | "last":
            order = "" if function == "first" else " DESC"
            theirs = f"first({text} ORDER BY {single}.micros{order}, {single}.arrival{order})"
            return Said(f"{function}({text})", theirs), kind
        case "truth":
            test = f"{text} IS NOT NULL"
            counted: Item = Said(f"count_if({test})", f"count(*) FILTER (WHERE {test})")
            return c.choice((counted, f"bool_and({test})", f"bool_or({test})")), SHOWN
    exact = [t for t, k in columns if k == "dec"]
    if function == "sum" and last and exact and c.yes(0.4):
        return f"sum({c.choice(exact)})", SHOWN
    if function == "count(*)" or not numbers:
        return _filtered(c, "count(*)", columns), "int"
    text = c.choice(numbers)
    if function == "avg":
        return f"avg({text})", "float"
    if function == "var":
        return f"{c.choice(('var_samp', 'stddev_pop', 'stddev', 'var_pop'))}({text})", "float"
    if function == "spread":
        return Said(f"spread({text})", f"(max({text}) - min({text}))"), "int"
    return _filtered(c, f"sum({'DISTINCT ' if function == 'sumdistinct' else ''}{text})", columns), "int"


def _filtered(c: Chance, text: str, columns: Columns) -> str:
    return f"{text} FILTER (WHERE {c.choice(columns)[0]} IS NOT NULL)" if c.yes(0.15) else text


def draw_frame(c: Chance, columns: Columns, single: str) -> tuple[Item, str]:
    """An aggregate of what precedes a row. Only rows of one stream have an order among those of one time."""
    numbers = [t for t, k in columns if k == "int"]
    functions = ["count(*)", f"min({c.choice(columns)[0]})"]
    if numbers:
        functions += [f"{f}({c.choice(numbers)})" for f in ("sum", "avg", "stddev")]
    call: Item = c.choice(functions)
    assert isinstance(call, str)
    by = f"PARTITION BY {c.choice(columns)[0]} " if c.yes(0.6) else ""
    if single and c.yes(0.5):
        rows = c.choice(("UNBOUNDED", "0", "1", "3"))
        frame = f"ROWS BETWEEN {rows} PRECEDING AND CURRENT ROW"
        theirs = f"{by}ORDER BY t_, {single}.arrival {frame}"
    else:
        span = c.choice((0, 1, 4, 9))
        frame, exact = f"RANGE BETWEEN INTERVAL {span} MICROSECONDS PRECEDING AND CURRENT ROW", str(span)
        if c.yes(0.3):
            frame, exact = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "UNBOUNDED"
        theirs = f"{by}ORDER BY t_ RANGE BETWEEN {exact} PRECEDING AND CURRENT ROW"
    kind = "float" if call.startswith(("avg", "stddev")) else SHOWN
    return Said(f"{call} OVER ({by}ORDER BY result_time {frame})", f"{call} OVER ({theirs})"), kind
