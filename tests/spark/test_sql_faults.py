"""Exactly once for joins: killed drivers, killed workers, several processes. State, offsets and answers stay
together."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.spark import joinshapes
from tests.spark.joinshapes import SHAPES

PROGRAM = Path(__file__).parent / "programs" / "stream_join.py"


def start(folder: Path, name: str, cells: int, policy: str, master: str = "local[2]") -> subprocess.Popen:
    arguments = [str(folder / d) for d in ("in", "out", "check")] + [master, name, str(cells), policy]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


def finish(process: subprocess.Popen) -> None:
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err[-3000:]
    assert "done" in out


def rows_of(spark, folder: Path) -> list[tuple]:
    return sorted(tuple(r)[:-1] for r in spark.read.parquet(str(folder / "out")).collect())


def until_batch(process: subprocess.Popen, count: int) -> bool:
    """Read until so many micro-batches are committed; True if the program ended before."""
    seen = 0
    for line in process.stdout:
        if line.startswith("done"):
            return True
        seen += line.startswith("batch")
        if seen >= count:
            return False
    return True


def kill_and_restart(spark, folder: Path, name: str, kills: int, files: int, seed: int, cells: int = 2) -> None:
    joinshapes.write(folder / "in", files=files)
    draw = random.Random(seed)
    for _ in range(kills):
        process = start(folder, name, cells, "auto")
        if until_batch(process, draw.randint(1, 2)):
            break
        try:
            process.wait(timeout=draw.uniform(0, 1.5))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finish(start(folder, name, cells, "auto"))
    assert rows_of(spark, folder) == joinshapes.answer(SHAPES[name]), f"seed {seed}"


def test_killed_twice_and_restarted(spark, tmp_path):
    kill_and_restart(spark, tmp_path, "a chain over decimals and words", kills=2, files=6, seed=31)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_killed_twenty_times(spark, tmp_path):
    kill_and_restart(spark, tmp_path, "two streams", kills=20, files=45, seed=32)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_row_windows_killed(spark, tmp_path):
    kill_and_restart(spark, tmp_path, "the last rows of each key", kills=3, files=8, seed=33)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["written", "auto", "chaos"])
def test_in_several_processes(spark, tmp_path, policy):
    joinshapes.write(tmp_path / "in", files=3)
    finish(start(tmp_path, "a clique of four", 2, policy, "local-cluster[2,1,1024]"))
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["a clique of four"])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_executor_killed(spark, tmp_path):
    joinshapes.write(tmp_path / "in", files=6)
    process = start(tmp_path, "two streams", 2, "auto", "local-cluster[2,1,1024]")
    assert not until_batch(process, 1)
    executors = [
        p for p in psutil.Process(process.pid).children(recursive=True)
        if any("CoarseGrainedExecutorBackend" in part for part in p.cmdline())
    ]  # fmt: skip
    assert len(executors) == 2
    executors[0].kill()
    finish(process)
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["two streams"])
