"""Every function and operator of Spark's catalogue that the engine evaluates itself, beside Spark, ANSI mode on and off.

`test_many` draws 100,000 conditions; `python -m tests.language.catalogue` draws any number.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.language.catalogue import Both, catalogue, deep, formed, names_answered, sessions, shallow, table

pytestmark = [pytest.mark.spark, pytest.mark.long]
SEED = 20261118


@pytest.fixture(scope="module", params=[0, 1], ids=["ansi", "no ansi"])
def both(spark: Any, request: pytest.FixtureRequest) -> Both:
    _, session = list(sessions(spark))[request.param]
    made = Both(session, table(SEED))
    spark.createDataFrame([], "x int")  # whoever makes a DataFrame is the active session: as before
    return made


@pytest.mark.timeout(1800)
def test_what_the_engine_evaluates_is_what_spark_evaluates(both: Both) -> None:
    draw = random.Random(SEED)
    names = names_answered(both, catalogue(both.spark), draw)
    assert len(names) > 50
    assert {"upper", "coalesce", "||", "<=>"} <= set(names)
    # Without ANSI mode arithmetic is Spark's.
    assert ({"abs", "div", "%"} <= set(names)) == (both.spark.conf.get("spark.sql.ansi.enabled") == "true")
    both.compare([*shallow(draw.sample(names, 20), draw, 2), *formed(draw, 1)], raising=3)
    both.compare([deep(both.known, draw) for _ in range(100)], raising=2)
    assert both.counts["compared"] > 150
    assert not both.wrong, f"seed {SEED}: {both.wrong[:10]}"


@pytest.mark.timeout(7200)
def test_many(both: Both) -> None:
    draw = random.Random(SEED)
    names = names_answered(both, catalogue(both.spark), draw)
    both.compare([*shallow(names, draw, 24), *formed(draw, 4)], raising=200)
    for _ in range(10):
        both.compare([deep(both.known, draw) for _ in range(5000)], raising=20)
    assert both.counts["compared"] > 50_000
    assert not both.wrong, f"seed {SEED}: {both.wrong[:10]}"
