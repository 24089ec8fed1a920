"""Three questions that users ask, each with its streams and its text in every dialect.

Times are in seconds from a fixed start. Streams arrive in files of equal spans of time, a little out of order within
one; a last file, an hour later, lets the last windows close. Answers are compared as bags of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

START = 1_700_000_400
"""Seconds since 1970; a multiple of ten minutes."""
LATENESS = 5
"""Seconds by which rows may be out of order."""
MINUTE = 60
Micros = NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """A question. `spark` builds it with Spark's own operators, from streams with a watermark."""

    name: str
    title: str
    thalweg: str
    duckdb: str
    spark: Callable[[dict[str, DataFrame]], DataFrame]
    streams: tuple[str, ...]
    make: Callable[[np.random.Generator, int], dict[str, pa.Table]]
    """Rows of each stream; the number is about that of the rows in all."""
    due: Callable[[dict[str, pa.Table], pa.Table], Micros] = lambda _, rows: rows["until"].cast(pa.int64()).to_numpy()
    """For rows of the answer: the instant from which on they are known, in microseconds."""


def _times(random: np.random.Generator, count: int, span: int) -> pa.Array:
    """Sorted but for LATENESS, in microseconds."""
    seconds = np.sort(random.uniform(0, span, count)) - random.uniform(0, LATENESS * 0.8, count)
    return pa.array(((START + np.clip(seconds, 0, None)) * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))


def _unclicked(random: np.random.Generator, rows: int) -> dict[str, pa.Table]:
    """Two thirds impressions; half of them get a click, a fifth of those too late. What is clicked after the last
    impression is left out, so that all files hold about as many rows."""
    shown = rows * 2 // 3
    span = shown // 100
    at = _times(random, shown, span)
    clicked = random.permutation(shown)[: rows - shown]
    late = random.random(len(clicked)) < 0.2
    wait = np.where(
        late, random.uniform(11 * MINUTE, 20 * MINUTE, len(clicked)), random.exponential(MINUTE, len(clicked))
    )
    when = at.cast(pa.int64()).to_numpy()[clicked] + (np.minimum(wait, 20 * MINUTE) * 1e6).astype(np.int64)
    order = np.argsort(when, kind="stable")
    order = order[when[order] <= (START + span) * 10**6]
    return {
        "impressions": pa.table({"ts": at, "ad": pa.array(np.arange(shown)), "site": random.integers(0, 50, shown)}),
        "clicks": pa.table({"ts": pa.array(when[order], pa.timestamp("us", "UTC")), "ad": clicked[order]}),
    }


def _orders(random: np.random.Generator, rows: int) -> dict[str, pa.Table]:
    """Orders that are paid, shipped and confirmed. Keys repeat: a confirmation meets about 1.4 pairs of the others."""
    each = rows // 3
    span = each // 50
    keys = 5_000
    return {
        name: pa.table({
            "ts": _times(random, each, span), "k": random.integers(0, keys, each),
            **({"shop": random.integers(0, 200, each)} if name == "confirmed" else {"id": np.arange(each)}),
        })
        for name in ("confirmed", "paid", "shipped")
    }  # fmt: skip


def _visits(random: np.random.Generator, rows: int) -> dict[str, pa.Table]:
    span = rows // 50
    return {
        "visits": pa.table({
            "ts": _times(random, rows, span), "page": random.integers(0, 100, rows),
            "visitor": np.minimum(random.zipf(1.3, rows), 20_000),
        })
    }  # fmt: skip


def _passed(tables: dict[str, pa.Table], rows: pa.Table) -> Micros:
    """Ten minutes after the impression. Ads are numbered in the order of their impressions."""
    shown = tables["impressions"]["ts"].cast(pa.int64()).to_numpy()
    ads = np.asarray(rows["ad"])
    return np.where(ads >= 0, shown[np.maximum(ads, 0)] + 10 * MINUTE * 10**6, np.iinfo(np.int64).max)


def _spark_unclicked(s: dict[str, DataFrame]) -> DataFrame:
    i = s["impressions"].withColumnsRenamed({"ts": "its", "ad": "iad"})
    c = s["clicks"].withColumnsRenamed({"ts": "cts", "ad": "cad"})
    met = i.join(c, F.expr(f"iad = cad AND cts >= its AND cts <= its + INTERVAL {10 * MINUTE} SECONDS"), "leftOuter")
    return met.where("cad IS NULL").select(F.col("iad").alias("ad"), "site")


def _spark_orders(s: dict[str, DataFrame]) -> DataFrame:
    c = s["confirmed"].withColumnsRenamed({"ts": "cts", "k": "ck"})
    p = s["paid"].select(F.col("ts").alias("pts"), F.col("k").alias("pk"))
    h = s["shipped"].select(F.col("ts").alias("hts"), F.col("k").alias("hk"))
    within = f"INTERVAL {2 * MINUTE} SECONDS"
    two = c.join(p, F.expr(f"ck = pk AND pts <= cts AND pts >= cts - {within}")).drop("pts")
    three = two.join(h, F.expr(f"ck = hk AND hts <= cts AND hts >= cts - {within}")).drop("hts")
    counted = three.groupBy(F.window("cts", "10 minutes", "5 minutes").alias("w"), "shop").agg(F.count("*").alias("n"))
    return counted.select(F.col("w.end").alias("until"), "shop", "n")


def _spark_visits(s: dict[str, DataFrame]) -> DataFrame:
    hour = F.window("ts", "1 hour", "10 minutes").alias("w")
    counted = s["visits"].groupBy(hour, "page").agg(F.size(F.collect_set("visitor")).cast("long").alias("n"))
    return counted.select(F.col("w.end").alias("until"), "page", "n")


_HOPS = """
    SELECT make_timestamptz(u.until * 1000000) AS until, x.{key}, {what} AS n
    FROM ({rows}) x, LATERAL (
        SELECT unnest(generate_series(floor(epoch(x.ts) / {slide})::BIGINT * {slide} + {slide},
                                      floor(epoch(x.ts) / {slide})::BIGINT * {slide} + {size}, {slide})) AS until
    ) u GROUP BY u.until, x.{key}
"""

WORKLOADS = (
    Workload(
        "unclicked",
        "impressions without a click within ten minutes",
        """SELECT i.ad, i.site FROM impressions [RANGE 10 MINUTES] AS i LEFT ANTI JOIN clicks [NOW] AS c ON i.ad = c.ad""",
        f"""SELECT i.ad, i.site FROM impressions i WHERE NOT EXISTS (SELECT 1 FROM clicks c WHERE c.ad = i.ad
            AND c.ts >= i.ts AND c.ts <= i.ts + INTERVAL {10 * MINUTE} SECONDS)""",
        _spark_unclicked, ("impressions", "clicks"), _unclicked, _passed,
    ),
    Workload(
        "orders",
        "a sliding count by shop behind a three-way join",
        """SELECT window(result_time, '10 minutes', '5 minutes') AS w, c.shop, count(*) AS n
           FROM confirmed [NOW] AS c, paid [RANGE 2 MINUTES] AS p, shipped [RANGE 2 MINUTES] AS h
           WHERE c.k = p.k AND c.k = h.k
           GROUP BY window(result_time, '10 minutes', '5 minutes'), c.shop""",
        _HOPS.format(key="shop", what="count(*)", slide=5 * MINUTE, size=10 * MINUTE, rows=f"""
            SELECT c.ts, c.shop FROM confirmed c, paid p, shipped h WHERE c.k = p.k AND c.k = h.k
            AND p.ts BETWEEN c.ts - INTERVAL {2 * MINUTE} SECONDS AND c.ts
            AND h.ts BETWEEN c.ts - INTERVAL {2 * MINUTE} SECONDS AND c.ts"""),
        _spark_orders, ("confirmed", "paid", "shipped"), _orders,
    ),
    Workload(
        "visits",
        "count(DISTINCT visitor) by page in a sliding hour",
        """SELECT window(result_time, '1 hour', '10 minutes') AS w, v.page, count(DISTINCT v.visitor) AS n
           FROM visits AS v GROUP BY window(result_time, '1 hour', '10 minutes'), v.page""",
        _HOPS.format(key="page", what="count(DISTINCT visitor)", slide=10 * MINUTE, size=60 * MINUTE,
                     rows="SELECT ts, page, visitor FROM visits"),
        _spark_visits, ("visits",), _visits,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Feed:
    """A workload's rows on disk: one folder a stream, one file a batch."""

    workload: Workload
    folder: Path
    tables: dict[str, pa.Table]
    rows: int
    batches: int
    reached: Micros
    """After each batch, the oldest of the streams' watermarks, in microseconds."""


def write(workload: Workload, rows: int, batches: int, folder: Path, seed: int) -> Feed:
    """Make the rows and cut them into files of equal spans of time, the same for every stream."""
    import os

    tables = workload.make(np.random.default_rng(seed), rows)
    starts = {n: t["ts"].cast(pa.int64()).to_numpy() for n, t in tables.items()}
    last = max(int(t.max()) for t in starts.values())
    edges = np.linspace(START * 10**6, last + 1, batches + 1)
    reached = np.full(batches + 1, last + 7_200 * 10**6)
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        # Rows go to the file of the newest time before them, so files are cut by arrival.
        arrival = np.maximum.accumulate(starts[name])
        for k in range(batches):
            part = table.filter(pa.array((arrival >= edges[k]) & (arrival < edges[k + 1])))
            _put(folder / name / f"{k:04}.parquet", part, k, os.utime)
            reached[k] = min(reached[k], int(arrival[arrival < edges[k + 1]].max()))
        end = {"ts": pa.array([last + 7_200 * 10**6], pa.timestamp("us", "UTC"))}
        others = {f.name: pa.array([-1 - len(end)], f.type) for f in table.schema if f.name != "ts"}
        closing = pa.table({**end, **others}).select(table.column_names)
        _put(folder / name / f"{batches:04}.parquet", closing, batches, os.utime)
    return Feed(workload, folder, tables, sum(t.num_rows for t in tables.values()), batches, reached - LATENESS * 10**6)


def _put(path: Path, table: pa.Table, k: int, stamp: Callable[..., None]) -> None:
    pq.write_table(table, path)
    stamp(path, (k + 1, k + 1))  # Spark reads files in the order of their times
