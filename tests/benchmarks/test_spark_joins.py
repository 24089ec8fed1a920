"""The benchmark of joins on Spark: its files are the workload, in order, and its report says met only where it is."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
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
