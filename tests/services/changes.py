"""Random changes of a relation with one row for each key, as batches in files, and the relation after each batch."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

DDL = "k LONG, n LONG, s STRING, _change_type STRING, _change_time TIMESTAMP"
START = datetime(2026, 1, 1)


def made(seed: int, batches: int, instants: int = 10, keys: int = 30) -> tuple[list[list[tuple]], list[dict]]:
    """The changes of each batch, in any order, and what lives after it: key → (n, s)."""
    rng = random.Random(seed)
    now: dict[int, tuple] = {}
    all_changes, states = [], []
    for batch in range(batches):
        changes = []
        for instant in range(instants):
            at = START + timedelta(seconds=batch * instants + instant)
            for k in rng.sample(range(keys), rng.randrange(keys // 2)):
                if k in now:
                    changes.append((k, *now.pop(k), "delete", at))
                if rng.random() < 0.7:
                    now[k] = (rng.randrange(100), rng.choice(["x", None, "ä'\\"]))
                    changes.append((k, *now[k], "insert", at))
        rng.shuffle(changes)
        all_changes.append(changes)
        states.append(dict(now))
    return all_changes, states


def run(spark, folder: Path, changes: list[tuple], writer, check: Path) -> None:
    """Put a batch of changes into a folder and let a streaming query merge it."""
    spark.createDataFrame(changes, DDL).coalesce(1).write.mode("append").parquet(str(folder))
    again(spark, folder, writer, check)


def again(spark, folder: Path, writer, check: Path) -> None:
    query = spark.readStream.schema(DDL).parquet(str(folder)).writeStream.foreachBatch(writer)
    query = query.option("checkpointLocation", str(check)).trigger(availableNow=True).start()
    assert query.awaitTermination(300)


def forget_commit(check: Path) -> None:
    """As if the driver had died before it noted that its last batch was done."""
    last = max(int(p.name) for p in (check / "commits").iterdir() if p.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (check / "commits" / name).unlink(missing_ok=True)
