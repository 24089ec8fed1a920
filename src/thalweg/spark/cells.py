"""From the inputs of a query to the rows that leave its cells: pack → cell → unpack, for a join block and for a whole query.

Where the state lies (Spark's store, or files), how it moves to other cells, and where bad rows go is the same for both.
What differs is handed in: the cut into cells, the query that a cell runs, and the columns that come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from thalweg.engine.gate import NOTHING
from thalweg.engine.placing import Division
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.inputs import StreamInput
from thalweg.language.query import Query
from thalweg.plan.shares import Shares
from thalweg.spark import checkpoints, quarantine
from thalweg.spark.asked import Asked, AskedInput, Cut
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.board import Entry
from thalweg.spark.cell import batch_cell
from thalweg.spark.celltask import CellTask
from thalweg.spark.compat import arrow_schema
from thalweg.spark.filecell import RETAINED, FileCell, filecell, first_batch
from thalweg.spark.keys import cell_keys
from thalweg.spark.moved import Moved
from thalweg.spark.onward import Onward
from thalweg.spark.pack import Retired
from thalweg.spark.packed import OUT_DDL, PACKED_DDL
from thalweg.spark.processor import CellProcessor
from thalweg.spark.run import Run
from thalweg.spark.unpack import STATS


@dataclass(frozen=True)
class Keep:
    """Where the state of cells lies between batches."""

    checkpoint: str | None = None
    """The folder of Spark's checkpoint, if state is to move to another number of cells."""
    folder: str | None = None
    """The folder of files; None for Spark's own store."""


@dataclass(frozen=True)
class Above:
    """What stands above a second shuffle."""

    query: Bound
    onward: Onward


class Cells:
    """The cells of one query."""

    def __init__(
        self, run: Run, blocks: Sequence[BlockInputs], divisions: Sequence[Division], shares: Shares, why: str, keep: Keep,
    ) -> None:  # fmt: skip
        self.run, self.blocks, self.divisions = run, blocks, divisions
        self.shares, self.why, self.keep = shares, why, keep
        self.files = keep.folder if run.streaming else None

    def rows(
        self, routed: Query | Bound, judged: Query | Bound, schema: StructType,
        more: Callable[[Entry], DataFrame] | None = None, above: Above | None = None,
    ) -> tuple[DataFrame, CellTask]:  # fmt: skip
        """What leaves the cells, in these columns. `routed` is the query as cells run it, `judged` as it was asked;
        `more` gives packed rows that come beside those of the inputs; `above` goes on with what the cells make."""
        entry = self._register(routed, judged)
        idle = {b.names[a]: g.idle for b in self.blocks for a, g in b.frames.items()
                if isinstance(g, StreamInput) and g.idle is not None}  # fmt: skip
        shared = {b.names[g[0]]: [b.names[a] for a in g] for b in self.blocks for g in b.groups}
        task = self.run.cell_task(routed, self.shares, idle, shared)
        task = entry.task = replace(task, judged=judged, folder=self.files or "")
        task = self._moving(task)
        retired = Retired(task.move.batch, task.move.retired) if isinstance(task.move, Moved) else None
        packs = self._packed(streams=True, retired=retired)
        if not self.run.streaming and isinstance(routed, Bound):
            packs = packs.unionByName(self._wake())
        if more is not None:
            packs = packs.unionByName(more(entry))
        if self.files is not None and self._has_tables:
            packs = packs.unionByName(self._tables_once(self.files))
        packed = self.run.observed(packs, "pack", entry)
        if self.run.on_error == "quarantine":
            schema = StructType([*schema.fields, quarantine.FIELD])
        if above is not None:
            task = replace(task, onward=above.onward)
        rows = self._through(packed, task, schema, entry)
        if above is not None:
            upper = self.run.cell_task(above.query, Shares((above.onward.cells,)), {}, {})
            upper = replace(upper, token=f"{upper.token}, above", control="", folder=task.folder)
            rows = self._through(rows, upper, schema, entry)
        return rows, task

    def _through(self, packed: DataFrame, task: CellTask, schema: StructType, entry: Entry) -> DataFrame:
        """Packed rows through their cells: rows of the answer, or packed rows for the cells above."""
        columns = OUT_DDL if task.onward is None else PACKED_DDL
        if self.files is not None:
            retain = int(self.run.spark.conf.get(RETAINED, "100") or 100)
            run = filecell(FileCell(task, retain, arrow_schema(schema)))
            shuffled = packed.repartition(task.shares.cells, "key")
            if task.onward is not None:
                return self.run.observed(shuffled.mapInArrow(run, columns), task.stage, entry)
            told = StructType([*schema.fields, StructField(STATS, StringType())])
            return self.run.observed(shuffled.mapInArrow(run, told), task.stage, entry, STATS)
        grouped = packed.groupBy("key")
        if not self.run.streaming:
            results = grouped.applyInArrow(batch_cell(task), columns)
        else:
            self.run.use_rocksdb()
            tables = None if task.above else self._tables()
            results = grouped.transformWithState(CellProcessor(task), columns, "append", "none", tables)
        results = self.run.observed(results, task.stage, entry)
        return results if task.onward is not None else self.run.unpacked(results, arrow_schema(schema), schema, entry)

    def _moving(self, task: CellTask) -> CellTask:
        """The task with the state of an old cut, if the checkpoint has one. Cells move state in files by themselves."""
        if not self.run.streaming or self.keep.checkpoint is None or self.files is not None:
            return task
        return replace(task, move=checkpoints.moved(self.run.spark, task, self.keep.checkpoint))

    # Rows for the cells

    def _packed(self, *, streams: bool, retired: Retired | None = None) -> DataFrame:
        """The rows of all streams, or of all tables; a batch query needs both at once."""
        packs = []
        for block, division in zip(self.blocks, self.divisions, strict=True):
            wanted = [g for g in block.groups
                      if not self.run.streaming or block.query.input(g[0]).is_stream == streams]  # fmt: skip
            if wanted:
                packs.append(self.run.packed(block, wanted, division, retired, self.files is not None))
        return reduce(DataFrame.unionByName, packs)

    def _wake(self) -> DataFrame:
        """A row for every cell, so that also a query without any input gives its answer: no rows, or a count of 0."""
        rows = [(key, "", 0, 0, NOTHING, None, None) for key in cell_keys(self.shares.cells)]
        return self.run.spark.createDataFrame(rows, PACKED_DDL)

    @property
    def _has_tables(self) -> bool:
        return any(not i.is_stream for b in self.blocks for i in b.query.inputs)

    def _tables(self) -> GroupedData | None:
        """Tables of a streaming query, as the cells' initial state: Spark reads them when the first batch runs."""
        if not self._has_tables:
            return None
        return self._packed(streams=False).where("blob IS NOT NULL").drop("stats").groupBy("key")

    def _tables_once(self, folder: str) -> DataFrame:
        """The same for cells in files: packed rows of the first batch, and a row that wakes each cell in it."""
        rows = self._packed(streams=False).where("blob IS NOT NULL").withColumn("stats", F.lit(None).cast("string"))
        # Spark computes both sides of a stream's join in every batch, also if the stream is empty. Cached, the tables are
        # read once per start, and a batch only passes over their packed rows, in no more tasks than cells. The token keeps
        # another query over the same files from finding them.
        rows = rows.coalesce(self.shares.cells).withColumn("token", F.lit(self.run.token)).cache().drop("token")
        first, none = F.broadcast(first_batch(self.run.spark, folder)), F.lit(None)
        keys = self.run.spark.createDataFrame([(key,) for key in cell_keys(self.shares.cells)], "key int").coalesce(1)
        awake = keys.withColumns({
            "input": F.lit(""), "part": F.lit(0), "rows": F.lit(0).cast("long"), "newest": F.lit(NOTHING),
            "blob": none.cast("binary"), "stats": none.cast("string"),
        })  # fmt: skip
        return rows.unionByName(awake).crossJoin(first).drop("first")

    # What is told

    def _register(self, routed: Query | Bound, judged: Query | Bound) -> Entry:
        """Put the query on the board."""
        queries = [routed] if isinstance(routed, Query) else [leaf.query for leaf in routed.leaves]
        shapes = [Shape(query, prefiltered=True, leave=True) for query in queries]
        inputs = tuple(
            AskedInput(
                block.names[i.alias],
                i.window if i.is_stream else None,
                shape.pipeline(n),
                len(division.placing(block.shape, i.alias).offsets),
            )
            for block, division, shape in zip(self.blocks, self.divisions, shapes, strict=True)
            for n, i in enumerate(shape.query.inputs)
        )
        places = {text: place for block in self.blocks for text, place in block.places().items()}
        cut = Cut(judged if isinstance(judged, Query) else None, self.shares, self.why, self.run.partitions)
        return self.run.register(
            Asked(self.run.name, self.run.policy, self.run.streaming, inputs, places, judged.text, cut)
        )
