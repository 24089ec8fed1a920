"""docs/dialects.md: every block of Thalweg runs on the engine, every block of Spark on batch; same rows where it says so."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"
SECTIONS = {
    part.partition("\n")[0]: dict(re.findall(r"```sql\n-- ([^\n]+)\n(.*?)```", part, re.S))
    for part in PAGE.read_text().split("\n## ")[1:]
}
SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "ad": pa.int64(), "who": pa.int64()})


def given(name: str) -> pa.Table:
    draw = random.Random(name)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    moments = sorted(start + dt.timedelta(minutes=draw.randrange(180)) for _ in range(60))
    return pa.table(
        [moments, [draw.choice((*range(12 if name == "impressions" else 9), None)) for _ in moments], list(range(60))],
        schema=SCHEMA,
    )


def answer(text: str) -> pa.Table:
    sources = {name: tw.Source(SCHEMA, time="ts") for name in ("impressions", "clicks")}
    engine = tw.Engine(text, sources, policy="chaos", seed=1)
    read = [name for name in sources if re.search(rf"\b{name}\b", text)]
    found = []
    for k in range(0, 60, 7):
        found += [engine.push(name, given(name).slice(k, 7)) for name in read]
    return pa.concat_tables([*found, engine.close()])


def bag(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in rows.to_pylist())


def test_the_page_is_read_whole() -> None:
    assert PAGE.read_text().count("```sql") == sum(map(len, SECTIONS.values()))
    assert sum("Spark, same rows" in blocks for blocks in SECTIONS.values()) >= 5
    assert all("Thalweg" in blocks for blocks in SECTIONS.values())


@pytest.mark.parametrize("section", SECTIONS)
def test_thalweg_runs(section: str) -> None:
    assert answer(SECTIONS[section]["Thalweg"]).num_rows > 0


@pytest.mark.parametrize(
    "section", [s for s, blocks in SECTIONS.items() if {"Spark", "Spark, same rows"} & blocks.keys()]
)
def test_spark_runs_on_batch(spark, section: str) -> None:
    for name in ("impressions", "clicks"):
        spark.createDataFrame(given(name)).createOrReplaceTempView(name)
    blocks = SECTIONS[section]
    same = blocks.get("Spark, same rows")
    found = spark.sql(same or blocks["Spark"]).toArrow()
    assert found.num_rows > 0
    if same:
        assert bag(found) == bag(answer(blocks["Thalweg"]))
