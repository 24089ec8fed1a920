"""A batch that is slow says where: one streaming query, each of whose batches is slowed at another place."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.watch import report
from thalweg.watch.bottleneck import spent
from thalweg.watch.stages import STAGES

TEXT = """SELECT a.id AS x, b.id AS y FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS]
          WHERE a.k = b.k AND patient(a.slow)"""
SLOW = 1.2
ROWS = 15_000


def waiting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if "source" in batch.column("slow").to_pylist():
            time.sleep(SLOW)
        yield batch


def patient(slow: str) -> bool:
    if slow == "predicate":
        time.sleep(SLOW / 50)
    return True


@pytest.mark.long  # it compares times: a busy machine upsets it
def test_the_slow_stage_is_named(spark, tmp_path):
    """Batch 0 starts workers, 1 has a slow source, 2 a slow predicate, 3 a slow stem, 4 a slow sink."""
    start = datetime(2024, 1, 1)
    for n, slow in enumerate(["", "source", "predicate", "stem", "sink"]):
        size = ROWS if slow == "stem" else 50
        for name, sign in (("a", 1), ("b", -1)):
            table = pa.table(
                {
                    "id": pa.array(range(size), pa.int64()),
                    "k": pa.array([sign * i if slow == "stem" else i for i in range(size)], pa.int64()),
                    "slow": [slow] * size,
                    "ts": pa.array([start + timedelta(seconds=60 * n)] * size, pa.timestamp("us", "UTC")),
                }
            )
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(table, tmp_path / name / f"{n}.parquet")
            time.sleep(0.01)  # files are read in the order of their times

    def read(name):
        df = spark.readStream.schema("id long, k long, slow string, ts timestamp").option("maxFilesPerTrigger", 1)
        rows = df.parquet(str(tmp_path / name))
        return tw.stream(rows.mapInArrow(waiting, rows.schema) if name == "a" else rows, time="ts")

    def write(df, batch):
        df.write.format("noop").mode("append").save()
        if batch == 4:
            time.sleep(SLOW)

    df = tw.sql(TEXT, a=read("a"), b=read("b"), patient=patient, name="slowed", cells=2, index="scan")
    writer = df.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "check"))
    assert writer.trigger(availableNow=True).start().awaitTermination(300)

    query = tw.query("slowed")
    found = query.stages().set_index("batch")
    sums = found[list(STAGES)].sum(axis=1)
    assert ((0.95 * found.trigger <= sums) & (sums <= 1.01 * found.trigger)).all()
    slowed = {"source": 1, "pack": 2, "join": 3, "sink": 4}
    assert dict(found[list(slowed)][1:].idxmax()) == slowed
    assert min(found["source"][1], found["pack"][2], found["sink"][4]) >= 0.9 * SLOW
    culprits = {b.number: {s: name for s, name, _ in spent([b]).culprits} for b in query.view().recent}
    assert culprits[2]["pack"] == "patient(a.slow)"
    assert culprits[3]["join"] in ("a", "b")
    assert "\ntime " in str(query.explain())
    assert " of a batch (" in report.verdict(query.view())
