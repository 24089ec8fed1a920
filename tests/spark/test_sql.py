"""`tw.sql` on Spark against DuckDB: batch and streaming, several cells, every policy, out of order."""

from __future__ import annotations

import os
import re
from datetime import UTC

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import functions
from tests.spark import joinshapes
from tests.spark.joinshapes import DDL, LATENESS, NAMES, SHAPES

import thalweg as tw
from thalweg.spark.compat import ROCKSDB
from thalweg.spark.keys import murmur3
from thalweg.spark.run import PROVIDER

CASES = [
    ("two streams", 2, "auto"),
    ("strings, a filter, a residual", 3, "chaos"),
    ("a chain over decimals and words", 2, "written"),
    ("a clique of four", 6, "auto"),
    ("a star with a table", 2, "chaos"),
    ("one stream and a table", 2, "auto"),
    ("one stream and a table twice", 2, "auto"),
    ("a stream with itself", 3, "auto"),
    ("the last rows", 2, "chaos"),
    ("the last rows of each key", 2, "auto"),
]


@pytest.fixture(scope="module", autouse=True)
def _shapes_by_value():
    cloudpickle.register_pickle_by_value(joinshapes)
    yield
    cloudpickle.unregister_pickle_by_value(joinshapes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("streams")
    joinshapes.write(made)
    return made


def asked(spark, shape, folder, **options):
    """The shape over streams from files, or over static frames where there is no folder."""
    inputs = {}
    for stream in shape.streams:
        if folder is None:
            df = spark.createDataFrame(joinshapes.table(stream))
        else:
            df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(folder / stream))
        inputs[stream] = tw.stream(df, time="ts", lateness=LATENESS)
    if shape.table:
        inputs["names"] = spark.createDataFrame(NAMES)
    if "odd(" in shape.ours:
        inputs["odd"] = joinshapes.odd
    return tw.sql(shape.ours, **options, **inputs)


def values(frame):
    return sorted(tuple(r) for r in frame.collect())


def drain(spark, df, where, **options):
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(where / "check"))
    query = writer.trigger(availableNow=True).start(str(where / "out"))
    assert query.awaitTermination(240)
    return spark.read.schema(df.schema).parquet(str(where / "out"))


@pytest.mark.parametrize("name", SHAPES)
def test_batch(spark, name):
    shape = SHAPES[name]
    df = asked(spark, shape, None, cells=3, policy="chaos", seed=3)
    assert not df.isStreaming
    got = values(df)
    assert got == joinshapes.answer(shape)
    assert got


def test_a_table_of_which_nothing_is_read_still_multiplies(spark):
    s = spark.createDataFrame([(1, "2026-01-01 00:00:00"), (2, "2026-01-01 00:00:01")], "id int, at string")
    df = tw.sql(
        "SELECT s.id FROM s [NOW] CROSS JOIN t", s=tw.stream(s.selectExpr("id", "timestamp(at) AS ts"), time="ts"),
        t=spark.range(3),
    )  # fmt: skip
    assert sorted(r.id for r in df.collect()) == [1, 1, 1, 2, 2, 2]


def test_the_time_of_a_result_is_there_when_it_is_named(spark, folder, tmp_path):
    """And carries a watermark on to Spark's own grouping."""
    streams = {s: asked_stream(spark, folder / s) for s in ("s1", "s2")}
    text = """SELECT a.id, result_time, minute(result_time) AS m FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b
              WHERE a.k = b.k"""
    df = tw.sql(text, cells=2, name="timed", **streams)
    assert df.columns == ["id", "result_time", "m"]
    late = df.withWatermark("result_time", "8 seconds")
    counts = late.groupBy(functions.window("result_time", "10 seconds")).count().select("window.start", "count")
    found = sorted(tuple(r) for r in drain(spark, counts, tmp_path).collect())
    near = "epoch_ms(greatest(a.ts, b.ts)) - epoch_ms({}.ts) <= {}"
    wanted = joinshapes.answer(
        joinshapes.Shape(
            text,
            f"""SELECT time_bucket(INTERVAL 10 SECONDS, greatest(a.ts, b.ts)), count(*) FROM s1 a, s2 b
                WHERE a.k = b.k AND {near.format("a", 5000)} AND {near.format("b", 2000)} GROUP BY 1""",
            ("s1", "s2"),
        )
    )
    assert len(found) >= 2
    assert found == [(t.astimezone(UTC).replace(tzinfo=None), n) for t, n in wanted][: len(found)]


def test_an_input_s_own_column_comes_before_the_time_of_the_result(spark):
    s = spark.sql("SELECT timestamp_seconds(id) AS ts, id AS result_time FROM range(3)")
    df = tw.sql("SELECT result_time FROM s [NOW]", s=tw.stream(s, time="ts"))
    assert sorted(r.result_time for r in df.collect()) == [0, 1, 2]


@pytest.mark.parametrize("name", ["a star with a table", "one stream and a table"])
def test_no_job_runs_while_a_query_with_tables_is_defined(spark, folder, tmp_path, name):
    """Tables are read when the query runs: the job group of this thread stays empty until then."""
    status, read = spark.sparkContext.statusTracker(), spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    names = spark.createDataFrame(NAMES).mapInArrow(counted, "k long, name string")
    inputs = {
        s: tw.stream(
            spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(folder / s)),
            time="ts",
            lateness=LATENESS,
        )
        for s in SHAPES[name].streams
    }
    spark.sparkContext.setJobGroup(f"defining {name}", "a query")
    try:
        df = tw.sql(SHAPES[name].ours, name="unread", cells=2, names=names, odd=joinshapes.odd, **inputs)
        assert status.getJobIdsForGroup(f"defining {name}") == []
        assert read.value == 0
        spark.range(3).collect()
        assert len(status.getJobIdsForGroup(f"defining {name}")) == 1, "a job would have been noticed"
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert values(drain(spark, df, tmp_path)) == joinshapes.answer(SHAPES[name])
    assert read.value == len(NAMES), "and then once"


def test_a_join_keeps_its_tables_as_they_were_when_it_started(spark, tmp_path):
    """A restart, with another table by then, goes on with the rows that the first batch joined with."""
    schema = "id long, ts timestamp, k long"
    for s in ("a", "b"):
        (tmp_path / s).mkdir()

    def run(part, names):
        for s in ("a", "b"):
            lines = {"id": [part], "ts": pa.array([part * 1_000_000], pa.timestamp("us", "UTC")), "k": [1]}
            pq.write_table(pa.table(lines), tmp_path / s / f"{part}.parquet")
        streams = {
            s: tw.stream(spark.readStream.schema(schema).parquet(str(tmp_path / s)), time="ts") for s in ("a", "b")
        }
        text = "SELECT a.id, t.name FROM a [NOW], b [NOW], t WHERE a.k = b.k AND b.k = t.k"
        t = spark.createDataFrame([(1, n) for n in names], "k long, name string")
        found = drain(spark, tw.sql(text, cells=2, name="kept table", t=t, **streams), tmp_path)
        return sorted(tuple(r) for r in found.collect())

    assert run(1, ["x", "y"]) == [(1, "x"), (1, "y")]
    assert run(2, ["z"]) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_a_new_query_reads_a_table_again(spark, tmp_path):
    """What one query has read of a table is not another one's, though both name the same files in one session."""
    (tmp_path / "s").mkdir()
    pq.write_table(
        pa.table({"ts": pa.array([1_000_000], pa.timestamp("us", "UTC")), "k": [1]}), tmp_path / "s" / "0.parquet"
    )

    def run(name, words):
        spark.createDataFrame([(1, w) for w in words], "k long, word string").write.mode("overwrite").json(
            str(tmp_path / "t")
        )
        stream = spark.readStream.schema("ts timestamp, k long").parquet(str(tmp_path / "s"))
        table = spark.read.schema("k long, word string").json(str(tmp_path / "t"))
        text = "SELECT t.word FROM s [NOW], t WHERE s.k = t.k"
        df = tw.sql(text, name=name, s=tw.stream(stream, time="ts"), t=table)
        return sorted(r.word for r in drain(spark, df, tmp_path / name).collect())

    assert run("first", ["x", "y"]) == ["x", "y"]
    assert run("second", ["z"]) == ["z"]


@pytest.mark.parametrize(("name", "cells", "policy"), CASES)
def test_streaming(spark, folder, tmp_path, name, cells, policy):
    shape = SHAPES[name]
    df = asked(spark, shape, folder, cells=cells, policy=policy, name=f"{name} {cells}", seed=1)
    assert df.isStreaming
    assert values(drain(spark, df, tmp_path)) == joinshapes.answer(shape)
    explained = tw.query(f"{name} {cells}").explain()
    assert "route of a" in explained
    assert tw.query(f"{name} {cells}").stats()["late"].max() == 0


@pytest.mark.parametrize("caches", ["all", "auto"])
def test_caches_change_no_answer(spark, folder, tmp_path, caches):
    """Every cache that the routes allow; and, under `chaos`, caches at random."""
    shape = SHAPES["a chain over decimals and words"]
    name = f"cached {caches}"
    df = asked(
        spark,
        shape,
        folder,
        cells=2,
        policy="chaos" if caches == "auto" else "written",
        seed=7,
        caches=caches,
        name=name,
    )
    assert values(drain(spark, df, tmp_path)) == joinshapes.answer(shape)
    placed = any("cache" in kind for kind in tw.query(name).events()["kind"])
    assert placed or caches == "auto"  # chaos may throw none


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_a_stream_joined_with_itself_is_read_once(spark, tmp_path, cells):
    """Both inputs have predicates of their own, in SQL and in Python, and other join keys."""
    joinshapes.write(tmp_path / "in")
    text = """SELECT a.id x, b.id y FROM s1 [RANGE 2 SECONDS] a, s1 [RANGE 3 SECONDS] b
              WHERE a.k = b.j AND a.v < 15 AND odd(b.v)"""
    df = tw.sql(text, cells=cells, name="itself", odd=joinshapes.odd, s1=asked_stream(spark, tmp_path / "in" / "s1"))
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert query.awaitTermination(240)
    assert sum(p["numInputRows"] for p in query.recentProgress) == 401
    assert all(len(p["sources"]) == 1 for p in query.recentProgress)
    within = "epoch_ms(greatest(a.ts, b.ts)) - epoch_ms({}.ts) <= {}"
    theirs = f"""SELECT a.id, b.id FROM s1 a, s1 b WHERE a.k = b.j AND a.v < 15 AND b.v::INT % 2 = 1
                 AND {within.format("a", 2000)} AND {within.format("b", 3000)}"""
    found = values(spark.read.schema(df.schema).parquet(str(tmp_path / "out")))
    assert found == joinshapes.answer(joinshapes.Shape(text, theirs, ("s1",)))
    assert found


def asked_stream(spark, folder):
    df = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(folder))
    return tw.stream(df, time="ts", lateness=LATENESS)


def test_layouts_follow_the_probes_and_survive_a_restart(spark, tmp_path):
    """Enough tuples for layouts to be chosen; the second half is read by a new query from the checkpoint of the first."""
    files, count = 4, 4_000
    random = np.random.default_rng(17)
    ts = np.arange(files * count) * 10_000
    tables = {
        n: pa.table(
            {
                "id": ts,
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                **{c: random.integers(0, d, len(ts)) for c, d in cs},
            }
        )
        for n, cs in {"r": [("k", 100), ("l", 80)], "s": [("k", 100), ("m", 60)], "t": [("l", 80), ("m", 60)]}.items()
    }
    where = "r.k = s.k AND s.m = t.m AND r.l = t.l"
    select = "SELECT r.id AS a, s.id AS b, t.id AS c FROM"
    views, found = [], None
    for half in (0, 2):
        for name, table in tables.items():
            (tmp_path / name).mkdir(exist_ok=True)
            for f in (half, half + 1):
                pq.write_table(table.slice(f * count, count), tmp_path / name / f"part-{f}.parquet")
                os.utime(tmp_path / name / f"part-{f}.parquet", (f + 1, f + 1))
        streams = {
            n: tw.stream(
                spark.readStream.schema(spark.createDataFrame(t.slice(0, 1)).schema)
                .option("maxFilesPerTrigger", 1).parquet(str(tmp_path / n)),
                time="ts",
            ) for n, t in tables.items()
        }  # fmt: skip
        windows = ", ".join(f"{n} [RANGE 4 SECONDS]" for n in "rst")
        df = tw.sql(f"{select} {windows} WHERE {where}", cells=1, index="amri", name="tuned", **streams)
        found = drain(spark, df, tmp_path)
        views.append((tw.query("tuned").explain(), tw.query("tuned").events()))
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        newest = "greatest(r.ts, s.ts, t.ts)"
        near = " AND ".join(f"epoch_ms({newest}) - epoch_ms({n}.ts) <= 4000" for n in "rst")
        wanted = db.execute(f"{select} r, s, t WHERE {where} AND {near}").fetchall()
    assert len(wanted) > 1_000
    assert sorted(tuple(r) for r in found.collect()) == sorted(wanted)
    (before, first), (after, second) = views
    chosen = first[first.kind == "index"]
    assert set(chosen["where"]) == {"r", "s", "t"}
    # Nothing begins again: no stem has the layout that it began with, and selections are counted on.
    assert not [line for line in second[second.kind == "index"].before if "equal bits" in line]
    assert _tunings(after) >= _tunings(before) > 0
    for text in (before, after):
        assert re.search(r"index of r  .* bits   [\d.,e+]+ candidates and [\d.,e+]+ buckets per match, \d+ kB", text)
        assert re.search(r"asked for   ⟨.*⟩ \d+%", text)
        assert re.search(r"would cost  best now \(.* bits\) [\d.]+ times as much, equal shares .* no index ", text)


def _tunings(explained):
    return max(int(n) for n in re.findall(r"(\d+) tunings", explained))


@pytest.mark.long
@pytest.mark.parametrize("cells", [1, 2, 3, 6])
@pytest.mark.parametrize("policy", ["written", "auto", "chaos"])
@pytest.mark.parametrize("name", SHAPES)
def test_streaming_everything(spark, folder, tmp_path, name, cells, policy):
    shape = SHAPES[name]
    df = asked(spark, shape, folder, cells=cells, policy=policy, name="everything", seed=cells)
    assert values(drain(spark, df, tmp_path)) == joinshapes.answer(shape)


def test_state_is_the_windows_and_slices_go(spark, tmp_path):
    """Ten minutes of 12,000 rows with windows of seconds: what is stored stays at the slices that windows touch."""
    joinshapes.write(tmp_path / "in", files=6, count=6000, seconds=600)
    df = asked(spark, SHAPES["two streams"], tmp_path / "in", cells=2, name="state")
    drain(spark, df, tmp_path)
    stored = tw.query("state").stats().groupby("batch").stored.sum()
    assert len(stored) == 4
    # A slice has at least 1,024 rows before the next is begun: at most two for each of two stems and two cells.
    assert stored.max() <= 8 * 1100
    assert stored.iloc[-1] <= 4  # the last batch is a day later: only its own rows, and what lateness keeps
    assert "a.k = b.k in 2" in tw.query("state").explain()


def test_late_tuples_are_counted_and_left_out(spark, tmp_path):
    """A tuple behind the watermark that an earlier batch set is told of on the board, not joined."""
    for stream in ("s1", "s2"):
        rows = joinshapes.table(stream)
        (tmp_path / stream).mkdir()
        pq.write_table(rows.slice(200), tmp_path / stream / "part-0.parquet")
        pq.write_table(rows.slice(0, 50), tmp_path / stream / "part-1.parquet")
        os.utime(tmp_path / stream / "part-0.parquet", (1, 1))  # Spark takes files by age, and these are of one moment
    inputs = {
        s: tw.stream(spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / s)),
                     time="ts", lateness=LATENESS) for s in ("s1", "s2")
    }  # fmt: skip
    df = tw.sql(SHAPES["two streams"].ours, name="late", cells=1, **inputs)
    drain(spark, df, tmp_path)
    last = tw.query("late").stats().query("batch == 1")
    assert last.late.tolist() == [50, 50]


def test_a_silent_stream_does_not_hold_back_the_others(spark, tmp_path):
    """s2 stops after its first file; with idle= the tuples of s1 go as if it had not, and explain tells."""
    joinshapes.write(tmp_path / "in", files=6, count=3000, seconds=300)
    for part in sorted((tmp_path / "in" / "s2").iterdir())[1:]:
        part.unlink()
    (tmp_path / "in" / "s1" / "part-006.parquet").unlink()

    def run(name, **more):
        inputs = {
            s: tw.stream(spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in" / s)),
                         time="ts", lateness=LATENESS, **more) for s in ("s1", "s2")
        }  # fmt: skip
        (tmp_path / name).mkdir()
        drain(spark, tw.sql(SHAPES["two streams"].ours, name=name, cells=1, **inputs), tmp_path / name)
        stats = tw.query(name).stats()
        return stats[(stats.batch == stats.batch.max()) & (stats.input == "a")].stored.iloc[0]

    assert run("waits") > 2400  # all that came after s2's last tuple
    assert "silent" not in tw.query("waits").explain()
    assert run("goes on", idle="10 seconds") < 1500  # a window, the time-out and what a slice keeps with them
    assert "silent      b: nothing came" in tw.query("goes on").explain()


def test_mistakes_are_told_at_once(spark, folder):
    df = spark.readStream.schema(DDL).parquet(str(folder / "s1"))
    with pytest.raises(tw.DefinitionError, match="stream without a time"):
        tw.sql("SELECT a.id FROM s1 [NOW] a, t WHERE a.k = t.k", s1=df, t=spark.range(3).withColumnRenamed("id", "k"))
    with pytest.raises(tw.QueryError, match="did you mean"):
        tw.sql("SELECT a.idd FROM s1 [NOW] a", s1=tw.stream(df, time="ts"))
    with pytest.raises(tw.DefinitionError, match="not a duration"):
        tw.stream(df, time="ts", lateness="soon")
    with pytest.raises(tw.DefinitionError, match="no time column"):
        tw.sql("SELECT a.id FROM s1 [NOW] a", s1=tw.stream(df, time="tss"))


def test_cell_keys_fall_as_spark_hashes_them(spark):
    got = spark.range(200).selectExpr("hash(cast(id as int)) h").collect()
    assert [r.h for r in got] == [murmur3(i) for i in range(200)]


def test_the_state_store_is_chosen_for_the_query_or_the_message_says_what_to_set(spark, folder, monkeypatch):
    def forbidden(self, key, value):
        raise PySparkRuntimeError(f"{key} may not be changed")

    before = spark.conf.get(PROVIDER)
    try:
        spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
        asked(spark, SHAPES["two streams"], folder, cells=2)
        assert spark.conf.get(PROVIDER) == ROCKSDB
        spark.conf.unset(PROVIDER)
        with monkeypatch.context() as patched:
            patched.setattr(type(spark.conf), "set", forbidden)
            with pytest.raises(tw.DefinitionError, match="does not let") as told:
                asked(spark, SHAPES["two streams"], folder, cells=2)
        assert f"start the session with {PROVIDER}={ROCKSDB}" in str(told.value)
    finally:
        spark.conf.set(PROVIDER, before)


def test_the_last_row_of_one_stream_and_a_table(spark, tmp_path):
    """Rows of one time may come in several batches, so they wait for the watermark, and the newest of them counts."""
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    (tmp_path / "in").mkdir()
    for n, rows in enumerate([[(1, 0), (2, 1)], [(3, 1), (4, 2)], [(5, 60)]]):
        made = [{"id": i, "k": i % 2, "ts": second * 10**6} for i, second in rows]
        pq.write_table(pa.Table.from_pylist(made, schema), tmp_path / "in" / f"{n}.parquet")
        os.utime(tmp_path / "in" / f"{n}.parquet", (n + 1, n + 1))
    read = spark.readStream.schema("id long, k long, ts timestamp").option("maxFilesPerTrigger", 1)
    names = spark.createDataFrame([(0, "even"), (1, "odd")], "k long, name string")
    df = tw.sql(
        "SELECT a.id, t.name FROM s [ROWS 1] AS a, names AS t WHERE a.k = t.k", name="last row",
        s=tw.stream(read.parquet(str(tmp_path / "in")), time="ts", lateness="1 second"), names=names,
    )  # fmt: skip
    assert values(drain(spark, df, tmp_path)) == [(1, "odd"), (3, "odd"), (4, "even")]
