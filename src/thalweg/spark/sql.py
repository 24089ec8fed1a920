"""Builds the DataFrame of `tw.sql`: pack → cell → unpack, and SELECT by Spark.

Each input is packed on its own and only the packed frames are united, so Spark's limit of one event-time column never
applies. Conjuncts over one input that are plain SQL run in Spark before packing; those with Python functions run in the
pack, adaptively; windows, keys and the rest in the cells. One stream with tables only needs no shuffle and no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from thalweg import optimize
from thalweg.engine.output import RESULT_TIME
from thalweg.engine.placing import ByShares
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.query import Query
from thalweg.optimize import shares as sharing
from thalweg.optimize.caches.tuner import make as cache_tuner
from thalweg.optimize.indexes.tuner import layout_and_tuner
from thalweg.plan.shares import Shares
from thalweg.spark import catalog, checkpoints, quarantine, workers
from thalweg.spark.asked import Asked, AskedInput, Cut
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.board import Entry, board
from thalweg.spark.cell import batch_cell
from thalweg.spark.celltask import CellTask
from thalweg.spark.columnnames import column
from thalweg.spark.compat import arrow_schema, need_joins
from thalweg.spark.faithful import Meaning
from thalweg.spark.filecell import RETAINED, FileCell, filecell, folder_for
from thalweg.spark.given import sort_out, wanted_cells
from thalweg.spark.lookup import BLOBS_DDL, LookupTask, looker, wrapper
from thalweg.spark.pack import PACKED_DDL, Retired
from thalweg.spark.processor import OUT_DDL, CellProcessor
from thalweg.spark.refresh import FOLDER, Refresher, Renewed, renewer
from thalweg.spark.relations import TreeBuild, blocks_of
from thalweg.spark.run import Run


def sql(
    text: str, inputs: Mapping[str, Any], policy: str, cells: int | None, name: str | None, seed: int | None,
    index: str = "hash", spark: SparkSession | None = None, checkpoint: str | None = None,
    caches: str = "off",
    on_error: str = "raise",
    state: str = "spark",
) -> DataFrame:  # fmt: skip
    """See `thalweg.sql`."""
    need_joins()
    quarantine.checked(on_error)
    frames, functions = sort_out(inputs)
    if policy not in optimize.names():
        raise DefinitionError(f"no policy '{policy}'", hint=did_you_mean(policy, optimize.names()))
    layout_and_tuner(index)
    cache_tuner(caches)
    bound, frames, spark = catalog.bound(text, frames, functions, spark)
    meaning = Meaning.of(spark)
    workers.check(spark, joins=True)
    if name is not None and any(f.df.isStreaming for f in frames.values()):
        board.refuse_running(name)
    name = name or _named(bound)
    folder = folder_for(spark, state, checkpoint)
    if bound.plain is None:
        if folder is not None:
            raise DefinitionError(
                "only a plain join keeps its state in files, and this query has more around it",
                hint='leave out state=, or give state="spark"',
            )
        if on_error == "quarantine":
            raise DefinitionError(
                'on_error="quarantine" is for joins of windows: a row of a relation has no place for the bad ones',
                hint='on_error="skip" leaves them out and counts them',
            )
        if any(isinstance(f, TableInput) and f.refresh is not None for f in frames.values()):
            raise DefinitionError(
                "only a plain join reads its tables again, and this query has more around it",
                hint="leave out refresh=, or read the table as a stream of its changes",
            )
        bound, blocks = blocks_of(bound, frames, meaning)
        run = replace(Run.of(spark, blocks, text, policy, name, seed or 0, index, caches), on_error=on_error)
        return TreeBuild(bound, blocks, run, cells).build()
    block = BlockInputs.of(bound.plain, frames, meaning)
    run = replace(Run.of(spark, [block], text, policy, name, seed or 0, index, caches), on_error=on_error)
    build = _Build(block, run, cells, checkpoint, folder)
    try:
        alone = run.streaming and len(block.query.streams) == 1 and not build.renewed
        return build.lookup() if alone else build.join()
    except AnalysisException as error:
        raise (catalog.unknown(error, functions) or error) from None


def _named(bound: Bound) -> str:
    return "sql(" + ", ".join(dict.fromkeys(i.alias for leaf in bound.leaves for i in leaf.query.inputs)) + ")"


class _Build:
    """Turns one join block into a DataFrame."""

    def __init__(
        self, block: BlockInputs, run: Run, cells: int | None, checkpoint: str | None = None, folder: str | None = None
    ) -> None:
        self.inputs, self.run, self.checkpoint, self.folder = block, run, checkpoint, folder
        self.query, self.shape = block.query, block.shape
        self.shares, self.why = sharing.for_query(self.query, wanted_cells(run.spark, cells), self._rates())

    @property
    def renewed(self) -> dict[str, TableInput]:
        """Tables to read again while the query runs, by alias."""
        if not self.run.streaming:
            return {}
        found = self.inputs.frames.items()
        return {a: f for a, f in found if isinstance(f, TableInput) and f.refresh is not None}

    def _rates(self) -> list[float] | None:
        """Declared rates; an input without one gets the average of the others."""
        given = {a: f.rate for a, f in self.inputs.frames.items() if isinstance(f, StreamInput) and f.rate is not None}
        if not given:
            return None
        mean = sum(given.values()) / len(given)
        return [given.get(i.alias, mean) for i in self.query.inputs]

    # The two ways to run

    def join(self) -> DataFrame:
        routed = self.inputs.cell_query()
        entry = self._register(routed, cells=True)
        sent = [g for g in self.inputs.groups if self.query.input(g[0]).is_stream or not self.run.streaming]
        idle = {a: g.idle for a, g in self.inputs.frames.items() if isinstance(g, StreamInput) and g.idle is not None}
        task = self.run.cell_task(routed, self.shares, idle, {g[0]: g for g in self.inputs.groups})
        task = entry.task = replace(task, judged=self.query)
        files = self.run.streaming and self.folder is not None
        retired = None
        if self.run.streaming and self.checkpoint is not None and not files:
            move = checkpoints.moved(self.run.spark, task, self.checkpoint)
            if move is not None:
                task, retired = replace(task, moved=move), Retired(move.batch, move.retired)
        rows = self._packed(sent, retired, beats=files)
        if self.renewed:
            rows = rows.unionByName(self._renewals(entry))
        packed = self.run.observed(rows, "pack", entry)
        grouped = packed.groupBy("key")
        if self.folder is not None and files:
            cells = self._in_files(task, self.folder, packed)
        elif self.run.streaming:
            self.run.use_rocksdb()
            cells = grouped.transformWithState(CellProcessor(task), OUT_DDL, "append", "none", self._tables())
        else:
            cells = grouped.applyInArrow(batch_cell(task), OUT_DDL)
        results = self.run.observed(cells, "cell", entry)
        flat = self._flat()
        rows = self.run.unpacked(results, arrow_schema(flat), flat, entry)
        return checkpoints.remembered(self._selected(rows), task)

    def _in_files(self, task: CellTask, folder: str, packed: DataFrame) -> DataFrame:
        """Cells that keep their state in files."""
        tables = [i.alias for i in self.query.inputs if not i.is_stream]
        if tables:
            raise DefinitionError(
                f"'{tables[0]}' is a table: a join of several streams keeps its tables in Spark's own state store",
                hint='leave out state=, or give state="spark"',
            )
        retain = int(self.run.spark.conf.get(RETAINED, "100") or 100)
        run = filecell(FileCell(task, folder, retain))
        return packed.repartition(self.shares.cells, "key").mapInArrow(run, OUT_DDL)

    def _packed(
        self, groups: Sequence[tuple[str, ...]], retired: Retired | None = None, *, beats: bool = False
    ) -> DataFrame:
        return self.run.packed(self.inputs, groups, ByShares(self.shares), retired, beats)

    def _tables(self) -> GroupedData | None:
        """Tables of a streaming join, as the cells' initial state: Spark reads them when the first batch runs."""
        tables = [g for g in self.inputs.groups if not self.query.input(g[0]).is_stream]
        if not tables:
            return None
        return self._packed(tables).where("blob IS NOT NULL").drop("stats").groupBy("key")

    def _renewals(self, entry: Entry) -> DataFrame:
        """Packed rows of tables that were read again."""
        if self.checkpoint is None:
            raise DefinitionError(
                "a table with refresh= needs a folder for its versions",
                hint="give tw.sql(..., checkpoint=) the folder of the query's checkpoint, which all workers must see",
            )
        folder = Path(str(folder_for(self.run.spark, f"{self.checkpoint}/{FOLDER}", None)))
        groups = {g[0]: g for g in self.inputs.groups if g[0] in self.renewed}
        division = ByShares(self.shares)
        tasks = {alias: self.run.pack_task(self.inputs, group, division) for alias, group in groups.items()}
        tables = [
            Renewed(a, self.inputs.columns(g), partial(self.inputs.prepared_again, g), refresh)
            for a, g in groups.items() if (refresh := self.renewed[a].refresh) is not None
        ]  # fmt: skip
        entry.refresher = Refresher(self.run.spark, folder, tables, entry.decided)
        return entry.refresher.lines().coalesce(1).mapInArrow(renewer(tasks), PACKED_DDL)

    def lookup(self) -> DataFrame:
        """One stream, tables: every task joins its own rows."""
        entry = self._register(self.query, cells=False)
        (stream,) = self.query.streams
        rows = self.inputs.prepared([stream.alias]).mapInArrow(wrapper(self.inputs.read(stream.alias)), BLOBS_DDL)
        contents = [
            self.inputs.prepared([i.alias])
            .mapInArrow(wrapper(self.inputs.read(i.alias), i.alias), BLOBS_DDL)
            .withColumn("input", F.lit(i.alias))
            for i in self.query.inputs
            if not i.is_stream
        ]
        if contents:
            each = F.collect_list(F.struct("input", "blob")).alias("tables")
            # Cached, so a table is read once and not per micro-batch. The token keeps another query over the same files
            # from finding this one's rows in the cache.
            marks = {"first": F.lit(True), "token": F.lit(self.run.token)}
            tables = reduce(DataFrame.unionByName, contents).agg(each).withColumns(marks).cache().drop("token")
            rows = rows.join(F.broadcast(tables), "first", "left")
        flat = self._flat()
        # A table that is read twice comes twice: nothing is packed here, so nothing is shared.
        task = LookupTask(self.run.cell_task(self.query, Shares(()), {}, {}), stream.alias, flat)
        out = StructType([*flat.fields, StructField("stats", StringType())])
        return self._selected(self.run.observed(rows.mapInArrow(looker(task), out), "cell", entry))

    def _register(self, routed: Query, *, cells: bool) -> Entry:
        """Put the query on the board; `routed` is the cells' view of it."""
        shape = Shape(routed, prefiltered=True, leave=True)
        inputs = tuple(
            AskedInput(
                i.alias,
                i.window if i.is_stream else None,
                shape.pipeline(n),
                self.shares.replication(self.shape.classes[n]) if cells and self.shares.sizes else 1,
            )
            for n, i in enumerate(routed.inputs)
        )
        cut = Cut(self.query, self.shares, self.why, self.run.partitions) if cells else None
        asked = Asked(
            self.run.name, self.run.policy, self.run.streaming, inputs, self.inputs.places(), self.query.text, cut
        )
        return self.run.register(asked)

    # Output

    def _flat(self) -> StructType:
        """The output of cells: the needed columns as `alias.column`, and the time of the result."""
        fields = [StructField(str(c), self.inputs.types[c.input, c.name]) for c in self.shape.needed]
        aside = [quarantine.FIELD] if self.run.on_error == "quarantine" else []
        return StructType([*fields, StructField(RESULT_TIME, self.inputs.time_type()), *aside])

    def _selected(self, flat: DataFrame) -> DataFrame:
        """A struct for each input, so `alias.column` resolves; then the remaining predicates, then SELECT."""
        by_alias: dict[str, list[SparkColumn]] = {}
        for c in self.shape.needed:
            by_alias.setdefault(c.input, []).append(column(str(c)).alias(c.name))
        aside = [quarantine.COLUMN] if self.run.on_error == "quarantine" else []
        df = flat.select(*[F.struct(*columns).alias(a) for a, columns in by_alias.items()], F.col(RESULT_TIME), *aside)
        for text in self.shape.left:
            df = df.where(F.col(aside[0]).isNotNull() | F.expr(text) if aside else F.expr(text))
        columns = [F.expr(o.text) for o in self.query.output]
        if aside:
            columns = [F.when(F.col(aside[0]).isNull(), c) for c in columns]
        return df.select(*[c.alias(o.name) for c, o in zip(columns, self.query.output, strict=True)], *aside)
