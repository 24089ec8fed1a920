"""Histories: operators over whole results, for queries whose answer is a stream of results.

`history(node)` makes the operator of a node. A projection and a condition look at each row alone; UNION ALL takes the
results of both sides; joins are in `meet.py`. All other nodes are relations (`operator(node)`) and become results again
in `lives.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Closings, Deltas, History, Moves
from thalweg.language.algebra import Keep, Match, Node, Project, SetOperation
from thalweg.language.scalar.expression import Condition, Value
from thalweg.relate.meet import Meet


def native(node: Node) -> bool:
    """Whether a node compares whole histories where the answer is a stream of results."""
    if isinstance(node, SetOperation):
        return node.kind == "union" and node.all
    return isinstance(node, Project | Keep | Match)


def history(node: Node, closes: Sequence[bool]) -> History:
    """The operator of a native node. `closes` says of each input whether its rows may end later than they know."""
    if isinstance(node, Match):
        left, right = closes
        return Meet(node, (left, right))
    if isinstance(node, Project):
        return Projected(node)
    if isinstance(node, Keep):
        return Chosen(node)
    return Both(node.schema)


class _Stateless:
    schema: pa.Schema

    def size(self) -> int:
        return 0

    def snapshot(self) -> dict[str, bytes]:
        return {}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        pass


class Projected(_Stateless):
    """Columns computed row by row."""

    def __init__(self, node: Project) -> None:
        self.schema = node.schema
        self._columns = [Value(name, node.columns[name]) for name in node.schema.names]

    def step(self, inputs: Sequence[Moves]) -> Moves:
        (moves,) = inputs
        opened, count = moves.opened, len(moves.opened.number)
        arrays = dict(zip(opened.rows.schema.names, opened.rows.columns, strict=True))
        columns = [value(arrays, count).cast(f.type) for value, f in zip(self._columns, self.schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Moves(Deltas(rows, opened.number, opened.start, opened.end, opened.told), moves.closed, moves.floor)


class Chosen(_Stateless):
    """The rows for which a condition is true."""

    def __init__(self, node: Keep) -> None:
        self.schema = node.schema
        self._condition = Condition("WHERE", node.condition)

    def step(self, inputs: Sequence[Moves]) -> Moves:
        (moves,) = inputs
        opened, count = moves.opened, len(moves.opened.number)
        arrays = dict(zip(opened.rows.schema.names, opened.rows.columns, strict=True))
        held = self._condition(arrays, count).fill_null(False).to_numpy(zero_copy_only=False)
        which = np.flatnonzero(held)
        rows = opened.rows.take(pa.array(which))
        kept = Deltas(rows, *(a[which] for a in (opened.number, opened.start, opened.end, opened.time)))
        return Moves(kept, moves.closed, moves.floor)


class Both(_Stateless):
    """UNION ALL: even numbers are the left side's, odd ones the right side's."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def step(self, inputs: Sequence[Moves]) -> Moves:
        batches = [
            pa.RecordBatch.from_arrays(
                [c.cast(f.type) for c, f in zip(m.opened.rows.columns, self.schema, strict=True)], schema=self.schema
            )
            for m in inputs
        ]
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()
        number = np.concatenate([2 * m.opened.number + side for side, m in enumerate(inputs)])
        names = ("start", "end", "time")
        start, end, time = (np.concatenate([getattr(m.opened, name) for m in inputs]) for name in names)
        closed = Closings(
            np.concatenate([2 * m.closed.number + side for side, m in enumerate(inputs)]),
            np.concatenate([m.closed.end for m in inputs]),
        )
        opened = Deltas(rows[0] if rows else batches[0], number, start, end, time)
        return Moves(opened, closed, min(m.floor for m in inputs))
