"""Builds the DataFrame of `tw.sql`: the cells of a join (`cells.py`), and SELECT by Spark.

Each input is packed on its own and only the packed frames are united, so Spark's limit of one event-time column never
applies. Conjuncts over one input that are plain SQL run in Spark before packing; those with Python functions run in the
pack, adaptively; windows, keys and the rest in the cells. One stream with tables only needs no shuffle and
no state, unless its window counts rows.

Many parameters: those of `tw.sql`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from thalweg import optimize
from thalweg.engine.output import RESULT_TIME
from thalweg.engine.placing import ByShares
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.algebra import Bound
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.optimize import shares as sharing
from thalweg.optimize.caches.tuner import make as cache_tuner
from thalweg.optimize.indexes.tuner import layout_and_tuner
from thalweg.plan.shares import Shares
from thalweg.spark import catalog, checkpoints, quarantine, workers
from thalweg.spark.asked import Asked, AskedInput
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.board import Entry, board
from thalweg.spark.cells import Cells, Keep
from thalweg.spark.columnnames import column
from thalweg.spark.compat import need_joins
from thalweg.spark.faithful import Meaning, check_quotes
from thalweg.spark.filecell import folder_for
from thalweg.spark.given import sort_out, wanted_cells
from thalweg.spark.lookup import BLOBS_DDL, LookupTask, looker, wrapper
from thalweg.spark.packed import PACKED_DDL
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
    check_quotes(text, spark)
    meaning = Meaning.of(spark)
    workers.check(spark, joins=True)
    if name is not None and any(f.df.isStreaming for f in frames.values()):
        board.refuse_running(name)
    name = name or _named(bound)
    keep = Keep(checkpoint, folder_for(spark, state, checkpoint))
    plain = bound.plain
    if plain is None:
        if on_error != "raise":
            quarantine.check_settable(bound.root, on_error)
        if any(isinstance(f, TableInput) and f.refresh is not None for f in frames.values()):
            raise DefinitionError(
                "only a plain join reads its tables again, and this query has more around it",
                hint="leave out refresh=, or read the table as a stream of its changes",
            )
        bound, blocks = blocks_of(bound, frames, meaning)
    else:
        blocks = [BlockInputs.of(plain, frames, meaning)]
    run = replace(Run.of(spark, blocks, text, policy, name, seed or 0, index, caches), on_error=on_error)
    try:
        if plain is None:
            return TreeBuild(bound, blocks, run, cells, keep).build()
        build = _Build(blocks[0], run, cells, keep)
        # A window that counts rows waits until no row of the same time can come: only cells with a state can wait.
        waits = build.renewed or any(i.window.ordered for i in plain.streams)
        alone = run.streaming and len(plain.streams) == 1 and not waits
        return build.lookup() if alone else build.join()
    except AnalysisException as error:
        raise (catalog.unknown(error, functions) or error) from None


def _named(bound: Bound) -> str:
    return "sql(" + ", ".join(dict.fromkeys(i.alias for leaf in bound.leaves for i in leaf.query.inputs)) + ")"


class _Build:
    """Turns one join block into a DataFrame."""

    def __init__(self, block: BlockInputs, run: Run, cells: int | None, keep: Keep) -> None:
        self.inputs, self.run, self.keep = block, run, keep
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
        cells = Cells(self.run, [self.inputs], [ByShares(self.shares)], self.shares, self.why, self.keep)
        more = self._renewals if self.renewed else None
        rows, task = cells.rows(self.inputs.cell_query(), self.query, self._flat(), more)
        return checkpoints.remembered(self._selected(rows), task)

    def _renewals(self, entry: Entry) -> DataFrame:
        """Packed rows of tables that were read again."""
        if self.keep.checkpoint is None:
            raise DefinitionError(
                "a table with refresh= needs a folder for its versions",
                hint="give tw.sql(..., checkpoint=) the folder of the query's checkpoint, which all workers must see",
            )
        folder = Path(str(folder_for(self.run.spark, f"{self.keep.checkpoint}/{FOLDER}", None)))
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
        entry = self._register()
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
        if self.run.on_error == "quarantine":
            flat = StructType([*flat.fields, quarantine.FIELD])
        # A table that is read twice comes twice: nothing is packed here, so nothing is shared.
        task = LookupTask(self.run.cell_task(self.query, Shares(()), {}, {}), stream.alias, flat)
        out = StructType([*flat.fields, StructField("stats", StringType())])
        return self._selected(self.run.observed(rows.mapInArrow(looker(task), out), "cell", entry))

    def _register(self) -> Entry:
        """Put the query on the board: every task works on its own rows."""
        inputs = tuple(
            AskedInput(i.alias, i.window if i.is_stream else None, self.shape.pipeline(n))
            for n, i in enumerate(self.query.inputs)
        )
        places = self.inputs.places()
        return self.run.register(
            Asked(self.run.name, self.run.policy, self.run.streaming, inputs, places, self.query.text)
        )

    # Output

    def _flat(self) -> StructType:
        """The output of cells: the needed columns as `alias.column`, and the time of the result."""
        fields = [StructField(str(c), self.inputs.types[c.input, c.name]) for c in self.shape.needed]
        return StructType([*fields, StructField(RESULT_TIME, self.inputs.time_type())])

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
