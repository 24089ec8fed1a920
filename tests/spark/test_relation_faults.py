"""Exactly once for whole queries: outer joins, changes of groups and snapshots of relations, through killed drivers,
failing tasks, dying workers and replayed batches, in one process and in several. No row is lost and none doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark import cloudpickle
from tests.spark import joinshapes
from tests.spark.relationshapes import ANSWERS, CHANGES
from tests.spark.test_relations import bag, engine_s
from tests.spark.test_sql import asked
from tests.spark.test_sql_faults import finish, kill_and_restart, start

from thalweg.errors import CheckpointError

SHAPES = ANSWERS | CHANGES
QUERIES = ["left", "full", "count by a join key", "count by another column", "every"]
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module", autouse=True)
def _shapes_by_value():
    cloudpickle.register_pickle_by_value(joinshapes)
    yield
    cloudpickle.unregister_pickle_by_value(joinshapes)


def wanted(name: str) -> Counter:
    """DuckDB's rows, or the engine's changes."""
    if name in ANSWERS:
        return bag(joinshapes.answer(ANSWERS[name]))
    return engine_s(CHANGES[name], finite=False)


def near(rows: Counter) -> Counter:
    """Without the row far ahead that lets all others come out."""
    return Counter({r: n for r, n in rows.items() if 10**6 not in r})


def written(spark, folder: Path) -> Counter:
    return near(bag(spark.read.parquet(str(folder / "out")).collect()))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("masters", [("local[2,4]",), (CLUSTER, "local[2,4]", CLUSTER)], ids=["local", "cluster"])
@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("name", QUERIES)
def test_killed_twice_with_a_failing_task_and_a_dying_worker(spark, tmp_path, name, cells, masters):
    killed = kill_and_restart(tmp_path, name, kills=2, files=6, seed=41, cells=cells, masters=masters, faults=True)
    assert killed == 2
    assert sorted(p.name for p in (tmp_path / "faults").iterdir()) == ["died", "failed"]
    assert written(spark, tmp_path) == wanted(name)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["anti", "windows of time", "except"])
def test_in_several_processes(spark, tmp_path, name):
    joinshapes.write(tmp_path / "in", files=3)
    finish(start(tmp_path, name, 3, "chaos", CLUSTER))
    assert written(spark, tmp_path) == wanted(name)


def replayed(spark, folder: Path, name: str, cells: int, **options) -> None:
    """Run a query, forget that its last batch was committed, and run it again."""
    joinshapes.write(folder / "in", files=3)
    found: dict[int, list[Counter]] = {}

    def run():
        df = asked(spark, SHAPES[name], folder / "in", cells=cells, name=f"again {name}", policy="chaos", **options)
        writer = df.writeStream.foreachBatch(lambda rows, n: found.setdefault(n, []).append(bag(rows.collect())))
        writer = writer.option("checkpointLocation", str(folder / "check"))
        assert writer.trigger(availableNow=True).start().awaitTermination(240)

    run()
    for part in (folder / "check" / "commits").glob("*1*"):
        part.unlink()
    run()
    assert [len(found[n]) for n in sorted(found)] == [1, 2]
    assert found[1][0] == found[1][1]
    assert near(found[0][0] + found[1][0]) == wanted(name)
    assert found[1][0]


def test_a_batch_replayed_after_its_output_was_written(spark, tmp_path):
    """And its groups stay in their cells: another number of cells is refused before anything runs."""
    name = "count by a join key"
    replayed(spark, tmp_path, name, 2)
    with pytest.raises(CheckpointError, match="cells"):
        asked(spark, SHAPES[name], tmp_path / "in", cells=3, name="other cells", checkpoint=str(tmp_path / "check"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", ["left", "exists behind a join", pytest.param("count by a join key", marks=pytest.mark.long)]
)
def test_a_batch_replayed_with_state_in_files(spark, tmp_path, name):
    replayed(spark, tmp_path, name, 2, state=str(tmp_path / "state"))
    assert list((tmp_path / "state").rglob("*")), "the state lies there"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("name", QUERIES)
def test_batches_replayed(spark, tmp_path, name, cells):
    replayed(spark, tmp_path, name, cells)
