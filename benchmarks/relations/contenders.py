"""Who answers: Thalweg and Spark as streaming queries, DuckDB and Polars over the whole history at once."""

from __future__ import annotations

import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from pyspark.sql import DataFrame, SparkSession

import thalweg as tw
from benchmarks.relations.workloads import LATENESS, Feed
from benchmarks.spark_joins.onspark import HDFS, PROVIDER, ROCKSDB, ProcessorClock

OURS = "Thalweg"
SPARKS = {"Spark": (HDFS, "2"), "Spark, RocksDB, join state format 4": (ROCKSDB, "4")}
FORMAT = "spark.sql.streaming.join.stateFormatVersion"


@dataclass
class Run:
    """The outcome of one contender over one feed."""

    who: str
    workload: str
    rows: int
    seconds: float
    """All batches but the first quarter, scaled to all rows; or the whole run of a batch engine."""
    cpu: float
    triggers: list[float] = field(default_factory=list)
    state_rows: int = 0
    answer: Counter[Any] = field(default_factory=Counter, repr=False)
    cut_off: bool = False

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def latency(self) -> float | None:
        """Median seconds of a batch: a row comes in the batch that passes its instant."""
        return statistics.median(self.triggers) if self.triggers else None


def session() -> SparkSession:
    return tw.session(
        "benchmarks.relations", spark_master="local[2]", spark_sql_shuffle_partitions=2, spark_driver_memory="5g",
        spark_sql_streaming_numRecentProgressUpdates=1000, spark_sql_streaming_metricsEnabled="false",
    )  # fmt: skip


def thalweg(spark: SparkSession, feed: Feed, scratch: Path, limit: float) -> Run:
    spark.conf.set(PROVIDER, ROCKSDB)
    inputs = {n: tw.stream(df, time="ts", lateness=f"{LATENESS} seconds") for n, df in _read(spark, feed).items()}
    name = f"{feed.workload.name} {feed.rows}"
    run = _drain(OURS, feed, lambda: _flat(tw.sql(feed.workload.thalweg, cells=2, name=name, **inputs)), scratch, limit)
    stats = tw.query(name).stats()
    run.state_rows = int(stats.groupby("batch")["stored"].sum().max())
    return run


def _flat(df: DataFrame) -> DataFrame:
    """A window of time as its end."""
    return df.selectExpr(*[f"{c}.end AS until" if c == "w" else c for c in df.columns])


def sparks(spark: SparkSession, who: str, feed: Feed, scratch: Path, limit: float) -> Run:
    store, version = SPARKS[who]
    spark.conf.set(PROVIDER, store)
    spark.conf.set(FORMAT, version)
    frames = {n: df.withWatermark("ts", f"{LATENESS} seconds") for n, df in _read(spark, feed).items()}
    return _drain(who, feed, lambda: feed.workload.spark(frames), scratch, limit)


def _read(spark: SparkSession, feed: Feed) -> dict[str, DataFrame]:
    frames = {}
    for name in feed.workload.streams:
        folder = str(feed.folder / name)
        schema = spark.read.parquet(folder).schema
        frames[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    return frames


def _drain(who: str, feed: Feed, make: Callable[[], DataFrame], scratch: Path, limit: float) -> Run:
    shutil.rmtree(scratch, ignore_errors=True)
    clock, out = ProcessorClock(), scratch / "out"
    writer = make().writeStream.format("parquet").option("checkpointLocation", str(scratch / "check"))
    query = writer.trigger(availableNow=True).start(str(out))
    began, cut_off = time.monotonic(), False
    while not query.awaitTermination(0.3):
        clock.seconds()
        if time.monotonic() - began > limit:
            cut_off = True
            query.stop()
            break
    told = [p for p in query.recentProgress if p["numInputRows"] > 0]
    triggers = [p["durationMs"]["triggerExecution"] / 1000 for p in told]
    steady = triggers[len(triggers) // 4 : -1] or triggers
    rows = sum(p["numInputRows"] for p in told[len(triggers) // 4 : -1]) or 1
    states = [sum(o["numRowsTotal"] for o in p["stateOperators"]) for p in query.recentProgress]
    answer = Counter() if cut_off else _answer(out)
    took = sum(steady) * feed.rows / rows
    run = Run(who, feed.workload.name, feed.rows, took, clock.since_start(), steady, max(states, default=0), answer)
    run.cut_off = cut_off
    shutil.rmtree(scratch, ignore_errors=True)
    return run


def _answer(out: Path) -> Counter[Any]:
    """What was written. Not by `collect()`: its times have no zone, so that none equals one of DuckDB's."""
    table = SparkSession.active().read.parquet(str(out)).toArrow()
    return Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))


def on_duckdb(feed: Feed) -> Run:
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'; SET threads = 2")
    for name, table in feed.tables.items():
        base.register(name, table)
    clock, began = ProcessorClock(), time.perf_counter()
    table = base.sql(feed.workload.duckdb).to_arrow_table()
    took = time.perf_counter() - began
    answer = Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))
    return Run("DuckDB, whole history", feed.workload.name, feed.rows, took, clock.since_start(), answer=answer)


def on_polars(feed: Feed) -> Run:
    frames = {n: pl.from_arrow(t).lazy() for n, t in feed.tables.items()}
    clock, began = ProcessorClock(), time.perf_counter()
    table = POLARS[feed.workload.name](frames).collect()
    took = time.perf_counter() - began
    return Run(
        "Polars, whole history", feed.workload.name, feed.rows, took, clock.since_start(), answer=Counter(table.rows())
    )


def _unclicked(f: dict[str, Any]) -> Any:
    met = f["impressions"].join(f["clicks"], on="ad", suffix="_c")
    late = pl.col("ts_c") - pl.col("ts")
    hit = met.filter((late >= pl.duration(seconds=0)) & (late <= pl.duration(minutes=10))).select("ad").unique()
    return f["impressions"].join(hit, on="ad", how="anti").select("ad", "site")


def _orders(f: dict[str, Any]) -> Any:
    joined = f["confirmed"]
    for name in ("paid", "shipped"):
        other = f[name].select(pl.col("k"), pl.col("ts").alias(f"{name}_ts"))
        age = pl.col("ts") - pl.col(f"{name}_ts")
        joined = joined.join(other, on="k").filter((age >= pl.duration(seconds=0)) & (age <= pl.duration(minutes=2)))
    return _hopped(joined, "shop", pl.len(), 5, 10)


def _visits(f: dict[str, Any]) -> Any:
    return _hopped(f["visits"], "page", pl.col("visitor").n_unique(), 10, 60)


def _hopped(rows: Any, key: str, what: Any, slide: int, size: int) -> Any:
    parts = []
    for k in range(1, size // slide + 1):
        until = pl.col("ts").dt.truncate(f"{slide}m") + pl.duration(minutes=slide * k)
        parts.append(rows.with_columns(until.alias("until")))
    counted = pl.concat(parts).group_by("until", key).agg(what.cast(pl.Int64).alias("n"))
    return counted.select("until", key, "n")


POLARS: dict[str, Callable[[dict[str, Any]], Any]] = {"unclicked": _unclicked, "orders": _orders, "visits": _visits}
