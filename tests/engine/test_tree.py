"""The engine of trees: what leaves it, when, and that every door of an engine works for many blocks."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.engine.leaves import RECORD
from thalweg.errors import CheckpointError, DefinitionError, ThalwegError
from thalweg.language.algebra import (
    CHANGE_TIME,
    CHANGE_TYPE,
    RESULT_TIME,
    Aggregate,
    Bound,
    Emit,
    Group,
    Leaf,
    Match,
    Node,
)
from thalweg.language.bind import bind
from thalweg.state.format import FORMAT

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
STREAM = tw.Source(SCHEMA, time="ts", unit="us")
TABLE = tw.Source(pa.schema([("k", pa.int64()), ("v", pa.int64())]))
SOURCES = {"a": STREAM, "b": STREAM, "t": TABLE}


def leaf(text: str) -> Leaf:
    found = bind(text, SOURCES).root.child
    assert isinstance(found, Leaf)
    return found


def rows(*values: tuple[int, int | None, int]) -> pa.Table:
    columns = zip(*values, strict=True) if values else ([], [], [])
    return pa.table([pa.array(c, pa.int64()) for c in columns], schema=SCHEMA)


def match(left: Node, right: Node, kind: Any) -> Match:
    schema = left.schema if kind in ("semi", "anti") else pa.schema([*left.schema, *right.schema])
    return Match(schema, left, right, kind, ((left.schema.names[0], right.schema.names[0]),))


def emitted(node: Node, kind: Any, *, time: bool = False, every: int | None = None) -> Bound:
    columns = [(name.replace(".", "_"), name) for name in node.schema.names]
    fields = [(name, node.schema.field(of).type) for name, of in columns]
    if time:
        columns, fields = [*columns, ("t", RESULT_TIME)], [*fields, ("t", pa.int64())]
    if kind == "changes":
        fields += [(CHANGE_TYPE, pa.string()), (CHANGE_TIME, pa.int64())]
    return Bound(f"{kind} of a tree", Emit(pa.schema(fields), node, kind, tuple(columns), every))


def counts(window: str = "RANGE 5 MICROSECONDS") -> Group:
    schema = pa.schema([("a.k", pa.int64()), ("n", pa.int64())])
    return Group(schema, leaf(f"SELECT a.k FROM a [{window}]"), ("a.k",), {"n": Aggregate("count")})


def pairs(kind: str) -> Match:
    left = leaf("SELECT a.k, a.v FROM a [RANGE 5 MICROSECONDS]")
    return match(left, leaf("SELECT b.k, b.v FROM b [RANGE 3 MICROSECONDS]"), kind)


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in table.to_pylist()]


def test_changes_come_when_the_frontier_has_passed_them() -> None:
    engine = tw.Engine(emitted(counts(), "changes"))
    assert engine.schema.names == ["a_k", "n", "_change_type", "_change_time"]
    assert engine.push("a", rows((1, 7, 0), (2, 7, 0))).num_rows == 0
    assert values(engine.advance(2)) == [(7, 1, "insert", 1)]
    assert values(engine.advance(3)) == [(7, 1, "delete", 2), (7, 2, "insert", 2)]
    assert values(engine.close())[-1] == (7, 1, "delete", 8)
    with pytest.raises(ThalwegError, match="closed"):
        engine.advance(9)


def test_an_unmatched_row_comes_once_no_partner_can() -> None:
    engine = tw.Engine(emitted(pairs("left"), "results", time=True))
    assert engine.push("a", rows((1, 7, 10), (1, 8, 11), (2, None, 12))).num_rows == 0
    assert values(engine.push("b", rows((3, 7, 20)))) == [(7, 10, 7, 20, 3)], "a combination does not wait"
    assert engine.advance(6).num_rows == 0, "a row of b at 6 would still meet the one of a at 1"
    assert values(engine.advance({"b": 7})) == [(8, 11, None, None, 1)], "only the other side has to go on"
    assert engine.stats()["waiting"] == {"3 match (left)": 1}
    assert values(engine.close()) == [(None, 12, None, None, 2)]
    assert set(engine.stats()["operators"].values()) == {0}


@pytest.mark.parametrize(
    ("join", "wanted"),
    [
        (
            "a [RANGE 10 SECONDS] AS x LEFT ANTI JOIN b [NOW] AS y",
            "a row of x without a partner waits 13 seconds: 10 seconds in the window of x and 3 seconds of lateness of y, "
            "counted by the times of y",
        ),
        (
            "a [NOW] AS x FULL JOIN b [RANGE 1 MINUTE] AS y",
            "a row of x without a partner waits 3 seconds: 0 seconds in the window of x and 3 seconds of lateness of y, "
            "counted by the times of y; a row of y without a partner waits 1 minute: 1 minute in the window of y and 0 seconds "
            "of lateness of x, counted by the times of x",
        ),
        (
            "a [ROWS 3] AS x LEFT JOIN b [NOW] AS y",
            "a row of x without a partner waits until its window lets it go, or for close()",
        ),
        (
            "a [NOW] AS x LEFT JOIN t AS y",
            "a row of x without a partner does not wait: the other side is a table",
        ),
    ],
)  # fmt: skip
def test_explain_says_how_long_a_row_waits_for_a_partner(join: str, wanted: str) -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    sources = {
        "a": tw.Source(schema, time="ts", unit="s"), "b": tw.Source(schema, time="ts", unit="s", lateness="3 seconds"),
        "t": tw.Source(schema),
    }  # fmt: skip
    engine = tw.Engine(f"SELECT x.k FROM {join} ON x.k = y.k", sources, tables={"t": schema.empty_table()})
    explained = engine.explain()
    (why,) = (str(e.why) for name, e in explained.items() if "match" in name)
    assert why.endswith("; " + wanted)


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        (
            "SELECT x.k, count(y.k) AS n FROM a [RANGE 10 SECONDS] AS x LEFT JOIN b [NOW] AS y ON x.k = y.k GROUP BY x.k",
            "3 match (left)",
            "a row of x without a partner comes when all streams have passed its time, and goes when that changes: it waits 3 "
            "seconds, the lateness of y, counted by the times of x and y",
        ),
        (
            "SELECT DISTINCT x.k FROM a [RANGE 1 MINUTE] AS x WHERE NOT EXISTS (SELECT 1 FROM b [NOW] AS y WHERE y.k = x.k)",
            "(anti)",
            "a row of x without a partner comes when all streams have passed its time, and goes when that changes: it waits 3 "
            "seconds, the lateness of y, counted by the times of x and y",
        ),
        (
            "SELECT x.k FROM a [RANGE 1 MINUTE] AS x EXCEPT SELECT y.k FROM b [NOW] AS y",
            "(except)",
            "a row of x without a partner comes when all streams have passed its time, and goes when that changes: it waits 3 "
            "seconds, the lateness of y, counted by the times of x and y",
        ),
        (
            "SELECT count(*) AS n FROM a [RANGE 10 SECONDS] AS x LEFT JOIN b [NOW] AS y ON x.k = y.k "
            "GROUP BY window(result_time, '1 minute')",
            "match (left)",
            "a row of x without a partner waits 13 seconds: 10 seconds in the window of x and 3 seconds of lateness of y, "
            "counted by the times of y",
        ),
    ],
)  # fmt: skip
def test_explain_says_what_holds_a_row_of_a_relation_back(text: str, name: str, wanted: str) -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    sources = {
        "a": tw.Source(schema, time="ts", unit="s"), "b": tw.Source(schema, time="ts", unit="s", lateness="3 seconds"),
    }  # fmt: skip
    (why,) = (str(e.why) for key, e in tw.Engine(text, sources).explain().items() if key.endswith(name))
    assert why.endswith("; " + wanted)


def test_a_row_of_a_relation_comes_when_explain_says() -> None:
    """The lateness of b and no more: the window of a does not count."""
    source = tw.Source(SCHEMA, time="ts", unit="us")
    text = "SELECT x.k, count(y.k) AS n FROM a [RANGE 90 MICROSECONDS] AS x LEFT JOIN b [NOW] AS y ON x.k = y.k GROUP BY x.k"
    engine = tw.Engine(text, {"a": source, "b": tw.Source(SCHEMA, time="ts", unit="us", lateness="3 microseconds")})
    engine.push("a", rows((10, 7, 0), (20, 8, 0)))
    assert engine.push("b", rows((13, 1, 0))).num_rows + engine.advance().num_rows == 0
    assert values(pa.concat_tables([engine.push("b", rows((14, 1, 0))), engine.advance()])) == [(7, 0, "insert", 10)]


def test_semi_and_anti_join_divide_the_rows() -> None:
    found = {}
    for kind in ("semi", "anti"):
        engine = tw.Engine(emitted(pairs(kind), "results", time=True))
        engine.push("a", rows((1, 7, 10), (1, 8, 11)))
        engine.push("b", rows((4, 7, 20), (3, 7, 21)))
        found[kind] = values(engine.close())
    assert found == {"semi": [(7, 10, 3)], "anti": [(8, 11, 1)]}, "a semi join tells the time of the first partner"


@pytest.mark.parametrize(("first", "wanted"), [("LEFT", []), ("LEFT ANTI", []), ("LEFT SEMI", [(0,)]), ("FULL", [])])
def test_an_inner_join_after_an_outer_one_does_not_go_first(first: str, wanted: list[Any]) -> None:
    """x meets z at 1 and y at 5, when z is gone: x has a partner, and (x, y) and z never live together. A semi join adds
    nothing to x, which lives on."""
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})
    source = tw.Source(schema, time="ts", unit="us")
    text = f"""SELECT x.v FROM a [RANGE 9 MICROSECONDS] AS x {first} JOIN b [NOW] AS y ON x.k = y.k
               JOIN c [NOW] AS z ON x.k = z.k AND x.v <= z.v"""
    engine = tw.Engine(text, {"a": source, "b": source, "c": source})
    found = [engine.push(n, pa.table([[t], [7], [0]], schema=schema)) for n, t in (("a", 0), ("c", 1), ("b", 5))]
    assert values(pa.concat_tables([*found, engine.close()])) == wanted


def test_a_table_holds_nobody_back() -> None:
    tree = match(leaf("SELECT a.k FROM a [NOW]"), leaf("SELECT t.k, t.v FROM t"), "left")
    engine = tw.Engine(emitted(tree, "results"), tables={"t": pa.table({"k": [1, 1], "v": [5, 6]})})
    assert sorted(values(engine.push("a", rows((3, 1, 0), (3, 2, 0)))), key=repr) == [
        (1, 1, 5), (1, 1, 6), (2, None, None)
    ]  # fmt: skip


def test_tables_can_be_pushed_until_the_first_row_of_a_stream() -> None:
    tree = match(leaf("SELECT a.k FROM a [NOW]"), leaf("SELECT t.k, t.v FROM t"), "inner")
    engine = tw.Engine(emitted(tree, "results"))
    engine.push("t", pa.table({"k": [1], "v": [5]}))
    assert values(engine.push("a", rows((3, 1, 0)))) == [(1, 1, 5)]
    with pytest.raises(ThalwegError, match="table 't' grew"):
        engine.push("t", pa.table({"k": [1], "v": [5]}))
    with pytest.raises(DefinitionError, match="no source 'z'"):
        engine.push("z", rows())


def test_a_silent_stream_holds_the_frontier_back_unless_it_may_be_idle() -> None:
    for idle in (None, {"b": "10 microseconds"}):
        engine = tw.Engine(emitted(pairs("anti"), "results"), idle=idle)
        engine.push("a", rows((1, 7, 0)))
        engine.push("a", rows((100, 8, 0)))
        found = values(engine.advance())
        assert found == ([(7, 0)] if idle else [])
        assert engine.silent() == (["b"] if idle else [])
        assert engine.stats()["held back by"] == ["b"]


@pytest.mark.parametrize("kind", ["changes", "istream", "dstream", "rstream"])
@pytest.mark.parametrize("policy", ["auto", "chaos"])
def test_a_restored_engine_goes_on_as_the_other(kind: str, policy: str) -> None:
    bound = emitted(counts("ROWS 3"), kind, time=True, every=4 if kind == "rstream" else None)

    def make() -> tw.Engine:
        return tw.Engine(bound, policy=policy, seed=3, slice_rows=2)

    engine = make()
    for at in range(0, 40, 2):
        engine.push("a", rows((at, at % 3, 0), (at + 1, None, 1)))
        parts = engine.snapshot()
        assert parts == engine.snapshot(), "taking a snapshot changes nothing"
        other = make()
        other.restore(parts)
        assert values(engine.advance()) == values(other.advance())
        assert [e.record() for e in engine.events()] == [e.record() for e in other.events()]
    assert values(engine.close()) == values(other.close())


def test_a_snapshot_of_another_query_is_refused() -> None:
    engine = tw.Engine(emitted(counts(), "changes"))
    with pytest.raises(CheckpointError, match="another query"):
        tw.Engine(emitted(counts(), "istream")).restore(engine.snapshot())


def test_the_format_of_a_state_is_read_before_its_query() -> None:
    engine = tw.Engine(emitted(counts(), "changes"))
    parts = engine.snapshot()
    record = json.loads(parts[RECORD])
    parts[RECORD] = json.dumps({**record, "format": FORMAT - 1, "query": ["as it was shown then"]}).encode()
    with pytest.raises(CheckpointError, match=f"has format {FORMAT - 1}"):
        tw.Engine(emitted(counts(), "changes")).restore(parts)


def test_every_door_works_for_several_blocks() -> None:
    left = leaf("SELECT a.k FROM a [RANGE 5 MICROSECONDS], b [RANGE 5 MICROSECONDS] WHERE a.k = b.k")
    right = leaf("SELECT a.v FROM a [RANGE 9 MICROSECONDS], t WHERE a.k = t.k")
    engine = tw.Engine(emitted(match(left, right, "anti"), "results"), tables={"t": pa.table({"k": [1], "v": [2]})})
    assert len(engine.blocks) == 2
    assert engine.streams == ["a", "b"]
    engine.push("a", rows((1, 1, 1)))
    engine.push("b", rows((1, 1, 1)))
    engine.advance()
    explained = engine.explain()
    assert set(explained) == {"a", "b", "a#2", "3 match (anti)"}
    assert "rows wait for time to pass; a, b holds it back; " in str(explained["3 match (anti)"].why)
    assert set(engine.plan().routes) == {"a", "b", "a#2"}
    assert set(engine.needed()) <= {"a", "b", "a#2"}
    assert set(engine.classes()) == {"a", "b", "a#2", "t"}
    assert engine.indexes()
    assert engine.findings() == {}
    assert engine.left == []
    engine.freeze({"a#2": ["t"]})
    assert set(engine.frozen) == {"a", "b", "a#2"}
    assert engine.plan().pinned == {"a", "b", "a#2"}
    engine.thaw()
    assert not engine.frozen
    assert engine.stats()["sources"]["a"]["rows"] == 1, "a stream that two blocks read is counted once"


def test_what_is_kept_does_not_grow_with_the_history() -> None:
    engines = [tw.Engine(emitted(counts(), "changes")), tw.Engine(emitted(pairs("full"), "results"))]
    for engine in engines:
        sizes = []
        for window in range(100):
            for at in range(window * 5, window * 5 + 5):
                for name in engine.streams:
                    engine.push(name, rows((at, at % 4, at % 2), (at, at % 3, at % 2)))
            engine.advance()
            kept = sum(engine.stats()["operators"].values())
            sizes.append((kept, sum(len(p) for p in engine.snapshot().values())))
        assert max(s for s, _ in sizes[50:]) <= max(s for s, _ in sizes[:4]) + 4
        assert sizes[-1][1] < 1.3 * sizes[3][1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT window(result_time, '4 seconds') AS w, count(*) AS n FROM s GROUP BY window(result_time, '4 seconds')",
         [({"start": 100, "end": 104}, 1)]),
        ("SELECT x.t + 1 AS u FROM (SELECT result_time AS t FROM ISTREAM(SELECT s.k FROM s [NOW])) AS x", [(103,)]),
        ("SELECT s.k, result_time AS t FROM s [NOW] WHERE NOT EXISTS (SELECT 1 FROM s AS o WHERE o.k > s.k)", [(7, 102)]),
    ],
)  # fmt: skip
def test_times_count_what_the_streams_count(text: str, wanted: list[Any]) -> None:
    seconds = tw.Source(pa.schema([("ts", pa.int64()), ("k", pa.int64())]), time="ts", unit="s")
    engine = tw.Engine(text, {"s": seconds})
    found = values(engine.push("s", pa.table({"ts": [102], "k": [7]})))
    assert found + values(engine.close()) == wanted


def run_to_end(text: str, given: pa.Table) -> list[tuple[Any, ...]]:
    engine = tw.Engine(text, {"a": STREAM})
    return values(pa.concat_tables([engine.push("a", given), engine.close()]))


@pytest.mark.parametrize("window", ["NOW", "ROWS 1"])
def test_an_element_that_enters_as_an_equal_one_leaves_is_another(window: str) -> None:
    """Rows leave [RANGE 8] one microsecond apart: what reads them as a stream gets each."""
    given = rows((1, 0, 0), (2, 0, 0), (3, 0, 0), (5, 0, 0))
    emitted_ = f"DSTREAM(SELECT a.k FROM a [RANGE 8 MICROSECONDS]) [{window}] AS x"
    assert run_to_end(f"SELECT x.k FROM {emitted_}", given) == [(0,)] * 4
    assert run_to_end(f"SELECT count(*) OVER (ORDER BY result_time) AS n FROM {emitted_}", given) == [
        (1,),
        (2,),
        (3,),
        (4,),
    ]


def test_a_table_read_as_a_stream_leaves_its_window() -> None:
    table = pa.table({"k": [1], "v": [5]}, schema=TABLE.schema)
    text = "SELECT x.k FROM ISTREAM(SELECT t.k FROM t) [NOW] AS x LEFT SEMI JOIN a ON x.k = a.k"
    engine = tw.Engine(text, {"a": STREAM, "t": TABLE}, tables={"t": table})
    engine.push("a", rows((3, 1, 0)))
    assert values(engine.close()) == [], "it was there before all time, and no row of a was"


def test_whole_rows_in_frames() -> None:
    text = "SELECT a.v, first(a.v) OVER (ORDER BY a.ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS f FROM a"
    assert run_to_end(text, rows((1, 0, 5), (2, 0, 6), (2, 0, 7))) == [(5, 5), (6, 5), (7, 6)]


def test_lists_are_sorted_as_spark_sorts_them() -> None:
    table = pa.table({"k": [1, 1, 2, 3, 3], "v": [2, 1, 1, 1, None]}, schema=TABLE.schema)
    text = "SELECT collect_list(t.v) AS l FROM t GROUP BY t.k ORDER BY l DESC"
    engine = tw.Engine(text, {"t": TABLE}, tables={"t": table})
    assert values(engine.close()) == [([2, 1],), ([1],), ([1],)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, count(*) AS n FROM a GROUP BY k HAVING (SELECT max(t.v) FROM t WHERE t.k = a.k) > 10 + 0 * k",
        "SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) > (SELECT max(t.v) - 20 FROM t WHERE t.k = a.k)",
        "SELECT k, v, count(*) AS n FROM a GROUP BY k, v "
        "HAVING (SELECT max(t.v) FROM t WHERE t.k = a.k) > coalesce(a.v, 0) + count(*) OR a.v IS NULL",
        "SELECT k, (SELECT count(*) FROM t WHERE t.k = a.k) AS m FROM a GROUP BY k HAVING m > 1",
        "SELECT k FROM a GROUP BY k HAVING EXISTS (SELECT 1 FROM t WHERE t.k = a.k AND t.v > 10) AND count(*) < 2",
    ],
)
def test_subqueries_of_having_know_the_group(text: str) -> None:
    a = pa.table({"k": [1, 1, 2, 3], "v": [5, 5, 7, None]}, schema=TABLE.schema)
    t = pa.table({"k": [1, 2, 2, 3], "v": [10, 20, 21, 30]}, schema=TABLE.schema)
    engine = tw.Engine(text, {"a": TABLE, "t": TABLE}, tables={"a": a, "t": t})
    with duckdb.connect() as oracle:
        oracle.register("a", a)
        oracle.register("t", t)
        wanted = oracle.sql(text).fetchall()
    assert sorted(values(engine.close()), key=repr) == sorted(wanted, key=repr)
    assert wanted
