"""One contender over one feed: a streaming query into the noop sink, timed by Spark's own progress reports.

The answer is observed on the way: the number of results and a weighted sum of their times. So nothing has to be
collected, and equal answers can be distinguished from equal counts.
"""

from __future__ import annotations

import itertools
import math
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import thalweg as tw
from benchmarks.spark_joins.streams import EPOCH_MS, Feed

OURS = "thalweg"
SPARK = "Spark's joins"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
LATENESS = "1 second"


@dataclass
class Run:
    """The outcome. Lists are per batch."""

    who: str
    feed: str
    batch: int
    cells: int
    triggers: list[float] = field(default_factory=list)
    """Seconds."""
    add_batch: list[float] = field(default_factory=list)
    state_rows: list[int] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    count: int = 0
    checksum: int = 0
    cpu: float = 0.0
    """Processor seconds of this process and all below it, including the start."""
    used: list[float] = field(default_factory=list)
    """The same up to the end of each batch."""
    stages: list[dict[str, float]] = field(default_factory=list)
    """Seconds by stage, summed over tasks."""
    late: int = 0
    cut_off: bool = False
    """Stopped at the time limit; the answer is that of the finished batches."""

    @property
    def answer(self) -> tuple[int, int]:
        return self.count, self.checksum

    @property
    def steady(self) -> list[float]:
        """Triggers without the first quarter, during which code is compiled and windows fill."""
        return self.triggers[max(1, len(self.triggers) // 4) :] or self.triggers

    @property
    def rows_per_processor_second(self) -> float:
        """Over the steady batches; other load on the machine hardly changes it. Over all batches, including the start, if few
        were finished or a busy JVM reported several at once. NaN if it was not measured."""
        if not self.cpu > 0:
            return math.nan
        first = max(1, len(self.used) // 4) - 1
        told_at_once = any(b - a < 0.05 for a, b in itertools.pairwise(self.used))
        if self.cut_off or len(self.used) < 4 or told_at_once:
            return self.batch * len(self.triggers) / self.cpu
        return self.batch * (len(self.used) - 1 - first) / max(self.used[-1] - self.used[first], 1e-9)

    @property
    def rows_per_second(self) -> float:
        return self.batch / statistics.median(self.steady)


def session(cells: int) -> SparkSession:
    return tw.session(
        "benchmarks.spark_joins", spark_master="local[2]", spark_sql_shuffle_partitions=cells, spark_driver_memory="5g",
        spark_sql_streaming_noDataMicroBatches_enabled="false", spark_sql_streaming_numRecentProgressUpdates=1000,
        spark_sql_streaming_metricsEnabled="false",
    )  # fmt: skip


def read(spark: SparkSession, feed: Feed) -> dict[str, DataFrame]:
    return {
        s: spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder / s))
        for s, ddl in feed.ddl.items()
    }


def ours(spark: SparkSession, feed: Feed, cells: int, policy: str = "auto") -> DataFrame:
    inputs = {s: tw.stream(df, time="ts", lateness=LATENESS) for s, df in read(spark, feed).items()}
    return tw.sql(feed.workload.sql, policy=policy, cells=cells, name=f"{feed.shape} {feed.batch}", **inputs)


def sparks(spark: SparkSession, feed: Feed) -> DataFrame:
    """The same query as a chain of Spark's stream-stream joins. Spark allows one event-time column in each, so after every
    join all times except the first stream's become numbers."""
    w = feed.workload
    frames = read(spark, feed)
    joined: DataFrame | None = None
    bound: list[str] = []
    for s in w.streams:
        own = frames[s].withWatermark("ts", LATENESS)
        own = own.select(*[F.col(c).alias(f"{s}_{c}") for c in own.columns])
        if joined is None:
            joined = own
        else:
            on = [f"{a}_{x} = {b}_{y}" for a, x, b, y in w.equalities if b == s and a in bound]
            window = f"INTERVAL {w.window - 1} MILLISECONDS"
            first = bound[0]
            on.append(f"{s}_ts >= {first}_ts - {window} AND {s}_ts <= {first}_ts + {window}")
            on += [f"abs(unix_millis({s}_ts) - {b}_ms) < {w.window}" for b in bound[1:]]
            joined = joined.join(own, F.expr(" AND ".join(on)))
            joined = joined.withColumn(f"{s}_ms", F.expr(f"unix_millis({s}_ts)")).drop(f"{s}_ts")
        bound.append(s)
    assert joined is not None
    times = [F.expr(f"unix_millis({bound[0]}_ts)"), *[F.col(f"{s}_ms") for s in bound[1:]]]
    return joined.select(*[t.alias(f"{s}_ms") for s, t in zip(bound, times, strict=True)])


def answered(df: DataFrame, feed: Feed) -> DataFrame:
    """Observe the number of results and the weighted sum of their times, as in `benchmarks.joins`."""
    terms = []
    for s, weight in feed.workload.weights().items():
        ms = F.col(f"{s}_ms") if f"{s}_ms" in df.columns else F.expr(f"unix_millis({s}_ts)")
        terms.append((ms - EPOCH_MS) * weight)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return df.select(total.alias("x")).observe("answer", F.count("*").alias("n"), F.sum("x").alias("x"))


def run(
    spark: SparkSession, who: str, feed: Feed, cells: int, make: Callable[[], DataFrame], checkpoint: Path,
    limit: float, tell: Callable[[str], None] = lambda _: None,
) -> Run:  # fmt: skip
    """Drain the feed once."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    result = Run(who, feed.shape, feed.batch, cells)
    df = answered(make(), feed)
    clock = ProcessorClock()
    query = (
        df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )
    began = time.monotonic()
    while not query.awaitTermination(0.3):
        clock.seconds()
        done = (query.lastProgress or {}).get("batchId", -1)
        if done >= len(result.used):
            result.used += [clock.since_start()] * (done + 1 - len(result.used))
            tell(f"{who}, {feed.shape}, {feed.batch:,} rows a batch: batch {done}")
        if time.monotonic() - began > limit:
            result.cut_off = True
            query.stop()
            break
    result.cpu = clock.since_start()
    result.used += [result.cpu] * (len(query.recentProgress) - len(result.used))
    for p in query.recentProgress:
        take(result, p)
    if who == OURS:
        stages(result, f"{feed.shape} {feed.batch}")
    shutil.rmtree(checkpoint, ignore_errors=True)
    return result


def take(result: Run, progress: Any) -> None:
    took = progress["durationMs"]
    if "addBatch" not in took:
        return
    result.triggers.append(took["triggerExecution"] / 1000)
    result.add_batch.append(took["addBatch"] / 1000)
    operators = progress["stateOperators"]
    result.state_rows.append(sum(o["numRowsTotal"] for o in operators))
    result.state_bytes.append(sum(o["memoryUsedBytes"] for o in operators))
    seen = progress["observedMetrics"].get("answer")
    if seen is not None:
        result.count += seen["n"] or 0
        result.checksum += seen["x"] or 0


def stages(result: Run, name: str) -> None:
    """What the board knows: the rows and bytes that cells store, and where the time went."""
    handle = tw.query(name)
    stats = handle.stats()
    by_batch = stats.groupby("batch")
    result.state_rows = [int(v) for v in by_batch["stored"].sum()]
    result.state_bytes = [int(v) for v in by_batch["bytes"].sum()]
    newest = stats[stats.batch == stats.batch.max()]
    result.late = int(newest.late.sum())
    result.stages = [dict(line) for line in handle.stages().to_dict("records")]


class ProcessorClock:
    """Processor time of this process and all below it. Python workers come and go and take their counts with them, so the
    last count seen of each is kept."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, float], float] = {}
        self._before = self.seconds()

    def seconds(self) -> float:
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                t = process.cpu_times()
                self._seen[process.pid, process.create_time()] = t.user + t.system
            except psutil.Error:
                continue
        return sum(self._seen.values())

    def since_start(self) -> float:
        return self.seconds() - self._before
