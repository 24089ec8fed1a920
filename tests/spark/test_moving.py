"""State moves with the query: other cells, windows, columns and aliases, without a cluster, against DuckDB.

Rows that were in windows before the change and rows that come after it meet as if there had been one query all along.
"""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import joinshapes
from tests.spark.joinshapes import NAMES, SCHEMA, SHAPES
from tests.spark.test_cell import LATENESS, Cluster, Store

from thalweg.engine.recut import Grid
from thalweg.errors import CheckpointError
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.spark.cell import Cell
from thalweg.spark.moved import SEAL, Moved, Mover

MOVABLE = ["two streams", "strings, a filter, a residual", "a chain over decimals and words", "a clique of four",
           "a star with a table", "a stream with itself"]  # fmt: skip


def made(name: str, cells: int, folder: str, text: str | None = None, policy: str = "auto") -> Cluster:
    shape = SHAPES[name]
    sources = {s: Source(SCHEMA, time="ts", lateness=LATENESS) for s in shape.streams}
    functions = {"odd": joinshapes.odd} if "odd(" in (text or shape.ours) else {}
    tables = {"names": Source(NAMES.schema)} if shape.table else {}
    bound = bind(text or shape.ours, sources | tables, functions).query
    named = tuple(replace(i, source=i.alias, origin=i.source) for i in bound.inputs)
    streams = {i.alias: i.source for i in bound.inputs if i.is_stream}
    query = replace(bound, block=replace(bound.block, inputs=named))
    found = Cluster(query, streams, cells, policy, random.Random(0), folder)
    found.task = replace(found.task, judged=query)
    return found


def feed(name: str):
    order = random.Random(name)
    tables = {}
    for stream in SHAPES[name].streams:
        rows = joinshapes.table(stream)
        late = [t.as_py().timestamp() + order.uniform(0, 2) for t in rows["ts"]]
        tables[stream] = rows.take(sorted(range(len(rows)), key=late.__getitem__))
    return tables


def recut(old: Cluster, new: Cluster, folder) -> None:
    """What the driver does: write what each new cell gets, and let the new cells know."""
    grid = Grid.of(json.loads(old.stores[0].parts[SEAL])["grid"])
    move = Mover(new.task.query, new.task.shares, grid, new.task.shared)
    lines: dict[int, list[tuple[str, bytes]]] = {}
    for key, store in old.stores.items():
        for target, name, content in move.run(key, store.parts):
            lines.setdefault(target, []).append((name, content))
    for key, own in lines.items():
        (folder / f"cell={key}").mkdir(parents=True)
        names, contents = zip(*own, strict=True)
        assert len(set(names)) == len(names)
        pq.write_table(pa.table({"name": names, "content": contents}), folder / f"cell={key}" / "part.parquet")
    retired = tuple(k for k in old.stores if k not in lines)
    new.task = replace(new.task, move=Moved(str(folder), 3, retired))
    new.stores = {k: s for k, s in old.stores.items() if k in lines}


def answers(name: str, *clusters: Cluster) -> list[tuple]:
    needed = [c.name if c.input != "t" else "name" for c in clusters[0].task.engine().blocks[0].shape.needed]
    ids = [k for k, n in enumerate(needed) if n in ("id", "name")]
    rows = [row for c in clusters for row in c.results]
    return sorted(tuple(str(row[k]).upper() if needed[k] == "name" else row[k] for k in ids) for row in rows)


def finish(cluster: Cluster, tables, start: int) -> None:
    for k in range(start, 400, 80):
        cluster.batch({s: t.slice(k, 80) for s, t in tables.items()})
    end = [{"id": 10**6, "ts": joinshapes.EPOCH + joinshapes.timedelta(days=1)}]
    cluster.batch(dict.fromkeys(tables, pa.Table.from_pylist(end, SCHEMA)))


def begin(name: str, cells: int, tmp_path, **more) -> tuple[Cluster, dict[str, pa.Table]]:
    old, tables = made(name, cells, str(tmp_path), **more), feed(name)
    if SHAPES[name].table:
        old.start({"t": NAMES})
    for k in (0, 80, 160):
        old.batch({s: t.slice(k, 80) for s, t in tables.items()})
    return old, tables


@pytest.mark.parametrize(("before", "after"), [(1, 4), (6, 2), (4, 6), (3, 1)])
@pytest.mark.parametrize("name", MOVABLE)
def test_another_number_of_cells(name, before, after, tmp_path):
    old, tables = begin(name, before, tmp_path)
    new = made(name, after, str(tmp_path))
    recut(old, new, tmp_path / "moved")
    finish(new, tables, 240)
    assert answers(name, old, new) == joinshapes.answer(SHAPES[name])
    assert "moved" in {r.loaded for r in new.reports}
    cells = {r.task: r for r in new.reports}
    assert sum(c.made for c in cells.values()) == len(old.results) + len(new.results), "counts go on"


@pytest.mark.parametrize(("before", "after"), [(1, 4), (6, 2)])
def test_rows_set_aside_are_counted_on(before, after, tmp_path):
    old, tables = begin("two streams", before, tmp_path)
    for store in old.stores.values():
        store.parts[SEAL] = json.dumps({**json.loads(store.parts[SEAL]), "failed": 7}).encode()
    new = made("two streams", after, str(tmp_path))
    new.task = replace(new.task, on_error="quarantine")
    recut(old, new, tmp_path / "moved")
    finish(new, tables, 240)
    assert sum(json.loads(store.parts[SEAL])["failed"] for store in new.stores.values()) == 7 * before


def test_cells_that_are_no_more_drop_their_state(tmp_path):
    from pyspark.sql import Row

    from thalweg.spark.pack import GONE

    old, _ = begin("two streams", 4, tmp_path)
    store = old.stores[max(old.stores)]
    line = Row(key=0, input=GONE, part=0, rows=0, newest=0, blob=None, stats=None)
    assert list(Cell(old.task, store).run(max(old.stores), [line])) == []
    assert not store.parts


def windowed(seconds: float) -> str:
    return SHAPES["two streams"].ours.replace("RANGE 5 SECONDS", f"RANGE {seconds:g} SECONDS")


def resumed(old: Cluster, text: str, tmp_path, name: str = "two streams", **more) -> Cluster:
    new = made(name, old.cells, str(tmp_path), text=text, **more)
    new.stores = {k: Store(s.parts) for k, s in old.stores.items()}
    return new


def pairs(seconds: float) -> list[tuple]:
    shape = SHAPES["two streams"]
    return joinshapes.answer(replace(shape, theirs=shape.theirs.replace("<= 5000", f"<= {seconds * 1000:g}")))


def test_a_shorter_window_holds_from_the_restart_on(tmp_path):
    old, tables = begin("two streams", 2, tmp_path)
    new = resumed(old, windowed(2), tmp_path)
    finish(new, tables, 240)
    ours = answers("two streams", new)
    assert set(ours) <= set(pairs(2))
    assert set(ours) | set(answers("two streams", old)) >= set(pairs(2))


def test_a_longer_window_loses_nothing_that_was_still_there_and_says_when_it_is_full(tmp_path):
    old, tables = begin("two streams", 2, tmp_path)
    new = resumed(old, windowed(9), tmp_path)
    finish(new, tables, 240)
    both = set(answers("two streams", old, new))
    assert len(answers("two streams", old, new)) == len(both), "nothing twice"
    assert set(pairs(5)) <= both <= set(pairs(9))
    late = [p for p in pairs(9) if min(p) >= 240]
    assert set(late) <= both, "complete for rows after the restart"
    told = [str(e.why) for r in new.reports for e in r.events if e.kind == "state moved"]
    assert any("grows from RANGE 5 SECONDS to RANGE 9 SECONDS" in t for t in told)


@pytest.mark.parametrize(
    "text",
    [
        "select a.id as foo, b.id /* the other */ FROM s1 [RANGE 5 SECONDS] a,\n s2 [RANGE 2 SECONDS] b WHERE a.k = b.k",
        "SELECT l.id, r.id other FROM s1 [RANGE 5 SECONDS] AS l JOIN s2 [RANGE 2 SECONDS] AS r ON r.k = l.k",
        "SELECT a.id * 2 x, b.id y FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k",
    ],
    ids=["formatting, comments, names", "aliases", "expressions"],
)
def test_what_the_state_does_not_depend_on_may_change(text, tmp_path):
    old, tables = begin("two streams", 2, tmp_path)
    new = resumed(old, text, tmp_path)
    finish(new, tables, 240)
    assert answers("two streams", old, new) == joinshapes.answer(SHAPES["two streams"])


def test_a_table_under_another_alias_is_found(tmp_path):
    name = "a star with a table"
    old, tables = begin(name, 2, tmp_path)
    text = SHAPES[name].ours.replace("names t", "names nn").replace("t.", "nn.")
    new = resumed(old, text, tmp_path, name=name)
    finish(new, tables, 240)
    needed = [c.name for c in new.task.engine().blocks[0].shape.needed]
    ids = [k for k, n in enumerate(needed) if n in ("id", "name")]
    later = [tuple(str(r[k]).upper() if needed[k] == "name" else r[k] for k in ids) for r in new.results]
    assert sorted(answers(name, old) + later) == joinshapes.answer(SHAPES[name])


def test_a_new_column_is_null_in_rows_stored_before_and_a_dropped_one_is_gone(tmp_path):
    text = "SELECT a.id x, b.id y, b.w FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k"
    old, tables = begin("two streams", 2, tmp_path)
    new = resumed(old, text, tmp_path)
    finish(new, tables, 240)
    needed = [f"{c.input}.{c.name}" for c in new.task.engine().blocks[0].shape.needed]
    x, y, w = (needed.index(n) for n in ("a.id", "b.id", "b.w"))
    found = sorted([*answers("two streams", old), *((r[x], r[y]) for r in new.results)])
    assert found == joinshapes.answer(SHAPES["two streams"])
    words = dict(zip(*(joinshapes.table("s2")[c].to_pylist() for c in ("id", "w")), strict=True))
    stored = {i for t in [tables["s2"].slice(0, 240)] for i in t["id"].to_pylist()}
    assert all(r[w] == (None if r[y] in stored and r[w] is None else words[r[y]]) for r in new.results)
    assert any("'s2.w' is new" in str(e.why) for r in new.reports for e in r.events)
    back = resumed(new, SHAPES["two streams"].ours, tmp_path)
    back.batch({s: t.slice(390, 10) for s, t in tables.items()})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT a.id x FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.j = b.j", "the join keys"),
        ("SELECT a.id x FROM s1 [ROWS 5] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k", "counts rows"),
        ("SELECT a.id x FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k AND a.v < b.v",
         "a condition needs 's1.v'"),
        ("SELECT a.id x FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b, s2 [RANGE 2 SECONDS] c "
         "WHERE a.k = b.k AND b.k = c.k", "input 's2#2' is new"),
    ],
    ids=["keys", "row windows", "a condition on columns not kept", "another input"],
)  # fmt: skip
def test_what_can_not_be_kept_is_refused_in_one_line(text, said, tmp_path):
    old, _ = begin("two streams", 1, tmp_path)
    new = resumed(old, text, tmp_path)
    (key,) = new.stores
    with pytest.raises(CheckpointError) as caught:
        list(Cell(new.task, new.stores[key]).run(key, []))
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert "new checkpoint" in caught.value.hint


def test_another_cut_without_the_folder_is_refused_with_the_way_out(tmp_path):
    old, tables = begin("two streams", 2, tmp_path)
    new = made("two streams", 3, str(tmp_path))
    new.stores = old.stores
    with pytest.raises(CheckpointError, match="cut into 2 cells, the query into 3 cells") as caught:
        new.batch({s: t.slice(240, 80) for s, t in tables.items()})
    assert "checkpoint=" in caught.value.hint
    assert "cells=2" in caught.value.hint


def test_a_checkpoint_of_0_1_is_refused_by_name(tmp_path):
    old, _ = begin("two streams", 1, tmp_path)
    (key,) = old.stores
    old.stores[key].parts[SEAL] = json.dumps({"stamp": "s", "fingerprint": {"query text": "SELECT"}}).encode()
    with pytest.raises(CheckpointError, match=r"written by Thalweg 0\.1"):
        list(Cell(replace(old.task, token=uuid.uuid4().hex), old.stores[key]).run(key, []))


def test_a_changed_function_and_a_changed_condition_are_events(tmp_path):
    name = "strings, a filter, a residual"
    old, tables = begin(name, 1, tmp_path)
    text = SHAPES[name].ours.replace("b.j > 1", "b.j > 2")
    new = resumed(old, text, tmp_path, name=name)
    changed = {**new.query.functions, "odd": lambda v: v is not None and int(v) % 3 == 1}
    new.task = replace(new.task, query=replace(new.task.query, functions=changed))
    new.batch({s: t.slice(240, 80) for s, t in tables.items()})
    told = {e.kind: str(e.why) for r in new.reports for e in r.events}
    assert "'odd' has other code now" in told["function changed"]
    assert "j > 1" in told["condition changed"]
    again = resumed(new, text, tmp_path, name=name)
    again.task = replace(again.task, query=replace(again.task.query, functions=changed))
    again.batch({s: t.slice(320, 80) for s, t in tables.items()})
    assert not any(e.by == "restart" for r in again.reports for e in r.events)


@pytest.mark.parametrize("policy", ["written", "chaos", "mesh"])
def test_another_policy_or_index_takes_up_the_state(policy, tmp_path):
    old, tables = begin("a clique of four", 2, tmp_path)
    new = resumed(old, SHAPES["a clique of four"].ours, tmp_path, name="a clique of four", policy=policy)
    new.task = replace(new.task, index="bits")
    finish(new, tables, 240)
    assert answers("a clique of four", old, new) == joinshapes.answer(SHAPES["a clique of four"])
