"""Impressions and clicks: the data as files, the query in Thalweg and in Spark, and the bare pipeline as the floor."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import thalweg as tw
from thalweg.spark.keys import cell_keys
from thalweg.state.store import read_ipc, write_ipc

CELLS = 2
WINDOW = "10 MINUTES"
DDL = {"impressions": "id long, ad int, ts timestamp", "clicks": "impression long, ad int, ts timestamp"}
FLOOR, OURS, FILES = "floor: pack, shuffle, unpack", "thalweg", "thalweg, state in files"
HDFS, ROCKSDB = "Spark, HDFS-backed", "Spark, RocksDB, state format 4"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
STORES = "org.apache.spark.sql.execution.streaming.state."
Batches = Iterator[pa.RecordBatch]


def write(folder: Path, rows: int, batches: int, seed: int = 11) -> None:
    """One file per stream and batch: half impressions, half clicks on impressions of the last minutes; a second holds 100
    rows of each."""
    random = np.random.default_rng(seed)
    shutil.rmtree(folder, ignore_errors=True)
    each = rows // 2
    for name in DDL:
        (folder / name).mkdir(parents=True)
    for n in range(batches):
        ids = np.arange(n * each, (n + 1) * each)
        ts = pa.array(ids * 10_000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC"))
        seen = np.maximum(ids - random.integers(0, 30_000, each), 0)
        frames = {
            "impressions": pa.table({"id": ids, "ad": (ids % 97).astype(np.int32), "ts": ts}),
            "clicks": pa.table({"impression": seen, "ad": (seen % 97).astype(np.int32), "ts": ts}),
        }
        for name, table in frames.items():
            path = folder / name / f"part-{n:03}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + n,) * 2)


def read(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    return {
        name: spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name, ddl in DDL.items()
    }


def ours(spark: SparkSession, folder: Path, state: str) -> DataFrame:
    inputs = {n: tw.stream(df, time="ts", lateness="10 seconds") for n, df in read(spark, folder).items()}
    text = f"""SELECT i.id, c.ad FROM impressions [RANGE {WINDOW}] AS i, clicks [RANGE {WINDOW}] AS c
               WHERE i.id = c.impression"""
    return tw.sql(text, cells=CELLS, name="everyday", state=state, **inputs)


def sparks(spark: SparkSession, folder: Path) -> DataFrame:
    frames = read(spark, folder)
    i = frames["impressions"].withWatermark("ts", "10 seconds").alias("i")
    c = frames["clicks"].withWatermark("ts", "10 seconds").alias("c")
    near = f"c.ts >= i.ts - INTERVAL {WINDOW} AND c.ts <= i.ts + INTERVAL {WINDOW}"
    return i.join(c, F.expr(f"i.id = c.impression AND {near}")).select("i.id", "c.ad")


def floor(spark: SparkSession, folder: Path) -> DataFrame:
    """The same hops without state: rows in one blob per cell, shuffled, and back to rows."""
    frames = read(spark, folder)
    i = frames["impressions"].select("id", "ad", "ts").mapInArrow(_pack, "key int, blob binary")
    c = frames["clicks"].select(F.col("impression").alias("id"), "ad", "ts").mapInArrow(_pack, "key int, blob binary")
    return i.union(c).repartition(CELLS, "key").mapInArrow(_unpack, "id long, ad int")


def _pack(batches: Batches) -> Batches:
    keys, parts = cell_keys(CELLS), [[] for _ in range(CELLS)]  # type: ignore[var-annotated]
    for batch in batches:
        cell = batch.column("id").to_numpy() % CELLS
        for k in range(CELLS):
            parts[k].append(batch.filter(pa.array(cell == k)))
    blobs = [write_ipc(pa.Table.from_batches(p)) for p in parts if p]
    if blobs:
        yield pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.int32()), "blob": pa.array(blobs, pa.binary())})


def _unpack(batches: Batches) -> Batches:
    for batch in batches:
        for blob in batch.column("blob"):
            yield from read_ipc(blob.as_buffer()).select(["id", "ad"]).to_batches()


def contenders(spark: SparkSession, folder: Path, home: Path) -> dict[str, Callable[[], DataFrame]]:
    def stored(provider: str, version: str) -> DataFrame:
        spark.conf.set(PROVIDER, STORES + provider)
        spark.conf.set(FORMAT, version)
        return sparks(spark, folder)

    return {
        FLOOR: lambda: floor(spark, folder),
        OURS: lambda: ours(spark, folder, "spark"),
        FILES: lambda: ours(spark, folder, str(home / "state")),
        HDFS: lambda: stored("HDFSBackedStateStoreProvider", "2"),
        ROCKSDB: lambda: stored("RocksDBStateStoreProvider", "4"),
    }
