"""Routes by class on Spark: the same rows, fewer calls, and explain tells the classes."""

from __future__ import annotations

import os
import re
from xml.etree import ElementTree

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw

pytestmark = pytest.mark.spark


def low(kind: int, x: int) -> bool:
    """Drops nearly all tuples of kind 0."""
    return kind == 1 or x % 20 == 0


def high(kind: int, x: int) -> bool:
    """Drops nearly all tuples of kind 1."""
    return kind == 0 or x % 20 == 1


@pytest.mark.parametrize("policy", ["mesh", "cbr"])
def test_classes_are_found_and_told(spark, policy):
    random = np.random.default_rng(1)
    rows = 40_000
    kinds, xs = random.integers(0, 2, rows).tolist(), random.integers(0, 1000, rows).tolist()
    made = [(i, k, x) for i, (k, x) in enumerate(zip(kinds, xs, strict=True))]
    data = spark.createDataFrame(made, "id long, kind long, x long").coalesce(1)
    name = f"classes_{policy}"
    out = tw.where(data, tw.pred(low, "kind", "x"), tw.pred(high, "kind", "x"), policy=policy, name=name)
    got = sorted(r.id for r in out.collect())
    assert got == [i for i, k, x in made if low(k, x) and high(k, x)]
    handle = tw.query(name)
    told = handle.explain()
    assert len(handle.plan().routes[""]) == 2, told
    assert "kind" in str(told)
    assert "share" in str(told)
    assert "<svg" in told._repr_html_()
    assert told.view.calls < 1.4 * rows  # one order for all needs 1.5


def test_freeze_keeps_the_routes_of_all_classes_and_thaw_resumes(spark):
    random = np.random.default_rng(2)
    kinds, xs = random.integers(0, 2, 30_000).tolist(), random.integers(0, 1000, 30_000).tolist()
    data = spark.createDataFrame(list(zip(kinds, xs, strict=True)), "kind long, x long").coalesce(1).cache()

    def run() -> int:
        return tw.where(
            data, tw.pred(low, "kind", "x"), tw.pred(high, "kind", "x"), policy="mesh", name="pinned"
        ).count()

    passing = sum(low(k, x) and high(k, x) for k, x in zip(kinds, xs, strict=True))
    assert run() == passing
    q = tw.query("pinned")
    pinned = q.freeze()
    assert len(pinned.routes[""]) == 2
    assert run() == passing
    newest = q.stats().tail(2)
    assert newest["extra"].tolist() == [0, 0], "nothing is sampled while frozen"
    assert newest["calls"].sum() < 1.15 * 30_000, "every kind keeps its own order"
    assert q.plan().routes == pinned.routes
    assert "frozen" in str(q.explain())
    q.thaw()
    assert run() == passing
    assert "frozen" not in str(q.explain()).split("why")[-1]
    assert [k for k in q.events().kind if k in ("freeze", "thaw")] == ["freeze", "thaw"]


FILES, ROWS = 6, 6_000
JOIN = """
    SELECT s.id AS s_id, s.kind AS kind, u.id AS u_id, x.w AS x_w, y.w AS y_w
    FROM s [RANGE 2 SECONDS], u [RANGE 2 SECONDS], x, y
    WHERE s.k = u.k AND s.dx = x.d AND s.dy = y.d
"""


def kinds_of_tuples(folder):
    """Tuples of kind a are hardly known to table x and four times to table y, those of kind b the other way round; some
    come out of order."""
    random = np.random.default_rng(3)
    count = FILES * ROWS
    ids = np.arange(count)
    ts = ids * 1_000 + random.integers(0, 100_000, count)
    kind = random.integers(0, 2, count)
    keys = random.integers(0, 500, (2, count))
    poor = random.random((2, count)) < 0.98
    columns = {n: 2 * keys[side] + ((kind == side) & poor[side]) for side, n in enumerate(("dx", "dy"))}
    time = pa.array(ts, pa.timestamp("us", "UTC"))
    words = pa.array(np.array(["a", "b"])[kind])
    s = pa.table({"id": ids, "ts": time, "k": random.integers(0, 1_000, count), "kind": words, **columns})
    u = pa.table({"id": ids, "ts": time, "k": random.integers(0, 1_000, count)})
    tables = {
        n: pa.table({"d": random.permutation(np.repeat(2 * np.arange(500), 4)), "w": np.arange(2_000)}) for n in "xy"
    }
    for name, stream in (("s", s), ("u", u)):
        (folder / name).mkdir()
        for f in range(FILES):
            path = folder / name / f"part-{f}.parquet"
            pq.write_table(stream.slice(f * ROWS, ROWS), path)
            os.utime(path, (f + 1, f + 1))
    within = "abs(epoch_us(s.ts) - epoch_us(u.ts)) <= 2000000"
    x, y = tables["x"], tables["y"]
    select, where = JOIN.split("FROM")[0], JOIN.split("WHERE")[1]
    answer = duckdb.sql(f"{select} FROM s, u, x, y WHERE {where} AND {within}").fetchall()
    assert x.num_rows == y.num_rows
    return tables, sorted(answer)


@pytest.mark.parametrize(("policy", "streaming"), [("mesh", True), ("cbr", True), ("mesh", False)])
def test_joins_send_each_kind_along_its_own_probe_order(spark, tmp_path, policy, streaming):
    tables, answer = kinds_of_tuples(tmp_path)
    inputs = {n: spark.createDataFrame(t) for n, t in tables.items()}
    for n in "su":
        static = spark.read.parquet(str(tmp_path / n))
        reader = spark.readStream.schema(static.schema).option("maxFilesPerTrigger", 1)
        df = reader.parquet(str(tmp_path / n)) if streaming else static
        inputs[n] = tw.stream(df, time="ts", lateness="1 second")
    name = f"kinds {policy} {streaming}"
    joined = tw.sql(JOIN, **inputs, policy=policy, cells=2, name=name, seed=1)
    assert joined.isStreaming == streaming
    if streaming:
        writer = joined.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
        assert writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(240)
        joined = spark.read.schema(joined.schema).parquet(str(tmp_path / "out"))
    assert sorted(tuple(r) for r in joined.collect()) == answer
    told = tw.query(name).explain()
    paths = {i.alias: i.probes for i in told.view.inputs if i.probes is not None and i.probes.classes}
    assert set(paths) == {"s"}, told
    first = {c.label: c.route[0] for c in paths["s"].classes}
    assert sorted(first.values()) == ["x", "y"], told
    assert "rows are classified by" in told
    assert re.search(r"\d probes  ", told)
    assert all("kind" in label for label in first), "the keys themselves tell nothing"
    html = told._repr_html_()
    ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    page = tw.query(name).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "rows of s [RANGE 2 s] in the newest batch, each class on its route" in page
    assert "rows of s [RANGE 2 s] in the newest batch: through" not in page
