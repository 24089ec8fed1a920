"""Python functions in conditions: how they are called, on which rows, and what they may return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from thalweg.errors import DefinitionError, PredicateError
from thalweg.language import Source
from thalweg.language.bind import bind
from thalweg.language.functions import signature
from thalweg.language.predicate import pred

T = Source(pa.schema({"x": pa.int64(), "y": pa.float64(), "s": pa.string()}))


def holds(condition: str, functions: dict[str, Callable[..., Any]], **columns: list[Any]) -> list[Any]:
    q = bind(f"SELECT 1 FROM t WHERE {condition}", {"t": T}, functions).query
    (only,) = q.block.filters
    assert only.evaluate is not None
    assert only.functions == tuple(functions)
    types = {"x": pa.int64(), "y": pa.float64(), "s": pa.string()}
    return list(only.evaluate({c: pa.array(v, types[c]) for c, v in columns.items()}).to_pylist())


def test_row_function_gets_plain_values_and_none() -> None:
    seen: list[Any] = []

    def f(x: Any, s: Any) -> bool | None:
        seen.append((x, s))
        return None if x is None else x > 1

    assert holds("f(x, s)", {"f": f}, x=[1, None, 3], s=["a", None, "c"]) == [False, None, True]
    assert seen == [(1, "a"), (None, None), (3, "c")]


def test_arrow_and_pandas_functions_get_whole_columns() -> None:
    def arrow(x: pa.Array) -> pa.Array:
        return pc.greater(x, 1)

    def pandas(x: pd.Series) -> pd.Series:
        return x > 1

    def quoted(x: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([pc.greater(x, 1)])

    for f in (arrow, pandas, quoted):
        assert holds("f(x)", {"f": f}, x=[1, 2, 3]) == [False, True, True]


def test_function_is_called_only_for_rows_that_reach_it() -> None:
    def inverse(x: int) -> float:
        return 1 / x

    zero = {"x": [0, 1, None, -4]}
    assert holds("x IS NULL OR x = 0 OR f(x) > 0", {"f": inverse}, **zero) == [True, True, True, False]
    assert holds("CASE WHEN x <> 0 THEN f(x) > 0 ELSE false END", {"f": inverse}, **zero) == [False, True, False, False]
    assert holds("NOT (x IS NOT NULL AND x <> 0 AND f(x) > 0)", {"f": inverse}, **zero) == [True, False, True, True]
    assert holds("coalesce(x, CAST(f(0) AS BIGINT)) = 1", {"f": inverse}, x=[0, 1]) == [False, True]
    with pytest.raises(ZeroDivisionError):
        holds("f(x) > 0", {"f": inverse}, **zero)


def test_results_of_a_declared_type() -> None:
    def doubled(x: int) -> int | None:
        return None if x == 2 else x * 2

    assert holds("f(x) >= 6", {"f": doubled}, x=[1, 2, 3]) == [False, None, True]
    assert holds("f(f(x)) = 4", {"f": doubled}, x=[1, 4, 3]) == [None, False, False]


def test_nan_of_a_row_function_stays_nan() -> None:
    def same(y: float) -> float:
        return y

    assert holds("f(y) > 1e300", {"f": same}, y=[float("nan"), 1.0]) == [True, False]


def test_no_columns() -> None:
    q = bind("SELECT 1 FROM t WHERE f()", {"t": T}, {"f": lambda: True}).query
    assert q.block.filters[0].evaluate is not None
    assert q.block.filters[0].evaluate({"x": pa.array([1, 2])}).to_pylist() == [True, True]


@pytest.mark.parametrize("verdict", [1, "yes", 0.0])
def test_what_is_no_verdict_is_named(verdict: Any) -> None:
    with pytest.raises(PredicateError, match=r"f returned .* no verdict"):
        holds("f(x)", {"f": lambda x: verdict}, x=[1, 2])


def test_wrong_length_is_named() -> None:
    def f(x: pa.Array) -> pa.Array:
        return pa.array([True])

    with pytest.raises(PredicateError, match="f returned 1 values for 2 rows"):
        holds("f(x)", {"f": f}, x=[1, 2])


def test_wrong_type_is_named() -> None:
    def number(x: int) -> int:
        return "no"  # type: ignore[return-value]

    def column(x: pa.Array) -> pa.Array:
        return x

    with pytest.raises(PredicateError, match="f returned something other than int64"):
        holds("f(x) > 1", {"f": number}, x=[1])
    with pytest.raises(PredicateError, match="f returned int64, which is no verdict"):
        holds("f(x)", {"f": column}, x=[1])


def test_a_function_is_called_alike_in_sql_and_as_a_predicate() -> None:
    def above(x: pa.Array, limit: int) -> pa.Array:
        return pc.greater(x, limit)

    def hidden(x: Unknown) -> pa.Array:  # type: ignore[name-defined]  # noqa: F821
        return pc.greater(x, 1)

    high = functools.partial(above, limit=2)
    for f, kept in ((high, [False, False, True]), (hidden, [False, True, True])):
        assert pred(f, "x").kind == signature(f).kind == "arrow"
        assert holds("f(x)", {"f": f}, x=[1, 2, 3]) == kept
    with pytest.raises(DefinitionError, match="which columns does above take"):
        pred(high)


def test_signatures() -> None:
    class Callable_:
        def __call__(self, x: pd.Series) -> pd.Series:
            return x

    class Udf:
        """What pyspark's udf() gives, as far as it matters here."""

        evalType = 250
        returnType = "boolean"

        @staticmethod
        def func(x: Any) -> Any:
            return x

        def __call__(self, *columns: Any) -> Any:
            raise AssertionError("the wrapper itself works only inside Spark")

    assert signature(Callable_()).kind == "pandas"
    assert signature(Udf()).kind == "arrow"
    assert signature(Udf()).result == pa.bool_()
    assert signature(len).result is None
    assert signature(len).takes(1)
    assert not signature(lambda a, b=1: a).takes(3)
    assert signature(lambda a, b=1: a).takes(1)
