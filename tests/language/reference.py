"""The plainest evaluation of a bound tree over tables: all combinations, row by row. It shares no code with the engine."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.language import Column
from thalweg.language.algebra import (
    Aggregate,
    Bound,
    Distinct,
    Emit,
    Group,
    Keep,
    Leaf,
    Match,
    Node,
    Project,
    SetOperation,
    Single,
)  # fmt: skip
from thalweg.language.scalar.expression import Apply, Expression, Field, Value
from thalweg.language.scalar.types import BOOL

Row = tuple[Any, ...]


def answer(bound: Bound, tables: Mapping[str, pa.Table]) -> list[Row]:
    """The rows of a query over tables, in no order unless it has one; without LIMIT."""
    root = bound.root
    return Reference(tables).emitted(root)


class Reference:
    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.tables = tables

    def emitted(self, root: Emit) -> list[Row]:
        rows = self.of(root.child)
        return rows_of(rows.select([c for _, c in root.columns]))

    def of(self, node: Node) -> pa.Table:
        found = getattr(self, "_" + type(node).__name__.lower())(node)
        assert found.schema.names == node.schema.names, (found.schema.names, node.schema.names)
        return found.cast(node.schema)

    def _leaf(self, node: Leaf) -> pa.Table:
        block = node.query.block
        given = {i.alias: self.tables[i.source] for i in block.inputs}
        grid = np.meshgrid(*[np.arange(t.num_rows) for t in given.values()], indexing="ij")
        taken = {alias: pa.array(g.ravel()) for alias, g in zip(given, grid, strict=True)}

        def column(c: Column) -> pa.Array:
            return given[c.input].column(c.name).combine_chunks().take(taken[c.input])

        keep = np.ones(len(next(iter(taken.values()))), np.bool_)
        for f in block.filters:
            assert f.evaluate is not None, f.text
            keep &= true(f.evaluate({n: column(Column(f.input, n)) for n in f.columns}))
        for r in block.residuals:
            assert r.evaluate is not None, r.text
            keep &= true(r.evaluate({c: column(c) for c in r.columns}))
        for k in block.keys:
            first, *others = (column(c).cast(k.type) for c in k.columns)
            for other in others:
                keep &= true(equal(first, other))
        rows = pa.array(np.flatnonzero(keep))
        return pa.table({str(o.column): column(o.column).take(rows) for o in block.output if o.column is not None})

    def _project(self, node: Project) -> pa.Table:
        rows = self.of(node.child)
        return pa.table([computed(e, rows) for e in node.columns.values()], schema=node.schema)

    def _keep(self, node: Keep) -> pa.Table:
        rows = self.of(node.child)
        return rows.filter(pa.array(true(computed(node.condition, rows))))

    def _match(self, node: Match) -> pa.Table:
        left, right = self.of(node.left), self.of(node.right)
        i, j = (g.ravel() for g in np.meshgrid(np.arange(left.num_rows), np.arange(right.num_rows), indexing="ij"))
        pairs = pa.table(
            [*(c.take(pa.array(i)) for c in left.columns), *(c.take(pa.array(j)) for c in right.columns)],
            names=[*left.schema.names, *right.schema.names],
        )
        keys = [equal(whole(pairs.column(a)), whole(pairs.column(b))) for a, b in node.keys]
        compared = keys.pop() if node.null_aware else None
        holds = np.ones(len(i), np.bool_)
        for key in keys:
            holds &= true(key)
        if node.condition is not None:
            holds &= true(computed(node.condition, pairs))
        unknown = np.zeros(len(i), np.bool_)
        if compared is not None:
            unknown = holds & compared.is_null().to_numpy(zero_copy_only=False)
            holds = holds & true(compared)
        hit = set(i[holds].tolist())
        unsure = set(i[unknown].tolist()) - hit
        rows = list(range(left.num_rows))
        if node.kind == "mark":
            marks = [True if r in hit else None if r in unsure else False for r in rows]
            return left.append_column(node.schema.names[-1], pa.array(marks, BOOL))
        if node.kind in ("semi", "anti"):
            kept = [
                r for r in rows if (r in hit) == (node.kind == "semi") and not (node.kind == "anti" and r in unsure)
            ]
            return left.take(pa.array(kept, pa.int64()))
        a, b = i[holds].tolist(), j[holds].tolist()
        if node.kind in ("left", "full"):
            alone = [r for r in rows if r not in hit]
            a, b = a + alone, b + [None] * len(alone)
        if node.kind == "full":
            alone = [r for r in range(right.num_rows) if r not in set(b)]
            a, b = a + [None] * len(alone), b + alone
        sides = (left.take(pa.array(a, pa.int64())), right.take(pa.array(b, pa.int64())))
        return pa.table([c for side in sides for c in side.columns], names=pairs.schema.names)

    def _group(self, node: Group) -> pa.Table:
        rows = self.of(node.child)
        keys = rows_of(rows.select(list(node.keys))) if node.keys else [()] * rows.num_rows
        groups: dict[Row, list[int]] = {} if node.keys else {(): []}
        for r, key in enumerate(keys):
            groups.setdefault(key, []).append(r)
        columns: list[list[Any]] = [[key[k] for key in groups] for k in range(len(node.keys))]
        for aggregate in node.aggregates.values():
            given = list(zip(*(rows.column(a).to_pylist() for a in aggregate.arguments), strict=True))
            columns.append(
                [aggregated(aggregate, [given[r] for r in g] if given else [() for _ in g]) for g in groups.values()]
            )
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, node.schema, strict=True)], schema=node.schema)

    def _distinct(self, node: Distinct) -> pa.Table:
        return table(dict.fromkeys(rows_of(self.of(node.child))), node.schema)

    def _single(self, node: Single) -> pa.Table:
        rows = rows_of(self.of(node.child))
        assert len(rows) <= 1
        return table(rows or [(None,) * len(node.schema)], node.schema)

    def _setoperation(self, node: SetOperation) -> pa.Table:
        left, right = Counter(rows_of(self.of(node.left))), Counter(rows_of(self.of(node.right)))
        if not node.all:
            left, right = Counter(dict.fromkeys(left, 1)), Counter(dict.fromkeys(right, 1))
        found = {"union": left + right, "except": left - right, "intersect": left & right}[node.kind]
        return table(found.elements() if node.all else list(found), node.schema)


def aggregated(aggregate: Aggregate, rows: Sequence[Row]) -> Any:
    given = [r for r in rows if None not in r]
    if aggregate.distinct:
        given = list(dict.fromkeys(given))
    if aggregate.function == "count":
        return len(given)
    values = [r[0] for r in given]
    if not values:
        return [] if aggregate.function == "collect_list" else None
    match aggregate.function:
        case "sum":
            return sum(values)
        case "avg":
            return sum(values) / len(values)
        case "min" | "max":
            return (min if aggregate.function == "min" else max)(values)
        case "stddev_samp":
            return statistics.stdev(values) if len(values) > 1 else None
        case "var_pop":
            return statistics.pvariance(map(float, values))
        case "collect_list":
            return values
    raise AssertionError(aggregate.function)


def computed(e: Expression, rows: pa.Table) -> pa.Array:
    return Value("", e)({n: whole(rows.column(n)) for n in rows.schema.names}, rows.num_rows)


def equal(a: pa.Array, b: pa.Array) -> pa.Array:
    fields = Field(a.type, "a"), Field(b.type, "b")
    return Value("", Apply(BOOL, "=", fields))({"a": a, "b": b}, len(a))


def whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def true(array: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(whole(array).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def rows_of(rows: pa.Table) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in rows.columns), strict=True)) if rows.num_columns else [()] * rows.num_rows


def table(rows: Any, schema: pa.Schema) -> pa.Table:
    listed = list(rows)
    return pa.table([pa.array([r[k] for r in listed], f.type) for k, f in enumerate(schema)], schema=schema)
