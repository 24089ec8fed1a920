"""Cells whose state lies in files: the tasks themselves through replays, against DuckDB; then on Spark."""

from __future__ import annotations

import random
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from tests.spark import joinshapes, test_cell
from tests.spark.joinshapes import NAMES, SHAPES
from tests.spark.test_cell import Cluster
from tests.spark.test_sql import asked, asked_stream, drain, values

import thalweg as tw
from thalweg.errors import DefinitionError
from thalweg.spark.filecell import CONF, folder_for
from thalweg.state.versions import Versions


class FileCluster(Cluster):
    """The same batches; every cell reads the version before and writes its own."""

    number = 0

    def batch(self, streams: dict[str, pa.Table]) -> None:
        rows = [r for g in self.groups.values() for r in self.pack(g, streams[self.sources[g[0]]])]
        for key in {r.key for r in rows}:
            own = [r for r in rows if r.key == key]
            attempts = []
            while not attempts or self.draw.random() < 0.3:  # retried, replayed, or in a second copy
                store = Versions(Path(self.folder) / "state" / str(key), self.number)
                attempts.append(sorted(self.run(key, own, store), key=repr))
                if self.draw.random() < 0.2:
                    attempts.pop()  # killed before it committed
                    continue
                store.commit()
            assert all(a == attempts[0] for a in attempts)
            self.results += attempts[0]
        self.number += 1


@pytest.mark.parametrize(
    "name", ["two streams", "a clique of four", "the last rows of each key", "a stream with itself"]
)
def test_cells_give_duckdbs_answer_through_replays(name, tmp_path, monkeypatch):
    monkeypatch.setattr(test_cell, "Cluster", FileCluster)
    policy = random.Random(name).choice(["auto", "chaos", "written"])
    made = test_cell.run(name, 2, policy, tmp_path)
    needed = [c.name for c in made.task.engine().blocks[0].shape.needed]
    ids = [k for k, n in enumerate(needed) if n == "id"]
    assert sorted(tuple(row[k] for k in ids) for row in made.results) == sorted(joinshapes.answer(SHAPES[name]))
    assert {r.loaded for r in made.reports} >= {"new", "state"}


def run(spark, folder: Path, files: int, state: str) -> list[tuple]:
    """Join what is there so far."""
    df = asked(spark, SHAPES["two streams"], folder / "in", cells=2, name="in files", state=state)
    writer = df.writeStream.option("checkpointLocation", str(folder / "check"))
    assert writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination(240)
    return sorted(tuple(r) for r in spark.read.parquet(str(folder / "out")).collect())


@pytest.mark.timeout(300)
def test_a_join_restarts_from_its_files_and_says_which_are_missing(spark, tmp_path):
    """The first two thirds, then the rest from the state; then without it."""
    state = tmp_path / "state"
    joinshapes.write(tmp_path / "all", files=3)
    for stage in (2, 3):
        for stream in SHAPES["two streams"].streams:
            (tmp_path / "in" / stream).mkdir(parents=True, exist_ok=True)
            for file in sorted((tmp_path / "all" / stream).glob("*.parquet"))[:stage]:
                shutil.copy2(file, tmp_path / "in" / stream)
        rows = run(spark, tmp_path, stage, str(state))
    assert rows == joinshapes.answer(SHAPES["two streams"])
    seen = tw.query("in files").stats()
    assert int(seen.results.sum()) > 0
    (query,) = state.iterdir()
    assert len(list(query.iterdir())) == 2, "a folder for each cell"
    shutil.rmtree(state)
    for stream in SHAPES["two streams"].streams:
        first = sorted((tmp_path / "all" / stream).glob("*.parquet"))[0]
        shutil.copy2(first, tmp_path / "in" / stream / "again.parquet")
    with pytest.raises(StreamingQueryException, match="no version at all"):
        run(spark, tmp_path, 3, str(state))


def test_where_the_state_lies(spark):
    assert folder_for(spark, "spark", None) is None
    assert folder_for(spark, "/some/folder", None) == "/some/folder"
    assert folder_for(spark, "file:///a%20folder", None) == "/a folder"
    assert folder_for(spark, "files", "/check") == "/check/thalweg-state"
    with pytest.raises(DefinitionError, match="needs a folder"):
        folder_for(spark, "files", None)
    with pytest.raises(DefinitionError, match="no absolute path"):
        folder_for(spark, "hdfs://host/folder", None)
    with pytest.raises(DefinitionError, match="no absolute path"):
        folder_for(spark, "file", None)
    spark.conf.set(CONF, "/from/the/session")
    try:
        assert folder_for(spark, "files", "/check") == "/from/the/session"
    finally:
        spark.conf.unset(CONF)


@pytest.mark.timeout(300)
def test_a_table_counts_as_the_first_batch_read_it(spark, tmp_path):
    """Also after a restart, when it holds other rows. It is read once per start, not in every batch."""
    shape, reads, seen = SHAPES["a star with a table"], tmp_path / "reads", []
    reads.mkdir()

    def counted(batches):
        (reads / uuid.uuid4().hex).touch()
        yield from batches

    joinshapes.write(tmp_path / "all", files=5)
    for count, names in ((4, NAMES), (5, NAMES.slice(0, 2))):
        for stream in shape.streams:
            (tmp_path / "in" / stream).mkdir(parents=True, exist_ok=True)
            for file in sorted((tmp_path / "all" / stream).glob("*.parquet"))[:count]:
                shutil.copy2(file, tmp_path / "in" / stream)
        table = spark.createDataFrame(names).coalesce(1)
        inputs = {n: asked_stream(spark, tmp_path / "in" / n) for n in shape.streams}
        df = tw.sql(shape.ours, cells=2, name="with a table", state=str(tmp_path / "state"), **inputs,
                    names=table.mapInArrow(counted, table.schema))  # fmt: skip
        rows = values(drain(spark, df, tmp_path))
        seen.append(len(list(reads.iterdir())))
    assert rows == joinshapes.answer(shape)
    assert len(list((tmp_path / "check" / "offsets").glob("[0-9]*"))) == 3, "two batches and one more"
    assert seen == [1, 2]
