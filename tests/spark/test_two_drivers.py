"""Two drivers on one checkpoint: one is refused by name, and no row is written twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "second_driver.py"


def start(folder: Path) -> subprocess.Popen:
    command = [sys.executable, str(PROGRAM), str(folder / "check"), str(folder / "out")]
    errors = (folder / f"errors-{len(list(folder.glob('errors-*')))}").open("w")
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SECONDS": "150"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_one_of_two_drivers_is_refused_and_no_row_is_doubled(spark, tmp_path):
    drivers = [start(tmp_path)]
    try:
        assert drivers[0].stdout.readline() == "running\n", (tmp_path / "errors-0").read_text()[-3000:]
        drivers.append(start(tmp_path))
        ended = [(d.communicate(timeout=600)[0].splitlines() or ["nothing"])[-1] for d in drivers]
    finally:
        for driver in drivers:
            driver.kill()
    refused = [line for line in ended if line.startswith("refused:")]
    assert refused, ended
    assert set(refused) == {"refused: another driver is running a query on this checkpoint"}
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert rows.count() == rows.select("value").distinct().count() > 0
