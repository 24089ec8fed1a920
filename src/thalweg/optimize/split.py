"""Chooses where a query is split in two: what lies below a second shuffle, and what lies above it.

No single value may cut all of a query (`placement.py`), or only one that has whole streams copied to every cell: its
groups are by a column that is no join key, say. Then the largest part that can be cut without copies is worked out
below, in cells of its own, which send its changes on. Above, these are cut by a column that all groups agree on; where
there is none, one cell takes them all. A query is split only where that spreads work: the part above is cut as well, or
the part below joins several inputs.

Groups by a time window change once, when it closes. So each cell below can group its own rows first, and only these
partial groups travel, if the aggregates can be put together again without rounding. Other groups change with every row:
partial ones would travel as often as rows do.

Copies or a second shuffle? We count rows that travel. Of s streams, m of them copied, c cells take s - m + c * m rows for
each row of a stream. A second shuffle takes s, and every result twice: as it enters and as it leaves. How many results
there will be is not known when the query is made; with as many as rows, that is 3 * s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from thalweg.language.algebra import Aggregate, Bound, Distinct, Group, Keep, Leaf, Node, Project
from thalweg.language.scalar.expression import Field
from thalweg.language.settled import settled
from thalweg.optimize.placement import Placement, choose, choose_below, netted, shows_all

MERGED = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""How partial aggregates become one. A sum of doubles would be rounded twice, and one of decimals has another type."""


@dataclass(frozen=True)
class Split:
    """Where to split, and how both parts are cut."""

    bound: Bound
    """The query; with partial groups, if there are some."""
    node: Node
    """The top of the part below."""
    placed: Placement
    column: str | None
    """The column of that node which the part above is cut by; None: one cell."""
    why: str


def split(bound: Bound, cells: int, *, finite: bool) -> Split | None:
    """Where a query is best split; None if it is better off whole."""
    streams = [i for leaf in bound.leaves for i in leaf.query.streams]
    whole, _ = choose(bound, finite=finite)
    if bound.root.kind == "results" or not streams or cells == 1:
        return None
    if whole is not None and len(streams) + (cells - 1) * whole.copied <= 3 * len(streams):
        return None
    found = _below(bound, finite=finite)
    if found is None or (whole is not None and found.column is None):
        return None
    return found


def _below(bound: Bound, *, finite: bool) -> Split | None:
    above: list[Node] = []
    node = bound.root.child
    while True:
        placed, why = choose_below(bound, node, finite=finite)
        if placed is not None and not placed.copied:
            break
        if not isinstance(node, Project | Keep | Distinct | Group):
            return None
        above.append(node)
        node = node.child
    column = None if shows_all(bound.root, finite=finite) else next(_columns(above, node, netted(bound)), None)
    then = "one cell takes what they send" if column is None else f"a second shuffle brings equal {column} together"
    group = above[-1] if above else None
    if isinstance(group, Group) and _partial(group):
        merged = {name: Aggregate(MERGED[a.function], (name,)) for name, a in group.aggregates.items()}
        bound = bound.with_nodes({id(group): Group(group.schema, group, group.keys, merged)})
        return Split(bound, group, placed, column, f"{why}, in partial groups; {then}")
    if column is None and sum(len(n.query.inputs) for n in node.walk() if isinstance(n, Leaf)) == 1:
        return None
    return Split(bound, node, placed, column, f"{why}; {then}")


def _partial(group: Group) -> bool:
    """Whether partial groups are worth sending, and add up to the group."""
    if not settled(group.child) & set(group.keys):
        return False
    types = {name: group.schema.field(name).type for name in group.aggregates}
    return all(
        a.function in MERGED
        and a.make is None
        and not a.distinct
        and (a.function != "sum" or pa.types.is_integer(types[name]))
        for name, a in group.aggregates.items()
    )


def _columns(above: list[Node], node: Node, wanted: Sequence[str | None]) -> Iterator[str]:
    """Columns of a node such that rows that differ in them need not meet: all groups above it have them as keys, and so
    has what comes out at the top."""
    for name in node.schema.names:
        if not pa.types.is_nested(node.schema.field(name).type) and _agreed(above, name, wanted):
            yield name


def _agreed(above: list[Node], name: str, wanted: Sequence[str | None]) -> bool:
    names = {name}
    for part in reversed(above):
        if isinstance(part, Project):
            names = {made for made, e in part.columns.items() if isinstance(e, Field) and str(e.key) in names}
        elif isinstance(part, Group):
            names &= set(part.keys)
        if isinstance(part, Group | Distinct) and not names:
            return False
    return None in wanted or bool(names & set(wanted))
