"""Builds the DataFrame of a query that is more than a join block: pack → cells that run the whole query → unpack.

The inputs of all its blocks are packed for the same cells, cut by one value that every group and match agrees on
(`optimize/placement.py`); where there is none, one cell does it all, and `explain` says why. A cell runs the whole tree,
so the order of events in it is that of the engine. Spark sorts and limits the answer of a batch query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, GroupedData

from thalweg.engine.engine import Engine
from thalweg.engine.gate import NOTHING
from thalweg.engine.leaves import input_names
from thalweg.engine.placing import ByValue
from thalweg.errors import QueryError
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.optimize import placement
from thalweg.plan.shares import Shares
from thalweg.spark import checkpoints
from thalweg.spark.asked import Asked, AskedInput, Cut
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.board import Entry
from thalweg.spark.cell import batch_cell
from thalweg.spark.columnnames import column
from thalweg.spark.compat import spark_schema
from thalweg.spark.faithful import Meaning, check_tree
from thalweg.spark.given import wanted_cells
from thalweg.spark.keys import cell_keys
from thalweg.spark.pack import PACKED_DDL
from thalweg.spark.processor import OUT_DDL, CellProcessor
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
    return bound.with_leaves(told), blocks


class TreeBuild:
    """Turns a whole query into a DataFrame."""

    def __init__(self, bound: Bound, blocks: Sequence[BlockInputs], run: Run, cells: int | None) -> None:
        self.bound, self.blocks, self.run = bound, blocks, run
        self.placed, self.why = placement.choose(bound)
        self.cells = wanted_cells(run.spark, cells) if self.placed is not None else 1

    def build(self) -> DataFrame:
        root = self.bound.root
        routed = self._routed()
        entry = self._register(routed)
        idle = {i.source: g.idle for b in self.blocks for i in b.query.inputs
                if isinstance(g := b.frames[i.alias], StreamInput) and g.idle is not None}  # fmt: skip
        shared = {b.names[g[0]]: [b.names[a] for a in g] for b in self.blocks for g in b.groups}
        task = self.run.cell_task(routed, Shares((self.cells,)), idle, shared)
        task = entry.task = replace(task, judged=self.bound)
        grouped = self.run.observed(self._packed(streams=True), "pack", entry).groupBy("key")
        if self.run.streaming:
            self.run.use_rocksdb()
            cells = grouped.transformWithState(CellProcessor(task), OUT_DDL, "append", "none", self._tables())
        else:
            cells = grouped.applyInArrow(batch_cell(task), OUT_DDL)
        results = self.run.observed(cells, "cell", entry)
        schema = Engine(routed, policy=self.run.policy, prefiltered=True).schema
        rows = self.run.unpacked(results, schema, spark_schema(schema), entry)
        if root.order:
            rows = rows.orderBy(*[_sorted(name, *by[1:]) for name, by in self._sorting()])
            rows = rows.drop(*[name for name, _ in self._sorting()])
        if root.offset:
            rows = rows.offset(root.offset)
        return checkpoints.remembered(rows if root.limit is None else rows.limit(root.limit), task)

    def _routed(self) -> Bound:
        """The query as the cells see it: without what packing has filtered, and what Spark sorts."""
        queries = {id(leaf): replace(leaf, query=block.cell_query())
                   for leaf, block in zip(self.bound.leaves, self.blocks, strict=True)}  # fmt: skip
        routed = self.bound.with_leaves(queries)
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
        return ByValue(self.cells, own, self.placed.type, frozenset(a for n, a in self.placed.kept if n == number))

    def _packed(self, *, streams: bool) -> DataFrame:
        """The rows of all streams, or of all tables; a batch query needs both at once."""
        packs = []
        for number, block in enumerate(self.blocks):
            wanted = [g for g in block.groups
                      if not self.run.streaming or block.query.input(g[0]).is_stream == streams]  # fmt: skip
            if wanted:
                packs.append(self.run.packed(block, wanted, self._division(number)))
        if not self.run.streaming:
            packs.append(self._wake())
        return reduce(DataFrame.unionByName, packs)

    def _wake(self) -> DataFrame:
        """A row for every cell, so that also a query without any input gives its answer: no rows, or a count of 0."""
        rows = [(key, "", 0, 0, NOTHING, None, None) for key in cell_keys(self.cells)]
        return self.run.spark.createDataFrame(rows, PACKED_DDL)

    def _tables(self) -> GroupedData | None:
        if all(i.is_stream for b in self.blocks for i in b.query.inputs):
            return None
        return self._packed(streams=False).where("blob IS NOT NULL").drop("stats").groupBy("key")

    def _register(self, routed: Bound) -> Entry:
        inputs = tuple(
            AskedInput(
                block.names[i.alias],
                i.window if i.is_stream else None,
                Shape(leaf.query, prefiltered=True).pipeline(n),
                1 if self._division(number).columns[i.alias] is not None else self.cells,
            )
            for number, (leaf, block) in enumerate(zip(routed.leaves, self.blocks, strict=True))
            for n, i in enumerate(leaf.query.inputs)
        )
        places = {text: place for block in self.blocks for text, place in block.places().items()}
        cut = Cut(None, Shares((self.cells,)), self.why, self.run.partitions)
        return self.run.register(
            Asked(self.run.name, self.run.policy, self.run.streaming, inputs, places, self.bound.text, cut)
        )


def _sorted(name: str, descending: bool, nulls_first: bool) -> SparkColumn:
    by = column(name)
    if descending:
        return by.desc_nulls_first() if nulls_first else by.desc_nulls_last()
    return by.asc_nulls_first() if nulls_first else by.asc_nulls_last()
