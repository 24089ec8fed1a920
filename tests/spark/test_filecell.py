"""Cells whose state lies in files: the tasks themselves through replays, against DuckDB; then on Spark."""

from __future__ import annotations

import json
import random
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from tests.spark import joinshapes, test_cell
from tests.spark.joinshapes import NAMES, SHAPES
from tests.spark.test_cell import Cluster
from tests.spark.test_filemoves import Drivers
from tests.spark.test_sql import asked, asked_stream, drain, values

import thalweg as tw
from thalweg.errors import DefinitionError
from thalweg.spark import filecell
from thalweg.spark.filecell import CONF, FileCell, folder_for
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


@pytest.mark.parametrize("after", [2, 3])
def test_a_tables_first_lines_all_count_and_count_once(after, tmp_path):
    """Whatever numbers their tasks gave them; and not when Spark reads them again, as from a state folder that was copied."""
    name = "a star with a table"
    drivers = Drivers(name, tmp_path)
    first, second = drivers.start(2), drivers.start(after)

    def with_table(driver, table):
        pack = driver.pack
        lines = [Row(**(r.asDict() | {"part": 0})) for r in pack(("t",), table, 3) if r.blob is not None]
        assert len(lines) > len({r.key for r in lines})
        driver.pack = lambda aliases, rows: pack(aliases, rows) + (lines if "a" in aliases else [])

    with_table(first, NAMES)
    with_table(second, pa.concat_tables([NAMES.slice(0, 2)] * 6))
    for driver in (first, first, second, second, second):
        drivers.batch(driver)
    assert drivers.all(first, second) == joinshapes.answer(SHAPES[name])


@pytest.mark.parametrize("empty", [[0], [1, 2], [2, 3]])
def test_a_batch_without_partitions_leaves_every_cell_its_state(empty, tmp_path, monkeypatch):
    """Also if the query has another cut by then, and though each task does it for all cells."""
    drivers = Drivers("two streams", tmp_path)
    two, three = drivers.start(2), drivers.start(3)
    monkeypatch.setattr(filecell, "query_id", lambda: "state")
    monkeypatch.setattr(filecell, "batch_number", lambda: drivers.number)
    for number in range(5 + len(empty)):
        driver = two if number < 3 else three
        if number not in empty:
            drivers.batch(driver)
            continue
        for _ in range(2):
            task = replace(driver.task, folder=str(tmp_path))
            assert not list(FileCell(task, 100, pa.schema([])).run(iter(())))
        drivers.tables = {
            s: pa.concat_tables([t.slice(0, 80 * number), t.slice(0, 80), t.slice(80 * number)])
            for s, t in drivers.tables.items()
        }  # Drivers takes the rows of a batch by its number
        drivers.number += 1
    assert drivers.all(two, three) == joinshapes.answer(SHAPES["two streams"])


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


@pytest.mark.timeout(300)
def test_a_table_of_more_partitions_than_cells_moves_right_after_the_first_batch(spark, tmp_path):
    """No row is lost, and rows that the table has by then don't count."""
    shape = SHAPES["a star with a table"]
    joinshapes.write(tmp_path / "all", files=5)
    for count, cells, names in ((2, 2, NAMES), (5, 3, NAMES.slice(0, 2))):
        for stream in shape.streams:
            (tmp_path / "in" / stream).mkdir(parents=True, exist_ok=True)
            for file in sorted((tmp_path / "all" / stream).glob("*.parquet"))[:count]:
                shutil.copy2(file, tmp_path / "in" / stream)
        inputs = {n: asked_stream(spark, tmp_path / "in" / n) for n in shape.streams}
        df = tw.sql(shape.ours, cells=cells, name="with parts of a table", state=str(tmp_path / "state"), **inputs,
                    names=spark.createDataFrame(names).repartition(6, "name"))  # fmt: skip
        rows = values(drain(spark, df, tmp_path))
    assert rows == joinshapes.answer(shape)


@pytest.mark.timeout(300)
def test_a_batch_of_empty_files_is_not_the_end_of_a_query(spark, tmp_path):
    shape = SHAPES["two streams"]
    tables = {s: joinshapes.rows(s) for s in shape.streams}
    for stage, (start, end) in enumerate([(0, 200), (0, 0), (200, 400)]):
        inputs = {}
        for name, rows in tables.items():
            (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
            lines = [json.dumps({"id": r[0], "ts": r[1].isoformat(), "k": r[2]}) + "\n" for r in rows[start:end]]
            (tmp_path / "in" / name / f"{stage}.json").write_text("".join(lines))
            df = spark.readStream.schema("id long, ts timestamp, k long").json(str(tmp_path / "in" / name))
            inputs[name] = tw.stream(df, time="ts", lateness="3 seconds")
        df = tw.sql(shape.ours, cells=2, name="empty files", state=str(tmp_path / "state"), **inputs)
        found = values(drain(spark, df, tmp_path))
    (query,) = (tmp_path / "state").iterdir()
    assert all((cell / "1.json").exists() for cell in query.iterdir())
    assert set(found) <= set(joinshapes.answer(shape))
    across = [(x, y) for x, y in found if (x < 200) != (y < 200)]
    assert across, "pairs over the empty batch"
