"""What the session says is what holds: answers beside Spark's own under collations, odd settings, names and types."""

from __future__ import annotations

import decimal
from contextlib import contextmanager

import pytest
from pyspark.sql import functions as F

import thalweg as tw
from thalweg.errors import DefinitionError, QueryError


@contextmanager
def setting(spark, **conf):
    before = {k: spark.conf.get(k, None) for k in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def rows(df):
    return sorted(map(tuple, df.collect()), key=repr)


def same(spark, condition, a, b, select="a.id AS x, b.id AS y"):
    """Thalweg's rows, which must be Spark's."""
    for name, df in (("a", a), ("b", b)):
        df.createOrReplaceTempView(name)
    text = f"SELECT {select} FROM a, b WHERE {condition}"
    mine, sparks = rows(tw.sql(text, a=a, b=b)), rows(spark.sql(text))
    assert mine == sparks, condition
    return mine


def texts(spark, collation, *values):
    df = spark.createDataFrame(list(enumerate(values)), "id int, s string")
    return df.withColumn("s", F.collate("s", collation))


@pytest.mark.parametrize(
    "condition", ["a.s = b.s", "a.s IN (b.s, 'Q')", "startswith(a.s, 'ab') OR b.id > 5", "a.s < b.s", "a.s <=> b.s"]
)
@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI"])
def test_collated_texts_are_compared_as_spark_compares_them(spark, collation, condition):
    a, b = texts(spark, collation, "Abc", "aBC", "zz", "q"), texts(spark, collation, "abc", "ZZ", "x")
    assert same(spark, condition, a, b)


def test_a_collation_that_ignores_trailing_spaces(spark):
    a, b = texts(spark, "UTF8_BINARY_RTRIM", "x", "y "), texts(spark, "UTF8_BINARY_RTRIM", "x  ", "y")
    assert len(same(spark, "a.s = b.s", a, b)) == 2


def test_a_collated_stream_in_a_window(spark):
    a = texts(spark, "UTF8_LCASE", "Abc").withColumn("t", F.timestamp_seconds("id"))
    b = texts(spark, "UTF8_LCASE", "aBC").withColumn("t", F.timestamp_seconds("id"))
    text = "SELECT a.id FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.s = b.s"
    assert tw.sql(text, a=tw.stream(a, "t"), b=tw.stream(b, "t"), name="collated").count() == 1
    assert "collated UTF8_LCASE" in tw.query("collated").explain()
    partitioned = "SELECT a.id FROM a [PARTITION BY s ROWS 1], b [NOW] WHERE a.id = b.id"
    with pytest.raises(DefinitionError, match=r"PARTITION BY a\.s"):
        tw.sql(partitioned, a=tw.stream(a, "t"), b=tw.stream(b, "t"))


def test_python_beside_a_collated_comparison_is_refused_and_alone_it_is_not(spark):
    a, b = texts(spark, "UTF8_LCASE", "Abc", "x"), texts(spark, "UTF8_BINARY", "abc")

    def short(s: str) -> bool:
        return len(s) < 2

    assert rows(tw.sql("SELECT a.id FROM a CROSS JOIN b WHERE short(a.s)", a=a, b=b, short=short)) == [(1,)]
    with pytest.raises(DefinitionError, match="collated UTF8_LCASE"):
        tw.sql("SELECT a.id FROM a CROSS JOIN b WHERE short(a.s) OR a.s = 'ABC'", a=a, b=b, short=short)
    with pytest.raises(DefinitionError, match="different collations"):
        tw.sql("SELECT a.id FROM a, b WHERE a.s = b.s", a=a, b=b)


@pytest.mark.parametrize(
    "condition",
    ["a.n / b.n > 0 OR a.n = 5", "a.n % b.n = 1 OR a.n = 5", "a.n + b.n < 0", "CAST(a.f AS INT) + b.n > 0"],
)
def test_without_ansi_mode_arithmetic_is_that_of_the_session(spark, condition):
    a = spark.createDataFrame([(1, 5, 1e20), (2, 2**31 - 1, 1.5)], "id int, n int, f double")
    b = spark.createDataFrame([(1, 0), (2, 2), (3, 1)], "id int, n int")
    with setting(spark, **{"spark.sql.ansi.enabled": "false"}):
        same(spark, condition, a, b)


def test_without_ansi_mode_python_beside_arithmetic_is_refused(spark):
    a = spark.createDataFrame([(1, 5, 1.5)], "id int, n int, f float")

    def odd(n: int) -> bool:
        return n % 2 == 1

    with setting(spark, **{"spark.sql.ansi.enabled": "false"}):
        assert tw.sql("SELECT a.id FROM a, b WHERE a.id = b.id AND odd(a.n)", a=a, b=a, odd=odd).count() == 1
        with pytest.raises(DefinitionError, match=r"spark\.sql\.ansi\.enabled=false"):
            tw.sql("SELECT a.id FROM a, b WHERE a.id = b.id AND odd(a.n + b.n)", a=a, b=a, odd=odd)
        with pytest.raises(DefinitionError, match="rounds to float"):
            tw.sql("SELECT a.id FROM a, b WHERE a.id = b.f", a=a, b=a)


def test_backslashes_are_read_as_the_session_reads_them(spark):
    a = spark.createDataFrame([(1, "x\\ty"), (2, "x\ty"), (3, "a%")], "id int, s string")
    conditions = (r"a.s = 'x\ty' AND b.id = a.id", r"concat(a.s, b.s) = 'x\tyx\ty'", r"a.s = 'x\ty' OR b.s = 'x\ty'")
    for escaped in ("true", "false"):
        with setting(spark, **{"spark.sql.parser.escapedStringLiterals": escaped}):
            for condition in conditions:
                assert same(spark, condition, a, a)


@pytest.mark.parametrize("name", ["a.b", "tick`s", "two words", "ünï", "select", "1st", "x.y`z w"])
def test_columns_of_any_name_can_be_keys_conditions_and_results(spark, name):
    quoted = "`" + name.replace("`", "``") + "`"
    df = spark.createDataFrame([(1, 7), (2, 8)], ["id", name])
    same(spark, f"a.{quoted} = b.{quoted} AND a.{quoted} > 7", df, df, f"a.{quoted} AS x, b.id AS y")
    assert rows(tw.sql(f"SELECT a.{quoted} FROM a, b WHERE a.id = b.id AND a.{quoted} < b.{quoted} + 1", a=df, b=df))


def test_columns_that_python_can_not_hold_do_no_harm_unless_they_are_asked_for(spark):
    df = spark.sql("SELECT 1 AS id, INTERVAL '1-2' YEAR TO MONTH AS ym, parse_json('{\"n\": 3}') AS v")
    assert rows(tw.sql("SELECT a.id FROM a, b WHERE a.id = b.id", a=df, b=df)) == [(1,)]
    kept = "SELECT a.id FROM a, b WHERE a.id = b.id AND a.ym > INTERVAL '1' YEAR AND variant_get(a.v, '$.n', 'int') = 3"
    assert rows(tw.sql(kept, a=df, b=df)) == [(1,)]
    for column, type in (("ym", "interval year to month"), ("v", "variant")):
        with pytest.raises(DefinitionError, match=rf"'a\.{column}' is {type}"):
            tw.sql(f"SELECT a.{column} FROM a, b WHERE a.id = b.id", a=df, b=df)
    with pytest.raises(DefinitionError, match="can't travel"):
        tw.sql("SELECT * FROM a, b WHERE a.id = b.id", a=df, b=df)


def test_filters_take_columns_of_any_name_and_fields_of_structs(spark):
    df = spark.sql("SELECT id, id AS `a.b`, struct(id AS x, struct(id * 2 AS Y) AS inner) AS st FROM range(6)")

    def small(v: int) -> bool:
        return v < 3

    odd = tw.where(df, tw.pred(small, "a.b"), tw.pred(small, "st.x", name="x"), tw.pred(small, "ST.inner.y", name="y"))
    assert odd.columns == df.columns
    assert [r.id for r in odd.collect()] == [0, 1]
    missing = spark.sql("SELECT CAST(NULL AS STRUCT<x: INT>) AS st")
    assert tw.where(missing, tw.pred(lambda v: v is None, "st.x", name="none")).count() == 1
    with pytest.raises(DefinitionError, match=r"takes column 'st\.z', which is not there"):
        tw.where(df, tw.pred(small, "st.z"))


def test_double_quotes_are_refused_where_the_session_takes_them_for_texts(spark):
    df = spark.createDataFrame([(1, "n", 5), (2, "x", 2)], "id int, s string, n int")
    text = 'SELECT a.id FROM a, b WHERE a.id = b."n"'
    with pytest.raises(QueryError, match="double quotes are around texts"):
        tw.sql(text, a=df, b=df)
    with setting(spark, **{"spark.sql.ansi.doubleQuotedIdentifiers": "true"}):
        assert rows(tw.sql(text, a=df, b=df)) == [(2,)]


def test_a_plus_sign_that_makes_a_text_a_number_is_refused(spark):
    df = spark.createDataFrame([(1, " 7 ")], "id int, s string")
    with pytest.raises(QueryError, match="leave out the plus sign"):
        tw.sql("SELECT a.id FROM a, b WHERE a.id = b.id AND + a.s = '7'", a=df, b=df)
    assert rows(tw.sql("SELECT a.id FROM a, b WHERE a.id = b.id AND a.id > +0", a=df, b=df)) == [(1,)]


@pytest.mark.parametrize("key", ["spark.sql.ansi.enabled", "spark.sql.decimalOperations.allowPrecisionLoss"])
def test_python_beside_arithmetic_of_decimals_is_refused_where_it_means_something_else(spark, key):
    df = spark.sql("SELECT 1 AS id, CAST('1.23' AS DECIMAL(38, 10)) AS d, CAST(0 AS DECIMAL(38, 10)) AS z")

    def known(d: decimal.Decimal) -> bool:
        return d is not None

    text = "SELECT a.id FROM a, b WHERE a.id = b.id AND known(a.d * b.d)"
    assert rows(tw.sql(text, a=df, b=df, known=known)) == [(1,)]
    grouped = "SELECT a.id, max(a.d * a.d) AS m FROM a GROUP BY a.id"
    assert len(rows(tw.sql(grouped, a=df))) == 1
    with setting(spark, **{key: "false"}):
        with pytest.raises(DefinitionError, match=f"{key}=false"):
            tw.sql(text, a=df, b=df, known=known)
        with pytest.raises(DefinitionError, match=f"{key}=false"):
            tw.sql(grouped, a=df)
