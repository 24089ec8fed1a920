"""A backlog drained through `maxOffsetsPerTrigger`: Spark's own connector beside `tw.kafka`, on one real broker.

    python -m benchmarks.kafka [--records 5000000] [--limit 500000] [--out FOLDER]

`tools/services.py` makes the environment and fetches the jars. Both sources read the same topic of JSON values, parse
them with from_json, add up a column and drop the rows (noop). Each drains twice, in turn; the second is told.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCHEMA = "ts LONG, id LONG, word STRING, n DOUBLE"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--limit", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    asked = parser.parse_args()
    if "THALWEG_JARS_KAFKA_SERVER" not in os.environ:
        sys.path.insert(0, str(ROOT / "tools"))
        from services import prepared

        python, env = prepared("kafka")
        sys.exit(subprocess.run([str(python), "-m", "benchmarks.kafka", *sys.argv[1:]], cwd=ROOT, env=env).returncode)
    measure(asked.records, asked.limit, asked.rounds, asked.out)


def measure(records: int, limit: int, rounds: int, out: Path) -> None:
    from tests.services.kafka_server import KafkaServer

    import thalweg as tw

    server = KafkaServer(Path(os.environ["THALWEG_JARS_KAFKA_SERVER"]), Path(tempfile.mkdtemp()))
    try:
        server.make("backlog", 4)
        begun = time.perf_counter()
        step = 100_000
        for first in range(0, records, step):
            server.send("backlog", *[value(i) for i in range(first, min(first + step, records))])
        print(f"{records:,} records sent in {time.perf_counter() - begun:.0f} s", flush=True)
        jars = ",".join(str(j) for j in sorted(Path(os.environ["THALWEG_JARS_KAFKA_CONNECTOR"]).glob("*.jar")))
        spark = tw.session("kafka", spark_master="local[2]", spark_driver_memory="4g", spark_jars=jars)
        told = [drain(spark, server.servers, who, limit) for _ in range(rounds) for who in ("spark", "thalweg")]
        assert {t["rows"] for t in told} == {records}, told
        assert len({t["sum"] for t in told}) == 1, told
        report(told[-2:], records, limit, out, spark.version)
        spark.stop()
    finally:
        server.stop()


def value(i: int) -> bytes:
    return b'{"ts": %d, "id": %d, "word": "w%d", "n": %d.5}' % (1_700_000_000 + i // 100, i, i % 1000, i % 97)


def drain(spark, servers: str, who: str, limit: int) -> dict[str, float]:
    from pyspark.sql import functions as F

    import thalweg as tw

    if who == "thalweg":
        df = tw.kafka(servers).read_stream("backlog", schema=SCHEMA, max_offsets=limit)
    else:
        options = {"kafka.bootstrap.servers": servers, "subscribe": "backlog", "startingOffsets": "earliest",
                   "maxOffsetsPerTrigger": str(limit)}  # fmt: skip
        raw = spark.readStream.format("kafka").options(**options).load()
        df = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")
    df = df.observe("drained", F.count(F.lit(1)).alias("rows"), F.sum("id").alias("sum"))
    query = df.writeStream.format("noop").option("checkpointLocation", tempfile.mkdtemp())
    begun = time.perf_counter()
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begun
    batches = [p for p in query.recentProgress if p.numInputRows]
    rows = [p.observedMetrics["drained"] for p in batches]
    triggers = sorted(p.durationMs["triggerExecution"] for p in batches)
    done = {
        "who": who, "rows": sum(r.rows for r in rows), "sum": sum(r.sum for r in rows), "seconds": seconds,
        "batches": len(batches), "largest": max(p.numInputRows for p in batches), "ms": triggers[len(triggers) // 2],
    }  # fmt: skip
    print(done, flush=True)
    return done


def report(told: list[dict], records: int, limit: int, out: Path, version: str) -> None:
    from benchmarks.markdown import wrapped

    names = {"spark": "Spark's own connector", "thalweg": "tw.kafka"}
    load = os.getloadavg()[0]
    by = {t["who"]: t for t in told}
    lines = [
        "# A backlog in Kafka",
        "",
        f"Made by `python -m benchmarks.kafka --records {records} --limit {limit}` on {datetime.now(UTC):%Y-%m-%d}; "
        f"{os.cpu_count()} cores, pyspark {version}, one broker (Apache Kafka in KRaft mode) on the same machine, "
        "a topic of 4 partitions with JSON "
        f"values of about 60 bytes; load average {load:.1f} at the end. Other programs ran on the machine: compare the two "
        "with each other and with nothing else. Both parse the values with from_json and drop the rows (noop); counts and sums "
        "were equal. Each drained the topic twice, in turn; this is the second time.",
        "",
        "| source | records | batches | largest batch | seconds | records/s | median batch, ms |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for t in told:
        lines.append(
            f"| {names[t['who']]} | {t['rows']:,} | {t['batches']} | {t['largest']:,} | {t['seconds']:.1f} "
            f"| {t['rows'] / t['seconds']:,.0f} | {t['ms']:,} |"
        )
    ratio = by["thalweg"]["seconds"] / by["spark"]["seconds"]
    lines += ["", f"`tw.kafka` takes {ratio:.2f} x the time of Spark's own connector."]
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.md").write_text(wrapped(lines))


if __name__ == "__main__":
    main()
