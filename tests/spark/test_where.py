"""`tw.where` on Spark: schemas, kinds of predicates, NULLs, errors, placement, and what its handle tells."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

import thalweg as tw
from thalweg.spark.compat import VERSION

BINARY = bytes if VERSION >= (4, 1) else bytearray
"""What a udf gets for a binary value."""
SCHEMA = T.StructType(
    [
        T.StructField("id", T.LongType(), False, {"note": "kept"}),
        T.StructField("small", T.ShortType()),
        T.StructField("ratio", T.DoubleType()),
        T.StructField("price", T.DecimalType(20, 4)),
        T.StructField("day", T.DateType()),
        T.StructField("at", T.TimestampType()),
        T.StructField("local", T.TimestampNTZType()),
        T.StructField("raw", T.BinaryType()),
        T.StructField("flag", T.BooleanType()),
        T.StructField("word", T.StringType(), False),
        T.StructField("tags", T.ArrayType(T.StringType())),
        T.StructField("scores", T.MapType(T.StringType(), T.IntegerType())),
        T.StructField(
            "nested", T.StructType([T.StructField("x", T.IntegerType()), T.StructField("y", T.StringType())])
        ),
        T.StructField("span", T.DayTimeIntervalType()),
        T.StructField("nothing", T.NullType()),
    ]
)


def everything(spark, rows=40):
    def row(i):
        if i % 7 == 3:
            return (i, None, None, None, None, None, None, None, None, "w", None, None, None, None, None)
        return (
            i, i % 100, i / 3, Decimal(i) / 8, dt.date(2020, 1, 1) + dt.timedelta(days=i),
            dt.datetime(2020, 1, 1, 12) + dt.timedelta(hours=i), dt.datetime(2020, 6, 1) + dt.timedelta(hours=i),
            bytes([i % 256]), i % 2 == 0, f"word{i % 5}", [f"t{i % 3}", None], {"a": i}, Row(x=i, y=str(i)),
            dt.timedelta(seconds=i), None,
        )  # fmt: skip

    return spark.createDataFrame([row(i) for i in range(rows)], SCHEMA)


def ids(df):
    return sorted(r.id for r in df.select("id").collect())


def test_schema_and_every_type_pass_through_unchanged(spark):
    df = everything(spark)
    out = tw.where(df, tw.pred(lambda id: id % 2 == 0, name="even"))
    assert out.schema == df.schema
    assert out.schema["id"].metadata == {"note": "kept"}
    expected = {r.id: r for r in df.collect() if r.id % 2 == 0}
    assert {r.id: r for r in out.collect()} == expected


def test_row_functions_get_the_values_a_udf_gets(spark):
    df = everything(spark)
    expected_types = {
        "small": int, "ratio": float, "price": Decimal, "day": dt.date, "at": dt.datetime, "local": dt.datetime,
        "raw": BINARY, "flag": bool, "word": str, "tags": list, "scores": dict, "nested": Row, "span": dt.timedelta,
    }  # fmt: skip

    def as_expected(small, ratio, price, day, at, local, raw, flag, word, tags, scores, nested, span):
        given = (small, ratio, price, day, at, local, raw, flag, word, tags, scores, nested, span)
        got = dict(zip(expected_types, given, strict=True))
        for name, kind in expected_types.items():
            if got[name] is not None and type(got[name]) is not kind:
                raise TypeError(f"{name} is a {type(got[name])}")
        return at is None or (at.tzinfo is None and nested.x == scores["a"])

    assert tw.where(df, as_expected).count() == df.count()
    spark_sees = df.where(F.udf(lambda at: at is not None and at.hour == 15, "boolean")("at"))
    assert ids(tw.where(df, tw.pred(lambda at: at is not None and at.hour == 15))) == ids(spark_sees)


def arrow_even(id: pa.Array) -> pa.Array:
    return pc.equal(pc.bit_wise_and(id, 1), 0)


def pandas_even(id: pd.Series) -> pd.Series:
    return id % 2 == 0


def test_kinds_are_read_off_annotations_and_udfs(spark):
    df = spark.range(100)

    def in_batches(batches):
        for one in batches:
            yield one % 2 == 0

    kinds = {
        "row": lambda id: id % 2 == 0,
        "arrow": arrow_even,
        "pandas": pandas_even,
        "udf": F.udf(lambda id: id % 2 == 0, "boolean"),
        "pandas_udf": F.pandas_udf(pandas_even, "boolean"),
        **({"arrow_udf": F.arrow_udf(arrow_even, "boolean")} if hasattr(F, "arrow_udf") else {}),  # 4.1 and newer
        "iterator udf": F.pandas_udf(in_batches, "boolean", F.PandasUDFType.SCALAR_ITER),
    }
    for name, function in kinds.items():
        out = tw.where(df, tw.pred(function, "id", name=name), tw.pred(lambda id: id < 50, name="low"))
        assert ids(out) == list(range(0, 50, 2)), name
    assert tw.pred(arrow_even).kind == "arrow"
    assert tw.pred(pandas_even).kind == "pandas"
    assert all(tw.pred(kinds[name], "id").kind == "arrow" for name in kinds if name == "arrow_udf")


def test_pandas_functions_get_structs_and_timestamps_as_in_pandas_udf(spark):
    df = everything(spark).where("nested IS NOT NULL")

    @F.pandas_udf("boolean")
    def check(nested: pd.DataFrame, at: pd.Series) -> pd.Series:
        assert at.dt.tz is None
        return (nested["x"] % 3 == 0) & (at.dt.hour < 20)

    assert ids(tw.where(df, tw.pred(check, "nested", "at"))) == ids(df.where(check("nested", "at")))


def test_null_is_not_true(spark):
    df = everything(spark)
    out = tw.where(df, tw.pred(lambda flag: flag), tw.pred(lambda ratio: None if ratio is None else ratio > 2))
    assert ids(out) == ids(df.where("flag AND ratio > 2"))


def test_no_rows_no_predicates_one_predicate(spark):
    df = spark.range(100)
    assert ids(tw.where(df)) == list(range(100))
    assert tw.where(df.where("id < 0"), tw.pred(lambda id: True)).collect() == []
    assert ids(tw.where(df, lambda id: id == 3)) == [3]
    lonely = tw.where(spark.range(5).repartition(4), tw.pred(lambda id: id >= 0, name="one"), name="lonely")
    assert ids(lonely) == [0, 1, 2, 3, 4]
    assert "nothing to choose" in tw.query("lonely").explain()


def test_a_predicate_sees_only_survivors_and_the_handle_counts_them(spark):
    df = spark.range(0, 40_000, 1, 2)
    few = tw.pred(lambda id: id % 100 == 0, name="few")
    most = tw.pred(lambda id: id % 100 != 1, name="most")
    out = tw.where(df, most, few, policy="written", name="survivors")
    assert out.count() == 400
    stats = tw.query("survivors").stats().groupby("predicate").calls.sum()
    assert stats.to_dict() == {"most": 40_000, "few": 39_600}
    text = tw.query("survivors").explain()
    assert "most → few" in text
    assert "79,600 predicate calls where Spark makes 80,000" in text
    assert "<table>" in tw.query("survivors")._repr_html_()


def test_auto_learns_explains_and_logs(spark):
    df = spark.range(0, 60_000, 1, 2)

    def costly(id):
        return sum(range(1000)) > 0 and id % 10 != 0

    out = tw.where(df, costly, tw.pred(lambda id: id % 20 == 1, name="few"), name="learns", seed=1)
    assert out.count() == 3000
    q = tw.query("learns")
    assert q.plan().route() == ("few", "costly")
    events = q.events()
    assert set(events.kind) >= {"adopt"}
    assert (events.cost_after < events.cost_before)[events.kind == "adopt"].all()
    view = q.view()
    assert view.calls < 0.75 * view.spark_calls
    assert view.saved_against_written > 0.2
    assert "A-Greedy's order" in q.explain()


def test_freeze_pins_and_thaw_releases(spark):
    df = spark.range(0, 20_000, 1, 1)
    first = tw.pred(lambda id: id % 20 != 0, name="first")
    second = tw.pred(lambda id: id % 50 == 7, name="second")

    def run():
        return tw.where(df, first, second, policy="agreedy", name="frozen").count()

    assert run() == 400
    q = tw.query("frozen")
    q.freeze(["first", "second"])
    assert run() == 400
    newest = q.stats().tail(2)
    assert set(newest.route) == {"first → second"}
    assert newest.calls.tolist() == [20_000, 19_000]
    q.thaw()
    assert run() == 400
    assert q.stats().tail(1).route.item() == "second → first"
    assert [k for k in q.events().kind if k in ("freeze", "thaw")] == ["freeze", "thaw"]
    with pytest.raises(tw.DefinitionError, match=r"no predicate 'frist'.*\n.*did you mean 'first'"):
        q.freeze(["frist", "second"])


def test_guard_and_forgiven_errors(spark):
    df = spark.createDataFrame([(i, str(i) if i % 2 else "x") for i in range(2000)], "id long, s string")
    numeric = tw.pred(lambda s: s.isdigit(), name="numeric")
    for policy in ("written", "agreedy", "chaos", "lottery"):
        parsed = tw.pred(lambda s: int(s) % 3 == 0, name="parsed")
        expected = [i for i in range(2000) if i % 2 and i % 3 == 0]
        assert ids(tw.where(df, parsed, numeric, policy=policy)) == expected
        strict = tw.pred(lambda s: int(s) % 3 == 0, name="parsed", after="numeric")
        assert ids(tw.where(df, strict, numeric, policy=policy)) == expected


def test_an_error_surfaces_only_if_its_row_survives(spark):
    df = spark.range(3000)
    for policy in ("written", "auto", "chaos"):
        with pytest.raises(Exception, match=r"predicate 'divides' raised ZeroDivisionError[\s\S]*id=1234"):
            tw.where(
                df,
                tw.pred(lambda id: 1 // (id - 1234) == 0, name="divides"),
                tw.pred(lambda id: id > 1000),
                policy=policy,
            ).collect()


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda id: "yes", "row", r"predicate 'bad' returned a str \('yes'\)"),
        (lambda id: pa.array([True]), "arrow", "was given 10 rows and returned 1 verdicts"),
        (lambda id: id + 1, "pandas", r"predicate 'bad' returned an? int"),
    ],
)
def test_verdicts_that_are_none_are_named(spark, function, kind, message):
    with pytest.raises(Exception, match=message):
        tw.where(spark.range(0, 10, 1, 1), tw.pred(function, "id", kind=kind, name="bad")).collect()


def test_mistakes_are_told_at_once(spark):
    df = spark.createDataFrame([(1, "a")], "size int, dst string")
    with pytest.raises(tw.DefinitionError, match=r"column 'dest'.*\n.*did you mean 'dst'"):
        tw.where(df, tw.pred(lambda x: True, "dest"))
    with pytest.raises(tw.DefinitionError, match=r"no policy 'agredy'.*\n.*did you mean 'agreedy'"):
        tw.where(df, lambda size: True, policy="agredy")
    with pytest.raises(tw.DefinitionError, match="comes after 'gone'"):
        tw.where(df, tw.pred(lambda size: True, after=["gone"]))
    with pytest.raises(tw.DefinitionError, match="wait for each other"):
        tw.where(df, tw.pred(lambda size: True, name="a", after="b"), tw.pred(lambda size: True, name="b", after="a"))
    with pytest.raises(tw.DefinitionError, match="not boolean"):
        tw.where(df, tw.pred(F.udf(lambda x: x, "string"), "dst"))
    with pytest.raises(tw.DefinitionError, match="nondeterministic"):
        tw.where(df, tw.pred(F.udf(lambda x: True, "boolean").asNondeterministic(), "dst"))
    with pytest.raises(tw.DefinitionError, match="no query named"):
        tw.query("never made")
    assert ids(tw.where(spark.range(3), tw.pred(lambda x: x == 1, "ID"))) == [1]  # case does not matter to Spark


def test_sql_runs_in_spark_where_that_makes_no_new_errors(spark):
    df = spark.createDataFrame([(i, str(i) if i % 2 else "x") for i in range(100)], "id long, s string")
    numeric = tw.pred(lambda s: s.isdigit(), name="numeric")
    out = tw.where(df, numeric, "CAST(s AS INT) > 50", "id < 80", F.col("id") != 61, name="sql")
    assert ids(out) == [i for i in range(51, 80, 2) if i != 61]
    places = dict(tw.query("sql").view().elsewhere)
    assert places["id < 80"].startswith("Spark, before")
    assert places["CAST(s AS INT) > 50"].startswith("Spark, after")
    only = tw.where(df, "id < 3", name="sql only")
    assert ids(only) == [0, 1, 2]
    assert "Spark, before" in tw.query("sql only").explain()


def test_the_result_joins_with_itself_and_caches(spark):
    out = tw.where(spark.range(100), lambda id: id % 10 == 0)
    assert out.alias("a").join(out.alias("b"), "id").count() == 10
    assert out.cache().count() == 10
    assert out.union(out).count() == 20
