"""Bound trees mean what the text means: random queries over tables, evaluated as plainly as possible, against DuckDB.

Joins of all kinds, subqueries of all kinds, groups, set operations and views, nested in each other, over small tables
with NULLs and many ties. `language/reference.py` reads the tree; DuckDB reads the text.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.language.querygrammar import Grammar
from tests.language.reference import answer

from thalweg.errors import QueryError
from thalweg.language import Source
from thalweg.language.bind import bind
from thalweg.language.show import show

SEED = 1618
CASES = 400
SCHEMA = pa.schema({"k": pa.int32(), "x": pa.int32(), "y": pa.int64(), "s": pa.string()})
TABLES = ("t", "u", "v")


def tables(draw: random.Random) -> dict[str, pa.Table]:
    def value(name: str) -> Any:
        if draw.random() < 0.2:
            return None
        return draw.choice(["a", "b", "ab"]) if name == "s" else draw.randint(0, 3)

    sizes = {name: draw.choice([0, 1, 3, 5, 5, 6]) for name in TABLES}
    return {
        name: pa.table({f.name: pa.array([value(f.name) for _ in range(n)], f.type) for f in SCHEMA})
        for name, n in sizes.items()
    }


def rounded(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows as a bag, floats to nine digits and whole numbers as integers."""

    def plain(v: Any) -> Any:
        if isinstance(v, bool) or v is None or isinstance(v, str):
            return v
        if isinstance(v, list):
            return tuple(sorted(map(plain, v)))
        return int(v) if v == int(v) else round(float(v), 9) if not math.isnan(v) else "nan"

    return Counter(tuple(map(plain, r)) for r in rows)


def check(seed: int, text: str, given: dict[str, pa.Table]) -> str:
    """Compare one query; "refused" if it can't be bound."""
    try:
        # With ORDER BY it is never a plain block, whose SELECT is left to Spark.
        bound = bind(f"{text} ORDER BY 1", {name: Source(SCHEMA) for name in TABLES})
    except QueryError as error:
        return f"refused: {error.args[0] if error.args else error}"
    with duckdb.connect() as db:
        for name, rows in given.items():
            db.register(name, rows)
        spelled = text.replace("LEFT SEMI JOIN", "SEMI JOIN").replace("LEFT ANTI JOIN", "ANTI JOIN")
        wanted = rounded(db.sql(spelled).fetchall())
    found = rounded(answer(bound, given))
    assert found == wanted, f"seed {seed}\n{text}\n{show(bound)}\nextra {found - wanted}\nmissing {wanted - found}"
    return "same"


@pytest.mark.parametrize("part", range(4))
def test_random_queries(part: int) -> None:
    outcomes: Counter[str] = Counter()
    for i in range(part, CASES, 4):
        draw = random.Random(SEED + i)
        given = tables(draw)
        text = Grammar(draw).query(draw.randint(0, 2))
        outcomes[check(SEED + i, text, given)] += 1
    assert outcomes["same"] > 0.75 * sum(outcomes.values()), outcomes


@pytest.mark.long
def test_many_random_queries() -> None:
    for i in range(10_000):
        draw = random.Random(10 * SEED + i)
        given = tables(draw)
        check(10 * SEED + i, Grammar(draw).query(draw.randint(0, 3)), given)
