"""Level two, on Spark (local[2]): `tw.where` against Spark's own chain of UDFs, batch and streaming, same rows checked.

A run reads parquet files, filters, and writes parquet. Its output is read back and compared row by row with the verdicts.
Contestants take turns, all warm. The calls of Spark's chain are not assumed but counted, on a part of the rows, by an
accumulator inside the predicates. The calls of `tw.where` come from its own statistics, which the accumulator confirms.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import thalweg as tw
from benchmarks.filters.engine import WrongAnswer
from benchmarks.filters.hashed import CACHE
from benchmarks.filters.workload import Workload

CHAINS = ("Spark: udf chain", "Spark: pandas_udf chain")
FILES = 8
COUNTED_ROWS = 20_000
Judge = Callable[[int], bool]


@dataclass(frozen=True)
class SparkRun:
    """One run of one contestant: seconds, CPU of the whole process tree, and calls if it counts them itself.

    The seconds of a stream are those of its triggers, as in Spark's own rate, without starting and stopping the query.
    """

    who: str
    wall: float
    cpu: float
    calls: int | None
    orders: int | None


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session on two cores. An active session is used instead, and left running."""
    active = SparkSession.getActiveSession()
    folder = CACHE / "spark"
    shutil.rmtree(folder, ignore_errors=True)
    spark = tw.session(
        "benchmarks.filters", spark_master="local[2]", spark_sql_shuffle_partitions=2,
        spark_thalweg_control=str((folder / "control").resolve()),
    )  # fmt: skip
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def files(workload: Workload, count: int = FILES) -> str:
    """The rows as parquet files of consecutive rows, so that tasks and micro-batches have something to share."""
    folder = CACHE / f"{workload.name}-{len(workload)}-{count}"
    if not folder.exists():
        table = workload.table()
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        edges = np.linspace(0, len(workload), count + 1).astype(int)
        for k, (a, b) in enumerate(pairwise(edges)):
            pq.write_table(table.slice(a, b - a), partial / f"{k:02}.parquet", use_dictionary=False)
        partial.rename(folder)
    return str(folder)


def contestant(who: str, judges: Sequence[Judge], name: str) -> Callable[[DataFrame], DataFrame]:
    """DataFrame in, filtered DataFrame out, by Spark's chain or by a policy of ours."""
    columns = [f"x{j + 1}" for j in range(len(judges))]
    if who == CHAINS[0]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that every annotated row function is not a pandas function
            chain = [F.udf(f, "boolean") for f in judges]
        return lambda df: df.where(_all(judge(c) for judge, c in zip(chain, columns, strict=True)))
    if who == CHAINS[1]:
        return lambda df: df.where(
            _all(F.pandas_udf(_mapped(f), "boolean")(c) for f, c in zip(judges, columns, strict=True))
        )
    predicates = [tw.pred(f, c, name=f"p{j + 1}") for j, (f, c) in enumerate(zip(judges, columns, strict=True))]
    return lambda df: tw.where(df, *predicates, policy=who, name=name)


def _all(conditions: Iterator[Column]) -> Column:
    whole = next(conditions)
    for condition in conditions:
        whole = whole & condition
    return whole


def _mapped(judge: Judge) -> Callable[[pd.Series], pd.Series]:
    def mapped(values: pd.Series) -> pd.Series:
        return values.map(judge)

    # Spark derives the kind of a pandas_udf from its annotations. As text, they would name things workers can't resolve.
    mapped.__annotations__ = {"values": pd.Series, "return": pd.Series}
    return mapped


def batch(spark: SparkSession, workload: Workload, who: str, name: str) -> SparkRun:
    out = _fresh(name)
    judged = contestant(who, [p.function() for p in workload.predicates], name)(spark.read.parquet(files(workload)))
    run = _timed(who, name, lambda: judged.write.parquet(str(out)))
    _check(workload, out, who)
    return run


def streaming(spark: SparkSession, workload: Workload, who: str, name: str, files_per_batch: int = 2) -> SparkRun:
    out = _fresh(name)
    source = files(workload)
    schema = spark.read.parquet(source).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch).parquet(source)
    judged = contestant(who, [p.function() for p in workload.predicates], name)(stream)

    triggers: list[float] = []

    def go() -> None:
        writer = judged.writeStream.option("checkpointLocation", str(_fresh(name + "-checkpoint")))
        query = writer.trigger(availableNow=True).format("parquet").start(str(out))
        query.awaitTermination()
        triggers.extend(p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"])

    run = _timed(who, name, go)
    _check(workload, out, who)
    return replace(run, wall=sum(triggers))


def counted(spark: SparkSession, workload: Workload, who: str, name: str) -> tuple[float, int | None]:
    """Predicate calls per row by an accumulator, and the calls that `tw.where` itself reported for the same run."""
    some = workload.head(COUNTED_ROWS)
    total = spark.sparkContext.accumulator(0)

    def counting(judge: Judge) -> Judge:
        def judged(x: int) -> bool:
            total.add(1)
            return judge(x)

        return judged

    judges = [counting(p.function()) for p in some.predicates]
    out = _fresh(name)
    contestant(who, judges, name)(spark.read.parquet(files(some))).write.parquet(str(out))
    _check(some, out, who)
    return total.value / len(some), _calls(name)[0] if who not in CHAINS else None


def _fresh(name: str) -> Path:
    folder = CACHE / "spark" / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _timed(who: str, name: str, go: Callable[[], Any]) -> SparkRun:
    cpu, wall = _tree_cpu(), perf_counter()
    go()
    wall, cpu = perf_counter() - wall, _tree_cpu() - cpu
    calls, orders = (None, None) if who in CHAINS else _calls(name)
    return SparkRun(who, wall, cpu, calls, orders)


def _calls(name: str) -> tuple[int, int]:
    handle = tw.query(name)
    events = handle.events()
    return int(handle.stats()["calls"].sum()), int((events["before"] != events["after"]).sum())


def _tree_cpu() -> float:
    """CPU seconds of this process and all below it: the JVM and the Python workers, including those that have ended."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            t = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += t.user + t.system + getattr(t, "children_user", 0.0) + getattr(t, "children_system", 0.0)
    return total


def _check(workload: Workload, out: Path, who: str) -> None:
    got = np.sort(ds.dataset(out, format="parquet").to_table(columns=["ts"])["ts"].to_numpy())
    if not np.array_equal(got, np.flatnonzero(workload.passing)):
        raise WrongAnswer(
            f"{who} on {workload.name}: {len(got)} rows out, {workload.answer[0]} expected, or other ones"
        )
