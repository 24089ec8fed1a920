"""Every function and operator of Spark's own catalogue, with columns of every type as arguments.

`expressions` writes them; `Both` computes one with the engine, as an argument of a Python function in a bound query of a
session, and with Spark. What the engine leaves to Spark, or refuses, is not compared.

    python -m tests.language.catalogue --count 100000 --seed 0

compares that many in each of two sessions, one with ANSI mode and one without.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import itertools
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from thalweg.errors import PredicateError, ThalwegError
from thalweg.language import Source
from thalweg.language.bind import bind
from thalweg.spark.faithful import Meaning, faithful

TYPES = {
    "i8": "tinyint", "i16": "smallint", "i32": "int", "j32": "int", "i64": "bigint", "f32": "float", "f64": "double",
    "d72": "decimal(7,2)", "d38": "decimal(38,10)", "s": "string", "t": "string", "x": "binary", "b": "boolean",
    "day": "date", "m": "timestamp_ntz", "z": "timestamp",
}  # fmt: skip
LITERALS = ["0", "1", "-1", "2", "1.5", "2.5e0", "'a'", "'1'", "''", "NULL", "true", "DATE '2024-02-29'", "7L"]
CASTS = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(7, 2)", "DECIMAL(22, 4)", "STRING", "BOOLEAN",
         "DATE", "TIMESTAMP_NTZ", "TIMESTAMP", "BINARY"]  # fmt: skip
PARTS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOY", "HOUR", "MINUTE", "SECOND"]
SPECIAL = [
    "CAST({0} AS {cast})", "TRY_CAST({0} AS {cast})", "extract({part} FROM {0})", "({0} IS NULL)", "({0} IS NOT NULL)",
    "({0} IS TRUE)", "({0} IS NOT FALSE)", "({0} IS DISTINCT FROM {1})", "({0} BETWEEN {1} AND {2})", "({0} IN ({1}, {2}))",
    "({0} NOT IN ({1}, {2}))", "(CASE WHEN {0} THEN {1} ELSE {2} END)", "(CASE {0} WHEN {1} THEN {2} END)",
    "({0} LIKE 'a%')", "({0} NOT LIKE '_b\\%')", "({0} + INTERVAL '1' DAY)", "({0} - INTERVAL '1' MONTH)",
    "({0} + INTERVAL '2' HOUR)", "(- {0})", "({0} || {1})", "trim({0})", "trim(BOTH 'a' FROM {0})", "substring({0}, 2, 3)",
    "substring({0} FROM 2 FOR 1)", "position({0} IN {1})", "overlay({0} PLACING {1} FROM 2)", "({0} RLIKE 'a')",
]  # fmt: skip
RANDOM_ANSWERS = {"rand", "random", "randn", "uuid", "shuffle", "now", "current_timestamp", "current_date", "curdate",
                  "localtimestamp", "current_time", "randstr", "uniform", "monotonically_increasing_id", "raise_error",
                  "java_method", "reflect", "try_reflect", "spark_partition_id", "input_file_name", "when", "case"}  # fmt: skip


def table(seed: int, rows: int = 40) -> pa.Table:
    """Random values among the extreme ones of every type, and NULLs."""
    draw = random.Random(seed)
    texts = [
        "",
        "a",
        "A",
        "abc",
        "1",
        " 7 ",
        "-0",
        "1e3",
        "true",
        "2024-02-29",
        "ß",
        "İx",
        "日本",
        "a%",
        "\\",
        " a ",
        "NaN",
    ]
    day = datetime.date(2024, 2, 29)
    times = [datetime.datetime(2024, 2, 29, 23, 59, 59, 999999), datetime.datetime(1899, 12, 31), datetime.datetime(9999, 12, 31),
             datetime.datetime(2024, 3, 10, 2, 30), datetime.datetime(1, 1, 1),
             datetime.datetime(1969, 12, 31, 23, 59, 59, 500000)]  # fmt: skip
    reals = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 1e300, 5e-324, 2.0**63, 2.0**31, 0.1, -1e-7]

    def whole(bits: int) -> int:
        edge = 2 ** (bits - 1)
        return draw.choice([edge - 1, -edge, 0, 1, -1, 2, 7, -3, draw.randint(-9, 9)])

    def value(name: str) -> Any:
        if draw.random() < 0.15:
            return None
        match name:
            case "f32":
                return draw.choice([r for r in reals if not 1e38 < abs(r) < math.inf])
            case "f64":
                return draw.choice(reals)
            case "d72":
                return decimal.Decimal(draw.choice([9999999, -9999999, 0, 150, -1, draw.randint(-500, 500)])).scaleb(-2)
            case "d38":
                front = draw.choice([10**28 - 1, 1 - 10**28, 0, 3])
                return decimal.Decimal(f"{front}.{draw.randint(0, 10**10 - 1):010d}")
            case "s" | "t":
                return draw.choice(texts)
            case "x":
                return draw.choice(texts).encode()
            case "b":
                return draw.random() < 0.5
            case "day":
                return draw.choice(
                    [day, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), day + datetime.timedelta(1)]
                )
            case "m":
                return draw.choice(times)
            case "z":
                return draw.choice(times[:4]).replace(tzinfo=datetime.UTC)
        return whole(int(name[1:]))

    return pa.table(
        {"row": range(rows), **{n: pa.array([value(n) for _ in range(rows)], arrow(t)) for n, t in TYPES.items()}}
    )


@cache
def arrow(ddl: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    found = to_arrow_type(DataType.fromDDL(ddl), timezone="UTC")
    return found


def catalogue(spark: SparkSession) -> list[str]:
    """Names of functions and operators, as this Spark tells them."""
    return sorted({row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()} - RANDOM_ANSWERS)


def called(name: str, arguments: Sequence[str]) -> str:
    """A function, or an operator between or before its arguments."""
    if name.replace("_", "").isalnum() and name not in (
        "and",
        "or",
        "not",
        "div",
        "like",
        "ilike",
        "rlike",
        "in",
        "between",
    ):
        return f"{name}({', '.join(arguments)})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:] or arguments)}))"
    return f"({name} {arguments[0]})" if len(arguments) == 1 else f"({f' {name} '.join(arguments)})"


def shallow(names: Iterable[str], draw: random.Random, each: int) -> Iterator[str]:
    """Every name and form with columns of every type and with literals: all of one argument, `each` of two and three."""
    columns = list(TYPES)
    for name in names:
        pairs = list(itertools.product(columns, [*columns, *LITERALS]))
        yield from (called(name, (c,)) for c in columns)
        yield from (called(name, p) for p in draw.sample(pairs, each))
        yield from (called(name, (c, c)) for c in draw.sample(columns, min(each, len(columns))))
        yield from (called(name, (*draw.choice(pairs), draw.choice([*columns, *LITERALS]))) for _ in range(each // 2))


def formed(draw: random.Random, each: int) -> Iterator[str]:
    """What the catalogue has no name for: casts, parts of times, and other syntax."""
    columns = list(TYPES)
    for form in SPECIAL:
        for c, k in itertools.product(columns, range(each)):
            yield _form(form, draw, [c, *(c if k % 2 else draw.choice([*columns, *LITERALS]) for _ in range(2))])


def _form(form: str, draw: random.Random, arguments: Sequence[str]) -> str:
    return form.format(*arguments, cast=draw.choice(CASTS), part=draw.choice(PARTS))


COLUMN = re.compile(rf"\b({'|'.join(TYPES)})\b(?!\s*\()")


def deep(known: Mapping[str, Sequence[str]], draw: random.Random) -> str:
    """A condition, or any value, with expressions of their types in place of its columns. `known`: texts by type."""
    kind = "bool" if draw.random() < 0.6 else draw.choice(list(known))
    text = draw.choice(known[kind])
    for _ in range(draw.randint(1, 3)):
        text = COLUMN.sub(lambda found: _instead(found.group(), known, draw), text)
        if len(text) > 400:
            break
    return text


def _instead(column: str, known: Mapping[str, Sequence[str]], draw: random.Random) -> str:
    options = known.get(str(arrow(TYPES[column])))
    return draw.choice(options) if options and draw.random() < 0.5 else column


@dataclass
class Both:
    """The engine beside Spark, under the settings of one session."""

    spark: SparkSession
    table: pa.Table
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    known: dict[str, list[str]] = field(default_factory=dict)
    """Texts that the engine evaluates and Spark accepts, by the type of their values."""

    def __post_init__(self) -> None:
        self.meaning = Meaning.of(self.spark)
        ddl = ", ".join(f"{n} {t}" for n, t in {"row": "int", **TYPES}.items())
        self.frame = self.spark.createDataFrame(self.table, ddl).coalesce(1).cache()
        self.types = {("t", f.name): f.dataType for f in self.frame.schema.fields}
        self.rows = self.frame.toArrow().sort_by("row")

    def answers(self, text: str) -> tuple[pa.DataType, list[Any]] | None:
        """What the engine gives to a Python function on each row, RAISED where it raises; None if it gives nothing."""
        heard: list[pa.Array] = []
        kinds: list[pa.DataType] = []

        def witness(value: pa.Array) -> pa.BooleanArray:
            heard.append(value)
            kinds.append(value.type)
            return pa.array([True] * len(value))

        try:
            query = bind(
                f"SELECT 1 FROM t WHERE witness({text})", {"t": Source(self.rows.schema)}, {"witness": witness}
            ).query
            block, _ = faithful(query.block, self.types, self.meaning)
        except (ThalwegError, RecursionError):
            return None
        if len(block.filters) != 1 or block.filters[0].evaluate is None:
            return None
        (only,) = block.filters
        arrays = {c: self.rows.column(c).combine_chunks() for c in only.columns}

        def on(start: int, count: int) -> list[Any]:
            heard.clear()
            try:
                only.evaluate({c: a.slice(start, count) for c, a in arrays.items()} or {"row": pa.array(range(count))})
                return plain(heard[0]) if heard else [RAISED] * count
            except PredicateError:
                if count == 1:
                    return [RAISED]
                half = count // 2
                return on(start, half) + on(start + half, count - half)

        values = on(0, self.rows.num_rows)
        return (kinds[0] if kinds else pa.null()), values

    def compare(self, texts: Sequence[str], raising: int, part: int = 100) -> None:
        """Values where the engine has one; and for some of the texts with rows on which it raises, that Spark raises too."""
        found = [(t, a) for t in texts if (a := self.answers(t)) is not None]
        self.counts["left to Spark"] += len(texts) - len(found)
        for start in range(0, len(found), part):
            self._values(found[start : start + part])
        # Of dates that leave the years 1 to 9999 the engine says so; Spark goes on to the year 0.
        loud = [t for t, (_, values) in found if RAISED in values and "INTERVAL" not in t]
        for text in random.Random(len(loud)).sample(loud, min(raising, len(loud))):
            self.counts["raise"] += 1
            try:
                self.frame.selectExpr(f"{text} AS c").toArrow()
            except (PySparkException, Py4JJavaError):
                continue
            self.wrong.append(f"{text}: only the engine raises")

    def _values(self, some: Sequence[tuple[str, tuple[pa.DataType, list[Any]]]]) -> None:
        try:
            shown = self.frame.selectExpr("row", *[f"{_guarded(t, v)} AS c{i}" for i, (t, (_, v)) in enumerate(some)])
            theirs = shown.toArrow().sort_by("row").columns[1:]
        except (PySparkException, Py4JJavaError) as error:
            if len(some) > 1:
                self._values(some[: len(some) // 2])
                self._values(some[len(some) // 2 :])
                return
            said = str(error).partition("\n")[0]
            if "AnalysisException" in type(error).__name__:
                self.counts["only Spark refuses"] += 1  # a call with too many arguments, a text where a number is due
            else:
                self.wrong.append(f"{some[0][0]}: only Spark raises: {said[:150]}")
            return
        for (text, (kind, mine)), column in zip(some, theirs, strict=True):
            self.counts["compared"] += 1
            self.known.setdefault(str(kind), []).append(text)
            if kind != column.type and mine.count(RAISED) < len(mine):
                self.wrong.append(f"{text}: {kind}, Spark {column.type}")
            odd = [
                (r, m, t)
                for r, (m, t) in enumerate(zip(mine, plain(column), strict=True))
                if m != RAISED and repr(m) != repr(t)
            ]
            if odd:
                row, m, t = odd[0]
                self.wrong.append(
                    f"{text} on {[str(self.table.column(c)[row]) for c in TYPES if c in text]}: {m!r}, Spark {t!r}"
                )


RAISED = "raised"


def plain(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python's values; dates and times as numbers, because Python knows no year 10000."""
    if pt.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pt.is_timestamp(values.type) or pt.is_duration(values.type):
        values = values.cast(pa.int64())
    return list(values.to_pylist())


def _guarded(text: str, values: Sequence[Any]) -> str:
    """The text on those rows alone that have an answer."""
    if RAISED not in values:
        return text
    good = [str(r) for r, v in enumerate(values) if v != RAISED]
    return f"CASE WHEN row IN ({', '.join(good) or '-1'}) THEN {text} END"


def names_answered(both: Both, names: Sequence[str], draw: random.Random) -> list[str]:
    """The functions and operators that the engine evaluates for some arguments."""
    tries: dict[str, list[str]] = {name: [] for name in names}
    pairs = [
        ("i32", "i64"),
        ("f64", "f64"),
        ("s", "t"),
        ("b", "b"),
        ("day", "2"),
        ("s", "1"),
        ("i32", "1"),
        ("m", "m"),
        ("'a'", "s"),
        ("s", "'a'"),
    ]
    for name, texts in tries.items():
        texts += [called(name, (c,)) for c in ("i32", "f64", "s", "b", "day", "m")]
        texts += [called(name, p) for p in pairs]
        texts += [called(name, ("b", "i32", "j32")), called(name, ("s", "1", "2"))]
    return [name for name, texts in tries.items() if any(both.answers(t) is not None for t in texts)]


def sessions(spark: SparkSession) -> Iterator[tuple[str, SparkSession]]:
    """One with ANSI mode, one without; both without generated code, which takes longer to compile than to run."""
    for ansi in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        session.conf.set("spark.sql.ansi.enabled", ansi)
        yield f"spark.sql.ansi.enabled={ansi}", session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.language.catalogue", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=100_000, help="expressions to draw in each session; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    import thalweg as tw

    spark = tw.session("catalogue", spark_master="local[1]")
    spark.sparkContext.setLogLevel("OFF")
    wrong = 0
    for said, session in sessions(spark):
        draw = random.Random(chosen.seed)
        both = Both(session, table(chosen.seed))
        names = names_answered(both, catalogue(session), draw)
        print(f"{said}: {len(names)} functions and operators: {', '.join(names)}", flush=True)
        both.compare([*shallow(names, draw, 24), *formed(draw, 4)], raising=200)
        for start in range(0, chosen.count, 5000):
            both.compare([deep(both.known, draw) for _ in range(min(5000, chosen.count - start))], raising=20)
            print(f"{said}, seed {chosen.seed}: {dict(both.counts)}, {len(both.wrong)} wrong", flush=True)
        print("\n".join(both.wrong[:50]), flush=True)
        wrong += len(both.wrong)
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
