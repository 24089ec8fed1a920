"""Bad rows: what becomes of rows on which a predicate raises, and of rows whose time can't be."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw

START = datetime(2024, 3, 1, tzinfo=UTC)


def number(s):
    return int(s) > 3


def texts(spark):
    return spark.createDataFrame([(i, "x" if i % 5 == 0 else str(i)) for i in range(40)], "id long, s string").coalesce(
        1
    )


GOOD = [i for i in range(40) if i % 5 and i > 3]
BAD = list(range(0, 40, 5))


def test_filters_raise_by_default_as_what_they_are(spark):
    with pytest.raises(tw.PredicateError) as caught, tw.plain_errors():
        tw.where(texts(spark), tw.pred(number, "s")).collect()
    assert str(caught.value).startswith("predicate 'number' raised ValueError: invalid literal")
    assert 'on_error="skip"' in caught.value.hint


def test_filters_skip_and_count(spark):
    df = tw.where(texts(spark), tw.pred(number, "s"), "id >= 0", on_error="skip", name="skipping")
    assert sorted(r.id for r in df.collect()) == GOOD
    assert df.columns == ["id", "s"]
    assert tw.query("skipping").view().input().failed == len(BAD)


@pytest.mark.parametrize("policy", ["written", "auto", "chaos"])
def test_filters_keep_bad_rows_whole_beside_the_good(spark, policy):
    asked = tw.pred(number, "s"), tw.pred(lambda id: id != 10, "id", name="not_ten")
    df = tw.where(texts(spark), *asked, "length(s) < 9", on_error="quarantine", policy=policy)
    rows = df.collect()
    assert sorted(r.id for r in rows if r["_quarantine"] is None) == GOOD
    bad = {r.id: r["_quarantine"] for r in rows if r["_quarantine"] is not None}
    assert sorted(bad) == [i for i in BAD if i != 10], "a row that another predicate drops is no bad row"
    assert {q.predicate for q in bad.values()} == {"number"}
    assert all(q.reason.startswith("ValueError: invalid literal") for q in bad.values())
    assert json.loads(bad[15].row) == {"id": 15, "s": "x"}
    assert bad[15].at is not None


def write(folder, file, rows):
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string())])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{file:03}.parquet"
    pq.write_table(pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema), path)
    os.utime(path, (file + 1, file + 1))


def test_a_join_writes_results_and_bad_rows_apart_exactly_once(spark, tmp_path):
    """Bad in packing (a predicate on one input, times) and in cells (a predicate on two); a batch is run twice."""
    for name in "ab":
        for file in range(3):
            ids = range(file * 20, file * 20 + 20)
            rows = [[i, START + timedelta(seconds=i), i % 3, "x" if i % 10 == 7 else str(i)] for i in ids]
            if name == "a" and file == 1:
                rows[1][1], rows[2][1] = None, datetime(2099, 1, 1, tzinfo=UTC)
            write(tmp_path / name, file, rows)

    def run(sink):
        streams = {}
        for s in "ab":
            df = spark.readStream.schema("id long, ts timestamp, k long, s string").option("maxFilesPerTrigger", 1)
            streams[s] = tw.stream(df.parquet(str(tmp_path / s)), time="ts", ahead="1 hour")
        df = tw.sql(
            "SELECT a.id AS x, upper(b.s) AS y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] "
            "WHERE a.k = b.k AND a.id = b.id AND number(a.s) AND apart(a.id, b.id)",
            number=number, apart=apart, cells=2, name="bad rows", on_error="quarantine", **streams,
        )  # fmt: skip
        writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "check"))
        assert tw.await_termination(writer.trigger(availableNow=True).start(), 240)

    def apart(x, y):
        if x in (11, 31):
            raise KeyError(x)
        return True

    good: dict[int, list] = {}
    bad: dict[int, list] = {}
    sink = tw.divided(
        good=lambda rows, n: good.setdefault(n, []).append(sorted(map(tuple, rows.collect()))),
        bad=lambda rows, n: bad.setdefault(n, []).append(sorted((tuple(r)[:4] for r in rows.collect()), key=repr)),
    )
    run(sink)
    found = sorted(tuple(r) for attempts in good.values() for r in attempts[0])
    left_out = {11, 21, 22, 31} | {i for i in range(60) if i % 10 == 7}
    assert found == [(i, str(i)) for i in range(4, 60) if i not in left_out]
    kept = [q for attempts in bad.values() for q in attempts[0]]
    by_reason: dict[str, list[int]] = {}
    for _, _, reason, row in kept:
        values = json.loads(row)
        by_reason.setdefault(reason.split(":")[0], []).append(values.get("id", values.get("a.id")))
    assert {r: sorted(v) for r, v in by_reason.items()} == {
        "ValueError": [7, 17, 27, 37, 47, 57], "KeyError": [11, 31], "no usable time": [21], "too far ahead": [22],
    }  # fmt: skip
    view = tw.query("bad rows").view()
    assert sum(i.failed for i in view.inputs) == 8
    assert "on which a predicate raised" in tw.query("bad rows").explain()
    for part in (tmp_path / "check" / "commits").glob("*2*"):
        part.unlink()
    run(sink)
    assert good[2][0] == good[2][1]
    assert bad[2][0] == bad[2][1]


def test_one_stream_with_a_table(spark):
    s = spark.createDataFrame(
        [(i, START, str(i) if i % 3 else "x") for i in range(12)], "id long, ts timestamp, s string"
    )
    t = spark.createDataFrame([(i, i) for i in range(12)], "id long, v long")
    text = "SELECT a.id, t.v FROM a [NOW], t WHERE a.id = t.id AND number(a.s)"
    df = tw.sql(text, a=tw.stream(s, time="ts"), t=t, number=number, on_error="quarantine")
    rows = df.collect()
    assert sorted(r.id for r in rows if r["_quarantine"] is None) == [i for i in range(12) if i % 3 and i > 3]
    assert sorted(json.loads(r["_quarantine"].row)["id"] for r in rows if r["_quarantine"] is not None) == [0, 3, 6, 9]


def some(spark):
    rows = [(i, START, i % 2, "x" if i % 5 == 0 else str(i)) for i in range(20)]
    return tw.stream(spark.createDataFrame(rows, "id long, ts timestamp, k long, s string"), time="ts")


def test_groups_count_the_good_rows_and_give_the_bad_ones(spark):
    text = "SELECT a.k, count(*) AS n FROM a WHERE number(a.s) GROUP BY a.k"
    rows = tw.sql(text, a=some(spark), number=number, cells=2, on_error="quarantine").collect()
    good = [i for i in range(4, 20) if i % 5]
    found = sorted((r["_change_type"], r.k, r.n) for r in rows if r["_quarantine"] is None)
    assert found == [("insert", k, sum(i % 2 == k for i in good)) for k in (0, 1)]
    bad = [r["_quarantine"] for r in rows if r["_quarantine"] is not None]
    assert sorted((v["k"], v["s"]) for v in (json.loads(q.row) for q in bad)) == [(0, "x")] * 2 + [(1, "x")] * 2
    assert {q.reason.split(":")[0] for q in bad} == {"ValueError"}


def test_what_no_block_can_set_aside_is_refused(spark):
    pairs = "SELECT a.id FROM a [NOW] LEFT JOIN b [NOW] ON a.k = b.k AND less(a.s, b.s)"
    given = {"less": lambda x, y: int(x) < int(y), "a": some(spark), "b": some(spark)}
    for how in ("skip", "quarantine"):
        with pytest.raises(tw.DefinitionError, match="'less' compares rows of an outer join"):
            tw.sql(pairs, on_error=how, **given)
    t = spark.createDataFrame([(1, "1")], "k long, s string")
    with pytest.raises(tw.DefinitionError, match='"quarantine" and LIMIT'):
        tw.sql("SELECT t.k FROM t ORDER BY t.k LIMIT 3", t=t, on_error="quarantine")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("state", ["spark", "files"])
def test_an_outer_join_writes_results_and_bad_rows_apart_exactly_once(spark, tmp_path, state):
    for name in "ab":
        for file in range(3):
            ids = range(file * 20, file * 20 + 20)
            rows = [[i, START + timedelta(seconds=i), i % 3, "x" if i % 10 == 7 else str(i)] for i in ids]
            write(tmp_path / name, file, rows)
    where = str(tmp_path / "state") if state == "files" else state
    good: dict[int, list] = {}
    bad: dict[int, list] = {}
    sink = tw.divided(
        good=lambda rows, n: good.setdefault(n, []).append(sorted(map(tuple, rows.collect()), key=repr)),
        bad=lambda rows, n: bad.setdefault(n, []).append(sorted((tuple(r)[:4] for r in rows.collect()), key=repr)),
    )

    def run():
        read = spark.readStream.schema("id long, ts timestamp, k long, s string").option("maxFilesPerTrigger", 1)
        streams = {s: tw.stream(read.parquet(str(tmp_path / s)), time="ts") for s in "ab"}
        df = tw.sql(
            "SELECT a.id AS x, b.id AS y FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] "
            "ON a.k = b.k AND a.id = b.id AND number(b.s)",
            number=number, cells=2, name="bad rows of an outer join", on_error="quarantine", state=where, **streams,
        )  # fmt: skip
        writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "check"))
        assert tw.await_termination(writer.trigger(availableNow=True).start(), 240)

    run()
    for part in (tmp_path / "check" / "commits").glob("*2*"):
        part.unlink()
    run()
    assert good[2][0] == good[2][1]
    assert bad[2][0] == bad[2][1]
    found = sorted((r for attempts in good.values() for r in attempts[0] if r[0] < 57), key=repr)
    assert found == sorted(((i, None if i < 4 or i % 10 == 7 else i) for i in range(57)), key=repr)
    kept = [json.loads(q[3])["id"] for attempts in bad.values() for q in attempts[0]]
    assert sorted(kept) == [7, 17, 27, 37, 47, 57]


def test_another_word_is_told(spark):
    with pytest.raises(tw.DefinitionError, match="no on_error 'ignore'"):
        tw.where(spark.range(3), "id > 1", on_error="ignore")
