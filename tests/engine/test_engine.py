"""The engine: what a windowed join means, on cases small enough to check by hand, and a few random ones.

Many more random ones, under every policy and layout, are in `joins/`.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.joins.check import check_seeds

from thalweg.engine.block import BlockEngine
from thalweg.engine.identity import identity
from thalweg.engine.output import RESULT_TIME
from thalweg.errors import CheckpointError, DefinitionError, PredicateError, ThalwegError
from thalweg.language.bind import bind
from thalweg.language.query import Block, Column, Filter, Input, KeyClass, OutputColumn, Query, Residual, Source, Window
from thalweg.state import keys
from thalweg.state.index import Layout

POLICIES = ["written", "lottery", "chaos", "agreedy", "auto", "cbr", "mesh"]


def stream(time: pa.DataType | None = None, **columns: pa.DataType) -> Source:
    return Source(pa.schema([("ts", time or pa.int64()), *(columns or {"k": pa.int64()}).items()]), "ts", "ms")


def table(**columns: pa.DataType) -> Source:
    return Source(pa.schema(list(columns.items())))


def batch(source: Source, *rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(source.schema)
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, source.schema, strict=True)], source.schema)


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def tuples(result: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(rows_of(result).elements(), key=repr)


def pair(
    window: str, other: str | None = None, *, where: str = "a.k = b.k", **options: Any
) -> tuple[BlockEngine, Source]:
    """Two streams with windows; results are the pairs of times."""
    source = stream()
    text = f"SELECT a.ts AS x, b.ts AS y FROM a [{window}], b [{other or window}] WHERE {where}"
    return BlockEngine(bind(text, {"a": source, "b": source}), **options), source


# Windows


def test_range_is_closed_at_both_ends_and_each_input_has_its_own() -> None:
    engine, s = pair("RANGE 5 MILLISECONDS", "RANGE 2 MILLISECONDS")
    engine.push("a", batch(s, (10, 1)))
    out = engine.push("b", batch(s, *((t, 1) for t in range(4, 20))))
    # b newer: a must be within 5 before it. a newer: b must be within 2 before it.
    assert tuples(out) == [(10, t) for t in sorted((8, 9, 10, 11, 12, 13, 14, 15), key=lambda t: repr((10, t)))]


def test_now_joins_only_equal_times_with_newest() -> None:
    engine, s = pair("NOW")
    engine.push("a", batch(s, (1, 1), (2, 1), (2, 1)))
    assert tuples(engine.push("b", batch(s, (2, 1), (3, 1)))) == [(2, 2), (2, 2)]


def test_unbounded_never_forgets() -> None:
    engine, s = pair("UNBOUNDED", "NOW")
    engine.push("a", batch(s, (1, 1)))
    engine.advance(10**9)
    assert tuples(engine.push("b", batch(s, (10**9, 1)))) == [(1, 10**9)]
    assert engine.stats()["inputs"]["b"]["stored"] == 1


def test_rows_windows_wait_for_the_watermark_and_count_ties() -> None:
    engine, s = pair("ROWS 2", "UNBOUNDED")
    assert engine.push("a", batch(s, (1, 1), (2, 1), (2, 1), (2, 1))).num_rows == 0
    assert engine.push("b", batch(s, (1, 1), (2, 1), (3, 1))).num_rows == 0
    # Window of a: at 1 {1}, at 2 the last two of three ties, at 3 the same. Tuple (2, first) is in no window ever.
    out = engine.advance(3)
    assert tuples(out) == [(1, 1), (2, 1), (2, 1), (2, 2), (2, 2)]
    assert tuples(engine.close()) == [(2, 3), (2, 3)]


def test_rows_windows_count_tuples_that_filters_drop() -> None:
    engine, s = pair("ROWS 1", "UNBOUNDED", where="a.k = b.k AND a.k > 0")
    engine.push("a", batch(s, (1, 1), (2, 0)))
    engine.push("b", batch(s, (1, 1), (2, 1)))
    assert tuples(engine.close()) == [(1, 1)]


def test_partition_windows_keep_the_last_rows_of_each() -> None:
    s = stream(k=pa.int64(), p=pa.string())
    text = "SELECT a.ts AS x, b.ts AS y FROM a [PARTITION BY p ROWS 1], b [NOW] WHERE a.k = b.k"
    engine = BlockEngine(bind(text, {"a": s, "b": stream()}))
    engine.push("a", batch(s, (1, 1, "u"), (2, 1, "v"), (3, 1, None), (4, 1, "u"), (5, 1, None)))
    engine.push("b", batch(stream(), (3, 1), (9, 1)))
    assert tuples(engine.close()) == [(1, 3), (2, 3), (2, 9), (3, 3), (4, 9), (5, 9)]


def test_the_order_of_arrival_changes_nothing_within_range_windows() -> None:
    rows = [(t, t % 3) for t in range(0, 60, 2)]
    answers = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        engine, s = pair("RANGE 7 MILLISECONDS", slice_rows=2)
        found: Counter[tuple[Any, ...]] = Counter()
        todo = [("a", r) for r in rows] + [("b", r) for r in rows]
        random.shuffle(todo)  # type: ignore[arg-type]
        for source, row in todo:
            found += rows_of(engine.push(source, batch(s, row)))
        answers.append(found)
    assert all(a == answers[0] for a in answers)
    assert answers[0].total() == sum(
        1 for x, y in itertools.product(rows, rows) if x[1] == y[1] and abs(x[0] - y[0]) <= 7
    )


def test_a_self_join_is_pushed_once_and_pairs_every_tuple_with_itself() -> None:
    s = stream()
    text = "SELECT x.ts AS x, y.ts AS y FROM s [RANGE 1 MILLISECOND] AS x, s [RANGE 1 MILLISECOND] AS y WHERE x.k = y.k"
    engine = BlockEngine(bind(text, {"s": s}))
    out = engine.push("s", batch(s, (1, 1), (2, 1), (4, 1)))
    assert tuples(out) == [(1, 1), (1, 2), (2, 1), (2, 2), (4, 4)]


# Time


def test_late_tuples_are_counted_and_not_joined() -> None:
    engine, s = pair("RANGE 5 MILLISECONDS")
    engine.push("a", batch(s, (10, 1)))
    engine.advance({"b": 9})
    assert tuples(engine.push("b", batch(s, (8, 1), (9, 1), (None, 1)))) == [(10, 9)]
    assert engine.stats()["sources"]["b"] == {
        "rows": 3, "late": 1, "without time": 1, "waiting": 0, "watermark": 9,
    }  # fmt: skip
    assert tuples(engine.push("a", batch(s, (8, 1)))) == [(8, 9)]  # a's own watermark never moved


def test_a_tuple_stays_as_long_as_a_slower_stream_may_need_it() -> None:
    engine, s = pair("RANGE 5 MILLISECONDS", slice_rows=1)
    engine.push("a", batch(s, (10, 1)))
    engine.advance({"a": 1000, "b": 15})
    assert engine.stats()["inputs"]["a"]["stored"] == 1
    assert tuples(engine.push("b", batch(s, (15, 1)))) == [(10, 15)]
    engine.advance({"b": 16})
    assert engine.stats()["inputs"]["a"]["stored"] == 0
    assert engine.stats()["inputs"]["a"]["evicted"] == 1


def test_a_watermark_never_goes_back_and_none_means_newest_less_lateness() -> None:
    source = Source(pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts", "ms", lateness="3 milliseconds")
    text = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 5 MILLISECONDS], b [RANGE 5 MILLISECONDS] WHERE a.k = b.k"
    engine = BlockEngine(bind(text, {"a": source, "b": source}))
    engine.push("a", batch(source, (10, 1)))
    engine.advance()
    assert engine.stats()["sources"]["a"]["watermark"] == 7
    assert engine.stats()["sources"]["b"]["watermark"] is None
    engine.advance(4)
    assert engine.stats()["sources"]["a"]["watermark"] == 7
    assert engine.stats()["sources"]["b"]["watermark"] == 4


@pytest.mark.parametrize(
    ("dtype", "unit", "values"),
    [
        (pa.int32(), "s", (1, 3)),
        (pa.timestamp("ms"), "ms", (datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.datetime(1970, 1, 1, 0, 0, 3))),
        (pa.timestamp("ns", "UTC"), "ms", (10**9, 3 * 10**9)),
    ],
)
def test_streams_of_different_time_units_meet(dtype: pa.DataType, unit: Any, values: tuple[Any, Any]) -> None:
    other = Source(pa.schema([("ts", dtype), ("k", pa.int64())]), "ts", unit)
    text = "SELECT a.ts AS x FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
    engine = BlockEngine(bind(text, {"a": stream(), "b": other}), output="columns")
    engine.push("b", batch(other, (values[0], 1), (values[1], 1)))
    out = engine.push("a", batch(stream(), (2000, 1), (4001, 1)))
    assert sorted(out["a.ts"].to_pylist()) == [2000, 2000]
    assert sorted(t.timestamp() for t in out[RESULT_TIME].to_pylist()) == [2.0, 3.0]
    engine.advance(datetime.datetime(1970, 1, 1, 0, 0, 4, tzinfo=datetime.UTC))
    assert engine.stats()["sources"]["a"]["watermark"] == 4000


# Shapes


def shaped(edges: list[tuple[int, int]], count: int, **options: Any) -> tuple[BlockEngine, dict[str, Source]]:
    sources = {f"s{i}": stream(**{f"e{k}": pa.int64() for k, e in enumerate(edges) if i in e}) for i in range(count)}
    where = " AND ".join(f"s{i}.e{k} = s{j}.e{k}" for k, (i, j) in enumerate(edges))
    froms = ", ".join(f"s{i} [RANGE 10 MILLISECONDS]" for i in range(count))
    select = ", ".join(f"s{i}.ts AS t{i}" for i in range(count))
    return BlockEngine(bind(f"SELECT {select} FROM {froms} WHERE {where}", sources), **options), sources


SHAPES = {
    "chain of 10": [(i, i + 1) for i in range(9)],
    "star of 8": [(0, i) for i in range(1, 8)],
    "clique of 4": list(itertools.combinations(range(4), 2)),
    "cycle of 6": [(i, (i + 1) % 6) for i in range(6)],
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_chains_stars_cliques_and_cycles(shape: str, policy: str) -> None:
    edges = SHAPES[shape]
    count = 1 + max(max(e) for e in edges)
    random = np.random.default_rng(11)
    engine, sources = shaped(edges, count, policy=policy, seed=5, slice_rows=2)
    rows: dict[str, list[tuple[int, ...]]] = {}
    for name, source in sources.items():
        values = random.integers(0, 2, (5, len(source.schema) - 1))
        rows[name] = [(2 * t, *map(int, v)) for t, v in enumerate(values)]
    found: Counter[tuple[Any, ...]] = Counter()
    for t in range(0, 5, 2):
        for name, source in sources.items():
            found += rows_of(engine.push(name, batch(source, *rows[name][t : t + 2])))
        engine.advance(2 * t + 2)

    expected: Counter[tuple[int, ...]] = Counter()
    names = list(sources)

    def extend(chosen: list[int]) -> None:
        if len(chosen) == count:
            expected[tuple(2 * c for c in chosen)] += 1
            return
        i = len(chosen)
        for c in range(5):
            ok = True
            for k, (a, b) in enumerate(edges):
                other = a if b == i else b if a == i else None
                if other is not None and other < i:
                    mine = rows[names[i]][c][sources[names[i]].schema.get_field_index(f"e{k}")]
                    theirs = rows[names[other]][chosen[other]][sources[names[other]].schema.get_field_index(f"e{k}")]
                    ok &= mine == theirs
            if ok:
                extend([*chosen, c])

    extend([])
    assert found == expected
    assert expected


def test_a_cross_join_when_asked() -> None:
    s = stream()
    text = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 2 MILLISECONDS] CROSS JOIN b [RANGE 2 MILLISECONDS]"
    engine = BlockEngine(bind(text, {"a": s, "b": s}))
    engine.push("a", batch(s, (1, None), (2, 5), (9, 5)))
    assert tuples(engine.push("b", batch(s, (3, None)))) == [(1, 3), (2, 3)]


# Tables


def test_tables_are_in_view_always_and_may_come_in_parts_before_the_first_tuple() -> None:
    t = table(k=pa.int64(), name=pa.string())
    s = stream()
    query = bind("SELECT s.ts AS x, t.name AS n FROM s [NOW], t WHERE s.k = t.k", {"s": s, "t": t}).query
    engine = BlockEngine(query, tables={"t": batch(t, (1, "one"))})
    engine.push("t", batch(t, (2, "two"), (None, "none")))
    assert tuples(engine.push("s", batch(s, (5, 2), (6, 1), (7, None)))) == [(5, "two"), (6, "one")]
    with pytest.raises(ThalwegError, match="grew after"):
        engine.push("t", batch(t, (3, "three")))
    assert engine.stats()["inputs"]["s"]["stored"] == 0  # nothing ever probes the only stream
    engine.advance(10**6)
    assert tuples(engine.push("s", batch(s, (10**6, 1)))) == [(10**6, "one")]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_table_of_which_nothing_is_read_still_multiplies(rows: int) -> None:
    t, s = table(k=pa.int64(), name=pa.string()), stream()
    query = bind("SELECT s.ts AS x FROM s [NOW] CROSS JOIN t", {"s": s, "t": t}).query
    engine = BlockEngine(query, tables={"t": batch(t, *[(None, "one")] * rows)})
    assert tuples(engine.push("s", batch(s, (5, 2), (6, 1)))) == sorted([(5,), (6,)] * rows)


def test_a_query_over_tables_answers_when_closed() -> None:
    t, u = table(k=pa.int64(), v=pa.int64()), table(k=pa.int64(), w=pa.int64())
    query = bind("SELECT t.v AS v, u.w AS w FROM t, u WHERE t.k = u.k AND t.v < u.w", {"t": t, "u": u}).query
    tables = {"t": batch(t, (1, 10), (2, 20), (2, 25)), "u": batch(u, (1, 11), (2, 24), (2, 1))}
    engine = BlockEngine(query, tables=tables)
    assert tuples(engine.close()) == [(10, 11), (20, 24)]
    named = BlockEngine(query, tables=tables, output="columns").close()
    assert named[RESULT_TIME].null_count == 2


def test_filters_and_stems_may_mix_where_the_stream_is_not_stored() -> None:
    calls: list[int] = []

    def costly(k: int) -> bool:
        calls.append(k)
        return k > 0

    t, s = table(k=pa.int64()), stream()
    query = bind(
        "SELECT s.ts AS x FROM s [NOW], t WHERE s.k = t.k AND costly(s.k)", {"s": s, "t": t}, {"costly": costly}
    ).query
    engine = BlockEngine(query, policy="written", tables={"t": batch(t, (1,), (1,), (0,))})
    pipeline = engine.stages[0].pipeline
    assert [op.kind for op in pipeline.operators] == ["filter", "stem"]
    assert pipeline.free
    rows = [(t, t % 4) for t in range(20)]
    assert len(tuples(engine.push("s", batch(s, *rows)))) == 10
    assert sorted(set(calls)) == [0, 1, 2, 3]

    calls.clear()
    engine.thaw()
    engine.freeze({"s": ["t", "costly(s.k)"]})  # the stem first
    assert len(tuples(engine.push("s", batch(s, *rows)))) == 10
    assert sorted(calls) == [0] * 5 + [1] * 5  # each arriving row once, though it has two partial results


# Keys


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.string(), ["a", "b", "ab", "", "a", None]),
        (pa.binary(), [b"a", b"b", b"ab", b"", b"a", None]),
        (pa.decimal128(30, 2), [1, 2, 3, 4, 1, None]),
        (pa.list_(pa.int64()), [[1], [2], [1, 2], [], [1], None]),
    ],
)
def test_equal_hashes_are_verified(dtype: pa.DataType, values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With every hash equal, each pair of keys is a candidate, and only true values tell them apart."""
    monkeypatch.setattr(keys, "hash_values", lambda array: np.zeros(len(array), np.int64))
    query = hand_made(dtype)
    engine = BlockEngine(query, policy="chaos", seed=3)
    spec = query.inputs[0].spec
    rows = [(t, v, t) for t, v in enumerate(values)]
    engine.push("a", batch(spec, *rows))
    engine.push("b", batch(spec, *rows))
    found = tuples(engine.push("c", batch(spec, *rows)))
    work = engine.stats()["inputs"]["c"]["operators"]
    assert sum(o["rows out"] for o in work.values()) > len(found)  # collisions did happen
    expected = [
        (x, y, z)
        for x, y, z in itertools.product(range(6), repeat=3)
        if values[x] is not None and values[x] == values[y] == values[z]
    ]
    assert found == sorted(expected, key=repr)


def hand_made(dtype: pa.DataType, *, residuals: tuple[Residual, ...] = (), filters: tuple[Filter, ...] = ()) -> Query:
    """Three streams joined on one column k of any type; results are the values of v."""
    spec = Source(pa.schema([("ts", pa.int64()), ("k", dtype), ("v", pa.int64())]), "ts", "ms")
    inputs = tuple(Input(a, a, spec, Window("range", span=10**9)) for a in "abc")
    key = KeyClass(tuple(Column(a, "k") for a in "abc"), dtype)
    output = tuple(OutputColumn(a, f"{a}.v", Column(a, "v"), (Column(a, "v"),)) for a in "abc")
    return Query("by hand", Block(inputs, (key,), filters, residuals, output))


def test_two_columns_of_one_input_in_a_class_must_agree() -> None:
    s, o = stream(k=pa.string(), l=pa.string()), stream(k=pa.string())
    text = "SELECT a.ts AS x FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k AND a.l = b.k"
    engine = BlockEngine(bind(text, {"a": s, "b": o}))
    engine.push("b", batch(o, (1, "u")))
    assert tuples(engine.push("a", batch(s, (1, "u", "u"), (2, "u", "v"), (3, "v", "v"), (4, "u", None)))) == [(1,)]


def test_keys_of_different_widths_meet_in_a_common_type() -> None:
    s, o = stream(k=pa.int8()), stream(k=pa.int64())
    text = "SELECT a.ts AS x FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
    engine = BlockEngine(bind(text, {"a": s, "b": o}))
    engine.push("b", batch(o, (1, -7), (1, 249)))
    assert tuples(engine.push("a", batch(s, (1, -7), (2, 7)))) == [(1,)]


# Predicates


def test_an_error_in_a_residual_surfaces_only_if_nothing_else_drops_the_pair() -> None:
    def ratio(arrays: Mapping[Column, pa.Array]) -> pa.Array:
        values = [a.to_pylist() for a in arrays.values()]
        return pa.array([x // y > 0 for x, y in zip(*values, strict=True)])

    def close_by(arrays: Mapping[Column, pa.Array]) -> pa.Array:
        values = [a.to_pylist() for a in arrays.values()]
        return pa.array([x != 0 for x, _ in zip(*values, strict=True)])

    raising = Residual(("a", "b"), "a.v / b.v > 0", (Column("a", "v"), Column("b", "v")), ratio)
    guard = Residual(("b", "c"), "b.v <> 0", (Column("b", "v"), Column("c", "v")), close_by)
    for residuals, harmless in (((raising, guard), True), ((raising,), False)):
        query = hand_made(pa.int64(), residuals=residuals)
        spec = query.inputs[0].spec
        engine = BlockEngine(query, policy="written")
        engine.push("b", batch(spec, (1, 7, 0), (1, 7, 2)))
        engine.push("c", batch(spec, (1, 7, 1)))
        if harmless:
            assert tuples(engine.push("a", batch(spec, (1, 7, 5)))) == [(5, 2, 1)]
        else:
            with pytest.raises(PredicateError, match="ZeroDivisionError"):
                engine.push("a", batch(spec, (1, 7, 5)))


def test_an_error_in_a_filter_surfaces_only_if_the_row_passes_the_others() -> None:
    def inverse(k: int) -> bool:
        return 1 / k > 0

    s = stream()
    text = "SELECT a.ts AS x FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.ts = b.ts AND inverse(a.k) AND a.k >= {}"
    for policy in POLICIES:
        engine = BlockEngine(bind(text.format(1), {"a": s, "b": s}, {"inverse": inverse}), policy=policy)
        engine.push("b", batch(s, (1, 0), (2, 0)))
        assert tuples(engine.push("a", batch(s, (1, 0), (2, 2)))) == [(2,)]
        engine = BlockEngine(bind(text.format(0), {"a": s, "b": s}, {"inverse": inverse}), policy=policy)
        with pytest.raises(PredicateError, match="inverse"):
            engine.push("a", batch(s, (1, 0)))


def test_what_only_spark_can_evaluate_is_refused_or_left() -> None:
    column = Column("a", "v")
    residual = Residual(("a", "b"), "soundex(a.v) = soundex(b.v)", (column, Column("b", "v")), None)
    filtered = Filter("a", "rlike(a.v)", ("v",), None)
    query = hand_made(pa.int64(), residuals=(residual,), filters=(filtered,))
    with pytest.raises(DefinitionError, match="only Spark can evaluate"):
        BlockEngine(query)
    engine = BlockEngine(query, leave=True)
    assert engine.left == ["rlike(a.v)", "soundex(a.v) = soundex(b.v)"]
    assert engine.schema.names == ["a.v", "b.v", "c.v", RESULT_TIME]
    with pytest.raises(DefinitionError, match="soundex"):
        BlockEngine(query, leave=True, output="select")
    assert BlockEngine(query, leave=True, prefiltered=True).left == ["soundex(a.v) = soundex(b.v)"]


# Results


def test_a_flood_of_results_comes_in_chunks_of_bounded_size() -> None:
    s = stream()
    text = "SELECT a.ts AS x, b.ts AS y, c.ts AS z FROM a [UNBOUNDED], b [UNBOUNDED], c [UNBOUNDED] WHERE a.k = b.k AND b.k = c.k"
    engine = BlockEngine(bind(text, dict.fromkeys("abc", s)), buffer=1000)
    same = batch(s, *((t, 1) for t in range(60)))
    engine.push("a", same)
    engine.push("b", same)
    sizes: list[int] = []
    seen: Counter[tuple[Any, ...]] = Counter()

    def into(chunk: pa.RecordBatch) -> None:
        sizes.append(chunk.num_rows)
        seen.update(rows_of(pa.Table.from_batches([chunk])))

    assert engine.push("c", same, into=into).num_rows == 0
    assert sum(sizes) == 60**3
    assert max(sizes) <= 2000
    assert len(seen) == 60**3
    assert engine.push("c", batch(s, (99, 1))).num_rows == 60**2  # and results are returned again


def test_a_push_of_many_windows_costs_what_its_parts_cost() -> None:
    """Spans no longer than a slice: the work does not grow with the batch."""
    rows = [(t, t % 50) for t in range(20_000)]
    work = []
    for size in (500, 20_000):
        engine, s = pair("RANGE 499 MILLISECONDS", slice_rows=100, policy="written")
        results = 0
        for at in range(0, len(rows), size):
            for source in ("a", "b"):
                results += engine.push(source, batch(s, *rows[at : at + size])).num_rows
            engine.advance(at + size)
        work.append(sum(i["work"] for i in engine.stats()["inputs"].values()))
        assert results == sum(2 * min(10, t // 50 + 1) - 1 for t in range(20_000))
    assert work[1] < 2 * work[0]


def test_output_columns_are_those_selected_or_all_needed() -> None:
    s = stream()
    text = "SELECT a.ts, b.ts + 1 AS later FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
    query = bind(text, {"a": s, "b": s}).query
    engine = BlockEngine(query)
    assert engine.schema.names == ["a.ts", "b.ts", RESULT_TIME]
    with pytest.raises(DefinitionError, match="ts \\+ 1"):
        BlockEngine(query, output="select")
    engine.push("a", batch(s, (1, 1)))
    assert engine.push("b", batch(s, (3, 1))).to_pylist() == [{"a.ts": 1, "b.ts": 3, RESULT_TIME: 3}]


# Mistakes


def test_mistakes_are_named() -> None:
    engine, s = pair("RANGE 5 MILLISECONDS")
    with pytest.raises(DefinitionError, match="no source 'c'"):
        engine.push("c", batch(s))
    with pytest.raises(ThalwegError, match="no column 'k'"):
        engine.push("a", batch(s).drop_columns(["k"]))
    with pytest.raises(ThalwegError, match="declared as int64"):
        engine.push("a", pa.table({"ts": [1], "k": ["x"]}))
    with pytest.raises(DefinitionError, match="no stream 'c'"):
        engine.advance({"c": 1})
    with pytest.raises(DefinitionError, match="is a stream"):
        BlockEngine(engine.query, tables={"a": batch(s)})
    engine.close()
    with pytest.raises(ThalwegError, match="closed"):
        engine.push("a", batch(s))


# State


def test_a_snapshot_belongs_to_its_query_and_is_plain_data() -> None:
    engine, s = pair("ROWS 3", "RANGE 5 MILLISECONDS", policy="auto")
    engine.push("a", batch(s, (1, 1), (2, 1)))
    engine.push("b", batch(s, (1, 1)))
    engine.advance(2)
    parts = engine.snapshot()
    assert all(isinstance(v, bytes) for v in parts.values())
    assert json.loads(parts["record"])["identity"] == identity(engine.shape)
    other, _ = pair("ROWS 4", "RANGE 5 MILLISECONDS")
    with pytest.raises(CheckpointError, match="it was ROWS 3 and is ROWS 4"):
        other.restore(parts)
    twin, _ = pair("ROWS 3", "RANGE 5 MILLISECONDS", policy="auto")
    twin.restore(parts)
    assert twin.stats() == {**engine.stats(), "inputs": twin.stats()["inputs"]}
    assert tuples(twin.close()) == tuples(engine.close())


def test_slices_that_did_not_change_are_not_written_again() -> None:
    engine, s = pair("RANGE 40 MILLISECONDS", slice_rows=1)
    engine.push("a", batch(s, *((t, 1) for t in range(25))))
    first = engine.snapshot()
    engine.push("a", batch(s, (26, 1)))
    second = engine.snapshot()
    slices = sorted(k for k in first if k.startswith("slice/"))
    assert len(slices) == 3
    assert [second[k] is first[k] for k in slices] == [True, True, False]


def test_memory_is_that_of_the_windows_whatever_has_passed() -> None:
    engine, s = pair("RANGE 999 MILLISECONDS")
    sizes = []
    for t in range(0, 100_000, 1000):
        for source in ("a", "b"):
            engine.push(source, batch(s, *((t + k, k % 97) for k in range(1000))))
        engine.advance(t + 1000)
        inputs = engine.stats()["inputs"]
        sizes.append((sum(i["stored"] for i in inputs.values()), sum(i["bytes"] for i in inputs.values())))
    assert max(stored for stored, _ in sizes[90:]) <= max(stored for stored, _ in sizes[3:13])
    assert max(nbytes for _, nbytes in sizes[90:]) <= 1.1 * max(nbytes for _, nbytes in sizes[3:13])


# Everything at once


@pytest.mark.parametrize("first", range(1_000, 1_120, 20))
def test_random_joins_equal_duckdb(first: int) -> None:
    assert check_seeds(range(first, first + 20)).cases > 15


@cache
def turning() -> tuple[dict[str, list[tuple[int, ...]]], int]:
    """Three streams, enough tuples per batch for scouts, selectivities that turn round halfway; and how many results."""
    random = np.random.default_rng(4)
    rows: dict[str, list[tuple[int, ...]]] = {n: [] for n in "abc"}
    for t in range(1500):
        k, j = (200, 20) if t < 700 else (20, 200)
        rows["a"].append((t, int(random.integers(0, k))))
        rows["b"].append((t, int(random.integers(0, k)), int(random.integers(0, j))))
        rows["c"].append((t, int(random.integers(0, j))))
    by_key = {n: {k: [r[0] for r in rows[n] if r[1] == k] for k in range(200)} for n in "ac"}
    results = 0
    for y, k, j in rows["b"]:
        near = [[t for t in by_key[n][key] if abs(t - y) <= 300] for n, key in (("a", k), ("c", j))]
        results += sum(1 for x, z in itertools.product(*near) if abs(x - z) <= 300)
    return rows, results


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("layout", ["hash", "bits", Layout("bits", (3,))])
def test_no_policy_and_no_layout_changes_the_answer(policy: str, layout: str | Layout) -> None:
    s, o = stream(k=pa.int64()), stream(k=pa.int64(), l=pa.int64())
    text = "SELECT a.ts AS x, b.ts AS y, c.ts AS z FROM a [RANGE 300 MILLISECONDS], b [RANGE 300 MILLISECONDS], "
    text += "c [RANGE 300 MILLISECONDS] WHERE a.k = b.k AND b.l = c.k"
    wide = layout if isinstance(layout, str) else Layout("bits", (2, 3))
    layouts = {"a": layout, "b": wide, "c": layout}
    engine = BlockEngine(bind(text, {"a": s, "b": o, "c": s}), policy=policy, index=layouts, slice_rows=64, seed=9)
    rows, expected = turning()
    got = 0
    for t in range(0, 1500, 300):
        for name in "abc":
            got += engine.push(name, batch(o if name == "b" else s, *rows[name][t : t + 300])).num_rows
        engine.advance(t + 300)
    assert got == expected
    assert expected > 1000


def test_a_push_that_raised_leaves_nothing_behind():
    """Results found before the error point into rows that are gone: they must not come out of the next push."""

    def judged(x, y):
        if x == 101:
            raise ValueError("no such value")
        return x + y != 51

    source = Source(pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())]), time="ts", unit="ms")
    text = "SELECT a.v AS x, b.v AS y FROM s [RANGE 9 SECONDS] a, t [RANGE 9 SECONDS] b WHERE a.k = b.k AND judged(a.v, b.v)"
    engine = BlockEngine(bind(text, {"s": source, "t": source}, {"judged": judged}), policy="written", buffer=4)
    engine.push("t", pa.table({"ts": [1, 1, 1], "k": [1, 1, 2], "v": [1, 2, 5]}))
    with pytest.raises(PredicateError):
        engine.push("s", pa.table({"ts": [2] * 4, "k": [1, 1, 1, 2], "v": [50, 60, 60, 101]}))
    found = engine.push("s", pa.table({"ts": [3, 3], "k": [7, 1], "v": [777, 778]})).to_pylist()
    assert sorted((r["x"], r["y"]) for r in found) == [(778, 1), (778, 2)]


@pytest.mark.parametrize("policy", ["written", "chaos"])
def test_a_row_that_only_the_second_reader_of_a_stream_stores_leaves_its_row_window(policy: str) -> None:
    """Both readers share one store. Rows are stored piece by piece, and a piece without rows for the first reader is
    stored after later ones."""
    s = Source(pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("j", pa.int64())]), "ts", "ms")
    probe = stream()
    text = """SELECT d.ts AS x FROM p [NOW], s [RANGE 4 SECONDS] AS c, s [ROWS 3] AS d
              WHERE p.k = c.k AND p.k = d.j"""
    engine = BlockEngine(bind(text, {"p": probe, "s": s}), policy=policy, slice_rows=1)
    engine.push("s", batch(s, (1000, None, 7), (2500, 7, None), (2600, 7, 7)))
    engine.advance(3000)
    engine.push("s", batch(s, (3000, 7, 7)))
    engine.push("p", batch(probe, (3001, 7)))
    assert tuples(engine.close()) == [(2600,)] * 3 + [(3000,)] * 3


def test_rows_of_one_time_that_are_stored_out_of_order_are_found_in_a_row_window() -> None:
    """The first reader has no use for the second piece (its rows are pushed out at once), so the third is stored first."""
    s = stream(k=pa.int64(), v=pa.int64())
    text = "SELECT a.v AS x, b.v AS y FROM s [ROWS 1] AS a, s [RANGE 0 SECONDS] AS b WHERE a.k = b.k"
    engine = BlockEngine(bind(text, {"s": s}), policy="written", slice_rows=1)
    rows = [(5, 1), (6, 1), (7, 2), (8, 2), (8, None), (11, 4), (11, 4), (11, 4), (11, 4)]
    engine.push("s", batch(s, *((t * 1000, k, n) for n, (t, k) in enumerate(rows))))
    assert tuples(engine.close()) == [(0, 0), (1, 1), (2, 2), (8, 5), (8, 6), (8, 7), (8, 8)]
