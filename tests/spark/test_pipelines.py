"""The example of a declarative pipeline, run by Spark's own command, against DuckDB on the same files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyspark
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_pipeline_makes_its_tables(tmp_path):
    place = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("state", "spark-warehouse", "metastore_db"))
    spec = place / "spark-pipeline.yml"
    text = spec.read_text()
    assert "file:///tmp/thalweg-pipeline" in text
    spec.write_text(text.replace("file:///tmp/thalweg-pipeline", (tmp_path / "storage").as_uri()))
    home = Path(pyspark.__file__).parent
    env = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    command = ["bash", str(home / "bin" / "spark-pipelines"), "run", "--spec", str(spec)]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stderr[-3000:]

    def table(name):
        return duckdb.sql(f"SELECT * FROM '{place}/spark-warehouse/{name}/*.parquet'").fetchall()

    rows = {
        name: f"SELECT CAST(ts AS TIMESTAMP) AS ts, * EXCLUDE (ts) FROM '{place}/data/{name}/*.json'"
        for name in ("departures", "weather")
    }
    stormy = duckdb.sql(f"SELECT count(*) FROM ({rows['weather']}) WHERE wind > 30").fetchall()[0][0]
    assert len(table("stormy")) == stormy
    joined = duckdb.sql(
        f"SELECT f.flight, w.wind FROM ({rows['departures']}) AS f, ({rows['weather']}) AS w WHERE f.origin = w.origin "
        "AND w.wind > 30 AND abs(epoch(f.ts) - epoch(w.ts)) <= 3600"
    ).fetchall()
    found = table("rough_departures")
    assert len(found) > 20
    assert sorted(found) == sorted(joined)
