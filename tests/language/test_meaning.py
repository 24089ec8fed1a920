"""Filters, key classes and residuals together mean what WHERE and ON mean: brute force over all pairs against DuckDB.

Values sit where types lose digits (2^53 and its neighbours, NaN, both zeros), because that is where a class of equal
columns would be wrong if it were made of pairs that compare in different types.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from thalweg.language import Column, Query, Source
from thalweg.language.bind import bind

SEED = 4711
BIG = 2**53
SCHEMA = pa.schema(
    {"i8": pa.int8(), "i64": pa.int64(), "j64": pa.int64(), "f64": pa.float64(), "f32": pa.float32(), "s": pa.string(),
     "d": pa.decimal128(18, 1)}
)  # fmt: skip
POOL: dict[str, list[Any]] = {
    "i8": [None, 0, 1, 2], "i64": [None, 0, 1, BIG, BIG + 1, BIG + 2], "j64": [None, 0, 1, BIG, BIG + 1],
    "f64": [None, 0.0, -0.0, 1.0, math.nan, float(BIG), float(BIG + 2)], "f32": [None, 0.0, 1.0, math.nan, float(BIG)],
    "s": [None, "", "a", "b"], "d": [None, 0, 1, BIG],
}  # fmt: skip
NUMBERS = ["i8", "i64", "j64", "f64"]
FLOATS = ["f64", "f32"]  # DuckDB compares integers with a FLOAT in FLOAT, Spark in DOUBLE
EXACT = ["i8", "i64", "j64", "d"]


def rows(draw: random.Random, count: int) -> pa.Table:
    return pa.table({f.name: pa.array([draw.choice(POOL[f.name]) for _ in range(count)], f.type) for f in SCHEMA})


def where(draw: random.Random, aliases: list[str]) -> str:
    """Mostly equalities between inputs, so that classes grow and meet."""
    conjuncts = []
    for left, right in itertools.pairwise(aliases):
        conjuncts.append(f"{left}.i8 = {right}.i8" if draw.random() < 0.3 else equality(draw, left, right))
    for _ in range(draw.randint(0, 4)):
        a, b = draw.choice(aliases), draw.choice(aliases)
        conjuncts.append(draw.choice([
            equality(draw, a, b), equality(draw, a, b), equality(draw, a, b),
            f"{a}.i64 <= {b}.j64", f"({a}.i8 = 1 OR {b}.s = 'a')", f"{a}.s IS NOT NULL",
            f"{a}.f64 >= {b}.f64", f"NOT ({a}.s < {b}.s)", f"{a}.i8 IN (0, 1)", "1 = 1",
            f"{a}.s IS NOT DISTINCT FROM {b}.s", f"({equality(draw, a, b)} AND {equality(draw, b, a)})",
        ]))  # fmt: skip
    draw.shuffle(conjuncts)
    return " AND ".join(conjuncts)


def equality(draw: random.Random, a: str, b: str) -> str:
    pool = draw.choice([NUMBERS, NUMBERS, EXACT, FLOATS, ["s"]])
    return f"{a}.{draw.choice(pool)} = {b}.{draw.choice(pool)}"


def held(query: Query, tables: dict[str, pa.Table]) -> int:
    """How many combinations of rows the query keeps, by its own parts."""
    aliases = [i.alias for i in query.inputs]
    grid = np.meshgrid(*[np.arange(tables[a].num_rows) for a in aliases], indexing="ij")
    taken = {a: pa.array(g.ravel()) for a, g in zip(aliases, grid, strict=True)}

    def column(c: Column) -> pa.Array:
        return tables[c.input].column(c.name).combine_chunks().take(taken[c.input])

    keep = np.ones(len(taken[aliases[0]]), np.bool_)
    for f in query.block.filters:
        assert f.evaluate is not None, f.text
        keep &= true(f.evaluate({n: column(Column(f.input, n)) for n in f.columns}))
    for r in query.block.residuals:
        assert r.evaluate is not None, r.text
        keep &= true(r.evaluate({c: column(c) for c in r.columns}))
    for k in query.block.keys:
        values = [column(c).cast(k.type, safe=False).to_pylist() for c in k.columns]
        keep &= np.array([same(v) for v in zip(*values, strict=True)])
    return int(keep.sum())


def true(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False))


def same(values: tuple[Any, ...]) -> bool:
    """Equal as join keys are: NULL never, NaN with itself."""
    if None in values:
        return False
    return all(v == values[0] or (v != v and values[0] != values[0]) for v in values)


@pytest.mark.parametrize("inputs", [2, 3])
def test_parts_mean_the_whole(inputs: int) -> None:
    draw = random.Random(SEED + inputs)
    kept = merged = lossy = 0
    con = duckdb.connect()
    for case in range(150):
        tables = {f"x{i}": rows(draw, 14 if inputs == 2 else 7) for i in range(inputs)}
        condition = where(draw, list(tables))
        query = bind(
            f"SELECT 1 FROM {', '.join(f't AS {a}' for a in tables)} WHERE {condition}", {"t": Source(SCHEMA)}
        ).query
        for alias, table in tables.items():
            con.register(alias, table)
        (wanted,) = con.execute(f"SELECT count(*) FROM {', '.join(tables)} WHERE {condition}").fetchall()[0]
        assert held(query, tables) == wanted, f"seed {SEED}, case {case}: {condition}"
        kept += wanted
        merged += any(len(k.columns) > 2 for k in query.block.keys)
        lossy += any("=" in r.text and r.text.count("=") == 1 and "." in r.text for r in query.block.residuals)
    assert kept > 500
    assert merged > 5
    assert lossy > 10
