"""A bound query as text: the tree, one node a line, and below each leaf what its block joins. For tests and explain."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.language.algebra import (
    Aggregate,
    Bound,
    Distinct,
    Emit,
    Group,
    Hop,
    Keep,
    Leaf,
    Match,
    Node,
    Over,
    Project,
    Restream,
    Sent,
    SetOperation,
    Single,
)  # fmt: skip
from thalweg.language.durations import shown
from thalweg.language.scalar.written import written
from thalweg.language.text.render import block_lines, window_text


def show(bound: Bound | Node) -> str:
    """A tree as text.

    >>> import pyarrow as pa
    >>> from thalweg.language.bind import bind
    >>> from thalweg.language.query import Source
    >>> s = Source(pa.schema({"ts": pa.int64(), "k": pa.int32()}), time="ts", unit="ms")
    >>> print(show(bind("SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] WHERE k > 0 GROUP BY k", {"s": s})))
    emit changes: k, n
      project k = s.k, n = count(*)
        group by s.k: count(*) = count()
          leaf s.k
            input s: stream s [RANGE 1 HOUR]
            filter s: s.k > 0 (vectorised)
    """
    root = bound.root if isinstance(bound, Bound) else bound
    return "\n".join(_Lines(root).of(root, ""))


class _Lines:
    def __init__(self, root: Node) -> None:
        counts: dict[int, int] = {}
        for node in root.walk():
            counts[id(node)] = counts.get(id(node), 0) + 1
        shared = [i for i, n in counts.items() if n > 1 and not self._below(root, i, counts)]
        self._shared = {i: f"view {k + 1}" for k, i in enumerate(shared)}
        self._told: set[int] = set()

    @staticmethod
    def _below(root: Node, which: int, counts: dict[int, int]) -> bool:
        """Whether a node is used as often as its parent: then only the parent is worth a name."""
        parents = {id(n) for n in root.walk() if any(id(c) == which for c in n.children)}
        return len(parents) == 1 and all(counts[p] == counts[which] for p in parents)

    def of(self, node: Node, indent: str) -> Iterable[str]:
        name = self._shared.get(id(node))
        if id(node) in self._told:
            yield f"{indent}{name} again"
            return
        if name:
            self._told.add(id(node))
            yield f"{indent}{name}:"
            indent += "  "
        yield indent + line(node)
        if isinstance(node, Leaf):
            yield from (f"{indent}  {text}" for text in block_lines(node.query.block))
        for child in node.children:
            yield from self.of(child, indent + "  ")


def line(node: Node) -> str:
    """One node, without its children."""
    match node:
        case Emit():
            ticks = f" every {shown(node.every)}" if node.every else ""
            columns = ", ".join(n if n == c else f"{n} = {c}" for n, c in node.columns)
            order = [f"{c}{' desc' if d else ''} nulls {'first' if f else 'last'}" for c, d, f in node.order]
            text = f"emit {node.kind}{ticks}: {columns}" + (f" order by {', '.join(order)}" if order else "")
            return (
                text
                + (f" limit {node.limit}" if node.limit is not None else "")
                + (f" offset {node.offset}" if node.offset else "")
            )
        case Sent():
            return f"sent {', '.join(node.schema.names)}"
        case Leaf():
            return f"leaf {', '.join(node.schema.names)}"
        case Project():
            listed = [n if written(e) == n else f"{n} = {written(e)}" for n, e in node.columns.items()]
            return f"project {', '.join(listed)}"
        case Keep():
            return f"keep {written(node.condition)}"
        case Match():
            keys = [f"{a} = {b}" for a, b in node.keys]
            text = f"match {node.kind}{' null-aware' if node.null_aware else ''} on {', '.join(keys) or 'nothing'}"
            return text + (f" where {written(node.condition)}" if node.condition is not None else "")
        case Group():
            return f"group by {', '.join(node.keys) or 'nothing'}: {_aggregates(node.aggregates.items())}"
        case Over():
            reach = (
                "unbounded"
                if node.preceding is None
                else (shown(node.preceding) if node.frame == "range" else f"{node.preceding} rows")
            )
            by = f" by {', '.join(node.partition)}" if node.partition else ""
            return f"over {node.frame} {reach} preceding{by}: {_aggregates(node.aggregates.items())}"
        case SetOperation():
            return f"{node.kind}{' all' if node.all else ''}"
        case Hop():
            return f"hop {node.name}: {shown(node.size)}, every {shown(node.slide)}"
        case Restream():
            ticks = f" every {shown(node.every)}" if node.every else ""
            return f"restream {node.kind}{ticks} {window_text(node.window)}"
        case Distinct() | Single():
            return type(node).__name__.lower()
    return type(node).__name__.lower()


def _aggregates(aggregates: Iterable[tuple[str, Aggregate]]) -> str:
    return ", ".join(
        f"{name} = {a.function}({'distinct ' if a.distinct else ''}{', '.join(a.arguments)})" for name, a in aggregates
    )
