"""Decimal arithmetic, comparison and casts against Spark, over random types and extreme values.

Spark runs without ANSI mode here: there an overflow is NULL, so that one row does not hide the others.
"""

from __future__ import annotations

import decimal
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.language.values import RAISED, asked, evaluated, valued

from thalweg.language.scalar.compile import OnlySpark

SEED = 20261118
ROWS = 24
TYPES = [(15, 2), (12, 4), (38, 0), (38, 38), (38, 18), (38, 6), (1, 0), (1, 1), (18, 9), (20, 0), (25, 2), (31, 30),
         (7, 7), (36, 2)]  # fmt: skip

LEFT = {f"{sign}{i}{end}" for i, (p, _) in enumerate(TYPES) if p > 34 for sign, end in [("- d", ""), ("abs(d", ")")]}
"""Spark rounds these: it negates decimals in 34 digits."""


def drawn(draw: random.Random, precision: int, scale: int) -> decimal.Decimal | None:
    """Few digits, all digits, halves, nines or NULL."""
    if draw.random() < 0.1:
        return None
    digits = draw.choice([1, precision, draw.randint(1, precision)])
    most = 10**digits - 1
    value = draw.choice([0, most, most // 2, draw.randint(0, most), 5 * 10 ** (digits - 1), draw.randint(0, 9)])
    return decimal.Decimal(draw.choice([-1, 1]) * value).scaleb(-scale, decimal.Context(prec=80))


def data(draw: random.Random) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for i, (p, s) in enumerate(TYPES):
        columns[f"d{i}"] = pa.array([drawn(draw, p, s) for _ in range(ROWS)], pa.decimal128(p, s))
    for name, type in {"i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64()}.items():
        most = 2 ** (type.bit_width - 1)
        some = [draw.choice([0, 1, -1, most - 1, -most, draw.randint(-most, most - 1), None]) for _ in range(ROWS)]
        columns[name] = pa.array(some, type)
    columns["f64"] = pa.array([draw.choice([0.1, 1e30, -2.5, 1 / 3, None, 0.07]) for _ in range(ROWS)], pa.float64())
    return pa.table(columns)


def texts(draw: random.Random) -> Iterator[str]:
    names = [f"d{i}" for i in range(len(TYPES))]
    others = [*names, "i8", "i16", "i32", "i64", "1", "7.0", "100.00", "0.2", "0.0001000000", "12345678901"]
    for a in names:
        for op in "+-*/%":
            for b in draw.sample(others, 5):
                yield f"{a} {op} {b}"
                yield f"{b} {op} {a}"
        for b in draw.sample(others, 4):
            yield f"{a} {draw.choice(['=', '<', '>=', '<>', '<=>'])} {b}"
            yield f"coalesce({a}, {b})"
            yield f"greatest({b}, {a})"
            yield f"CASE WHEN {a} > 0 THEN {a} ELSE {b} END"
        p, s = draw.choice(TYPES)
        yield from (f"CAST({a} AS DECIMAL({p}, {s}))", f"CAST({a} AS BIGINT)", f"CAST({a} AS DOUBLE)", f"- {a}")
        yield from (f"CAST({a} AS STRING)", f"abs({a})", f"{a} * f64", f"{a} > f64", f"CAST({a} AS BOOLEAN)")
        yield f"CAST({draw.choice(['i8', 'i16', 'i32', 'i64'])} AS DECIMAL({p}, {s}))"
    yield from ("CAST(d0 AS INT)", "CAST(d1 AS SMALLINT)", "CAST(d6 AS TINYINT)", "CAST(d12 AS INT)")


@pytest.mark.spark
def test_decimals_agree_with_spark(spark: Any) -> None:
    draw = random.Random(SEED)
    table = data(draw)
    plain = spark.newSession()
    plain.conf.set("spark.sql.ansi.enabled", "false")
    wanted = list(dict.fromkeys(texts(draw)))
    wrong = []
    narrowing = ("AS INT", "AS SMALLINT", "AS TINYINT", "AS BIGINT")  # these wrap around without ANSI mode
    for text, (type, theirs) in zip(wanted, asked(plain, table, wanted), strict=True):
        if text in LEFT:
            with pytest.raises(OnlySpark):
                valued(text, table.schema)
            continue
        value = valued(text, table.schema)
        mine = evaluated(value, table)
        if theirs == [RAISED]:  # also without ANSI mode
            theirs, mine = [None], [None] if RAISED in mine else mine
        if "AS STRING" in text:  # without ANSI mode Spark writes exponents
            theirs = [None if t is None else format(decimal.Decimal(t), "f") for t in theirs]
        if any(n in text for n in narrowing):
            theirs = [None if m == RAISED else t for m, t in zip(mine, theirs, strict=True)]
        if value.type != type or [None if m == RAISED else m for m in mine] != theirs:
            wrong.append((text, type, value.type, [(m, t) for m, t in zip(mine, theirs, strict=False) if m != t][:3]))
    spark.createDataFrame([], "x int")  # the shared session is the active one again
    assert not wrong, f"seed {SEED}, {len(wrong)} of {len(wanted)}: {sorted(wrong, key=lambda w: len(str(w)))[:12]}"
