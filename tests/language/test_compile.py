"""Vectorised conditions against two other engines: DuckDB on random expressions, and Spark itself (marked spark).

Expressions are drawn over columns with NULLs, NaN, infinities, both zeros and odd texts; values are small enough that
neither engine overflows. What must raise is tested by hand below.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.language.values import valued

from thalweg.errors import PredicateError
from thalweg.language import Column, Source
from thalweg.language.bind import bind
from thalweg.language.scalar.compile import OnlySpark

SEED = 20261115
ROWS = 60
SCHEMA = pa.schema(
    {"i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "j32": pa.int32(), "i64": pa.int64(), "j64": pa.int64(),
     "f32": pa.float32(), "f64": pa.float64(), "g64": pa.float64(), "d72": pa.decimal128(7, 2),
     "d124": pa.decimal128(12, 4), "s": pa.string(), "t": pa.string(), "b": pa.bool_(), "c": pa.bool_(),
     "day": pa.date32(), "due": pa.date32(), "m1": pa.timestamp("us"), "m2": pa.timestamp("us")}
)  # fmt: skip
WORDS = ["", "a", "A", "ab", "abc", "b%", "a_b", "ß", "Ärger", "日本", " a ", "aa\nb", "z", "İx", "ΟΔΟΣ", "\\"]


def data(seed: int) -> pa.Table:
    draw = random.Random(seed)
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5]
    day = datetime.date(2024, 2, 27)

    def value(name: str) -> Any:
        if draw.random() < 0.2:
            return None
        match name[0]:
            case "i" | "j":
                return draw.randint(-4, 4)
            case "f" | "g":
                return draw.choice(special) if draw.random() < 0.5 else draw.randint(-3, 3) / 2
            case "d" if name[1].isdigit():
                return decimal.Decimal(draw.randint(-300, 300)) / 100
            case "s" | "t":
                return draw.choice(WORDS)
            case "d":
                return day + datetime.timedelta(days=draw.randint(-2, 4))
            case "m":
                steps = draw.randint(-3, 3)
                return datetime.datetime(2024, 2, 29) + datetime.timedelta(hours=6 * steps, microseconds=steps)
            case _:
                return draw.random() < 0.5

    return pa.table({f.name: pa.array([value(f.name) for _ in range(ROWS)], f.type) for f in SCHEMA})


class Grammar:
    """Random expressions that mean the same to Spark and DuckDB."""

    def __init__(self, seed: int, spark: bool) -> None:
        self.draw = random.Random(seed)
        self.spark = spark
        """Whether Spark is asked: then also what DuckDB spells or types differently."""

    def condition(self, depth: int) -> str:
        d = self.draw
        if depth == 0:
            return d.choice([d.choice("bc"), f"({d.choice(SCHEMA.names)} IS NULL)",
                             f"({d.choice(SCHEMA.names)} IS NOT NULL)",
                             d.choice(["true", "false", "CAST(NULL AS BOOLEAN)"])])  # fmt: skip
        kind = d.randrange(14 if self.spark else 13)
        inner = depth - 1
        match kind:
            case 0 | 1 | 2:
                a, b = self.two(inner)
                return f"({a} {d.choice(['=', '<>', '<', '<=', '>', '>=', '!='])} {b})"
            case 3:
                return f"({self.condition(inner)} AND {self.condition(inner)})"
            case 4:
                return f"({self.condition(inner)} OR {self.condition(inner)})"
            case 5:
                return f"(NOT {self.condition(inner)})"
            case 6:
                a, b = self.two(inner)
                return f"({a} {d.choice(['', 'NOT '])}BETWEEN {b} AND {a if d.random() < 0.5 else b})"
            case 7:
                value, options = self.members(inner)
                return f"({value} {d.choice(['', 'NOT '])}IN ({', '.join(options)}))"
            case 8:
                pattern = d.choice(["a%", "%", "", "_", "a_", "%b%", "A", "%\\%", "a\\_b", "日_", "%\n%"])
                if not self.spark:
                    pattern = pattern.replace("\\", "")
                return f"({self.text(inner)} {d.choice(['', 'NOT '])}LIKE '{pattern.replace(chr(92), chr(92) * 2)}')"
            case 9:
                a, b = self.two(inner)
                return f"({a} IS {d.choice(['', 'NOT '])}DISTINCT FROM {b})"
            case 10:
                return f"(CASE WHEN {self.condition(inner)} THEN {self.condition(inner)} ELSE {self.condition(0)} END)"
            case 11:
                return f"({self.condition(inner)} IS {d.choice(['', 'NOT '])}{d.choice(['TRUE', 'FALSE'])})"
            case 12:
                return f"coalesce({self.condition(inner)}, {self.condition(0)})"
            case _:
                a, b = self.two(inner)
                return f"({a} <=> {b})"

    def two(self, depth: int) -> tuple[str, str]:
        family = self.draw.choice([self.whole, self.whole, self.real, self.fixed, self.text, self.date, self.time])
        if self.spark and self.draw.random() < 0.15:
            mixed = [("b", "c"), ("b", "true"), ("day", "m1"), ("m2", "due"), ("day", "'2024-02-29'"), ("i64", "1.5"),
                     ("i32", "(i32 & 6)"), ("i64", "(i64 | j32)"), ("i16", "(i16 ^ 3)"), ("f32", "0.1"),
                     ("f64", "d72 * 1D"),
                     ("m1", "'2024-02-29 06:00:00.000001'"), ("d72", "1L"), ("CAST(b AS INT)", "i32"), ("f32", "i64"),
                     ("CAST(i32 AS BOOLEAN)", "b"), ("CAST(f64 * 0 AS STRING)", "s"), ("(m1 - m2)", "INTERVAL 1 DAY"),
                     ("CAST(i64 AS DECIMAL(22, 2))", "d72"), ("if(b, i32, d72)", "i64"), ("NULL", "i32"),
                     ("CAST(CAST(f32 AS DOUBLE) AS FLOAT)", "f32"), ("(due - 2)", "day"), ("i64", "f64")]  # fmt: skip
            return self.draw.choice(mixed)
        if family == self.fixed and self.draw.random() < 0.5:
            return self.fixed(depth), self.whole(depth)
        if family == self.real and self.draw.random() < 0.3:
            return self.real(depth), self.whole(depth)
        return family(depth), family(depth)

    def members(self, depth: int) -> tuple[str, list[str]]:
        d = self.draw
        if d.random() < 0.5:
            return self.whole(depth), [d.choice(["1", "2", "-3", "NULL", "i32", "0"]) for _ in range(d.randint(1, 4))]
        if d.random() < 0.5:
            return self.text(depth), [d.choice(["'a'", "'ab'", "NULL", "t", "''"]) for _ in range(d.randint(1, 4))]
        return self.real(depth), [d.choice(["1.5", "0.0", "NULL", "g64"]) for _ in range(d.randint(1, 3))]

    def whole(self, depth: int) -> str:
        d = self.draw
        if depth == 0:
            return d.choice(["i8", "i16", "i32", "j32", "i64", "j64", str(d.randint(-5, 5)), "i64"])
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        wide = [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})"]
        choices = [f"abs({a})", f"(- {a})", f"coalesce({a}, {b})", f"greatest({a}, {b}, i32)", f"least({a}, {b})",
                   f"nullif({a}, {b})", f"CASE {a} WHEN {b} THEN 1 WHEN 2 THEN {b} END", f"length({self.text(0)})",
                   f"CAST({a} AS BIGINT)", f"({a} % 3)",
                   d.choice(["year(day)", "extract(month FROM m1)", "quarter(due)", "extract(day FROM m2)", "hour(m1)",
                             "minute(m2)"])]  # fmt: skip
        # i8 overflows soon, and DuckDB types its sums differently.
        return d.choice(choices) if "i8" in a + b or d.random() < 0.4 else d.choice(wide)

    def real(self, depth: int) -> str:
        d = self.draw
        if depth == 0:
            single = ["f32", "f32", "1.5F"] if self.spark else []
            return d.choice(["f64", "g64", "f64", "CAST(f32 AS DOUBLE)", "1.5", "1e0", "CAST(i32 AS DOUBLE)", *single])
        a, b = self.real(depth - 1), self.real(depth - 1)
        divided = [f"({a} / 2.5e0)", "(i32 / 4)"] if self.spark else [f"({a} / CAST(2.5 AS DOUBLE))"]
        plain = [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})"]
        if self.spark:
            plain += [f"(f32 + {b})", "(f32 * f32)", "(i32 - f32)", "(i64 * f32)", f"({a} % 2.5e0)", "(f32 - d72)"]
        elif not ("f64" in a + b or "g64" in a + b or "CAST" in a + b or "e0" in a + b):
            plain = ["f64"]
        return d.choice([*plain, *divided, f"coalesce({a}, {b}, f64)", f"greatest({a}, f64)", f"least({a}, g64)",
                         f"(- {a})", f"abs({a})"])  # fmt: skip

    def fixed(self, depth: int) -> str:
        d = self.draw
        if depth == 0:
            return d.choice(["d72", "d124", "1.50", "0.25", "-2.5"])
        a, b = self.fixed(0), self.fixed(0)
        return d.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", a, "(d72 + 1)", "(d124 * 2)"])

    def text(self, depth: int) -> str:
        d = self.draw
        if depth == 0:
            return d.choice(["s", "t", "'a'", "''", "'ab'", "s"])
        a = self.text(depth - 1)
        shown = [f"upper({a})", f"lower({a})"] if self.spark else []
        return d.choice([*shown, f"trim({a})", f"ltrim({a})", f"rtrim({a})", f"({a} || t)", f"({a} || {a})",
                         f"substring({a}, {d.randint(1, 3)}, {d.randint(0, 3)})", f"coalesce({a}, t)",
                         f"left({a}, {d.randint(0, 2)})", "CAST(i32 AS STRING)"])  # fmt: skip

    def date(self, depth: int) -> str:
        d = self.draw
        return d.choice(["day", "due", "DATE '2024-02-29'", "(day + 1)", "CAST(m1 AS DATE)", "coalesce(day, due)",
                         "(day + INTERVAL '1' MONTH)", "(due - INTERVAL '1' YEAR)", "(day - INTERVAL '2' DAY)"])  # fmt: skip

    def time(self, depth: int) -> str:
        d = self.draw
        some = ["m1", "m2", "(m1 + INTERVAL 6 HOURS)", "(m2 - INTERVAL 1 DAY)", "greatest(m1, m2)"]
        return d.choice([*some, "TIMESTAMP_NTZ '2024-02-29 00:00:00'"] if self.spark else some)


def drawn(count: int, seed: int, spark: bool) -> Iterator[str]:
    for i in range(count):
        text = Grammar(seed + i, spark).condition(1 + i % 4)
        if any(name in text for name in SCHEMA.names):
            yield f"NOT NOT ({text})"


def ours(text: str, table: pa.Table) -> list[Any] | None:
    """What the compiled condition says; None where it is left to Spark."""
    q = bind(f"SELECT 1 FROM t WHERE {text}", {"t": Source(SCHEMA)}).query
    if len(q.block.filters) != 1:
        return None
    (only,) = q.block.filters
    if only.evaluate is None:
        return None
    return list(only.evaluate({c: table.column(c).combine_chunks() for c in only.columns}).to_pylist())


def test_random_conditions_agree_with_duckdb() -> None:
    table = data(SEED)
    con = duckdb.connect()
    con.register("t", table)
    compared = left = 0
    for text in drawn(1500, SEED, spark=False):
        mine = ours(text, table)
        if mine is None:
            left += 1
            continue
        theirs = [r[0] for r in con.execute(f"SELECT {text} FROM t").fetchall()]
        assert mine == theirs, f"seed {SEED}: {text}"
        compared += 1
    assert compared > 1200
    assert left < 0.1 * compared


EDGE = pa.table(
    {"i8": pa.array([127, -128, 0, None], pa.int8()), "i32": pa.array([2**31 - 1, -(2**31), 0, None], pa.int32()),
     "i64": pa.array([2**63 - 1, -(2**63), 0, None], pa.int64()),
     "f64": pa.array([math.nan, 1e300, 2.0**63, None], pa.float64())}
)  # fmt: skip
RAISING = [
    "i32 + 1 > 0", "1 - i32 > 0", "i32 * 2 > 0", "i64 + 1 > 0", "i64 - 2 > 0", "i64 * i64 > 0", "i8 + i8 > 0",
    "- i32 > 0", "abs(i64) > 0", "abs(i8) > 0", "1 / i32 > 0", "i64 % i32 > 0", "i64 DIV i32 > 0", "f64 / 0 > 0",
    "f64 % 0 > 0", "CAST(i32 AS TINYINT) > 0", "CAST(f64 AS INT) > 0", "CAST(f64 AS BIGINT) > 0", "i64 DIV -1 > 0",
    "NOT (i32 IS NULL OR i32 + 1 > 0)", "i32 BETWEEN 0 AND i32 + 1", "CASE WHEN i32 < 0 THEN i32 - 1 END < 0",
]  # fmt: skip
QUIET = {
    "i8 + 1 > 100": [True, False, False, None],
    "i32 + 1L > 0": [True, False, True, None],
    "i64 + 1.0 > 0": [True, False, True, None],
    "i32 = 0 OR 1 / i32 < 1": [True, True, True, None],
    "i32 <> 0 AND 1 / i32 < 1": [True, True, False, None],
    "CASE WHEN i32 > 0 THEN i32 - 1 ELSE i32 + 1 END > 1": [True, False, False, None],
    "coalesce(i32, i32 + 1) > 0": None,
    "if(i32 < 0, 0, -i32) = 0": [False, True, True, None],
    "i64 % -1 = 0": [True, True, True, None],
    "f64 > 1e308": [True, False, False, None],
    "f64 = f64": [True, True, True, None],
    "f64 <> CAST('x' = 'y' AS INT) + f64": [False, False, False, None],
    "i64 = 9223372036854775807.0": [True, False, False, None],
    "i64 = 9.223372036854775807e18": [True, False, False, None],
    "i64 = 9223372036854775808": [False, False, False, None],
    "isnan(f64)": [True, False, False, False],
    "i32 IN (NULL, 0)": [None, None, True, None],
    "i32 NOT IN (1, 2)": [True, True, True, None],
    "(i32 <=> NULL) = true": [False, False, False, True],
    "NULL BETWEEN NULL AND i32": [None, None, None, None],
    "i32 NOT BETWEEN NULL AND -1": [True, None, True, None],
    "CASE NULL WHEN NULL THEN true ELSE i32 = 0 END": [False, False, True, None],
    "NULL = NULL OR i32 = 0": [None, None, True, None],
    "(NULL <=> NULL) AND i32 = 0": [False, False, True, None],
    "i32 IN (NULL)": [None, None, None, None],
    "NOT (NULL AND i32 = 0)": [True, True, None, None],
}
ONLY_SPARK = [
    "s RLIKE 'a'", "s ILIKE 'a'", "s LIKE t", "s LIKE 'a\\\\b'", "substring(s, -2, 1) = 'a'", "round(f64, 1) > 1",
    "sqrt(f64) > 1",
    "CAST(f64 AS STRING) = 'a'", "CAST(s AS INT) = 1", "s = 1", "s > day",
    "day = 'yesterday'", "day > '2024-1-1'", "TRY_CAST(i64 AS INT) = 1", 
    "date_add(day, 1) > due",
    "dayofweek(day) = 2", "m1 > '2024-01-01T00:00Z'", "CAST(day AS TIMESTAMP) > m1", "floor(f64) = 1", 
    "m1 + INTERVAL 1 MONTH > m2", "named_struct('a', i32).a = 1", "array(i32)[0] = 1", "trim('x' FROM s) = 'a'",
    "i32 BETWEEN SYMMETRIC 1 AND 2", "s COLLATE UNICODE = 'a'", "s LIKE 'a%' ESCAPE '!'",
    "-(d124 * d124 * d124) > 1",
    "nvl2(i32, 1, 2) = 1", "i32 << 1 = 2", "pmod(i32, 2) = 1", "i64 < 9223372036854775808", "i8 > -9223372036854775809",
    "i64 BETWEEN 1 AND 9223372036854775808", "i64 >= 1e30BD", "search(s, 'a')",
]  # fmt: skip


def judged(text: str, table: pa.Table) -> list[Any]:
    q = bind(f"SELECT 1 FROM t WHERE NOT NOT ({text})", {"t": Source(table.schema)}).query
    (only,) = q.block.filters
    assert only.evaluate is not None, f"{text} is left to Spark"
    return list(only.evaluate({c: table.column(c).combine_chunks() for c in only.columns}).to_pylist())


@pytest.mark.parametrize("text", RAISING)
def test_raises_where_spark_does(text: str) -> None:
    with pytest.raises(PredicateError, match=r"overflows|division by zero|does not fit"):
        judged(text, EDGE)


@pytest.mark.parametrize(("text", "wanted"), QUIET.items())
def test_does_not_raise(text: str, wanted: list[Any] | None) -> None:
    if wanted is None:
        wanted = [True, False, False, None]
    assert judged(text, EDGE) == wanted


def test_a_float_of_two_to_63_becomes_the_largest_bigint() -> None:
    table = pa.table({"f": pa.array([2.0**63, -(2.0**63), -1.9, 1.9, None])})
    assert judged("CAST(f AS BIGINT) = 9223372036854775807", table) == [True, False, False, False, None]
    assert judged("CAST(f AS BIGINT) = -1", table) == [False, False, True, False, None]


@pytest.mark.parametrize("text", ONLY_SPARK)
def test_what_could_differ_is_left_to_spark(text: str) -> None:
    q = bind(f"SELECT 1 FROM t WHERE {text}", {"t": Source(SCHEMA)}).query
    assert [f.evaluate for f in q.block.filters] == [None]


def test_values_have_sparks_types() -> None:
    table = data(SEED)
    value = valued("d72 * (1 - d124)", SCHEMA)
    assert value.type == pa.decimal128(21, 6)
    assert value({c: table.column(c) for c in table.column_names}).type == value.type
    assert valued("s || t", SCHEMA).type == pa.string()
    with pytest.raises(OnlySpark):
        valued("s RLIKE t", SCHEMA)
    with pytest.raises(OnlySpark):
        valued("array(i32)", SCHEMA)


def test_a_node_computed_elsewhere_is_read_as_a_column() -> None:
    value = valued("sum(i32) + 1", SCHEMA, {"SUM(i32)": pa.int64()})
    assert (value.type, value({"SUM(i32)": pa.array([1, None])}).to_pylist()) == (pa.int64(), [2, None])
    constant = valued("1 + 1", SCHEMA)
    assert constant({}, rows=3).to_pylist() == [2, 2, 2]


def test_residual_sees_columns_of_several_inputs() -> None:
    q = bind("SELECT 1 FROM t a, t b WHERE a.i32 < b.i64 + a.i8 AND a.f64 = b.f64", {"t": Source(SCHEMA)}).query
    (only,) = q.block.residuals
    assert only.evaluate is not None
    arrays = {Column("a", "i32"): pa.array([1, 5, None], pa.int32()), Column("b", "i64"): pa.array([1, 2, 3]),
              Column("a", "i8"): pa.array([1, 1, 1], pa.int8())}  # fmt: skip
    assert only.evaluate(arrays).to_pylist() == [True, False, None]


def test_empty_batches_and_slices() -> None:
    table = data(SEED)
    for text in drawn(200, SEED, spark=False):
        whole = ours(text, table)
        if whole is not None:
            assert ours(text, table.slice(0, 0)) == []
            assert ours(text, table.slice(7, 11)) == whole[7:18], text


@pytest.fixture(scope="module")
def frame(spark: Any) -> Iterator[Any]:
    """The random table as a Spark DataFrame, in a session with settings of its own."""
    shared, spark = spark, spark.newSession()
    for key in ("spark.sql.codegen.wholeStage", "spark.sql.ansi.enabled"):
        spark.conf.set(key, str(key.endswith("ansi.enabled")).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    types = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean",
             "date32[day]": "date", "timestamp[us]": "timestamp_ntz"}  # fmt: skip
    ddl = ", ".join(f"{f.name} {types.get(str(f.type), str(f.type).replace('decimal128', 'decimal'))}" for f in SCHEMA)
    yield spark.createDataFrame(data(SEED), ddl).repartition(1).alias("t")
    shared.createDataFrame([], "x int")  # whoever makes a DataFrame is the active session: as before


@pytest.mark.spark
def test_random_conditions_agree_with_spark(frame: Any) -> None:
    table = data(SEED)
    frame = frame.cache()
    rows = frame.toArrow()
    assert rows.schema.types == SCHEMA.types
    texts: list[str] = []
    expected: list[list[Any]] = []
    left = 0
    for text in drawn(500, SEED + 10_000, spark=True):
        q = bind(f"SELECT 1 FROM t WHERE {text}", {"t": Source(SCHEMA)}).query
        if len(q.block.filters) != 1:
            continue
        (only,) = q.block.filters
        if only.evaluate is None:
            left += 1
            continue
        texts.append(only.text)
        expected.append(only.evaluate({c: rows.column(c).combine_chunks() for c in only.columns}).to_pylist())
    assert len(texts) > 300
    assert left < 0.1 * len(texts)
    assert table.num_rows == rows.num_rows
    wrong = []
    for start in range(0, len(texts), 250):
        part = texts[start : start + 250]
        got = frame.selectExpr(*[f"{t} AS c{i}" for i, t in enumerate(part)]).toArrow()
        wrong += [t for i, t in enumerate(part) if expected[start + i] != got.column(i).to_pylist()]
    assert not wrong, f"seed {SEED}, {len(wrong)} of {len(texts)}: {sorted(wrong, key=len)[:10]}"


@pytest.mark.spark
def test_spark_raises_and_answers_alike_at_the_edges(frame: Any) -> None:
    from pyspark.errors import PySparkException

    ddl = "i8 tinyint, i32 int, i64 bigint, f64 double"
    edge = frame.sparkSession.createDataFrame(EDGE, ddl).coalesce(1).alias("t")
    assert str(edge.toArrow().to_pydict()) == str(EDGE.to_pydict())
    for text, wanted in QUIET.items():
        got = edge.selectExpr(f"NOT NOT ({text}) AS c").toArrow().column(0).to_pylist()
        assert got == (wanted or [True, False, False, None]), text
    for text in RAISING:
        with pytest.raises(PySparkException):
            edge.selectExpr(f"NOT NOT ({text}) AS c").collect()


TEXTS = [r"'it''s'", r"'a\\b'", r"'a\_b'", r"'a\%b'", r"'\n\t\r\b\0\Z'", r"'\x\q\''", r"'\u00e9\U0001F600\101\777\1'",
         r"'\\\\'",
         r"r'a\nb'", "'a' 'b'", "'日本'", r"'\u12'", "'two\nlines'"]  # fmt: skip
LOOSE = ["i32 | j32 & 6 = i32", "i32 & j32 ^ 3 = 1", "NOT b = c", "! b = c", "b = c IS NULL", "b AND c OR b = c",
         "i32 < j32 IS TRUE",
         "- i32 * j32 + 2 > i64 - j64 - 1", "i32 BETWEEN 1 AND 2 AND b", "i32 + 1 IN (1, 2) OR c",
         "NOT i32 IN (1) AND c",
         "b = (i32 IN (1, 2))", "s || t = t", "i32 % 3 * 2 = 2", "NOT b IS NULL", "i32 = j32 = b", "b <> c = b",
         "b = c <=> b",
         "i32 - 1 - j32 = 0", "b OR c AND NOT b OR c", "s LIKE 'a%' OR b",
         "CASE WHEN b THEN c END AND b OR c"]  # fmt: skip


@pytest.mark.spark
def test_spark_reads_texts_and_precedence_alike(frame: Any) -> None:
    rows = frame.toArrow()
    for text in LOOSE:
        q = bind(f"SELECT 1 FROM t WHERE NOT NOT ({text})", {"t": Source(SCHEMA)}).query
        (only,) = q.block.filters
        got = frame.selectExpr(f"NOT NOT ({text}) AS c").toArrow().column(0).to_pylist()
        if only.evaluate is not None:
            mine = only.evaluate({c: rows.column(c).combine_chunks() for c in only.columns}).to_pylist()
            assert mine == got, text
    for text in TEXTS:
        (value,) = frame.sparkSession.range(1).selectExpr(f"{text} AS c").toArrow().column(0).to_pylist()
        q = bind(f"SELECT 1 FROM t WHERE s = {text}", {"t": Source(SCHEMA)}).query
        assert q.block.filters[0].evaluate is not None, text
        assert q.block.filters[0].evaluate({"s": pa.array([value])}).to_pylist() == [True], text


@pytest.mark.spark
def test_output_is_named_as_spark_names_it(frame: Any) -> None:
    items = ["i32", "I32", "t.i32", "i32 + 1", "(i32 + i64) * 2", "-i32", "- 5", "'x'", "1.5", "NULL", "true",
             "i32 = 1",
             "i32 <> 1", "NOT i32 > 1", "i32 IS NULL", "i32 IS NOT NULL", "i32 IN (1, 2)", "CAST(i32 AS STRING)",
             "CASE WHEN i32 > 1 THEN s ELSE t.t END", "CASE i32 WHEN 1 THEN s END", "coalesce(i32, i64)", "UPPER(s)",
             "i32 % 2", "i32 DIV 2", "i32 / 2", "b AND c", "b OR NOT c", "s LIKE 'a%'", "s || t.t", "i32 & 1",
             "abs(i32)",
             "greatest(i32, i64, 3)", "concat(s, '-', t.t)", "length(s)", "i32 <=> 1", "if(b, 1, 2)", "10L",
             "i32 AS `my x`",
             "round(f64, 2)", "trim(s)", "substring(s, 1, 2)", "date_format(day, 'yyyy')",
             "i32 BETWEEN 1 AND 2"]  # fmt: skip
    # One by one: several of them have the same name.
    ours = [bind(f"SELECT {item} FROM t", {"t": Source(SCHEMA)}).query.output[0] for item in items]
    theirs = frame.selectExpr(*items).columns
    wrong = {i: (o.name, n) for i, o, n in zip(items, ours, theirs, strict=True) if o.name != n}
    assert not wrong
    # The text that is handed to Spark means the same as what the user wrote.
    again = frame.selectExpr(*[o.text for o in ours]).toArrow()
    written = frame.selectExpr(*items).toArrow()
    assert [c.to_pylist().__repr__() for c in again.columns] == [c.to_pylist().__repr__() for c in written.columns]
