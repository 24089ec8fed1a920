"""SLIDE and EVERY: at which instants a relation is looked at.

`[RANGE r SLIDE l]` makes the query that it stands in look only at multiples of l, as `EVERY l` after it does: at such
an instant a sliding window holds what the range holds, so the two are the same. Ticks are counted from 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from thalweg.language.algebra import Leaf, Node, Restream
from thalweg.language.text.parse import Parsed


def every(parsed: Parsed, query: exp.Expr, node: Node) -> int | None:
    """Microseconds between the instants at which a query is looked at; None for all of them."""
    level = parsed.level(query)
    found = level.every.micros if level.every is not None else None
    for slide in _slides(node):
        if found is not None and slide != found:
            clause = next((c for c in parsed.windows.values() if c.window.slide == slide), None)
            raise parsed.error(clause.span if clause else None, "two different ticks in one query",
                               "SLIDE and EVERY mean the same: give all the same length, or only EVERY")  # fmt: skip
        found = slide
    return found


def _slides(node: Node) -> Iterator[int]:
    """The slides of a tree's windows, without those below a stream that has its own ticks."""
    if isinstance(node, Leaf):
        yield from (i.window.slide for i in node.query.inputs if i.window.slide)
    if not isinstance(node, Restream):
        for child in node.children:
            yield from _slides(child)
