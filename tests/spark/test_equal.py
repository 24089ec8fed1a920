"""Same answer: every policy, batch and streaming, against Spark's own `where` and against plain Python."""

from __future__ import annotations

import functools
import operator

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from tests.spark import predicates

import thalweg as tw
from thalweg import optimize

POLICIES = optimize.names()
SCHEMA = "id long, a long, b long"


@pytest.fixture(scope="module", autouse=True)
def _predicates_by_value():
    """Workers can't import a test's own module, so its functions travel by value."""
    cloudpickle.register_pickle_by_value(predicates)
    yield
    cloudpickle.unregister_pickle_by_value(predicates)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """6,000 rows as a table and as twelve files for streams."""
    data = predicates.rows(6000, seed=5)
    folder = tmp_path_factory.mktemp("files")
    predicates.write(data, folder, files=12)
    df = spark.createDataFrame(data, SCHEMA).repartition(3).cache()
    return data, df, str(folder)


def answer(data, reference):
    return sorted(i for i, a, b in data if reference(a, b))


def test_the_reference_agrees_with_sparks_own_where(spark, table):
    """Spark calls every predicate on every row, so the throwing one is told to hold its tongue there."""
    data, df, _ = table
    asked, reference = predicates.make(11)

    def calm(judge):
        def held(value):
            try:
                return judge(value)
            except ValueError:
                return None

        return F.udf(held, "boolean")

    native = df
    for p in asked:
        native = native.where(calm(getattr(p.function, "plain", p.function))(p.columns[0]))
    expected = answer(data, reference)
    assert 0 < len(expected) < len(data)
    assert sorted(r.id for r in native.collect()) == expected
    assert sorted(r.id for r in tw.where(df, *asked, policy="chaos", seed=1).collect()) == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_batch(spark, table, policy):
    data, df, _ = table
    for seed in (1, 2):
        asked, reference = predicates.make(seed)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str([1700, 64][seed - 1]))
        try:
            got = sorted(r.id for r in tw.where(df, *asked, policy=policy, seed=seed).collect())
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert got == answer(data, reference), f"policy {policy}, seed {seed}"


@pytest.mark.parametrize("policy", POLICIES)
def test_streaming(spark, table, policy, tmp_path):
    data, _, folder = table
    seed = 100 + POLICIES.index(policy)
    asked, reference = predicates.make(seed)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).parquet(folder)
    name = f"stream_{policy}"
    out = tw.where(stream, *asked, policy=policy, name=name)
    assert out.isStreaming
    query = (
        out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
        .trigger(availableNow=True).start(str(tmp_path / "out"))
    )  # fmt: skip
    assert query.awaitTermination(120)
    got = sorted(r.id for r in spark.read.schema(SCHEMA).parquet(str(tmp_path / "out")).collect())
    assert got == answer(data, reference), f"policy {policy}, seed {seed}"
    view = tw.query(name).view()
    assert (view.rows_in, view.rows_out, view.batches) == (6000, len(got), 3)


def test_truth_falsity_and_null_partition_the_rows(spark, table):
    """TLP: p, not p and p is null give each row exactly once."""
    data, df, _ = table
    everyone = [i for i, _, _ in data]
    p = predicates.Modulo(5, frozenset({0, 2}), null_at=3)
    holds = tw.pred(lambda a: p(a), name="p")
    fails = tw.pred(lambda a: None if p(a) is None else not p(a), name="not p")
    unknown = tw.pred(lambda a: p(a) is None, name="p is null")
    other = tw.pred(lambda b: True, name="other")
    parts = [
        [r.id for r in tw.where(df, other, part, policy="chaos", seed=k).collect()]
        for k, part in enumerate((holds, fails, unknown))
    ]
    assert all(parts)
    assert sorted(functools.reduce(operator.iadd, parts, [])) == everyone


def test_what_was_learned_carries_over_between_micro_batches(spark, table, tmp_path):
    _, _, folder = table
    few = tw.pred(lambda a: a is not None and a % 50 == 0, name="few")
    most = tw.pred(lambda b: b is None or b % 50 != 0, name="most")
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(folder)
    out = tw.where(stream, most, few, policy="agreedy", name="carries")
    query = (
        out.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
    ).start()
    assert query.awaitTermination(120)
    stats = tw.query("carries").stats()
    per_batch = stats[stats.predicate == "most"].groupby("batch")[["calls", "rows_in"]].sum()
    assert len(per_batch) == 6
    # Each micro-batch has 1,000 rows in one or two tasks: none could learn the order from its own rows alone.
    assert (per_batch.calls / per_batch.rows_in).iloc[-1] < 0.6
    assert tw.query("carries").plan().route() == ("few", "most")


def test_a_watermark_survives(spark, table, tmp_path):
    """A windowed count after `where` closes its windows by the watermark defined before it."""
    _, _, folder = table

    def counted(filtered, name):
        windows = filtered.groupBy(F.window("ts", "1 minute")).count()
        query = (
            windows.writeStream.format("parquet").outputMode("append")
            .option("checkpointLocation", str(tmp_path / f"{name}-check"))
            .trigger(availableNow=True).start(str(tmp_path / name))
        )  # fmt: skip
        assert query.awaitTermination(120)
        return sorted((r.window.start, r["count"]) for r in spark.read.parquet(str(tmp_path / name)).collect())

    stream = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 6).parquet(folder)
        .withColumn("ts", F.timestamp_seconds(F.col("id"))).withWatermark("ts", "10 seconds")
    )  # fmt: skip
    ours = tw.where(stream, tw.pred(lambda a: a is not None and a % 3 == 0, name="third"))
    assert ours.schema["ts"].metadata == stream.schema["ts"].metadata != {}
    native = counted(stream.where("a % 3 = 0"), "native")
    assert len(native) > 20
    assert counted(ours, "ours") == native


def test_inside_foreach_batch(spark, table, tmp_path):
    data, _, folder = table
    seen = []

    def each(batch, number):
        kept = tw.where(batch, tw.pred(lambda a: a is not None and a % 2 == 0, name="even"), name="per batch")
        seen.extend(r.id for r in kept.collect())

    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 6).parquet(folder)
    query = (
        stream.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    ).start()
    assert query.awaitTermination(120)
    assert sorted(seen) == [i for i, a, _ in data if a is not None and a % 2 == 0]
    assert tw.query("per batch").view().rows_in == 6000
