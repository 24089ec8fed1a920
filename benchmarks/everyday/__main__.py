"""`python -m benchmarks.everyday [--rows N] [--rounds N] [--minutes N]`: contenders take turns, each drains all batches."""

from __future__ import annotations

import math
import os
import platform
import shutil
import statistics
import time
from datetime import date
from pathlib import Path
from typing import Annotated

import pyspark
import typer

import thalweg as tw
from benchmarks.everyday import contenders as c
from benchmarks.markdown import wrapped

HERE = Path(__file__).parent
HOME = Path("out/benchmarks/everyday").absolute()
PARTS = Path("out/benchmarks/everyday-parts").absolute()
"""The report is put together from all sizes that were run, together or one by one."""


def main(
    rows: Annotated[str, typer.Option(help="Rows a batch, several with commas.")] = "3000,6000,50000,400000",
    batches: Annotated[int, typer.Option(help="Batches of a drain.")] = 16,
    rounds: Annotated[int, typer.Option(help="Drains of each contender.")] = 3,
    minutes: Annotated[float, typer.Option(help="No further round begins that would end later than this.")] = math.inf,
    limit: Annotated[float, typer.Option(help="Seconds that one drain may take.")] = 120.0,
    only: Annotated[str, typer.Option(help="Only contenders whose name contains one of these, with commas.")] = "",
) -> None:
    spark = tw.session(
        "benchmarks.everyday", spark_master="local[2]", spark_sql_shuffle_partitions=c.CELLS,
        spark_sql_streaming_noDataMicroBatches_enabled="false", spark_sql_streaming_numRecentProgressUpdates=1000,
    )  # fmt: skip
    start = time.monotonic()
    for size in map(int, rows.split(",")):
        began, longest, done = os.getloadavg()[0], 0.0, 0
        c.write(HOME / "in", size, batches)
        made = c.contenders(spark, HOME / "in", HOME)
        chosen = [n for n in made if not only or any(o.strip() in n for o in only.split(","))]
        triggers: dict[str, list[list[float]]] = {n: [] for n in chosen}
        answers: dict[str, tuple[int, int]] = {}
        drain(
            spark, made[c.FLOOR], limit
        )  # not counted: the first query of a session waits for Java to compile its own code
        for turn in range(rounds):
            at = time.monotonic()
            if turn and at - start + longest > minutes * 60:
                typer.echo(f"{size:,} rows: no time for round {turn + 1}")
                break
            for k in range(len(chosen)):
                name = chosen[(k + turn) % len(chosen)]
                took, answer = drain(spark, made[name], limit)
                triggers[name].append(took)
                if answer is None:
                    typer.echo(f"{size:,} rows, round {turn + 1}: {name} was cut off after {len(took)} batches")
                    continue
                if name != c.FLOOR and answers.setdefault("all", answer) != answer:
                    raise SystemExit(f"{name} found {answer}, the others {answers['all']}")
                typer.echo(f"{size:,} rows, round {turn + 1}: {name} {statistics.median(took) * 1000:.0f} ms a batch")
            longest, done = max(longest, time.monotonic() - at), turn + 1
        told = (
            f"{date.today()}, {batches} batches, {done} rounds; load average {began:.1f} before and "
            f"{os.getloadavg()[0]:.1f} after."
        )
        text = section(size, told, triggers, answers.get("all"))
        typer.echo(text)
        PARTS.mkdir(parents=True, exist_ok=True)
        (PARTS / f"{size}.md").write_text(text)
    spark.stop()
    parts = sorted(PARTS.glob("*.md"), key=lambda p: int(p.stem))
    head = (
        f"`python -m benchmarks.everyday`; {os.cpu_count()} cores, {platform.machine()}, Spark {pyspark.__version__}. "
        "Impressions and clicks: two streams of files, one file each a batch, joined within ten minutes, into Parquet. Times "
        "of a trigger without the first quarter of the batches; ratios are formed batch by batch within a round. Where the "
        "load is above the cores, other programs ran too, so only the ratios mean something. The answers of all drains that "
        "were not cut off by the limit of time were equal."
    )
    (HERE / "results.md").write_text(wrapped(["# Everyday queries", "", head, "", *(p.read_text() for p in parts)]))


def drain(spark: pyspark.sql.SparkSession, make: object, limit: float) -> tuple[list[float], tuple[int, int] | None]:
    """Seconds of each trigger, and the answer: number of results and the sum of their ids; None if it was cut off."""
    for folder in ("out", "check", "state"):
        shutil.rmtree(HOME / folder, ignore_errors=True)
    df = make()  # type: ignore[operator]
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(HOME / "check"))
    query = writer.trigger(availableNow=True).start(str(HOME / "out"))
    ended = query.awaitTermination(limit)
    if not ended:
        query.stop()
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if "addBatch" in p["durationMs"]]
    if not ended:
        return took, None
    time.sleep(0.2)
    found = spark.read.parquet(str(HOME / "out")).selectExpr("count(*) AS n", "sum(id) AS s").collect()[0]
    return took, (found.n, found.s)


def section(size: int, told: str, triggers: dict[str, list[list[float]]], answer: tuple[int, int] | None) -> str:
    base = triggers.get(c.FLOOR)
    lines = [
        f"## {size:,} rows a batch\n",
        told + "\n",
        "| | ms a batch, quartiles | x floor, quartiles |",
        "|---|---:|---:|",
    ]
    for name, drains in triggers.items():
        steady = [t for d in drains for t in d[len(d) // 4 :]]
        ratios = [
            t / f for d, b in zip(drains, base or drains, strict=True)
            for t, f in zip(d[len(d) // 4 :], b[len(b) // 4 :], strict=False)
        ]  # fmt: skip
        if len(ratios) < 2:
            lines.append(f"| {name} | no two batches in time | |")
            continue
        ms, x = (statistics.quantiles(v, n=4) for v in (steady, ratios))
        shown = " / ".join(f"{q * 1000:.0f}" for q in ms)
        lines.append(f"| {name} | {shown} | {' / '.join(f'{q:.2f}' for q in x) if base else ''} |")
    found = f"{answer[0]:,} results a drain." if answer else ""
    return "\n".join([*lines, "", found, ""])


if __name__ == "__main__":
    typer.run(main)
