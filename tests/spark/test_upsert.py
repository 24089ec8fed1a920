"""`tw.upsert`: the last state of every key, once, against a plain reference; into SQLite here, other tables in
tests/services."""

from __future__ import annotations

import random
import sqlite3
from datetime import datetime, timedelta

import pytest

import thalweg as tw
from thalweg.spark.upsert.last import GONE, last_states

DDL = "k LONG, part STRING, n LONG, _change_type STRING, _change_time TIMESTAMP"
START = datetime(2026, 1, 1)
PLANTED = "hunter2-planted"


def history(rng, steps, keys=6):
    """Random changes of a relation with one row for each key, and the relation after each step."""
    now, changes, states = {}, [], []
    for step in range(steps):
        at = START + timedelta(seconds=step)
        for k in rng.sample(range(keys), rng.randrange(keys + 1)):
            if k in now:
                changes.append((k, "p", now.pop(k), "delete", at))
            if rng.random() < 0.7:
                now[k] = rng.choice([step, None])
                changes.append((k, "p", now[k], "insert", at))
        states.append(dict(now))
    return changes, states


def batches(rng, changes, count):
    """Changes cut between instants, in any order inside a batch, as tasks write them."""
    edges = sorted(rng.sample(range(1, 40), count - 1))
    cut = [[] for _ in range(count)]
    for change in changes:
        second = int((change[-1] - START).total_seconds())
        cut[sum(second >= e for e in edges)].append(change)
    for batch in cut:
        rng.shuffle(batch)
    return cut, [e - 1 for e in edges]


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "totals.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE totals (k INTEGER, part TEXT, n INTEGER, PRIMARY KEY (k, part))")
    return path


def rows(path):
    with sqlite3.connect(path) as held:
        return sorted(held.execute("SELECT k, part, n FROM totals"))


def test_the_table_is_the_relation_after_every_batch(spark, database):
    seed = random.randrange(1_000_000)
    print("seed", seed)
    rng = random.Random(seed)
    changes, states = history(rng, 40)
    cut, ends = batches(rng, changes, 4)
    write = tw.upsert("totals", ["k", "part"], format="database", connect=lambda: sqlite3.connect(database))
    for number, (batch, end) in enumerate(zip(cut, [*ends, 39], strict=True)):
        df = spark.createDataFrame(batch, DDL)
        for _ in range(2):  # a repeated batch changes nothing
            write(df, number)
            assert rows(database) == sorted((k, "p", n) for k, n in states[end].items()), (seed, number)


def test_a_repeated_batch_of_a_query_is_left_out(spark, database, tmp_path):
    connect = lambda: sqlite3.connect(database)  # noqa: E731
    upsert = tw.upsert("totals", ["k", "part"], format="database", connect=connect)
    (tmp_path / "in").mkdir()
    df = spark.createDataFrame([(1, "p", 5, "insert", START), (2, "p", 6, "insert", START)], DDL)
    df.write.mode("append").parquet(str(tmp_path / "in"))
    check = tmp_path / "check"

    def run():
        changes = spark.readStream.schema(DDL).parquet(str(tmp_path / "in"))
        query = changes.writeStream.foreachBatch(upsert).option("checkpointLocation", str(check))
        query = query.trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    run()
    assert rows(database) == [(1, "p", 5), (2, "p", 6)]
    with sqlite3.connect(database) as held:
        held.execute("UPDATE totals SET n = 7 WHERE k = 1")  # another writer, after the batch
    for name in ("0", ".0.crc"):  # as if the driver had died before it wrote this
        (check / "commits" / name).unlink(missing_ok=True)
    run()
    assert rows(database) == [(1, "p", 7), (2, "p", 6)], "the batch was merged twice"


def test_the_last_state_wins_and_an_update_is_a_delete_with_an_insert(spark):
    later = START + timedelta(seconds=1)
    changes = [
        (1, "p", 1, "insert", START), (1, "p", 1, "delete", later), (1, "p", 2, "insert", later),
        (2, "p", 1, "insert", START), (2, "p", 1, "delete", later),
        (3, "p", 9, "delete", START), (None, "p", 4, "insert", START),
    ]  # fmt: skip
    got = last_states(spark.createDataFrame(changes, DDL).coalesce(1), ["k"]).collect()
    assert {r.k: None if r[GONE] else r.n for r in got} == {1: 2, 2: None, 3: None, None: 4}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            [(1, "a", 1, "insert", START), (1, "b", 2, "insert", START)],
            r"several rows live under one key \(k\): \{\"k\":1\}",
        ),
        ([(1, "a", 1, "upsert", START)], "_change_type is 'upsert'"),
        ([(1, "a", 1, None, START)], "_change_type is 'NULL'"),
    ],
)
def test_changes_that_make_no_table_are_refused(spark, changes, words):
    with pytest.raises(Exception, match=words):
        last_states(spark.createDataFrame(changes, DDL), ["k"]).collect()


def test_what_is_refused_when_it_is_asked(spark, database):
    for arguments, words in (
        ({"table": "t", "key": []}, "without a key"),
        ({"table": "t", "key": "k", "format": "detla"}, "did you mean 'delta'"),
        ({"table": "t", "key": "k", "format": "database"}, "needs connect="),
        ({"table": "t", "key": "k", "connect": print}, "takes no connect="),
    ):
        with pytest.raises(tw.DefinitionError, match=words):
            tw.upsert(**arguments)
    write = tw.upsert("totals", "kk", format="database", connect=lambda: sqlite3.connect(database))
    with pytest.raises(tw.DefinitionError, match=r"no column 'kk'(?s:.*)'k'"):
        write(spark.createDataFrame([], DDL), 0)
    with pytest.raises(tw.DefinitionError, match="no column '_change_type'"):
        write(spark.range(1), 0)


def test_a_password_in_the_connection_is_not_shown(spark, database):
    def connect():
        raise OSError(f"can't read postgresql://me:{PLANTED}@host/db")

    df = spark.createDataFrame([(1, "p", 5, "insert", START)], DDL)
    with pytest.raises(tw.ConnectorError, match="could not connect to the database: OSError") as told:
        tw.upsert("totals", "k", format="database", connect=connect)(df, 0)
    assert PLANTED not in str(told.value)
    assert told.value.__cause__ is None
    write = tw.upsert("elsewhere", "k", format="database", connect=lambda: sqlite3.connect(database))
    with pytest.raises(
        tw.ConnectorError, match="could not merge batch 0 into 'elsewhere': OperationalError: no such table"
    ):
        write(df, 0)
