"""The benchmark of joins on Spark: its files are the workload, in order, and its report says met only where it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from benchmarks.joins.rivals import duckdb_batch
from benchmarks.spark_joins import flink
from benchmarks.spark_joins.flink import FlinkFailed, FlinkRun
from benchmarks.spark_joins.onspark import OURS, SPARK, Run
from benchmarks.spark_joins.report import Report
from benchmarks.spark_joins.streams import EPOCH_MS, head, make


def test_files_are_the_workload_in_order(tmp_path):
    feed = make("clique", 4_000, 3, tmp_path)
    for stream in feed.workload.streams:
        parts = sorted((feed.folder / stream).iterdir(), key=lambda p: p.stat().st_mtime_ns)
        assert [p.name for p in parts] == ["part-000.parquet", "part-001.parquet", "part-002.parquet"]
        rows = [r for p in parts for r in pq.read_table(p).to_pylist()]
        expected = feed.workload.data[stream].to_pylist()
        assert [round(r.pop("ts").timestamp() * 1000) - EPOCH_MS for r in rows] == [r.pop("ts") for r in expected]
        assert rows == expected
    few = head(feed, 2)
    assert sorted(p.name for p in (few.folder / "s1").iterdir()) == ["part-000.parquet", "part-001.parquet"]


def run(who: str, batch: int, seconds: float, **more) -> Run:
    used = [float(k + 1) for k in range(8)]
    return Run(
        who, "clique", batch, 2, [9.0, 9.0] + [seconds] * 6, state_rows=[1], state_bytes=[1], cpu=8.0, used=used, **more
    )


def test_the_first_quarter_does_not_count():
    assert run(OURS, 1000, 2.0).rows_per_second == 500
    assert run(OURS, 1000, 2.0).rows_per_processor_second == 1000
    assert run(OURS, 1000, 2.0, cut_off=True).rows_per_processor_second == 1000


@pytest.mark.parametrize(("seconds", "verdict"), [(0.1, "met"), (10.0, "missed")])
def test_targets_are_met_or_missed(seconds, verdict):
    report = Report(runs=[run(OURS, 50_000, seconds), run(SPARK, 50_000, 100.0)], load=[1.0])
    told = report.verdicts()
    assert f"clique, rows/s against Spark's own joins on the same files: {100 / seconds:.1f} x at 50,000" in told[0]
    assert f"target 50 x, at the larger {verdict}" in told[0]
    assert f"target 250,000, {verdict}" in told[1]


# PyFlink.


@pytest.mark.parametrize("shape", ["clique", "common key"])
def test_flink_is_asked_the_same_question_over_the_same_rows(shape, tmp_path):
    """Its SQL and its files, given to DuckDB, have the answer that DuckDB finds for the workload in another way."""
    feed = make(shape, 60_000, 2, tmp_path)
    w = feed.workload
    folder = flink.write_csv(feed, tmp_path / "csv")
    with duckdb.connect() as db:
        for s in w.streams:
            columns = {"ms": "BIGINT", **dict.fromkeys(flink.keys_of(w, s), "INT")}
            rows = f"read_csv('{folder / s}/rows.csv', header=false, columns={columns})"
            db.execute(f"CREATE TABLE {s} AS SELECT *, make_timestamp({EPOCH_MS * 1000} + ms * 1000) AS ts FROM {rows}")
        found = db.execute(flink.query(w)).fetchone()
    assert found is not None
    assert found[0] > 100
    assert found == duckdb_batch(w, w.write(tmp_path / "parquet"))


def test_flinks_tables_are_the_columns_of_its_files(tmp_path):
    feed = make("clique", 4_000, 2, tmp_path)
    folder = flink.write_csv(feed, tmp_path / "csv", rows=3)
    told = flink.tables(feed.workload, folder)
    assert "s2 (ms BIGINT, a12 INT, a23 INT, a24 INT, ts AS" in told[3]
    assert f"'path' = 'file://{folder}/s2'" in told[3]
    first = feed.workload.data["s2"].slice(0, 3).to_pylist()
    assert (folder / "s2" / "rows.csv").read_text().split() == [",".join(map(str, r.values())) for r in first]


def lines(**whole) -> list[dict]:
    """What a job says, as `flink.talk` hands it on."""
    said = {"count": 7, "checksum": 9, "between": [5, 6], "interval_joins": 3, "version": "2.3.0", "memory": 1}
    return [
        {"job": "start", "begins": True, "cpu": 1.0},
        {"job": "start", "begins": False, "cpu": 2.0, **said, "seconds": 2.0},
        {"job": "whole", "begins": True, "cpu": 2.0},
        *([{"job": "whole", "begins": False, "cpu": 10.0, **said, "seconds": 6.0, **whole}] if whole else []),
    ]


def test_flinks_start_is_taken_off_unless_it_is_most_of_the_time(tmp_path):
    feed = make("clique", 4_000, 2, tmp_path)
    run = flink.taken(feed, 2, lines(count=8), 60.0)
    assert (run.answer, run.between, run.cpu, run.net) == ((8, 9), [5, 6], 8.0, 4.0)
    assert run.rows_per_second == 2_000
    assert flink.taken(feed, 2, lines(seconds=3.0), 60.0).net == 3.0


def test_flink_without_an_end_is_cut_off_and_with_another_join_refused(tmp_path):
    feed = make("clique", 4_000, 2, tmp_path)
    run = flink.taken(feed, 2, lines(), 60.0)
    assert run.cut_off
    assert run.seconds == 60.0
    with pytest.raises(FlinkFailed, match="planned 2 interval joins, not 3"):
        flink.taken(feed, 2, lines(interval_joins=2), 60.0)


def test_an_interpreter_without_flink_is_told_how_to_get_it(tmp_path):
    assert not flink.is_in(tmp_path / "nothing")
    assert not flink.is_in(Path(sys.executable))
    with pytest.raises(FlinkFailed, match=r"No module named 'pyflink'\nPyFlink is installed by `python3.11 -m venv"):
        flink.talk(Path(sys.executable), {}, tmp_path / "stderr.txt", 60.0)


def test_the_report_compares_with_flink_or_says_why_not():
    runs = [run(OURS, 50_000, 1.0)]
    assert "pip install apache-flink" in Report(runs=runs, load=[1.0]).verdicts()[-1]
    common = {"seconds": 60.0, "ours": 4.0, "ours_cpu": 6.0, "version": "2.3.0", "count": 1234}
    whole = FlinkRun("clique", 50_000, 4, 2, start=20.0, cpu=90.0, between=[10, 20], memory=5_000_000, **common)
    cut = FlinkRun("clique", 200_000, 3, 2, cut_off=True, **common)
    report = Report(runs=runs, flink=[whole, cut], load=[1.0])
    told = report.verdicts()[-2:]
    assert "clique, 200,000 rows, against PyFlink's interval joins: 10.0 x the rows/s, 15.0 x per processor" in told[0]
    assert "clique, 600,000 rows, against PyFlink's interval joins: more than 15.0 x the rows/s" in told[1]
    page = "\n".join(report.markdown())
    assert "| clique | thalweg | 200,000 | 4.0 | 50,000 | 33,333 | 1,234 |" in page
    assert "| clique | PyFlink | 200,000 | 40.0 (of 60.0) | 5,000 | 2,222 | 1,234 | 10 + 20 | 5 |" in page
    assert "| clique | PyFlink | 600,000 | over 60, cut off | under 10,000 |" in page


@pytest.mark.long
@pytest.mark.skipif("FLINK_PYTHON" not in os.environ, reason="FLINK_PYTHON names no interpreter with PyFlink")
@pytest.mark.parametrize("shape", ["clique", "common key"])
def test_flink_finds_what_duckdb_finds(shape, tmp_path):
    feed = make(shape, 60_000, 1, tmp_path)
    assert flink.is_in(Path(os.environ["FLINK_PYTHON"]))
    found = flink.run(Path(os.environ["FLINK_PYTHON"]), feed, tmp_path / "flink", limit=250.0)
    assert found.count > 100
    assert found.answer == duckdb_batch(feed.workload, feed.workload.write(tmp_path / "parquet"))
