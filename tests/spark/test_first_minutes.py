"""What a new user tries first: a dry run, predicates as decorators, `df.transform`."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import thalweg as tw
from thalweg.spark.board import board


def few(id):
    return id % 100 == 0


def most(id):
    return sum(range(2000)) > 0 and id % 100 != 1


@tw.predicate
def even(id):
    return id % 2 == 0


@tw.predicate("id", name="large", after=even)
def above(number):
    return number > 500


def test_a_dry_run_tells_what_would_be_saved_and_changes_nothing(spark):
    before = set(board.entries)
    told = tw.dry_run(spark.range(8000), most, few, "id >= 1000", rows=5000)
    assert isinstance(told, tw.DryRun)
    assert (told.found.rows, told.found.kept) == (5000, 50)
    assert told.found.spark.calls == (5000, 5000)
    assert told.found.order == ("few", "most")
    assert 0.3 < told.saved_against_spark < 1
    assert set(board.entries) == before
    text = repr(told)
    assert "dry run on 5,000 rows, 50 of which pass; nothing was changed" in text
    assert "auto, from then on" in text
    assert told.sentence in text
    assert told.sentence.startswith("tw.where would save")
    html = told._repr_html_()
    assert html.count("<table>") == 2
    assert "while it learns" in html


def test_a_dry_run_takes_what_where_takes(spark):
    df = spark.sql("SELECT id, named_struct('x', id) AS s, binary('a') AS `odd.name` FROM range(1000)")
    told = tw.dry_run(df, even, above, tw.pred(F.udf(lambda x: x > 2, "boolean"), "s.x", name="inner"))
    assert told.found.kept == tw.where(df, even, above, "s.x > 2").count() == 249


@pytest.mark.parametrize(
    ("predicates", "words"),
    [
        (["id > 1"], "no Python predicate to try"),
        ([few, "id < 0"], "no rows"),
        (["id > 1", lambda nope: True], "'nope'"),
    ],
)
def test_a_dry_run_says_what_it_lacks(spark, predicates, words):
    with pytest.raises(tw.DefinitionError, match=words):
        tw.dry_run(spark.range(10), *predicates)


def test_a_dry_run_of_a_stream_or_of_nothing(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tw.DefinitionError, match="instead of spark"):
        tw.dry_run(stream, tw.pred(lambda value: value > 1))
    with pytest.raises(tw.DefinitionError, match="not a DataFrame"):
        tw.dry_run("df", few)
    with pytest.raises(tw.PredicateError, match="'inverse' raised ZeroDivisionError"):
        tw.dry_run(spark.range(10), tw.pred(lambda id: 1 / id > 0, name="inverse"))


def test_predicates_as_decorators(spark):
    assert even(4)
    assert not above(3)
    assert (even.name, above.name, above.columns, above.after) == ("even", "large", ("id",), ("even",))
    assert tw.where(spark.range(1000), above, even).count() == 249
    with pytest.raises(tw.DefinitionError, match="names of columns"):
        tw.predicate(3)


def test_where_in_a_chain(spark):
    df = spark.range(1000).transform(tw.where, even, "id > 500", name="chained").select("id")
    assert df.count() == 249
    assert tw.query("chained").name == "chained"


@pytest.fixture
def trips(spark):
    """Trips; a table of cars and two functions in the catalog."""
    spark.range(5).selectExpr("id AS car", "'m' || id AS model").createOrReplaceTempView("cars")
    spark.udf.register("odd", lambda x: x % 2 == 1, "boolean")
    spark.udf.register("near", lambda x, y: abs(x - y) < 6, "boolean")
    yield spark.sql("SELECT timestamp_seconds(id) AS ts, id, id % 5 AS car FROM range(60)")
    spark.catalog.dropTempView("cars")


JOINED = (
    "FROM trips [RANGE 20 SECONDS] AS a, trips [RANGE 20 SECONDS] AS b, cars WHERE a.car = b.car AND b.car = cars.car"
)


def as_stream(trips):
    return tw.stream(trips, time="ts", lateness="5 seconds")


def test_a_table_or_view_is_known_by_name(spark, trips):
    text = f"SELECT a.id, b.id AS other, model {JOINED}"
    found = tw.sql(text, trips=as_stream(trips)).collect()
    assert sorted(found) == sorted(tw.sql(text, trips=as_stream(trips), cars=spark.table("cars")).collect())
    assert len(found) > 100
    with pytest.raises(tw.QueryError, match="no stream or table 'lorries'"):
        tw.sql(text.replace("cars", "lorries"), trips=as_stream(trips))


def test_registered_functions_are_known_by_name(spark, trips):
    text = f"SELECT a.id, b.id AS other {JOINED}"
    plain = {(r.id, r.other) for r in tw.sql(text, trips=as_stream(trips)).collect()}
    found = tw.sql(f"{text} AND odd(a.id) AND near(a.id, b.id)", trips=as_stream(trips), name="by name")
    assert {(r.id, r.other) for r in found.collect()} == {(a, b) for a, b in plain if a % 2 == 1 and abs(a - b) < 6}
    assert dict(tw.query("by name").view().elsewhere)["odd(a.id)"] == "Spark, before the join"
    with pytest.raises(tw.QueryError, match=r"no function 'nope'[^$]*nope=nope"):
        tw.sql(f"{text} AND nope(a.id)", trips=as_stream(trips))


def test_streams_of_catalog_tables(spark, trips, tmp_path):
    text = f"SELECT a.id, b.id AS other {JOINED}"
    wanted = sorted(tw.sql(text, trips=as_stream(trips)).collect())
    trips.write.mode("overwrite").option("path", str(tmp_path / "t")).saveAsTable("default.kept_trips")
    live = spark.readStream.table("default.kept_trips")
    live.withWatermark("ts", "5 seconds").createOrReplaceTempView("trips")
    try:
        for name, inputs in (("read_stream", {"trips": as_stream(live)}), ("view_of_stream", {})):
            joined = tw.sql(text, **inputs, name=name, spark=spark)
            query = joined.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
            query.awaitTermination()
            assert sorted(spark.table(name).collect()) == wanted
        batch = tw.sql("SELECT id, model FROM default.kept_trips, cars WHERE kept_trips.car = cars.car", spark=spark)
        assert batch.count() == 60
    finally:
        spark.catalog.dropTempView("trips")
        spark.sql("DROP TABLE default.kept_trips")


def test_sessions_of_one_application_mix_and_each_knows_its_own_names(spark, trips):
    other = spark.newSession()
    foreign = other.range(5).selectExpr("id AS car", "CAST(id AS STRING) AS model")
    assert tw.sql(f"SELECT a.id {JOINED}", cars=foreign, trips=as_stream(trips)).columns == ["id"]
    with pytest.raises(tw.QueryError, match="no stream or table 'trips'"):
        tw.sql(f"SELECT a.id {JOINED}", spark=other)


THREE = """SELECT a.id FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS], c [RANGE 20 SECONDS]
           WHERE a.k = b.k AND b.k = c.k AND a.id >= 0 AND mild(a.id)"""


def test_a_dry_run_of_a_join(spark):
    def rows(keys):
        return tw.stream(
            spark.sql(f"SELECT timestamp_seconds(id) AS ts, id, id % {keys} AS k FROM range(3000)"), time="ts"
        )

    before = set(board.entries)
    inputs = {"a": rows(5), "b": rows(5), "c": rows(300), "mild": lambda id: id != 7}
    told = tw.sql(THREE, **inputs, policy="agreedy", dry=True)
    assert isinstance(told, tw.JoinDryRun)
    assert set(board.entries) == before
    assert told.found.rows == {"a": 3000, "b": 3000, "c": 3000}
    assert told.found.results == tw.sql(THREE, **inputs).count()
    assert told.saved_against_written > 0
    assert [s.right for s in told.found.spark] == ["b", "c"]
    assert told.found.stored < told.found.spark_stored
    text = repr(told)
    assert "dry run on 9,000 rows of 2,999 seconds" in text
    assert "a ⋈ b ⋈ c" in text
    assert told.sentence in text
    assert told._repr_html_().count("<table>") == 2
    live = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS id", "value AS k")
    with pytest.raises(tw.DefinitionError, match="'a' is a stream: it gives no sample"):
        tw.sql(THREE, **(inputs | {"a": tw.stream(live, time="ts")}), dry=True)
    later = spark.sql("SELECT timestamp_seconds(id + 5000) AS ts, id, id AS k FROM range(9)")
    with pytest.raises(tw.DefinitionError, match="no two streams have rows at the same time"):
        tw.sql(THREE, **(inputs | {"a": tw.stream(later, time="ts")}), dry=True)
