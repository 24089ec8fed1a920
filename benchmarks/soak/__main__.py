"""`python -m benchmarks.soak [--minutes 15] [--rate 6000]`: run, sample, judge, plot.

Spark's rate source is split into three streams, and the n-th tuple of each carries key n. Every triple is one result, so
the number of results is known at any moment.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from pyspark.sql import functions as F

import thalweg as tw
from benchmarks.markdown import wrapped

HERE = Path(__file__).parent
CHECK = Path("out/benchmarks/soak")
NAME = "soak"
WINDOW = 30
EVERY = 5.0
"""Seconds between samples."""


@dataclass(frozen=True)
class Sample:
    """Resident memory as seen from outside, in MB."""

    second: float
    jvm: float
    driver: float
    workers: float


@dataclass(frozen=True)
class Verdict:
    """Medians of the second and of the last quarter of the run."""

    what: str
    before: float
    after: float

    @property
    def growth(self) -> float:
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def flat(self) -> bool:
        return self.growth <= 0.1


def main(
    minutes: Annotated[float, typer.Option(help="How long.")] = 15.0,
    rate: Annotated[int, typer.Option(help="Rows per second, all streams together.")] = 6_000,
    trigger: Annotated[str, typer.Option(help="A batch so often.")] = "5 seconds",
    cells: Annotated[int, typer.Option(help="Cells.")] = 2,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = HERE,
) -> None:
    shutil.rmtree(CHECK, ignore_errors=True)
    spark = tw.session(
        "soak", spark_master="local[2]", spark_sql_shuffle_partitions=cells, spark_driver_memory="1g",
        spark_sql_streaming_numRecentProgressUpdates=100_000, spark_sql_streaming_minBatchesToRetain=10,
    )  # fmt: skip
    source = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    streams = {
        name: tw.stream(
            source.where(F.expr(f"value % 3 = {n}")).select(
                F.col("timestamp").alias("ts"), F.expr("value div 3").alias("k"), F.expr("value % 1000").alias("v")
            ),
            time="ts", lateness="2 seconds",
        ) for n, name in enumerate("abc")
    }  # fmt: skip
    text = f"SELECT a.k, b.v, c.v AS w FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW {WINDOW} SECONDS"
    df = tw.sql(text, name=NAME, cells=cells, **streams)
    answer = df.observe("answer", F.count("*").alias("n"), F.max("k").alias("last"))
    writer = answer.writeStream.format("noop").option("checkpointLocation", str(CHECK))
    began = time.time()
    query = writer.trigger(processingTime=trigger).start()
    samples: list[Sample] = []
    while time.time() - began < minutes * 60 and query.isActive:
        query.awaitTermination(EVERY)
        samples.append(sample(time.time() - began))
    error = query.exception()
    query.stop()
    if error is not None:
        raise error
    batches = [b for p in query.recentProgress if (b := batch(p, began)) is not None]
    state = tw.query(NAME).stats().groupby("batch").agg({"stored": "sum", "bytes": "sum"})
    held = tw.query(NAME).stats().drop_duplicates(["batch", "cell"]).groupby("batch").state.sum()
    for b in batches:
        if b["batch"] in state.index:
            b |= {"stored": int(state.stored[b["batch"]]), "bytes": int(held[b["batch"]])}
    report(out, samples, [b for b in batches if "stored" in b], minutes, rate, trigger)
    spark.stop()


def sample(second: float) -> Sample:
    me = psutil.Process()
    jvm = workers = 0.0
    for child in me.children(recursive=True):
        try:
            size = child.memory_info().rss / 1e6
            jvm, workers = (jvm + size, workers) if child.name().startswith("java") else (jvm, workers + size)
        except psutil.Error:
            continue
    return Sample(second, jvm, me.memory_info().rss / 1e6, workers)


def batch(progress: Any, began: float) -> dict[str, Any] | None:
    from datetime import datetime

    took = progress["durationMs"]
    answer = progress["observedMetrics"].get("answer")
    if "addBatch" not in took or answer is None:
        return None
    when = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    return {
        "batch": progress["batchId"], "second": when - began, "rows": progress["numInputRows"],
        "latency": took["triggerExecution"] / 1000, "results": answer["n"], "last": answer["last"],
    }  # fmt: skip


def judge(samples: list[Sample], batches: list[dict[str, Any]]) -> list[Verdict]:
    end = samples[-1].second

    def quarter(points: list[tuple[float, float]], n: int) -> float:
        return statistics.median([y for x, y in points if end * n / 4 <= x < end * (n + 1) / 4])

    lines = {
        "memory of the Python workers, MB": [(s.second, s.workers) for s in samples],
        "memory of the JVM, MB": [(s.second, s.jvm) for s in samples],
        "memory of the driver's Python, MB": [(s.second, s.driver) for s in samples],
        "seconds per batch": [(b["second"], b["latency"]) for b in batches],
        "state, bytes": [(b["second"], float(b["bytes"])) for b in batches],
        "state, rows": [(b["second"], float(b["stored"])) for b in batches],
    }
    return [Verdict(what, quarter(points, 1), quarter(points, 3)) for what, points in lines.items()]


def report(
    out: Path, samples: list[Sample], batches: list[dict[str, Any]], minutes: float, rate: int, trigger: str
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    verdicts = judge(samples, batches)
    results = sum(b["results"] for b in batches)
    last = max(b["last"] for b in batches if b["last"] is not None)
    lines = [
        "# Soak", "",
        f"Made by `python -m benchmarks.soak --minutes {minutes:g} --rate {rate} --trigger '{trigger}'`: "
        f"{rate:,} rows/s through a three-way join with windows of "
        f"{WINDOW} s, a batch every {trigger}, {len(batches)} batches; load average at the end {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores. {results:,} results; the newest key is {last:,}, so {last + 1:,} results were due"
        f"{': every triple came exactly once.' if results == last + 1 else ', NOT EQUAL.'}", "",
        "![memory, latency, state](soak.png)", "",
        "| | second quarter | last quarter | growth | flat (at most +10 %) |", "|---|---:|---:|---:|---|",
    ]  # fmt: skip
    lines += [
        f"| {v.what} | {v.before:,.2f} | {v.after:,.2f} | {v.growth:+.1%} | {'yes' if v.flat else 'no'} |"
        for v in verdicts
    ]
    (out / "results.md").write_text(wrapped(lines))
    record = {"samples": [asdict(s) for s in samples], "batches": batches, "verdicts": [asdict(v) for v in verdicts]}
    (out / "results.json").write_text(json.dumps(record) + "\n")
    plot(out / "soak.png", samples, batches)
    print("\n".join(lines))


def plot(path: Path, samples: list[Sample], batches: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 1, figsize=(9, 6.6), sharex=True)
    for name, colour in (("workers", "#0b6e99"), ("jvm", "#d2691e"), ("driver", "#9aa5b1")):
        axes[0].plot([s.second / 60 for s in samples], [getattr(s, name) for s in samples], color=colour, label=name)
    axes[0].set_ylabel("resident memory, MB")
    axes[0].legend(frameon=False, ncols=3, fontsize=8)
    minutes = [b["second"] / 60 for b in batches]
    axes[1].plot(minutes, [b["latency"] for b in batches], color="#0b6e99", linewidth=0.9)
    axes[1].set_ylabel("seconds per batch")
    axes[2].plot(minutes, [b["bytes"] / 1e6 for b in batches], color="#0b6e99", linewidth=0.9)
    axes[2].set_ylabel("state, MB")
    axes[2].set_xlabel("minutes")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    typer.run(main)
