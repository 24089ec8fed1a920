"""What one sees of a join on Spark and what one can order: stages, state, skew, rates, freeze; and every way to run
it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import joinshapes
from tests.spark.joinshapes import DDL, LATENESS, SHAPES
from tests.spark.test_sql import drain, values

import thalweg as tw
from thalweg.spark.keys import cell_keys, murmur3, tasks
from thalweg.watch.stages import STAGES

PAIRS = SHAPES["two streams"]


def stream(spark, folder, **options):
    df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return tw.stream(df, time="ts", lateness=LATENESS, **options)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """All of s1 and s2 in one file each, so that a query over them has one batch."""
    made = tmp_path_factory.mktemp("one")
    for s in ("s1", "s2"):
        (made / s).mkdir()
        pq.write_table(joinshapes.table(s), made / s / "all.parquet")
    return made


def test_freeze_pins_orders_and_thaw_gives_them_back(spark, tmp_path):
    shape = SHAPES["a chain over decimals and words"]
    joinshapes.write(tmp_path / "later", files=3)
    parts = sorted(p.name for p in (tmp_path / "later" / "s1").iterdir())

    def run(*files):
        for s in shape.streams:
            (tmp_path / "in" / s).mkdir(parents=True, exist_ok=True)
            for name in files:
                (tmp_path / "later" / s / name).rename(tmp_path / "in" / s / name)
        inputs = {s: stream(spark, tmp_path / "in" / s) for s in shape.streams}
        df = tw.sql(shape.ours, name="pinned", policy="chaos", seed=5, cells=1, **inputs)
        got = values(drain(spark, df, tmp_path))
        return tw.query("pinned"), got

    query, _ = run(*parts[:2])
    assert len(query.stats().query("input == 'b'").route.unique()) > 0
    with pytest.raises(tw.DefinitionError, match="no 'd'"):
        query.freeze({"b": ["a", "d"]})
    with pytest.raises(tw.DefinitionError, match="an order for each input") as error:
        query.freeze(["a", "c"])
    assert "freeze({'a': [" in str(error.value)
    with pytest.raises(tw.DefinitionError, match="an order for 'b' is a list of names, not 'ac'"):
        query.freeze({"b": "ac"})
    with pytest.raises(tw.DefinitionError, match="every operator once"):
        query.freeze({"a": ["c", "b"]})  # nothing connects a and c
    query.freeze({"b": ["c", "a"]})
    query, _ = run(parts[2])
    assert query.plan().routes["b"] == {"": ("c", "a")}
    assert "b" in query.plan().pinned
    assert "frozen" in query.explain()
    query.thaw()
    assert "frozen" not in query.explain()
    assert not query.plan().pinned
    query, got = run(parts[3])
    assert "frozen" not in query.explain()
    assert got == joinshapes.answer(shape)


def test_events_tell_of_freeze(spark):
    frames = {s: tw.stream(spark.createDataFrame(joinshapes.table(s)), time="ts") for s in ("s1", "s2")}
    df = tw.sql(PAIRS.ours, name="told", cells=2, **frames)
    df.collect()
    tw.query("told").freeze()
    tw.query("told").thaw()
    assert tw.query("told").events().kind.tolist()[-4:] == ["freeze", "freeze", "thaw", "thaw"]  # of a and of b


def test_counts_are_of_all_workers_where_nothing_is_stored(spark, one, tmp_path):
    """Each worker has an engine of its own, and tells of the whole what its tasks added."""
    shape = SHAPES["one stream and a table"]
    df = spark.readStream.schema(DDL).parquet(str(one / "s1")).repartition(5)
    inputs = {"s1": tw.stream(df, time="ts", lateness=LATENESS), "names": spark.createDataFrame(joinshapes.NAMES)}
    drain(spark, tw.sql(shape.ours, name="looked up", odd=joinshapes.odd, **inputs), tmp_path)
    query, answer = tw.query("looked up"), joinshapes.answer(shape)
    (stream,) = query.view().streams
    assert (stream.rows_in, query.view().rows_out) == (400, len(answer))
    (line,) = query.stats().query("input == 'a'").to_dict("records")
    assert (line["rows in"], line["results"]) == (400, len(answer))


def test_counts_of_a_batch_are_of_all_cells_and_times(spark):
    frames = {s: tw.stream(spark.createDataFrame(joinshapes.table(s)), time="ts") for s in ("s1", "s2")}
    df = tw.sql(PAIRS.ours, name="counted", cells=4, **frames)
    df.collect()
    view = tw.query("counted").view()
    assert (view.cells, view.rows_out) == (4, len(joinshapes.answer(PAIRS)))
    tw.sql(PAIRS.ours, name="counted", cells=4, **frames).collect()  # the same again, as inside foreachBatch
    view = tw.query("counted").view()
    assert (view.rows_in, view.rows_out) == (2 * 800, 2 * len(joinshapes.answer(PAIRS)))


def test_stages_state_and_hints(spark, one, tmp_path):
    """One query with everything to tell: skewed keys, rates that ask for another cut, too many tasks."""
    fast = pa.concat_tables([joinshapes.table("s1")] * 3)
    skewed = fast.set_column(
        2, "k", pa.array([3] * (len(fast) // 2) + fast["k"].to_pylist()[len(fast) // 2 :], pa.int64())
    )
    for name, table in (("a", skewed), ("b", joinshapes.table("s2")), ("c", joinshapes.table("s3").slice(0, 50))):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "all.parquet")
    text = "SELECT a.id x FROM a, b, c WHERE a.k = b.k AND b.j = c.j WINDOW 100 MILLISECONDS"
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    try:
        inputs = {n: stream(spark, tmp_path / n, rate=r) for n, r in (("a", 1), ("b", 1), ("c", 100))}
        drain(spark, tw.sql(text, name="all told", cells=2, **inputs), tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    query = tw.query("all told")
    stages = query.stages()
    assert len(stages) == 1
    line = stages.iloc[0]
    assert line.rows == 1650
    parts = line[list(STAGES)]
    assert (parts >= 0).all()
    assert 0.95 * line.trigger <= parts.sum() <= 1.01 * line.trigger
    explained = query.explain()
    assert "b.j = c.j in 2" in explained  # c was declared fast, so it is not copied
    assert "declare rates with tw.stream(..., rate=)" in explained
    assert "set spark.sql.shuffle.partitions=2" in explained
    assert " x the " in explained.split("state  ")[1]
    assert query.stats()["needed"].sum() <= query.stats()["stored"].sum()

    again = {n: stream(spark, tmp_path / n, rate=r) for n, r in (("a", 100), ("b", 1), ("c", 1))}
    (tmp_path / "again").mkdir()
    drain(spark, tw.sql(text, name="heavy", cells=2, **again), tmp_path / "again")
    explained = tw.query("heavy").explain()
    assert "a.k = b.k in 2" in explained
    assert "heavy       a.k = 3 has" in explained
    assert "heavy       b.k" not in explained


@pytest.mark.parametrize("way", ["memory", "foreachBatch", "console"])
def test_sinks_and_triggers(spark, one, tmp_path, way):
    df = tw.sql(PAIRS.ours, name=f"into {way}", cells=2, s1=stream(spark, one / "s1"), s2=stream(spark, one / "s2"))
    writer = df.writeStream.option("checkpointLocation", str(tmp_path))
    collected = []
    if way == "memory":
        query = writer.format("memory").queryName("pairs").trigger(processingTime="0 seconds").start()
        query.processAllAvailable()
        collected = spark.table("pairs").collect()
    elif way == "foreachBatch":
        query = writer.foreachBatch(lambda rows, _: collected.extend(rows.collect())).trigger(once=True).start()
        assert query.awaitTermination(120)
    else:  # what it prints goes to the output that the JVM was started with
        query = writer.format("console").trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        told = tw.query("into console").stats().drop_duplicates(["batch", "cell"]).results.sum()
        assert told == len(joinshapes.answer(PAIRS))
        return
    query.stop()
    assert sorted(tuple(r) for r in collected) == joinshapes.answer(PAIRS)


def test_further_operations_and_inside_foreach_batch(spark, one, tmp_path):
    """The result is a stream like any other, and a batch function may ask a join of its own."""
    df = tw.sql(PAIRS.ours, name="outer", cells=1, s1=stream(spark, one / "s1"), s2=stream(spark, one / "s2"))
    counts = df.where("x % 2 = 0").selectExpr("x", "y", "x + y AS total")
    s2 = spark.createDataFrame(joinshapes.table("s2")).cache()
    seen = []

    def ask(rows, _):
        joined = tw.sql("SELECT r.total t, s.id i FROM r, s WHERE r.y = s.id", name="inner", cells=1, r=rows, s=s2)
        seen.extend(tuple(row) for row in joined.collect())

    query = counts.writeStream.foreachBatch(ask).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert query.start().awaitTermination(240)
    assert sorted(seen) == sorted((x + y, y) for x, y in joinshapes.answer(PAIRS) if x % 2 == 0)


def test_keys_spread_over_tasks():
    for cells in range(1, 20):
        keys = cell_keys(cells)
        assert keys[0] == 0
        assert len({murmur3(k) % cells for k in keys}) == cells == tasks(cells, cells) == tasks(cells, 3 * cells)
