"""Builds the DataFrame of `tw.sql`: pack → cell → unpack, and SELECT by Spark.

Each input is packed on its own and only the packed frames are united, so Spark's limit of one event-time column never
applies. Conjuncts over one input that are plain SQL run in Spark before packing; those with Python functions run in the
pack, adaptively; windows, keys and the rest in the cells. One stream with tables only needs no shuffle and no state.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, GroupedData, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampType

from thalweg import optimize
from thalweg.engine.output import RESULT_TIME
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.execute.shape import Shape
from thalweg.language.bind import bind
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.query import Query, Source
from thalweg.optimize import shares as sharing
from thalweg.optimize.indexes.tuner import layout_and_tuner
from thalweg.plan.shares import Shares
from thalweg.spark.asked import Asked, AskedInput, Cut
from thalweg.spark.board import METRIC, Entry, board
from thalweg.spark.cell import batch_cell
from thalweg.spark.celltask import CellTask
from thalweg.spark.control import CONF, Control, default_folder
from thalweg.spark.lookup import BLOBS_DDL, LookupTask, looker, wrapper
from thalweg.spark.pack import PACKED_DDL, PackTask, packer
from thalweg.spark.processor import OUT_DDL, CellProcessor
from thalweg.spark.shared import MEMBERS
from thalweg.spark.unpack import unpack
from thalweg.state.times import tick_of

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
DELAY = "spark.watermarkDelayMs"


def sql(
    text: str, inputs: Mapping[str, Any], policy: str, cells: int | None, name: str | None, seed: int | None,
    index: str = "hash",
) -> DataFrame:  # fmt: skip
    """See `thalweg.sql`."""
    frames, functions = _sort_out(inputs)
    if policy not in optimize.names():
        raise DefinitionError(f"no policy '{policy}'", hint=did_you_mean(policy, optimize.names()))
    layout_and_tuner(index)
    query = bind(text, {n: _source(n, f) for n, f in frames.items()}, functions)
    used = {i.alias: frames[i.source] for i in query.inputs}
    groups: dict[str, tuple[str, ...]] = {}
    for i in query.inputs:
        groups[i.source] = (*groups.get(i.source, ()), i.alias)
    # Every input by its own name: the two sides of a self-join belong to different cells.
    named = tuple(replace(i, source=i.alias) for i in query.inputs)
    query = replace(query, block=replace(query.block, inputs=named))
    spark = next(iter(used.values())).df.sparkSession
    streaming = any(f.df.isStreaming for f in used.values())
    build = _Build(
        query, used, spark, streaming, policy, cells, name or _named(query), seed or 0, index, list(groups.values())
    )
    return build.lookup() if streaming and len(query.streams) == 1 else build.join()


def _sort_out(
    inputs: Mapping[str, Any],
) -> tuple[dict[str, StreamInput | TableInput], dict[str, Callable[..., Any]]]:
    """Streams and tables, and functions. A DataFrame with a watermark is a stream, a static one a table."""
    frames: dict[str, StreamInput | TableInput] = {}
    functions: dict[str, Callable[..., Any]] = {}
    for name, given in inputs.items():
        if isinstance(given, StreamInput | TableInput):
            frames[name] = given
        elif hasattr(given, "isStreaming"):
            frames[name] = _guessed(name, given)
        elif callable(given):
            functions[name] = getattr(given, "func", given) if hasattr(given, "evalType") else given
        else:
            raise DefinitionError(f"'{name}' is a {type(given).__name__}", hint="give a DataFrame or a function")
    if not frames:
        raise DefinitionError(
            "the query has no inputs", hint="give DataFrames by the names used in FROM: tw.sql(text, name=df)"
        )
    return frames, functions


def _guessed(name: str, df: DataFrame) -> StreamInput | TableInput:
    marked = [f for f in df.schema.fields if DELAY in f.metadata]
    if marked:
        return StreamInput(df, marked[0].name, int(marked[0].metadata[DELAY]) * 1000, None)
    if df.isStreaming:
        raise DefinitionError(
            f"'{name}' is a stream without a time", hint=f'{name}=tw.stream(df, time="column", lateness="10 minutes")'
        )
    return TableInput(df)


def _source(name: str, given: StreamInput | TableInput) -> Source:
    schema = to_arrow_schema(given.df.schema, timezone="UTC")
    if isinstance(given, TableInput):
        if given.df.isStreaming:
            raise DefinitionError(f"'{name}' is a stream, not a table", hint="use tw.stream")
        return Source(schema)
    spelled = {n.lower(): n for n in schema.names}
    if given.time.lower() not in spelled:
        raise DefinitionError(
            f"'{name}' has no time column '{given.time}'", hint=did_you_mean(given.time, schema.names)
        )
    return Source(schema, time=spelled[given.time.lower()], lateness=given.lateness)


def _named(query: Query) -> str:
    return "sql(" + ", ".join(i.alias for i in query.inputs) + ")"


class _Build:
    """Turns one query into a DataFrame."""

    def __init__(
        self, query: Query, frames: Mapping[str, StreamInput | TableInput], spark: SparkSession, streaming: bool,
        policy: str, cells: int | None, name: str, seed: int, index: str, groups: Sequence[tuple[str, ...]],
    ) -> None:  # fmt: skip
        self.query, self.frames, self.spark, self.streaming = query, frames, spark, streaming
        self.policy, self.name, self.seed, self.index = policy, name, seed, index
        self.groups = groups
        """Inputs that read the same source."""
        self.token = uuid.uuid4().hex
        self.shape = Shape(query, prefiltered=True, leave=True)
        self.partitions = int(spark.conf.get(PARTITIONS, "200") or 200)
        wanted = cells if cells is not None else _cores(spark)
        if wanted < 1:
            raise DefinitionError(f"{wanted} cells", hint="at least one")
        self.shares, self.why = sharing.for_query(query, wanted, self._rates())
        self.control = spark.conf.get(CONF, None) or default_folder()
        self.key = f"sql-{name}-{hashlib.blake2b(query.text.encode(), digest_size=6).hexdigest()}"
        times = [i.spec for i in query.streams]
        self.tick = tick_of(times) if times else "us"
        self.types = {(a, f.name): f.dataType for a, given in frames.items() for f in given.df.schema.fields}

    # Inputs

    def _rates(self) -> list[float] | None:
        """Declared rates; an input without one gets the average of the others."""
        given = {a: f.rate for a, f in self.frames.items() if isinstance(f, StreamInput) and f.rate is not None}
        if not given:
            return None
        mean = sum(given.values()) / len(given)
        return [given.get(i.alias, mean) for i in self.query.inputs]

    def _prepared(self, alias: str) -> DataFrame:
        """An input with its plain SQL conjuncts applied, cut to the columns that matter."""
        df: DataFrame = self.frames[alias].df.alias(alias)
        ordered = self.query.input(alias).window.ordered
        for f in self.query.block.filters:
            if f.input == alias and not f.functions and not ordered:
                df = df.where(f.text)
        columns = self.shape.read(self.shape.number[alias])
        return df.select(*[F.col(f"`{c}`") for c in columns] or [F.lit(True).alias("row")])

    def _prepared_together(self, aliases: Sequence[str]) -> DataFrame:
        """A source that several inputs read, once, with a bit for each input whose plain SQL conjuncts hold."""
        df: DataFrame = self.frames[aliases[0]].df
        # A struct for each input, so `alias.column` in a predicate resolves.
        rows = df.select(*[F.struct(*[F.col(f"`{c}`") for c in df.columns]).alias(a) for a in aliases])
        members = F.lit(0)
        for k, alias in enumerate(aliases):
            holds = F.lit(True)
            for f in self.query.block.filters:
                if f.input == alias and not f.functions and not self.query.input(alias).window.ordered:
                    holds = holds & F.expr(f.text)
            members = members + F.when(holds, F.lit(1 << k)).otherwise(F.lit(0))
        columns = dict.fromkeys(c for a in aliases for c in self.shape.read(self.shape.number[a]))
        read = [F.col(aliases[0]).getField(c).alias(c) for c in columns]
        return rows.select(*read, members.cast("long").alias(MEMBERS)).where(F.col(MEMBERS) != 0)

    def _cell_query(self) -> Query:
        """The query without the filters that packing has applied."""
        done = {i.alias for i in self.query.inputs if not i.window.ordered}
        left = tuple(f for f in self.query.block.filters if f.input not in done)
        return replace(self.query, block=replace(self.query.block, filters=left))

    # The two ways to run

    def join(self) -> DataFrame:
        routed = self._cell_query()
        entry = self._register(routed, cells=True)
        sent = [g for g in self.groups if self.query.input(g[0]).is_stream or not self.streaming]
        grouped = self._observed(self._packed(sent), "pack", entry).groupBy("key")
        idle = {a: g.idle for a, g in self.frames.items() if isinstance(g, StreamInput) and g.idle is not None}
        task = self._cell_task(routed, self.shares, idle, {g[0]: g for g in self.groups})
        if self.streaming:
            self._use_rocksdb()
            cells = grouped.transformWithState(CellProcessor(task), OUT_DDL, "append", "none", self._tables())
        else:
            cells = grouped.applyInArrow(batch_cell(task), OUT_DDL)
        results = self._observed(cells, "cell", entry)
        flat = self._flat()
        return self._selected(results.mapInArrow(unpack(to_arrow_schema(flat, timezone="UTC")), flat))

    def _packed(self, groups: Sequence[tuple[str, ...]]) -> DataFrame:
        """The rows of these sources, filtered and cut into one blob for each cell."""
        packs = []
        for group in groups:
            pack = PackTask(self.query, group, self.tick, self.shares, self.policy, self.seed, self.control, self.key)
            rows = self._prepared(group[0]) if len(group) == 1 else self._prepared_together(group)
            packs.append(rows.mapInArrow(packer(pack), PACKED_DDL))
        return reduce(DataFrame.unionByName, packs)

    def _tables(self) -> GroupedData | None:
        """Tables of a streaming join, as the cells' initial state: Spark reads them when the first batch runs."""
        tables = [g for g in self.groups if not self.query.input(g[0]).is_stream]
        if not tables:
            return None
        return self._packed(tables).where("blob IS NOT NULL").drop("stats").groupBy("key")

    def lookup(self) -> DataFrame:
        """One stream, tables: every task joins its own rows."""
        entry = self._register(self.query, cells=False)
        (stream,) = self.query.streams
        rows = self._prepared(stream.alias).mapInArrow(wrapper(), BLOBS_DDL)
        contents = [
            self._prepared(i.alias).mapInArrow(wrapper(i.alias), BLOBS_DDL).withColumn("input", F.lit(i.alias))
            for i in self.query.inputs
            if not i.is_stream
        ]
        if contents:
            each = F.collect_list(F.struct("input", "blob")).alias("tables")
            # Cached, so a table is read once and not per micro-batch. The token keeps another query over the same files
            # from finding this one's rows in the cache.
            marks = {"first": F.lit(True), "token": F.lit(self.token)}
            tables = reduce(DataFrame.unionByName, contents).agg(each).withColumns(marks).cache().drop("token")
            rows = rows.join(F.broadcast(tables), "first", "left")
        flat = self._flat()
        # A table that is read twice comes twice: nothing is packed here, so nothing is shared.
        task = LookupTask(self._cell_task(self.query, Shares(()), {}, {}), stream.alias, flat)
        out = StructType([*flat.fields, StructField("stats", StringType())])
        return self._selected(self._observed(rows.mapInArrow(looker(task), out), "cell", entry))

    def _cell_task(
        self, query: Query, shares: Shares, idle: Mapping[str, int], shared: Mapping[str, Sequence[str]]
    ) -> CellTask:
        return CellTask(
            query, self.policy, self.seed, shares, idle, self.token, self.control, self.key, shared, self.index
        )

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
        cut = Cut(self.query, self.shares, self.why, self.partitions) if cells else None
        asked = Asked(self.name, self.policy, self.streaming, inputs, self._places(), self.query.text, cut)
        return board.register(Entry(asked, Control(self.control, self.key)))

    def _places(self) -> dict[str, str]:
        """Where each predicate runs, and why."""
        block, places = self.query.block, {}
        ordered = {i.alias for i in self.query.inputs if i.window.ordered}
        for f in block.filters:
            if f.text in self.shape.left:
                places[f.text] = "Spark, after the join (only Spark can evaluate it, and the window comes first)"
            elif f.input in ordered:
                places[f.text] = "the cell, after the window"
            else:
                places[f.text] = "Python, adaptive, before the window" if f.functions else "Spark, before the join"
        for key in block.keys:
            places[" = ".join(map(str, key.columns))] = f"index of the stems, as {key.type}"
        for r in block.residuals:
            after = r.text in self.shape.left
            places[r.text] = (
                "Spark, after the join (not vectorised)" if after else "on candidates, as soon as its inputs are bound"
            )
        return places

    def _observed(self, df: DataFrame, stage: str, entry: Entry) -> DataFrame:
        stats = F.collect_list("stats").alias("stats")
        if self.streaming:
            board.listen(self.spark)
            df = df.observe(f"{METRIC}{self.name}:{stage}", stats)
        else:
            observation = Observation(f"{METRIC}{self.name}:{stage}:{uuid.uuid4().hex}")
            df = df.observe(observation, stats)
            board.wait_for(entry, observation)
        return df.where(F.col("stats").isNull()).drop("stats")

    def _use_rocksdb(self) -> None:
        if self.spark.conf.get(PROVIDER, "") == ROCKSDB:
            return
        try:
            self.spark.conf.set(PROVIDER, ROCKSDB)
        except Exception as error:
            raise DefinitionError(
                "the session does not let Thalweg choose the RocksDB state store, which stateful joins need",
                hint=f"start the session with {PROVIDER}={ROCKSDB}",
            ) from error

    # Output

    def _flat(self) -> StructType:
        """The output of cells: the needed columns as `alias.column`, and the time of the result."""
        fields = [StructField(str(c), self.types[c.input, c.name]) for c in self.shape.needed]
        return StructType([*fields, StructField(RESULT_TIME, self._time_type())])

    def _time_type(self) -> DataType:
        types = {self.types[i.alias, str(i.spec.time)].simpleString(): self.types[i.alias, str(i.spec.time)]
                 for i in self.query.streams}  # fmt: skip
        return next(iter(types.values())) if len(types) == 1 else TimestampType()

    def _selected(self, flat: DataFrame) -> DataFrame:
        """A struct for each input, so `alias.column` resolves; then the remaining predicates, then SELECT."""
        by_alias: dict[str, list[SparkColumn]] = {}
        for c in self.shape.needed:
            by_alias.setdefault(c.input, []).append(F.col(f"`{c}`").alias(c.name))
        df = flat.select(*[F.struct(*columns).alias(a) for a, columns in by_alias.items()], F.col(RESULT_TIME))
        for text in self.shape.left:
            df = df.where(text)
        chosen = [F.expr(o.text).alias(o.name) for o in self.query.output]
        taken = {o.name.lower() for o in self.query.output}
        return df.select(*chosen, *([F.col(RESULT_TIME)] if self.query.streams and RESULT_TIME not in taken else []))


def _cores(spark: SparkSession) -> int:
    """The cluster's cores, if the session tells."""
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except Exception:
        return max(1, int(spark.conf.get(PARTITIONS, "2") or 2))  # Connect has no context
