"""One definition of a query on Spark: its session, its settings, and the steps that every kind of query shares."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from thalweg.engine.placing import Division
from thalweg.errors import DefinitionError
from thalweg.language.algebra import Bound
from thalweg.language.query import Query
from thalweg.plan.shares import Shares
from thalweg.spark.asked import Asked
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.board import METRIC, Entry, board
from thalweg.spark.celltask import CellTask
from thalweg.spark.compat import ROCKSDB
from thalweg.spark.control import CONF, Control, default_folder
from thalweg.spark.given import PARTITIONS
from thalweg.spark.pack import PackTask, Retired, packer
from thalweg.spark.packed import PACKED_DDL
from thalweg.spark.unpack import STATS, timed, unpack
from thalweg.state.times import tick_of

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@dataclass(frozen=True)
class Run:
    """What the parts of a query on Spark have in common."""

    spark: SparkSession
    streaming: bool
    policy: str
    name: str
    seed: int
    index: str
    control: str
    """The folder of the driver's orders, and the query's name there."""
    key: str
    tick: str
    """The unit of time in all cells."""
    token: str
    caches: str = "off"
    """A tuner of caches by name."""
    on_error: str = "raise"

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        blocks: Sequence[BlockInputs],
        text: str,
        policy: str,
        name: str,
        seed: int,
        index: str,
        caches: str = "off",
    ) -> Run:
        streaming = any(f.df.isStreaming for b in blocks for f in b.frames.values())
        times = [i.spec for b in blocks for i in b.query.streams]
        control = spark.conf.get(CONF, None) or default_folder()
        key = f"sql-{name}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
        tick = tick_of(times) if times else "us"
        return cls(spark, streaming, policy, name, seed, index, control, key, tick, uuid.uuid4().hex, caches)

    @property
    def partitions(self) -> int:
        return int(self.spark.conf.get(PARTITIONS, "200") or 200)

    def packed(
        self, block: BlockInputs, groups: Sequence[tuple[str, ...]], division: Division,
        retired: Retired | None = None, beats: bool = False,
    ) -> DataFrame:  # fmt: skip
        """The rows of these sources, filtered and cut into one blob for each cell."""
        packs = []
        for group in groups:
            pack = self.pack_task(block, group, division, retired, beats)
            packs.append(block.prepared(group).mapInArrow(packer(pack), PACKED_DDL))
        return reduce(DataFrame.unionByName, packs)

    def pack_task(
        self, block: BlockInputs, group: tuple[str, ...], division: Division, retired: Retired | None = None,
        beats: bool = False,
    ) -> PackTask:  # fmt: skip
        return PackTask(
            block.query, group, self.tick, division, self.policy, self.seed, self.control, self.key,
            block.ahead(group[0]), retired, self.on_error, beats,
        )  # fmt: skip

    def cell_task(
        self, query: Query | Bound, shares: Shares, idle: Mapping[str, int], shared: Mapping[str, Sequence[str]]
    ) -> CellTask:
        return CellTask(
            query, self.policy, self.seed, shares, idle, self.token, self.control, self.key, shared, self.index,
            caches=self.caches,
            on_error=self.on_error,
        )  # fmt: skip

    def register(self, asked: Asked) -> Entry:
        """Put the query on the board."""
        return board.register(Entry(asked, Control(self.control, self.key)))

    def unpacked(self, results: DataFrame, schema: pa.Schema, fields: StructType, entry: Entry) -> DataFrame:
        """The cells' blobs as rows. In a streaming query the tasks report how long that took."""
        if not self.streaming:
            return results.mapInArrow(unpack(schema), fields)
        rows = results.mapInArrow(timed(schema), StructType([*fields.fields, StructField(STATS, StringType())]))
        return self.observed(rows, "unpack", entry, STATS)

    def observed(self, df: DataFrame, stage: str, entry: Entry, column: str = "stats") -> DataFrame:
        """The rows of a stage, after its reports have gone to the board."""
        stats = F.collect_list(column).alias("stats")
        if self.streaming:
            board.listen(self.spark)
            df = df.observe(f"{METRIC}{self.name}:{stage}", stats)
        else:
            observation = Observation(f"{METRIC}{self.name}:{stage}:{uuid.uuid4().hex}")
            df = df.observe(observation, stats)
            board.wait_for(entry, observation)
        return df.where(F.col(column).isNull()).drop(column)

    def use_rocksdb(self) -> None:
        if self.spark.conf.get(PROVIDER, "") == ROCKSDB:
            return
        try:
            self.spark.conf.set(PROVIDER, ROCKSDB)
        except Exception as error:
            raise DefinitionError(
                "the session does not let Thalweg choose the RocksDB state store, which stateful joins need",
                hint=f"start the session with {PROVIDER}={ROCKSDB}",
            ) from error
