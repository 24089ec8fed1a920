"""Exactly once for joins: killed drivers, executors and workers, failing tasks, replayed batches. State, offsets and
answers stay together: no row is lost and none doubled."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from tests.spark import joinshapes
from tests.spark.joinshapes import SHAPES
from tests.spark.test_sql import asked, drain

PROGRAM = Path(__file__).parent / "programs" / "stream_join.py"
SAID = {"spark": re.compile("the state was to move in batch|the checkpoint is cut into"), "files": re.compile("(?!)")}
"""What a start says that met a batch of other cells, which a killed driver had written: the next start moves its state.
State in files moves at once."""
CHAIN = "a chain over decimals and words"


def start(
    folder: Path,
    name: str,
    cells: int,
    policy: str,
    master: str = "local[2]",
    faults: bool = False,
    moves: bool = False,
    state: str = "spark",
) -> subprocess.Popen:
    arguments = [str(folder / d) for d in ("in", "out", "check")] + [master, name, str(cells), policy]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "STATE": state}
    if moves:
        environment |= {"MOVES": "yes", "SNAPSHOTS": "yes"}
    if faults:
        (folder / "faults").mkdir(exist_ok=True)
        environment["FAULTS"] = str(folder / "faults")
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=environment,
    )  # fmt: skip


def finish(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err[-3000:]
    assert "done" in out
    return out


def rows_of(spark, folder: Path) -> list[tuple]:
    return sorted(tuple(r) for r in spark.read.parquet(str(folder / "out")).collect())


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


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # a worker that has just ended
        return []


def kill_and_restart(
    folder: Path, name: str, kills: int, files: int, seed: int, cells: int | Sequence[int] = 2,
    masters: Sequence[str] = ("local[2]",), **more,
) -> int:  # fmt: skip
    """Returns how many times the driver was killed in mid-run. Several numbers of cells take turns."""
    joinshapes.write(folder / "in", files=files)
    draw, said = random.Random(seed), SAID[more.get("state", "spark")]
    killed = 0
    turns = itertools.cycle(masters)
    cuts = itertools.cycle([cells] if isinstance(cells, int) else cells)
    while killed < kills:
        process = start(folder, name, next(cuts), "auto", next(turns), **more)
        if until_batch(process, draw.randint(1, 2)):
            if said.search(process.communicate()[1]):
                continue
            break
        try:
            process.wait(timeout=draw.uniform(0, 1.5))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
    last = next(cuts), "auto", next(turns)
    out, err = start(folder, name, *last, **more).communicate(timeout=280)
    if said.search(err):
        finish(start(folder, name, *last, **more))
    else:
        assert "done" in out, err[-3000:]
    return killed


def check_killed(spark, folder: Path, name: str, **how) -> int:
    """Kill and restart a join; its rows are DuckDB's. Returns how many times the driver was killed."""
    killed = kill_and_restart(folder, name, **how)
    assert rows_of(spark, folder) == joinshapes.answer(SHAPES[name]), str(how)
    return killed


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("masters", "state", "kills"),
    [
        (("local[2,4]",), "spark", 2),
        (("local[2,4]",), "files", 2),
        (("local[2,4]", "local-cluster[2,1,1024]", "local[1,4]"), "spark", 2),
        (("local[2,4]", "local-cluster[2,1,1024]", "local[1,4]"), "files", 2),
    ],
)
def test_killed_with_a_failing_task_and_a_dying_worker(spark, tmp_path, masters, state, kills):
    """One run through everything: a cell's task fails once, its worker dies once, the driver is killed; in the long run
    the query goes on in two processes and then on one core."""
    killed = check_killed(
        spark, tmp_path, CHAIN, kills=kills, files=6, seed=31, masters=masters, faults=True, state=state
    )
    assert killed == kills
    assert sorted(p.name for p in (tmp_path / "faults").iterdir()) == ["died", "failed"]


@pytest.mark.parametrize("state", ["spark", "files"])
def test_a_batch_replayed_after_its_output_was_written(spark, tmp_path, state):
    """Without the record that it was committed, the last batch runs again from the state before it: same rows, also
    where the session has another number of partitions by then."""
    joinshapes.write(tmp_path / "in", files=3)
    written: dict[int, list[list[tuple]]] = {}
    where = str(tmp_path / "state") if state == "files" else state

    def sink(rows, batch):
        written.setdefault(batch, []).append(sorted(tuple(r) for r in rows.collect()))

    def run():
        df = asked(spark, SHAPES[CHAIN], tmp_path / "in", cells=2, name="replayed", policy="chaos", state=where)
        writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "check"))
        assert writer.trigger(availableNow=True).start().awaitTermination(240)

    run()
    assert sorted(written) == [0, 1]
    for part in (tmp_path / "check" / "commits").glob("*1*"):
        part.unlink()
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    try:
        run()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert [len(v) for v in written.values()] == [1, 2]
    assert written[1][0] == written[1][1]
    rows = sorted(r for attempts in written.values() for r in attempts[0])
    assert rows == joinshapes.answer(SHAPES[CHAIN])


class Stages:
    """Two streams whose files come bit by bit, joined by one driver after another; batches can be undone."""

    def __init__(self, spark, folder: Path, state: str) -> None:
        self.spark, self.folder, self.state = spark, folder, state
        joinshapes.write(folder / "in", files=8)
        self.files = [sorted(path.glob("*.parquet")) for path in sorted((folder / "in").iterdir())]
        for path in (p for own in self.files for p in own):
            path.rename(path.with_name("_" + path.name))  # Spark reads no such file

    def run(self, stop: int, cells: int, **more) -> None:
        """Join what the first files bring."""
        for path in (p for own in self.files for p in own[:stop]):
            if not path.exists():
                path.with_name("_" + path.name).rename(path)
        where = str(self.folder / "state") if self.state == "files" else "spark"
        check = str(self.folder / "check")
        shape = SHAPES["two streams"]
        df = asked(
            self.spark, shape, self.folder / "in", cells=cells, name=f"cut{cells}",
            **{"checkpoint": check, "state": where, **more},
        )  # fmt: skip
        drain(self.spark, df, self.folder)

    def undo(self, *logs: str) -> None:
        """As if the driver had died before it wrote these logs of its last batch."""
        for log in (self.folder / name for name in logs):
            last = max(int(p.name) for p in log.iterdir() if p.name.isdigit())
            (log / str(last)).unlink()
            (log / f".{last}.crc").unlink(missing_ok=True)


COMMIT, SINK = "check/commits", "out/_spark_metadata"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@pytest.fixture
def snapshots(spark):
    """Makes Spark write its store as a snapshot at every batch, or as changes only."""
    before = spark.conf.get(CHANGELOG)
    yield lambda every: spark.conf.set(CHANGELOG, "false" if every else "true")
    spark.conf.set(CHANGELOG, before)


@pytest.mark.parametrize(
    ("first", "killed", "then", "last"),
    [
        pytest.param(2, 2, 3, 1, id="plain"),
        pytest.param(2, 3, 3, 1, id="moves", marks=pytest.mark.long),
        pytest.param(3, 1, 2, 2, id="fewer", marks=pytest.mark.long),
    ],
)
def test_the_snapshot_of_a_batch_that_was_not_committed_is_never_taken_up(
    spark, tmp_path, snapshots, first, killed, then, last
):
    """A batch wrote a snapshot of its state and was not committed; another with other cells took its place."""
    stages = Stages(spark, tmp_path, "spark")
    snapshots(False)
    stages.run(3, first)
    stages.run(4, killed)
    add_snapshots(stages, killed, snapshots)
    stages.undo(COMMIT, SINK)
    left = {p.name for p in (tmp_path / "check" / "state").rglob("*.zip")}
    assert left, "snapshots that no committed batch has written"
    stages.run(6, then)
    stages.run(8, last)
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["two streams"])


def add_snapshots(stages: Stages, cells: int, snapshots) -> None:
    """Do the last batch again with a snapshot of its state beside its changes."""
    kept = {p: p.read_bytes() for p in (stages.folder / "check" / "state").rglob("*.changelog")}
    stages.undo(COMMIT, SINK)
    snapshots(True)
    stages.run(4, cells)
    snapshots(False)
    for path, content in kept.items():
        path.write_bytes(content)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("state", ["spark", "files"])
@pytest.mark.parametrize(
    ("killed", "then"),
    [(3, 1), pytest.param(3, 2, marks=pytest.mark.long), pytest.param(2, 3, marks=pytest.mark.long)],
)
def test_a_batch_that_the_sink_had_written_is_not_run_again_by_another_cut(spark, tmp_path, state, killed, then):
    """The driver dies between the sink's log and its own: a file sink skips the batch, and its state is moved. With Spark's
    store a start says so and ends, and the next one goes on."""
    stages = Stages(spark, tmp_path, state)
    stages.run(3, 2)
    stages.run(4, killed)
    stages.undo(COMMIT)
    if state == "spark":
        with pytest.raises(StreamingQueryException, match=SAID[state]):
            stages.run(6, then)
    stages.run(6, then)
    stages.run(8, 2)
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["two streams"])


def test_state_in_files_moves_from_the_committed_cut_though_a_killed_batch_left_another(spark, tmp_path):
    """Cells of the killed cut have a version of the very batch that ran again under the old cut: it is never read."""
    stages = Stages(spark, tmp_path, "files")
    stages.run(3, 2)
    stages.run(4, 3)
    stages.undo(COMMIT, SINK)
    stages.run(4, 2)
    stages.run(6, 3, checkpoint=None)  # cells move state in files by themselves
    stages.run(8, 4)
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["two streams"])


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("name", "state"), [("two streams", "spark"), ("two streams", "files"), ("a star with a table", "files")]
)
def test_killed_twenty_times(spark, tmp_path, name, state):
    assert check_killed(spark, tmp_path, name, kills=20, files=64, seed=32, state=state) == 20


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("name", "state"), [("two streams", "spark"), ("two streams", "files"), ("a star with a table", "spark")]
)
def test_killed_while_the_state_moves_to_other_cells(spark, tmp_path, name, state):
    """Every start has another number of cells, and most are killed in or soon after the batch that moves the state."""
    how = {"kills": 8, "files": 40, "seed": 34, "cells": (2, 3, 1, 4), "moves": True, "state": state}
    assert check_killed(spark, tmp_path, name, **how) == 8


@pytest.mark.long
@pytest.mark.timeout(600)
def test_row_windows_killed(spark, tmp_path):
    check_killed(spark, tmp_path, "the last rows of each key", kills=3, files=8, seed=33)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("policy", ["written", "auto", "chaos"])
@pytest.mark.parametrize("cells", [1, 3])
def test_in_several_processes(spark, tmp_path, policy, cells):
    joinshapes.write(tmp_path / "in", files=3)
    finish(start(tmp_path, "a clique of four", cells, policy, "local-cluster[2,1,1024]"))
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["a clique of four"])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHAPES)
def test_one_core(spark, tmp_path, name):
    joinshapes.write(tmp_path / "in", files=3)
    finish(start(tmp_path, name, 2, "auto", "local[1]"))
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES[name])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_over_connect(spark, tmp_path):
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    joinshapes.write(tmp_path / "in", files=3)
    out = finish(start(tmp_path, "two streams", 2, "auto", "connect:local[2]"))
    expected = joinshapes.answer(SHAPES["two streams"])
    assert rows_of(spark, tmp_path) == expected
    assert f"results {2 * len(expected)}" in out  # a line of statistics for each of two inputs


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_executor_killed(spark, tmp_path):
    joinshapes.write(tmp_path / "in", files=6)
    process = start(tmp_path, "two streams", 2, "auto", "local-cluster[2,1,1024]")
    assert not until_batch(process, 1)
    executors = [
        p for p in psutil.Process(process.pid).children(recursive=True)
        if any("CoarseGrainedExecutorBackend" in part for part in command(p))
    ]  # fmt: skip
    assert len(executors) == 2
    executors[0].kill()
    finish(process)
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES["two streams"])
