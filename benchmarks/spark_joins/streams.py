"""The streams as files: the workloads of `benchmarks.joins` with real timestamps, one file per stream and batch.

One row per millisecond and stream, in order; a batch of n rows is n/4 of each of four streams.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.joins.workloads import Workload, j, j3

MAKERS = {"clique": j, "common key": j3}
EPOCH_MS = 1_700_000_000_000
"""The first row's time; results are summed by their milliseconds since then."""
WRITTEN = 1_700_000_000
"""Spark reads files in the order of their times, in whole milliseconds, so each file gets its own time."""


@dataclass(frozen=True)
class Feed:
    """One workload as folders of files, one folder per stream."""

    shape: str
    folder: Path
    workload: Workload
    batch: int
    """Rows per micro-batch, over all streams."""
    batches: int

    @property
    def ddl(self) -> dict[str, str]:
        return {
            s: ", ".join(f"{c} {'timestamp' if c == 'ts' else 'int'}" for c in self.workload.data[s].column_names)
            for s in self.workload.streams
        }

    @property
    def rows(self) -> int:
        return self.batch * self.batches


def make(shape: str, batch: int, batches: int, home: Path) -> Feed:
    """Draw the data, and write it batch by batch."""
    per_stream = batch // 4
    workload = MAKERS[shape](per_stream * batches)
    folder = home / f"{shape.replace(' ', '-')}-{batch}"
    shutil.rmtree(folder, ignore_errors=True)
    for stream in workload.streams:
        (folder / stream).mkdir(parents=True)
        table = timed(workload.data[stream])
        for n in range(batches):
            path = folder / stream / f"part-{n:03}.parquet"
            pq.write_table(table.slice(n * per_stream, per_stream), path)
            os.utime(path, (WRITTEN + n, WRITTEN + n))
    return Feed(shape, folder, workload, batch, batches)


def head(feed: Feed, batches: int) -> Feed:
    """Only the first batches."""
    folder = feed.folder.with_name(feed.folder.name + "-head")
    shutil.rmtree(folder, ignore_errors=True)
    for stream in feed.workload.streams:
        (folder / stream).mkdir(parents=True)
        for n in range(batches):
            shutil.copy2(feed.folder / stream / f"part-{n:03}.parquet", folder / stream)
    return replace(feed, folder=folder, batches=batches)


def timed(table: pa.Table) -> pa.Table:
    """Milliseconds as timestamps, the type that Spark's joins need."""
    times = pa.compute.add(table["ts"].cast(pa.int64()), EPOCH_MS)
    return table.set_column(0, "ts", times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")))
