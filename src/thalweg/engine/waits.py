"""How long a row waits for a partner that may still come, from the text of the query alone.

A row of an outer, semi or anti join is settled when no row that could meet it can come any more: when it has left its own
windows, and the watermark of every stream of the other side has passed that instant. A watermark is the newest time of
its stream less the stream's lateness, so both add up.

Inside a relation a row comes at once, as soon as its instant is known: when the watermarks of all streams of the query have
passed it. If a partner comes later, the row is taken back at that instant.
"""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.language.algebra import Leaf, Match, Node, SetOperation
from thalweg.language.durations import micros, shown
from thalweg.language.query import Input
from thalweg.plan import Reason


def wait_of(node: Match) -> Reason:
    """What a row without a partner waits for, in time units."""
    left, right = _streams(node.left), _streams(node.right)
    if node.kind == "full":
        return _side(left, right).then(_side(right, left))
    return _side(left, right)


def waits_for_partners(node: Node) -> str:
    """Of a node that gives rows because they have no partner, or lets them wait for one: its kind; else nothing."""
    if isinstance(node, Match):
        return "" if node.kind == "inner" else node.kind
    return node.kind if isinstance(node, SetOperation) and node.kind != "union" else ""


def wait_in_relation(node: Match | SetOperation, roots: Iterable[Node]) -> Reason:
    """What holds a row of a relation back, among all streams that the relations read."""
    sides = (node.left, node.right) if node.kind == "full" else (node.left,)
    rows = " and ".join(dict.fromkeys(i.alias for side in sides for i in _streams(side))) or "tables"
    missing = "with a partner" if node.kind in ("semi", "intersect") else "without a partner"
    streams = [i for root in roots for i in _streams(root)]
    if not streams:
        return Reason.of("a row of {rows} {missing} does not wait: only tables are read", rows=rows, missing=missing)
    late, slowest = max((int(micros(i.spec.lateness, "lateness")), i.alias) for i in streams)
    return Reason.of(
        "a row of {rows} {missing} comes when all streams have passed its time, and goes when that changes: it waits {wait}, "
        "the lateness of {slowest}, counted by the times of {streams}",
        rows=rows, missing=missing, wait=shown(late), slowest=slowest,
        streams=" and ".join(dict.fromkeys(i.alias for i in streams)),
    )  # fmt: skip


def _side(kept: list[Input], other: list[Input]) -> Reason:
    name = " and ".join(dict.fromkeys(i.alias for i in kept)) or "tables"
    if not other:
        return Reason.of("a row of {rows} without a partner does not wait: the other side is a table", rows=name)
    spans = [(i.window.span, i.alias) for i in kept if i.window.kind in ("range", "now")]
    if not spans:
        return Reason.of(
            "a row of {rows} without a partner waits until its window lets it go, or for close()", rows=name
        )
    span, by = min(spans)
    late, slowest = max((int(micros(i.spec.lateness, "lateness")), i.alias) for i in other)
    return Reason.of(
        "a row of {rows} without a partner waits {wait}: {window} in the window of {by} and {late} of lateness of {slowest}, "
        "counted by the times of {others}",
        rows=name, wait=shown(span + late), window=shown(span), by=by, late=shown(late), slowest=slowest,
        others=" and ".join(dict.fromkeys(i.alias for i in other)),
    )  # fmt: skip


def _streams(node: Node) -> list[Input]:
    return [i for part in node.walk() if isinstance(part, Leaf) for i in part.query.streams]
