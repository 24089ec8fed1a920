"""Whole queries on Spark: outer and anti joins, groups, set operations; batch and streaming, several cells, restarts."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import chain

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from tests.spark import joinshapes
from tests.spark.joinshapes import NAMES, SCHEMA
from tests.spark.relationshapes import ANSWERS, CHANGES
from tests.spark.test_sql import asked, drain

import thalweg as tw

LATENESS = "3 seconds"


@pytest.fixture(scope="module", autouse=True)
def _shapes_by_value():
    cloudpickle.register_pickle_by_value(joinshapes)
    yield
    cloudpickle.unregister_pickle_by_value(joinshapes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("streams")
    joinshapes.write(made)
    return made


def bag(rows) -> Counter:
    """Rows as plain values: a window of time as its start and its end, times in UTC without saying so."""
    return Counter(tuple(chain.from_iterable(plain(v) for v in r)) for r in rows)


def plain(value) -> tuple:
    if isinstance(value, Row | dict):
        return tuple(chain.from_iterable(map(plain, value.values() if isinstance(value, dict) else value)))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value,)


def engine_s(shape, *, finite: bool) -> Counter:
    """What the engine gives for the rows of the files; up to the watermark if the streams go on."""
    sources = {s: tw.Source(SCHEMA, time="ts", lateness=LATENESS) for s in shape.streams}
    if shape.table:
        sources["names"] = tw.Source(NAMES.schema)
    engine = tw.Engine(shape.ours, sources, tables={"names": NAMES} if shape.table else {}, policy="written")
    tables = {s: joinshapes.table(s) for s in shape.streams}
    if finite:
        found = pa.concat_tables([engine.take_batch(tables), engine.close()])
    else:
        day = int((joinshapes.EPOCH.timestamp() + 86_400) * 10**6)
        found = engine.take_batch(tables, newest=dict.fromkeys(tables, day))
    return bag(zip(*(c.to_pylist() for c in found.columns), strict=True))


@pytest.mark.parametrize("name", ANSWERS)
def test_batch_gives_duckdb_s_rows(spark, name):
    got = bag(asked(spark, ANSWERS[name], None, cells=3, policy="chaos", seed=3, name=f"batch {name}").collect())
    assert got == bag(joinshapes.answer(ANSWERS[name]))
    assert got


@pytest.mark.parametrize("name", CHANGES)
def test_batch_gives_the_engine_s_changes(spark, name):
    got = bag(asked(spark, CHANGES[name], None, cells=3, policy="chaos", seed=3, name=f"batch {name}").collect())
    assert got == engine_s(CHANGES[name], finite=True)
    assert got


@pytest.mark.parametrize(("name", "cells"), [("left", 2), ("full", 5), ("anti", 1), ("windows of time", 2)])
def test_streams_give_duckdb_s_rows(spark, folder, tmp_path, name, cells):
    df = asked(spark, ANSWERS[name], folder, cells=cells, policy="chaos", name=f"stream {name}")
    assert df.isStreaming
    far = Counter({r: n for r, n in bag(drain(spark, df, tmp_path).collect()).items() if 10**6 not in r})
    assert far == bag(joinshapes.answer(ANSWERS[name]))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("count by a join key", 2),
        ("count by another column", 3),
        ("count by what is computed", 3),
        ("everything behind a join", 2),
        ("every", 2),
    ],
)
def test_streams_give_the_engine_s_changes(spark, folder, tmp_path, name, cells):
    df = asked(spark, CHANGES[name], folder, cells=cells, name=f"stream {name}")
    got = bag(drain(spark, df, tmp_path).collect())
    assert got == engine_s(CHANGES[name], finite=False)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("name", ANSWERS | CHANGES)
def test_every_query_in_any_number_of_cells(spark, folder, tmp_path, name, cells):
    """Batch and streaming, under random decisions."""
    shape = (ANSWERS | CHANGES)[name]
    how = {"cells": cells, "policy": "chaos", "seed": cells}
    whole = bag(asked(spark, shape, None, name=f"whole {name}", **how).collect())
    assert whole == (bag(joinshapes.answer(shape)) if name in ANSWERS else engine_s(shape, finite=True))
    df = asked(spark, shape, folder, name=f"in parts {name}", **how)
    parts = Counter({r: n for r, n in bag(drain(spark, df, tmp_path).collect()).items() if 10**6 not in r})
    assert parts == (bag(joinshapes.answer(shape)) if name in ANSWERS else engine_s(shape, finite=False))
