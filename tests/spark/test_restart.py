"""A restarted query and its checkpoint on Spark: what is accepted, moved, refused, and told before it is deployed."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from tests.spark import joinshapes
from tests.spark.joinshapes import DDL, LATENESS, NAMES, SHAPES

import thalweg as tw

STAR = "a star with a table"


@pytest.fixture(scope="module", autouse=True)
def _shapes_by_value():
    cloudpickle.register_pickle_by_value(joinshapes)
    yield
    cloudpickle.unregister_pickle_by_value(joinshapes)


def asked(spark, folder, name, text=None, **options):
    shape = SHAPES[name]
    inputs = {}
    for stream in shape.streams:
        df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(folder / "in" / stream))
        inputs[stream] = tw.stream(df, time="ts", lateness=LATENESS)
    if shape.table:
        inputs["names"] = spark.createDataFrame(NAMES)
    return tw.sql(text or shape.ours, name="restarted", inputs=inputs, **options)


def run(df, folder):
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(folder / "check"))
    assert writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination(240)


def half(folder, name):
    """Hold back the second half of the files; returns what brings them."""
    joinshapes.write(folder / "in")
    later = [p for s in SHAPES[name].streams for p in sorted((folder / "in" / s).iterdir())[2:]]
    for path in later:
        path.rename(path.with_name("_" + path.name))  # Spark reads no such file

    def bring():
        for path in later:
            path.with_name("_" + path.name).rename(path)
            os.utime(path, (int(path.stem[-3:]) + 100,) * 2)

    return bring


def test_the_state_moves_to_another_number_of_cells_and_is_checked_before(spark, tmp_path):
    bring = half(tmp_path, STAR)
    check = str(tmp_path / "check")
    first = asked(spark, tmp_path, STAR, cells=2)
    assert "no batch was committed yet" in str(tw.check(first, check))
    run(first, tmp_path)
    assert str(tw.check("restarted", check)).endswith("after batch 0: accepted")
    bring()
    verdict = tw.check(asked(spark, tmp_path, STAR, cells=3), check)
    assert verdict
    assert "cut into 2 cells, the query into 3 cells: the state moves" in str(verdict)
    renamed = SHAPES[STAR].ours.replace("names t", "names nn").replace("t.", "nn.")
    run(asked(spark, tmp_path, STAR, renamed, cells=3, checkpoint=check), tmp_path)
    found = sorted(tuple(r) for r in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == joinshapes.answer(SHAPES[STAR])
    view = tw.query("restarted").view()
    assert view.cells == 3
    assert view.rows_out == len(found), "counts go on where the old cells stopped"
    run(asked(spark, tmp_path, STAR, renamed, cells=3, checkpoint=check), tmp_path)  # nothing left to move
    assert str(tw.check("restarted", check)).endswith("accepted")
    state = spark.read.format("statestore").option("stateVarName", "parts").load(check)
    assert state.select("key.key").distinct().count() == 3, "no state of old cells is left"
    assert list((tmp_path / "check" / "thalweg-moved").iterdir()) == [], "nor moved state that was taken up"


def test_stateful_operators_before_and_behind_the_join_are_told_from_it(spark, tmp_path):
    """Each of them has a number in Spark's checkpoint, and the join's is none of the ends."""
    bring = half(tmp_path, "two streams")
    check = str(tmp_path / "check")

    def between(**options):
        inputs = {}
        for stream in SHAPES["two streams"].streams:
            df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in" / stream))
            df = df.dropDuplicates(["id"]) if stream == "s1" else df
            inputs[stream] = tw.stream(df, time="ts", lateness=LATENESS)
        return tw.sql(SHAPES["two streams"].ours, name="between", inputs=inputs, **options)

    run(between(cells=2).dropDuplicates(), tmp_path)
    assert str(tw.check(between(cells=2, checkpoint=check), check)).endswith("accepted")
    bring()
    run(between(cells=3, checkpoint=check).dropDuplicates(), tmp_path)
    found = sorted(tuple(r) for r in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == joinshapes.answer(SHAPES["two streams"])
    assert tw.query("between").view().cells == 3


def test_two_queries_in_one_checkpoint_are_refused_by_name(spark, tmp_path):
    half(tmp_path, "two streams")
    shape, check = SHAPES["two streams"], str(tmp_path / "check")

    def chained(**options):
        named = (
            "SELECT a.ts, a.id, a.k, b.id AS other FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k"
        )
        first = asked(spark, tmp_path, "two streams", named, cells=2)
        other = spark.readStream.schema(DDL).parquet(str(tmp_path / "in" / shape.streams[1]))
        inputs = {
            "p": tw.stream(first, time="ts", lateness=LATENESS),
            "q": tw.stream(other, time="ts", lateness=LATENESS),
        }
        text = "SELECT p.id, q.id AS third FROM p [RANGE 5 SECONDS], q [RANGE 5 SECONDS] WHERE p.k = q.k"
        return tw.sql(text, name="chained", inputs=inputs, **options)

    run(chained(cells=2), tmp_path)
    with pytest.raises(tw.CheckpointError, match="holds the state of several queries"):
        chained(cells=2, checkpoint=check)


def test_a_first_batch_that_sent_no_rows_to_cells(spark, tmp_path):
    joinshapes.write(tmp_path / "in")
    files = [p for s in SHAPES["two streams"].streams for p in sorted((tmp_path / "in" / s).iterdir())]
    for path in files:
        path.rename(path.with_name("_" + path.name))
    for stream in SHAPES["two streams"].streams:
        pq.write_table(joinshapes.table(stream).slice(0, 0), tmp_path / "in" / stream / "none.parquet")
        os.utime(tmp_path / "in" / stream / "none.parquet", (1, 1))
    check = str(tmp_path / "check")
    run(asked(spark, tmp_path, "two streams", cells=2), tmp_path)
    for path in files:
        path.with_name("_" + path.name).rename(path)
    df = asked(spark, tmp_path, "two streams", cells=2, checkpoint=check)
    assert "or none had rows" in str(tw.check(df, check))
    run(df, tmp_path)
    found = sorted(tuple(r) for r in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == joinshapes.answer(SHAPES["two streams"])


def test_state_in_files_is_checked_before(spark, tmp_path):
    bring = half(tmp_path, "two streams")
    check, files = str(tmp_path / "check"), {"state": str(tmp_path / "state")}
    first = asked(spark, tmp_path, "two streams", cells=2, **files)
    assert "no batch was committed yet" in str(tw.check(first, check))
    run(first, tmp_path)
    assert str(tw.check("restarted", check)).endswith("after batch 0: accepted")
    more = asked(spark, tmp_path, "two streams", cells=3, **files)
    assert "cut into 2 cells, the query into 3 cells: the state moves in the next batch, " in str(tw.check(more, check))
    other = SHAPES["two streams"].ours.replace("a.k = b.k", "a.j = b.j")
    assert "the join keys" in str(tw.check(asked(spark, tmp_path, "two streams", other, cells=2, **files), check))
    lost = asked(spark, tmp_path, "two streams", cells=2, state=str(tmp_path / "elsewhere"))
    assert "its state is not in" in str(tw.check(lost, check))
    bring()
    run(more, tmp_path)
    assert str(tw.check(more, check)).endswith("accepted"), "what the old cells left does not count"
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect())) == joinshapes.answer(
        SHAPES["two streams"]
    )


def test_refused_by_name_where_the_query_is_awaited(spark, tmp_path):
    bring = half(tmp_path, "two streams")
    check = str(tmp_path / "check")
    run(asked(spark, tmp_path, "two streams", cells=2), tmp_path)
    bring()
    other = SHAPES["two streams"].ours.replace("a.k = b.k", "a.j = b.j")
    df = asked(spark, tmp_path, "two streams", other, cells=2)
    verdict = tw.check(df, check)
    assert not verdict
    assert "the join keys" in str(verdict)
    writer = df.writeStream.format("parquet").option("checkpointLocation", check).trigger(availableNow=True)
    query = writer.start(str(tmp_path / "out"))
    with pytest.raises(tw.CheckpointError) as caught:
        tw.await_termination(query, 240)
    assert str(caught.value).startswith("the join keys were s1.k = s2.k and are s1.j = s2.j\n")


def test_what_keeps_no_state_can_not_be_checked(spark, tmp_path):
    with pytest.raises(tw.DefinitionError, match="only those keep state"):
        tw.check(spark.range(3), str(tmp_path))
