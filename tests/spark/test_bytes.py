"""Chunks by bytes: long texts and many columns travel in parts that fit into memory and into an Arrow array."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import thalweg as tw
from thalweg.execute import sheet
from thalweg.spark import cell, pack
from thalweg.spark.keys import cell_keys
from thalweg.spark.onward import Onward
from thalweg.state.store import read_ipc

ROWS = 40


def numbered(first: int, rows: int, text: int) -> pa.Table:
    return pa.table({"ts": range(first, first + rows), "k": [1] * rows, "s": [f"{i:0{text}}" for i in range(rows)]})


def test_results_leave_in_parts_by_their_bytes(monkeypatch):
    monkeypatch.setattr(sheet, "PART_BYTES", 1000)
    made = numbered(0, ROWS, 100)
    source = tw.Source(made.schema, time="ts", unit="s")
    text = "SELECT a.s, b.ts AS t, b.s AS other, a.ts FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    engine = tw.Engine(text, {"a": source, "b": source})
    engine.push("a", made)
    parts: list[pa.RecordBatch] = []
    engine.push("b", made, into=parts.append)
    assert max(len(p) for p in parts) <= 10
    found = pa.Table.from_batches(parts).to_pylist()
    assert sorted((int(r["s"]), r["ts"], int(r["other"]), r["t"]) for r in found) == [
        (i, i, j, j) for i in range(ROWS) for j in range(ROWS)
    ]
    monkeypatch.setattr(sheet, "PART_BYTES", 10)  # less than one text: each goes alone
    assert {len(p) for p in engine.push("a", numbered(ROWS, 2, 100)).to_batches()} == {1}


def test_results_of_many_bytes_wait_on_disk_in_their_order(monkeypatch):
    monkeypatch.setattr(cell, "PART_BYTES", 1000)
    results = cell.Results()
    for i in range(50):
        results.add(pa.record_batch({"i": [i], "s": ["x" * 400]}))
        assert sum(b.nbytes for b in results.batches) < 1000
    assert results.count == 50
    tables = list(results.tables())
    assert len(tables) > 10
    assert pa.concat_tables(tables)["i"].to_pylist() == list(range(50))


def test_rows_for_a_cell_are_packedby_bytes(monkeypatch):
    monkeypatch.setattr(pack, "PART_BYTES", 1000)
    batches = [pa.record_batch({"i": [i], "s": ["x" * 400]}) for i in range(9)]
    assert [len(some) for some in pack.by_bytes(batches)] == [2, 2, 2, 2, 1]
    assert [len(some) for some in pack.by_bytes([])] == [0]


def test_what_goes_to_cells_above_is_cut_by_bytes(monkeypatch):
    monkeypatch.setattr(pack, "PART_BYTES", 1000)
    batches = [pa.record_batch({"i": [i], "s": ["x" * 400]}) for i in range(9)]
    lines = list(Onward(2, "i").lines(5, batches, 7, [], "told"))
    found = [read_ipc(line[5]) for line in lines if line[5] is not None]
    assert len(found) >= 5
    assert max(t.nbytes for t in found) < 1000
    assert sorted(pa.concat_tables(found)["i"].to_pylist()) == list(range(9))
    assert len({line[:3] for line in lines}) == len(lines), "each has a number of its own"
    assert {line[0] for line in lines if line[1] == "cell 5"} == set(cell_keys(2))
    assert [line[0] for line in Onward(2, "i").lines(5, [], 7, [], "told")] == [*cell_keys(2), 0]


def test_five_hundred_columns(spark, tmp_path):
    names = [f"c{n}" for n in range(500)]
    wide = spark.range(300).select(
        "id", F.timestamp_seconds("id").alias("t"), *[(F.col("id") + n).alias(c) for n, c in enumerate(names)]
    )
    b = spark.range(300).select("id", F.timestamp_seconds("id").alias("t"))
    text = "SELECT a.* FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.id = b.id AND a.c7 < 200 + b.id"
    found = tw.sql(text, a=tw.stream(wide, "t"), b=tw.stream(b, "t"))
    assert len(found.columns) == 502
    assert found.agg(F.sum("c499"), F.sum("c0"), F.count("*")).collect() == [(300 * 499 + 44850, 44850, 300)]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_gigabytes_of_results(spark):
    """A text of 1 MB that 2,600 rows match: more than one Arrow array holds."""
    a = spark.range(1).selectExpr("id", "repeat('x', 1 << 20) AS s", "timestamp_seconds(id) AS t")
    b = spark.range(2600).selectExpr("0L AS id", "id AS n", "timestamp_seconds(0) AS t")
    text = "SELECT a.s, b.n FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.id = b.id"
    found = tw.sql(text, a=tw.stream(a, "t"), b=tw.stream(b, "t"))
    told = found.agg(F.sum(F.length("s")), F.sum("n"), F.count("*")).collect()
    assert told == [(2600 << 20, 2600 * 2599 // 2, 2600)]
