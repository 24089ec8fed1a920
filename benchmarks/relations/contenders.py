"""Who answers: Thalweg and Spark as streaming queries, DuckDB and Polars over the whole history at once."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import thalweg as tw
from benchmarks.relations.workloads import LATENESS, Feed
from benchmarks.spark_joins.onspark import HDFS, PROVIDER, ROCKSDB, ProcessorClock

OURS = "Thalweg"
FILES = "Thalweg, state in files"
ALONE = "Thalweg's engine, one cell without Spark"
SPARKS = {"Spark": (HDFS, "2"), "Spark, RocksDB, join state format 4": (ROCKSDB, "4")}
FORMAT = "spark.sql.streaming.join.stateFormatVersion"


@dataclass
class Run:
    """The outcome of one contender over one feed."""

    who: str
    workload: str
    rows: int
    seconds: float
    """All batches but the first quarter and the closing one, scaled to all rows; or the whole run of a batch engine.
    Not a number if no batch was finished in time."""
    cpu: float
    """Processor seconds of the same batches, scaled likewise."""
    latency: float | None = None
    """Median seconds from the start of the batch that brings time past a row's instant to the end of that which gives
    the row."""
    batches_late: float | None = None
    """Mean number of batches between these two."""
    state_rows: int = 0
    answer: Counter[Any] = field(default_factory=Counter, repr=False)
    cut_off: bool = False

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def processor_rate(self) -> float:
        return self.rows / max(self.cpu, 0.01)


def session() -> SparkSession:
    return tw.session(
        "benchmarks.relations", spark_master="local[2]", spark_sql_shuffle_partitions=2, spark_driver_memory="5g",
        spark_sql_streaming_numRecentProgressUpdates=1000, spark_sql_streaming_metricsEnabled="false",
        spark_sql_streaming_fileSink_log_compactInterval=1000,
    )  # fmt: skip


def warm(spark: SparkSession, feed: Feed, scratch: Path) -> None:
    """Copy a stream, uncounted: the first query of a session waits for Java to compile its own code."""
    frame = next(iter(_read(spark, feed).values()))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(scratch / "check"))
    query = writer.trigger(availableNow=True).start(str(scratch / "out"))
    query.awaitTermination(60)
    query.stop()
    shutil.rmtree(scratch, ignore_errors=True)


def thalweg(spark: SparkSession, who: str, feed: Feed, scratch: Path, limit: float) -> Run:
    spark.conf.set(PROVIDER, ROCKSDB)
    inputs = {n: tw.stream(df, time="ts", lateness=f"{LATENESS} seconds") for n, df in _read(spark, feed).items()}
    name = f"{feed.workload.name} {feed.rows} {time.time_ns()}"
    state = str((scratch / "state").absolute()) if who == FILES else "spark"
    return _drain(
        who,
        feed,
        lambda: _flat(tw.sql(feed.workload.thalweg, cells=2, name=name, state=state, **inputs)),
        scratch,
        limit,
    )


def engine(feed: Feed) -> Run:
    """The same batches in this process, without Spark: what the engine itself takes, and how many rows it keeps."""
    inputs = {n: tw.Source(t.schema, time="ts", lateness=f"{LATENESS} seconds") for n, t in feed.tables.items()}
    cell = tw.Engine(feed.workload.thalweg, inputs)
    took, used, rows, kept, parts = [], [], [], 0, []
    for k in range(feed.batches + 1):
        tables = {n: pq.read_table(feed.folder / n / f"{k:04}.parquet") for n in feed.workload.streams}
        newest = {n: int(t["ts"].cast(pa.int64()).to_numpy().max()) for n, t in tables.items()}
        clock, began = time.process_time(), time.perf_counter()
        parts.append(cell.take_batch(tables, newest=newest))
        took.append(time.perf_counter() - began)
        used.append(time.process_time() - clock)
        rows.append(sum(t.num_rows for t in tables.values()))
        stats = cell.stats()
        kept = max(kept, sum(stats["operators"].values()) + sum(i["stored"] for i in stats["inputs"].values()))
    steady = slice(len(rows) // 4, -1)
    scale = feed.rows / sum(rows[steady])
    found = pa.concat_tables(parts)
    columns = [
        [w["end"] for w in found[c].to_pylist()] if c == "w" else found[c].to_pylist() for c in found.column_names
    ]
    answer = Counter(zip(*columns, strict=True))
    return Run(
        ALONE, feed.workload.name, feed.rows, sum(took[steady]) * scale, sum(used[steady]) * scale, state_rows=kept,
        answer=answer,
    )  # fmt: skip


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
    clock, out, used = ProcessorClock(), scratch / "out", {}
    writer = make().writeStream.format("parquet").option("checkpointLocation", str(scratch / "check"))
    query = writer.trigger(availableNow=True).start(str(out))
    began, cut_off = time.monotonic(), False
    while not query.awaitTermination(0.1):
        used.setdefault((query.lastProgress or {}).get("batchId", -1), clock.since_start())
        if time.monotonic() - began > limit:
            cut_off = True
            query.stop()
            break
    told = [p for p in query.recentProgress if p["numInputRows"] > 0]
    if not told:
        shutil.rmtree(scratch, ignore_errors=True)
        return Run(who, feed.workload.name, feed.rows, math.nan, math.nan, cut_off=True)
    triggers = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress}
    steady = told[len(told) // 4 : -1] or told
    scale = feed.rows / max(sum(p["numInputRows"] for p in steady), 1)
    took = sum(triggers[p["batchId"]] for p in steady)
    ended = [used[b] for b in used if b >= steady[-1]["batchId"]] or [clock.since_start()]
    begun = [used[b] for b in used if b < steady[0]["batchId"]] or [0.0]
    states = [sum(o["numRowsTotal"] for o in p["stateOperators"]) for p in query.recentProgress]
    run = Run(
        who, feed.workload.name, feed.rows, took * scale, (ended[0] - begun[-1]) * scale,
        state_rows=max(states, default=0), cut_off=cut_off,
    )  # fmt: skip
    if not cut_off:
        table = _written(out)
        run.latency, run.batches_late = _latency(feed, out, table, triggers, [p["batchId"] for p in told])
        answer = table.drop_columns(["file"])
        run.answer = Counter(zip(*(c.to_pylist() for c in answer.columns), strict=True))
    shutil.rmtree(scratch, ignore_errors=True)
    return run


def _written(out: Path) -> pa.Table:
    """The answer. Not by `collect()`: its times have no zone, so that none equals one of DuckDB's."""
    rows = SparkSession.active().read.parquet(str(out))
    return rows.withColumn("file", F.element_at(F.split(F.input_file_name(), "/"), -1)).toArrow()


def _latency(
    feed: Feed, out: Path, rows: pa.Table, triggers: dict[int, float], fed: list[int]
) -> tuple[float | None, float | None]:
    """From a row's instant to the row. What only the closing rows bring is left out: nothing follows them in time."""
    wrote = {}
    for log in (out / "_spark_metadata").iterdir():
        if log.name.isdigit():
            for line in log.read_text().splitlines()[1:]:
                wrote[Path(json.loads(line)["path"]).name] = int(log.name)
    seconds = np.cumsum([0.0, *(triggers.get(k, 0.0) for k in range(max(triggers) + 1))])
    due = np.asarray(fed)[np.minimum(np.searchsorted(feed.reached, feed.workload.due(feed.tables, rows)), len(fed) - 1)]
    given = np.array([wrote[f] for f in rows["file"].to_pylist()])
    which = due < fed[-1]
    if not which.any():
        return None, None
    due, given = np.minimum(due, given)[which], given[which]
    return float(np.median(seconds[given + 1] - seconds[due])), float((given - due).mean())


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
