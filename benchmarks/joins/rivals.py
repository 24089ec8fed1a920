"""The rivals: DuckDB and Polars over all data at once, and DuckDB fed in micro-batches.

All of them join by hashing, so the window is made hashable. A tuple falls into a bucket as long as the window, and every
stream but the first is also placed into the neighbouring buckets. Equal buckets are then necessary, and times decide.
Batch engines see all data before they answer: they give a bound on throughput, and have no latency.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import duckdb
import polars as pl

from benchmarks.joins.workloads import Workload

Answer = tuple[int, int]
"""Number of results, checksum."""


# --- DuckDB -----------------------------------------------------------------------------------------------------------


def _checksum(w: Workload) -> str:
    return "sum(" + " + ".join(f"{k} * {s}.ts::BIGINT" for s, k in w.weights().items()) + ")"


def _within(w: Workload) -> Iterator[str]:
    for a, b in combinations(w.streams, 2):
        yield f"abs({a}.ts - {b}.ts) < {w.window}"


def _equal(w: Workload) -> Iterator[str]:
    for a, x, b, y in w.equalities:
        yield f"{a}.{x} = {b}.{y}"


def bucketed_sql(w: Workload) -> str:
    first, *others = w.streams
    parts = [f"{first}_b AS (SELECT *, ts // {w.window} AS bucket FROM {first})"]
    for s in others:
        copies = " UNION ALL ".join(f"SELECT *, ts // {w.window} + ({d}) AS bucket FROM {s}" for d in (-1, 0, 1))
        parts.append(f"{s}_b AS ({copies})")
    conditions = [*_equal(w), *_within(w), *(f"{a}.bucket = {b}.bucket" for a, b in combinations(w.streams, 2))]
    relations = [f"{s}_b AS {s}" for s in w.streams] + list(w.tables)
    return (
        f"WITH {', '.join(parts)} SELECT count(*), coalesce({_checksum(w)}, 0) "
        f"FROM {', '.join(relations)} WHERE {' AND '.join(conditions)}"
    )


def duckdb_batch(w: Workload, folder: Path) -> Answer:
    with duckdb.connect() as db:
        for name in w.data:
            db.execute(f"CREATE TABLE {name} AS FROM '{folder / name}.parquet'")
        count, checksum = db.execute(bucketed_sql(w)).fetchall()[0]
    return int(count), int(checksum)


def duckdb_micro(w: Workload, folder: Path, batch: int = 1000) -> Answer:
    """As a stream: per batch and stream, join the new rows with the stored ones, then store them, then drop old rows.

    Streams take turns, so that a combination is found exactly once, when its last tuple comes.
    """
    count = checksum = 0
    with duckdb.connect() as db:
        for name in w.data:
            db.execute(f"CREATE TABLE {name}_all AS FROM '{folder / name}.parquet'")
            if name in w.tables:
                db.execute(f"CREATE VIEW {name} AS FROM {name}_all")
            else:
                db.execute(f"CREATE TABLE {name} AS FROM {name}_all LIMIT 0")
        conditions = " AND ".join([*_equal(w), *_within(w)])
        for start in range(0, w.tuples, batch):
            for s in w.streams:
                new = f"(SELECT * FROM {s}_all WHERE ts >= {start} AND ts < {start + batch}) AS {s}"
                relations = [new if name == s else name for name in w.data]
                found = db.execute(
                    f"SELECT count(*), coalesce({_checksum(w)}, 0) FROM {', '.join(relations)} WHERE {conditions}"
                ).fetchall()[0]
                count, checksum = count + int(found[0]), checksum + int(found[1])
                db.execute(f"INSERT INTO {s} SELECT * FROM {s}_all WHERE ts >= {start} AND ts < {start + batch}")
            for s in w.streams:
                db.execute(f"DELETE FROM {s} WHERE ts < {start + batch - w.window}")
    return count, checksum


# --- Polars -----------------------------------------------------------------------------------------------------------


def polars_batch(w: Workload, folder: Path) -> Answer:
    """Left-deep in the written order: each join with the equalities and buckets that apply, then the times."""
    first, *others = w.streams
    frames: dict[str, pl.LazyFrame] = {}
    for name in w.data:
        frame = pl.scan_parquet(folder / f"{name}.parquet")
        frame = frame.rename({c: f"{name}.{c}" for c in frame.collect_schema().names()})
        if name in w.streams:
            bucket = pl.col(f"{name}.ts") // w.window
            if name == first:
                frame = frame.with_columns(bucket.alias("bucket"))
            else:
                frame = pl.concat([frame.with_columns((bucket + d).alias("bucket")) for d in (-1, 0, 1)])
        frames[name] = frame
    joined, known = frames[first], [first]
    columns = {f"{first}.{c}" for c in w.data[first].column_names}
    for name in [*w.tables, *others]:
        left, right = ["bucket"] * (name in w.streams), ["bucket"] * (name in w.streams)
        for a, x, b, y in w.equalities:
            if b == name and a in known:
                left.append(f"{a}.{x}")
                right.append(f"{b}.{y}")
            elif a == name and b in known:
                left.append(f"{b}.{y}")
                right.append(f"{a}.{x}")
        joined = joined.join(frames[name], left_on=left, right_on=right, coalesce=True)
        for s in known:
            if s in w.streams and name in w.streams:
                joined = joined.filter((pl.col(f"{s}.ts") - pl.col(f"{name}.ts")).abs() < w.window)
        known.append(name)
        columns |= {f"{name}.{c}" for c in w.data[name].column_names}
        # Later joins need this key under the name of the side that was coalesced away.
        kept = set(right) - {"bucket"}
        joined = joined.with_columns(
            [pl.col(x).alias(y) for x, y in zip(left, right, strict=True) if y in kept and _needed(w, y, known)]
        )
    total = pl.sum_horizontal([pl.col(f"{s}.ts").cast(pl.Int64) * k for s, k in w.weights().items()])
    answer = joined.select(pl.len().alias("count"), total.sum().alias("checksum")).collect(engine="streaming")
    return int(answer["count"][0]), int(answer["checksum"][0])


def _needed(w: Workload, name: str, known: list[str]) -> bool:
    return any(
        (f"{a}.{x}" == name and b not in known) or (f"{b}.{y}" == name and a not in known)
        for a, x, b, y in w.equalities
    )
