"""Builds the DataFrame of a query that is more than a join block: its cells (`cells.py`) run the whole query.

The inputs of all its blocks are packed for the same cells, cut by one value that every group and match agrees on
(`optimize/placement.py`); where there is none, one cell does it all, and `explain` says why. A cell runs the whole tree,
so the order of events in it is that of the engine. Spark sorts and limits the answer of a batch query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame

from thalweg.engine.leaves import input_names
from thalweg.engine.placing import ByValue
from thalweg.errors import QueryError
from thalweg.language.algebra import Bound
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.optimize import placement
from thalweg.optimize.split import split
from thalweg.plan.shares import Shares
from thalweg.spark import checkpoints
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.cells import Above, Cells, Keep
from thalweg.spark.columnnames import column
from thalweg.spark.compat import spark_schema
from thalweg.spark.faithful import Meaning, check_tree
from thalweg.spark.given import wanted_cells
from thalweg.spark.onward import Onward
from thalweg.spark.run import Run


def blocks_of(
    bound: Bound, frames: Mapping[str, StreamInput | TableInput], meaning: Meaning
) -> tuple[Bound, list[BlockInputs]]:
    """The query with inputs that know their own rows by unique names, and the inputs of each block."""
    names = input_names(bound.leaves)
    blocks = [BlockInputs.of(leaf.query, frames, meaning, own) for leaf, own in zip(bound.leaves, names, strict=True)]
    for block in blocks:
        for text in block.shape.left:
            raise QueryError(
                f"only Spark can evaluate '{text}', and here it would have to wait for the answer",
                hint="compute it as a column of the input first (withColumn), or filter the DataFrame",
            )
    read = {str(c): b.types[c.input, c.name] for b in blocks for c in b.shape.needed}
    check_tree(bound.root, read, meaning)
    told = {id(leaf): replace(leaf, query=block.query) for leaf, block in zip(bound.leaves, blocks, strict=True)}
    return bound.with_nodes(told), blocks


class TreeBuild:
    """Turns a whole query into a DataFrame."""

    def __init__(self, bound: Bound, blocks: Sequence[BlockInputs], run: Run, cells: int | None, keep: Keep) -> None:
        self.bound, self.blocks = bound, blocks
        wanted = wanted_cells(run.spark, cells)
        self.placed, why = placement.choose(bound, finite=not run.streaming)
        self.split = split(bound, wanted, finite=not run.streaming)
        if self.split is not None:
            self.placed, why = self.split.placed, self.split.why
        self.count = wanted if self.placed is not None else 1
        divisions = [self._division(number) for number in range(len(blocks))]
        self.cells = Cells(run, blocks, divisions, Shares((self.count,)), why, keep)

    def build(self) -> DataFrame:
        root, routed = self.bound.root, self._routed()
        from thalweg.engine.answer import answer_schema  # only a query with relations needs them

        schema, above = spark_schema(answer_schema(routed)), None
        if self.split is not None:
            routed, above = self._split(routed)
        rows, task = self.cells.rows(routed, self.bound, schema, above=above)
        if root.order:
            rows = rows.orderBy(*[_sorted(name, *by[1:]) for name, by in self._sorting()])
            rows = rows.drop(*[name for name, _ in self._sorting()])
        if root.offset:
            rows = rows.offset(root.offset)
        return checkpoints.remembered(rows if root.limit is None else rows.limit(root.limit), task)

    def _split(self, routed: Bound) -> tuple[Bound, Above]:
        """What the cells below a second shuffle run, and what stands above it."""
        from thalweg.engine.halves import halves

        found = split(routed, self.count, finite=not self.cells.run.streaming)
        assert found is not None
        below, above = halves(found.bound, found.node, self.count)
        return below, Above(above, Onward(1 if found.column is None else self.count, found.column))

    def _routed(self) -> Bound:
        """The query as the cells see it: without what packing has filtered, and what Spark sorts."""
        queries = {id(leaf): replace(leaf, query=block.cell_query())
                   for leaf, block in zip(self.bound.leaves, self.blocks, strict=True)}  # fmt: skip
        routed = self.bound.with_nodes(queries)
        root, child = routed.root, routed.root.child
        sorting = [pa.field(name, child.schema.field(by).type) for name, (by, _, _) in self._sorting()]
        columns = (*root.columns, *((name, by) for name, (by, _, _) in self._sorting()))
        schema = pa.schema([*root.schema, *sorting])
        return replace(routed, root=replace(root, schema=schema, columns=columns, order=(), limit=None, offset=0))

    def _sorting(self) -> list[tuple[str, tuple[str, bool, bool]]]:
        """What Spark sorts by, under names of its own."""
        return [(f"__order{k}", by) for k, by in enumerate(self.bound.root.order)]

    def _division(self, number: int) -> ByValue:
        block = self.blocks[number]
        if self.placed is None:
            return ByValue(1, dict.fromkeys((i.alias for i in block.query.inputs), None), pa.null(), frozenset())
        own = {alias: c for (n, alias), c in self.placed.columns.items() if n == number}
        return ByValue(self.count, own, self.placed.type, frozenset(a for n, a in self.placed.kept if n == number))


def _sorted(name: str, descending: bool, nulls_first: bool) -> SparkColumn:
    by = column(name)
    if descending:
        return by.desc_nulls_first() if nulls_first else by.desc_nulls_last()
    return by.asc_nulls_first() if nulls_first else by.asc_nulls_last()
