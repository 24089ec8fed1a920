"""Mistakes are told where they are made, names are used once, settings arrive as they are, and secrets stay secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import thalweg as tw
from thalweg.app.appfile import read
from thalweg.spark.board import board
from thalweg.spark.raised import reraised
from thalweg.spark.session import errors_to

SECRET = "hunter2-and-more"


def test_a_number_of_cells_is_a_number(spark):
    s = tw.stream(spark.createDataFrame([], "ts timestamp, k long"), time="ts")
    for wrong in ("4", 2.5, True):
        with pytest.raises(tw.DefinitionError, match="cells="):
            tw.sql("SELECT a.k FROM a [NOW], b [NOW] WHERE a.k = b.k", a=s, b=s, cells=wrong)


def test_inputs_may_be_named_like_parameters(spark):
    s = tw.stream(spark.createDataFrame([(1,)], "k long").withColumn("ts", F.current_timestamp()), time="ts")
    text = "SELECT name.k FROM name [RANGE 1 HOUR], cells WHERE name.k = cells.k"
    df = tw.sql(text, inputs={"name": s, "cells": spark.createDataFrame([(1,)], "k long")}, name="reserved")
    assert df.count() == 1


def test_a_name_is_used_once_at_a_time(spark, tmp_path):
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    df = tw.where(rate, tw.pred(lambda value: True, "value"), name="once")
    query = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        entry = board.entry("once")
        while not entry.runs:  # the listener hears of a batch some time after it
            assert not query.awaitTermination(0.3)
        with pytest.raises(tw.DefinitionError, match="a query named 'once' is running"):
            tw.where(rate, tw.pred(lambda value: False, "value"), name="once")
    finally:
        query.stop()
    tw.query("once").explain()
    tw.where(rate, tw.pred(lambda value: False, "value"), name="once")  # stopped: the name is free


APP = f"""
checkpoint = "check"
[spark]
"spark.sql.catalog.my_cat.password" = "{SECRET}"
[streams.s]
format = "rate"
options = {{ password = "{SECRET}" }}
time = "timestamp"
[queries.q]
from = "s"
where = ["value > 1"]
sink = {{ format = "noop", options = {{ token = "{SECRET}" }} }}
"""


def test_secrets_are_in_no_repr(tmp_path):
    path = tmp_path / "app.toml"
    path.write_text(APP)
    app = read(path)
    assert app.spark["spark.sql.catalog.my_cat.password"] == SECRET
    assert app.streams["s"].options["password"] == SECRET
    assert SECRET not in repr(app)
    assert SECRET not in repr(app.streams) + repr(app.queries)


def test_settings_reach_spark_unchanged():
    program = (
        "import thalweg as tw; s = tw.session(settings={'spark.my_app.some_key': True, 'spark.master': 'local[1]'}, "
        "spark_sql_shuffle_partitions=3); "
        "print(s.conf.get('spark.my_app.some_key'), s.conf.get('spark.sql.shuffle.partitions'), s.sparkContext.master)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert out.stdout.split() == ["true", "3", "local[1]"]


def test_the_log_is_not_written_through_a_link(tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "log").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"), errors_to(tmp_path / "log"):
        pass
    with errors_to(tmp_path / "own"):
        pass
    assert target.read_text() == "mine"
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "kind", "first", "hint"),
    [
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):\n"
            '  File "x.py", line 1, in f\nValueError: no\n\nThe above exception was the direct cause\n\n'
            "thalweg.errors.PredicateError: predicate 'p' raised ValueError: no\n  row 3 of its batch: s='x'\n"
            "  hint: guard it\n SQLSTATE: 38000\n\tat org.apache.spark.X",
            tw.PredicateError, "predicate 'p' raised ValueError: no", "guard it",
        ),
        ("boom\nthalweg.execute.filters.NoVerdict: predicate 'p' returned an int\n", tw.PredicateError,
         "predicate 'p' returned an int", None),
        ("thalweg.errors.CheckpointError: the join keys were a and are b\n  hint: go back\n", tw.CheckpointError,
         "the join keys were a and are b", "go back"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", tw.CheckpointError,
         "another driver is running a query on this checkpoint",
         "stop one of them; each query needs a checkpoint folder of its own"),
    ],
)  # fmt: skip
def test_an_error_is_found_in_what_spark_made_of_it(text, kind, first, hint):
    found = reraised(RuntimeError(text))
    assert type(found) is kind
    assert str(found).splitlines()[0] == first
    assert found.hint == hint
    assert reraised(RuntimeError("java.lang.OutOfMemoryError")) is None


def test_check_says_what_an_application_keeps(tmp_path):
    path = tmp_path / "app.toml"
    path.write_text(APP.replace('"spark.sql.catalog.my_cat.password"', '"spark.ui.enabled"').replace(SECRET, "false"))
    command = [str(Path(sys.executable).parent / "thalweg"), "check", str(path)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert out.returncode == 0, out.stderr[-2000:]
    assert "q: keeps no state of Thalweg's" in out.stdout
