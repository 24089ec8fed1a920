"""The binder's values: what text fixtures can't show."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from thalweg.errors import DefinitionError, QueryError
from thalweg.language import Column, Source
from thalweg.language.algebra import Group
from thalweg.language.bind import bind

Functions = dict[str, Callable[..., Any]]


def steep(x: int) -> bool:
    return x > 2


@pytest.fixture
def pair() -> dict[str, Source]:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int32(), "x": pa.int32()})
    return {
        "s": Source(schema, time="ts", unit="us", lateness="5 microseconds"),
        "r": Source(schema, time="ts", unit="ms"),
    }


def test_output_says_what_it_needs(pair: dict[str, Source]) -> None:
    q = bind("SELECT a.x + b.x + a.k AS t, b.k FROM s [NOW] a, r [NOW] b WHERE a.k = b.k", pair).query
    assert q.output[0].needs == (Column("a", "x"), Column("b", "x"), Column("a", "k"))
    assert q.output[0].column is None
    assert q.output[1].column == Column("b", "k")


def test_source_reaches_the_input(pair: dict[str, Source]) -> None:
    q = bind("SELECT a.x FROM s [NOW] a, r [NOW] b WHERE a.k = b.k", pair).query
    assert q.input("a").spec is pair["s"]
    assert [i.source for i in q.streams] == ["s", "r"]


def test_query_survives_pickling_with_its_predicates(pair: dict[str, Source]) -> None:
    text = "SELECT a.x FROM s [NOW] a, r [NOW] b WHERE a.k = b.k AND a.x < b.x AND steep(a.x) AND b.x % 2 = 1"
    q = bind(text, pair, {"steep": steep}).query
    again = pickle.loads(pickle.dumps(q))
    assert again == q
    arrays = {"x": pa.array([1, 3, None, 4], pa.int32())}
    assert again.block.filters[1].evaluate(arrays).to_pylist() == [True, True, None, False]
    # A None is handed to the function as it is; steep can't take it.
    assert again.block.filters[0].evaluate({"x": pa.array([1, 3], pa.int32())}).to_pylist() == [False, True]
    sides = {Column("a", "x"): pa.array([1, 2], pa.int32()), Column("b", "x"): pa.array([2, 2], pa.int32())}
    assert again.block.residuals[0].evaluate(sides).to_pylist() == [True, False]


def test_a_bound_query_is_evaluated_without_the_parser(pair: dict[str, Source]) -> None:
    q = bind(
        "SELECT x FROM s WHERE x % 2 = 1 OR upper(CAST(k AS STRING)) LIKE 'A%' OR coalesce(x, k) IN (1, 2)", pair
    ).query
    worker = f"""
import pickle, sys
import pyarrow as pa
query = pickle.loads({pickle.dumps(q)!r})
arrays = {{n: pa.array([1, 2, 4], pa.int32()) for n in ("x", "k")}}
assert query.block.filters[0].evaluate(arrays).to_pylist() == [True, True, False]
assert "sqlglot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", worker], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_functions_are_kept_as_they_are(pair: dict[str, Source]) -> None:
    limit = 2

    def closure(x: int) -> bool:
        return x > limit

    q = bind("SELECT x FROM s WHERE closure(x)", pair, {"closure": closure, "unused": steep}).query
    assert q.functions == {"closure": closure}


def test_false_constant_keeps_nothing(pair: dict[str, Source]) -> None:
    q = bind("SELECT x FROM s WHERE 1 > 2", pair).query
    (only,) = q.block.filters
    assert only.input == "s"
    assert only.columns == ("ts",)
    assert only.evaluate is not None
    assert only.evaluate({"ts": pa.array([1, 2, 3])}).to_pylist() == [False] * 3


def test_implied_filter_compares_in_the_type_of_the_class() -> None:
    schema = pa.schema({"ts": pa.int64(), "small": pa.int8(), "large": pa.int64()})
    q = bind("SELECT 1 FROM s [NOW] a, s [NOW] b WHERE a.small = b.large AND b.large = a.large",
             {"s": Source(schema, time="ts", unit="ms")}).query  # fmt: skip
    (implied,) = q.block.filters
    assert implied.evaluate is not None
    arrays = {"small": pa.array([1, 2, None], pa.int8()), "large": pa.array([1, 258, None], pa.int64())}
    assert implied.evaluate(arrays).to_pylist() == [True, False, None]


def test_exact_names_win_over_case() -> None:
    schema = pa.schema({"Id": pa.int64(), "id": pa.int64()})
    q = bind("SELECT id, Id FROM t", {"t": Source(schema)}).query
    assert [o.column for o in q.output] == [Column("t", "id"), Column("t", "Id")]


def test_dictionary_columns_are_texts() -> None:
    schema = pa.schema({"c": pa.dictionary(pa.int32(), pa.string())})
    q = bind("SELECT c FROM t WHERE upper(c) LIKE 'A_%'", {"t": Source(schema)}).query
    array = pa.array(["ab", "a", None, "xa"]).dictionary_encode()
    assert q.block.filters[0].evaluate is not None
    assert q.block.filters[0].evaluate({"c": array}).to_pylist() == [True, False, None, False]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Source(pa.schema({"a": pa.int64()}), time="b"), "no time column 'b'"),
        (Source(pa.schema({"a": pa.string()}), time="a"), "is string"),
        (Source(pa.schema([])), "has no columns"),
        ("a frame", "of type str, not a Source"),
    ],
)
def test_bad_sources_are_named(source: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        bind("SELECT * FROM s", {"s": source})


def test_bad_functions_are_named(pair: dict[str, Source]) -> None:
    with pytest.raises(DefinitionError, match="'f' is of type int, not a function"):
        bind("SELECT x FROM s", pair, {"f": 3})  # type: ignore[dict-item]
    with pytest.raises(QueryError, match="can't be called 'select'"):
        bind("SELECT x FROM s", pair, {"select": steep})
    with pytest.raises(QueryError, match="a query is text"):
        bind(3, pair)  # type: ignore[arg-type]


def test_case_of_duplicate_columns_is_an_error_only_when_used() -> None:
    schema = pa.schema([("a", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    assert [o.name for o in bind("SELECT b FROM t", {"t": Source(schema)}).query.output] == ["b"]
    with pytest.raises(QueryError, match="ambiguous"):
        bind("SELECT a FROM t", {"t": Source(schema)})


def test_types_that_arrow_can_not_compare_are_left_to_spark() -> None:
    schema = pa.schema({"a": pa.month_day_nano_interval(), "b": pa.list_(pa.int32()), "c": pa.time64("us")})
    q = bind("SELECT 1 FROM t WHERE a = a AND b = b AND c < c AND c IS NULL", {"t": Source(schema)}).query
    assert [f.evaluate is None for f in q.block.filters] == [True, True, True, False]


def test_what_only_spark_computes_in_select_is_left_to_it() -> None:
    zoned = Source(pa.schema({"ts": pa.timestamp("us", "UTC"), "x": pa.int32()}), time="ts")
    bound = bind("SELECT date_format(ts, 'yyyy') AS y FROM s", {"s": zoned}, computed=True)
    assert bound.plain is not None
    bound = bind("SELECT x + 1 AS y FROM s", {"s": zoned}, computed=True)
    assert bound.plain is None


def test_a_column_that_only_spark_computes_belongs_to_its_input() -> None:
    zoned = Source(pa.schema({"ts": pa.timestamp("us", "UTC"), "x": pa.int32()}), time="ts")
    text = (
        "SELECT date_format(a.ts, 'yyyy') AS y, count(*) AS n FROM s [RANGE 1 HOUR] a GROUP BY date_format(ts, 'yyyy')"
    )
    (leaf,) = bind(text, {"s": zoned}).leaves
    (entry,) = leaf.query.inputs
    ((name, sql),) = entry.computed
    assert sql == "date_format(a.ts, 'yyyy')" or sql == "date_format(ts, 'yyyy')"
    assert entry.spec.schema.field(name).type == pa.string()
    assert leaf.schema.names == [f"a.{name}"]
    assert zoned.schema.names == ["ts", "x"]
    with pytest.raises(QueryError, match="only Spark can compute"):
        bind(text.replace("date_format", "some_function"), {"s": zoned})
    cast = text.replace("date_format(a.ts, 'yyyy')", "CAST(some_function(a.ts) AS INT)")
    bind(cast.replace("date_format(ts, 'yyyy')", "CAST(some_function(ts) AS INT)"), {"s": zoned})


class Longest:
    def __init__(self) -> None:
        self.values: list[str] = []

    def add(self, value: str) -> None:
        self.values.append(value)

    def remove(self, value: str) -> None:
        self.values.remove(value)

    def merge(self, other: Longest) -> None:
        self.values += other.values

    def value(self) -> str | None:
        return max(self.values, key=len, default=None)


def test_an_aggregate_of_the_users_own(pair: dict[str, Source]) -> None:
    bound = bind("SELECT k, longest(CAST(x AS STRING)) AS l FROM s [NOW] GROUP BY k", pair, {"longest": Longest})
    group = next(n for n in bound.root.walk() if isinstance(n, Group))
    (made,) = group.aggregates.values()
    assert (made.function, made.make) == ("longest", Longest)
    assert bound.root.schema.field("l").type == pa.string()
    assert bound.functions == {"longest": Longest}


def test_an_aggregate_that_lacks_a_method_is_named(pair: dict[str, Source]) -> None:
    class Half:
        def add(self, value: int) -> None: ...

        def value(self) -> int: ...  # type: ignore[empty-body]

    with pytest.raises(DefinitionError, match="'half' has no method remove"):
        bind("SELECT half(x) AS h FROM s", pair, {"half": Half})


def test_a_window_of_the_users_own(pair: dict[str, Source]) -> None:
    def a_while(rows: pa.RecordBatch) -> pa.Array:
        return rows.column("ts")

    (leaf,) = bind("SELECT count(*) AS n FROM s [a_while]", pair, {"a_while": a_while}).leaves
    window = leaf.query.inputs[0].window
    assert (window.kind, window.name, window.ends) == ("custom", "a_while", a_while)


def test_a_watermark_overrides_the_source(pair: dict[str, Source]) -> None:
    (leaf,) = bind("SELECT x FROM s WATERMARK ts DELAY OF INTERVAL 3 SECONDS [NOW]", pair).leaves
    assert leaf.query.inputs[0].spec.lateness == 3_000_000
