"""Filter.evaluate, every kind, against a plain loop over rows; what it is called with; what it refuses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import PredicateError
from thalweg.execute.filters import Filter, NoVerdict, WrongCount
from thalweg.testing.chance import Seeded
from thalweg.testing.filters import TYPES, DrawnPredicate, FilterCase, Refused, batches, make_case, plain, predicates

NUMBERS = pa.record_batch({"x": pa.array([3, None, 0, 7, -1, 4, None, 0])})


def expected(case: FilterCase, predicate: int, rows: list[int]) -> tuple[list[bool], dict[int, str]]:
    """The plain loop: who holds, and whose error, by position among the given rows. An error counts as held."""
    outcomes = [case.outcome(r, predicate) for r in rows]
    return [o in ("pass", "raise") for o in outcomes], {i: "raise" for i, o in enumerate(outcomes) if o == "raise"}


def check_against_loop(case: FilterCase, predicate: int, rows: list[int] | None) -> None:
    everyone = list(range(len(case.rows))) if rows is None else rows
    verdict = (
        case.predicates[predicate].filter().evaluate(case.data, None if rows is None else np.array(rows, np.int64))
    )
    holds, errors = expected(case, predicate, everyone)
    assert verdict.holds.dtype == np.bool_
    assert verdict.holds.tolist() == holds
    assert set(verdict.errors) == set(errors), "each row's error is found, and no other's"
    judge = case.predicates[predicate]
    for position, error in verdict.errors.items():
        values = tuple(case.rows[everyone[position]][case.columns.index(c)] for c in judge.columns)
        assert isinstance(error, Refused)
        assert str(error) == f"{judge.name} refuses {plain(values)!r}", "the error is that of this very row"


def test_every_kind_says_what_a_plain_loop_says() -> None:
    met: Counter[tuple[str, str]] = Counter()
    for seed in range(160):
        case, chance = make_case(seed), Seeded(seed)
        if not case.rows:
            continue
        for predicate, judge in enumerate(case.predicates):
            check_against_loop(case, predicate, None)
            some = [r for r in range(len(case.rows)) if chance.yes(0.5)]
            if some:
                check_against_loop(case, predicate, some)
                check_against_loop(case, predicate, some[::-1])
            met[judge.kind, judge.shape] += 1
    assert len(met) == 9, f"not every way to hand verdicts over was met: {met}"
    assert min(met.values()) > 10


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_every_type_reaches_every_kind(data: st.DataObject) -> None:
    batch = data.draw(batches())
    judge: DrawnPredicate = data.draw(predicates(batch.schema.names))
    rows = tuple(tuple(row.values()) for row in batch.to_pylist())
    assert batch.schema.types == [TYPES[c] for c in batch.schema.names]
    case = FilterCase(tuple(batch.schema.names), rows, (judge,))
    if rows:
        check_against_loop(case, 0, None)


# --- what the function is called with ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [None, [0], [1, 6], [5, 2, 0], [7, 6, 5, 4, 3, 2, 1, 0], [2, 2, 2]])
@pytest.mark.parametrize("kind", ["row", "arrow", "pandas"])
def test_sees_exactly_the_given_rows(kind: Any, rows: list[int] | None) -> None:
    seen: list[Any] = []

    def watch(x: Any) -> Any:
        seen.extend([x] if kind == "row" else x.to_pylist() if kind == "arrow" else x.tolist())
        return True if kind == "row" else [True] * len(x) if kind == "pandas" else np.ones(len(x), bool)

    given_rows = None if rows is None else np.array(rows, np.int64)
    Filter("watch", watch, ("x",), kind).evaluate(NUMBERS, given_rows)
    wanted = [NUMBERS.column(0)[i].as_py() for i in (range(8) if rows is None else rows)]
    assert [plain(v) for v in seen] == wanted


def test_verdicts_are_in_the_order_of_the_given_rows() -> None:
    batch = pa.record_batch({"x": [0, 1, 2, 3]})
    judge = Filter("big", lambda x: x >= 2, ("x",))
    assert judge.evaluate(batch, np.array([3, 0, 2, 1])).holds.tolist() == [True, False, True, False]


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_halving_never_calls_with_no_rows_and_finds_each_row(kind: Any) -> None:
    sizes: list[int] = []

    def odd_ones_out(x: Any) -> Any:
        sizes.append(len(x))
        values = x.to_pylist() if kind == "arrow" else x.tolist()
        if any(v % 7 == 3 for v in values):
            raise Refused(str(next(v for v in values if v % 7 == 3)))
        return np.array([v % 2 == 0 for v in values])

    for count in (1, 2, 3, 10, 64, 101):
        batch = pa.record_batch({"x": list(range(count))})
        verdict = Filter("p", odd_ones_out, ("x",), kind).evaluate(batch, None)
        assert {i: str(e) for i, e in verdict.errors.items()} == {i: str(i) for i in range(count) if i % 7 == 3}
        assert verdict.holds.tolist() == [i % 2 == 0 or i % 7 == 3 for i in range(count)]
    assert min(sizes) == 1


def test_a_row_function_goes_on_behind_an_error_without_calling_twice() -> None:
    calls: list[int] = []

    def picky(x: int) -> bool:
        calls.append(x)
        if x % 3 == 1:
            raise ZeroDivisionError(x)
        return x > 4

    verdict = Filter("p", picky, ("x",)).evaluate(pa.record_batch({"x": list(range(9))}), None)
    assert calls == list(range(9))
    assert {i: e.args for i, e in verdict.errors.items()} == {1: (1,), 4: (4,), 7: (7,)}
    assert verdict.holds.tolist() == [False, True, False, False, True, True, True, True, True]


def test_an_error_that_looks_like_the_end_of_the_rows_is_an_error() -> None:
    def first_of(values: list[int] | None) -> bool:
        return next(iter(values or [])) > 0  # StopIteration on an empty list

    batch = pa.record_batch({"x": pa.array([[1], [], [0], None, [5]], pa.list_(pa.int64()))})
    verdict = Filter("p", first_of, ("x",)).evaluate(batch, None)
    assert verdict.holds.tolist() == [True, True, False, True, True]
    assert {i: type(e) for i, e in verdict.errors.items()} == {1: StopIteration, 3: StopIteration}


def test_what_is_no_exception_is_not_caught() -> None:
    def interrupt(x: int) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Filter("p", interrupt, ("x",)).evaluate(NUMBERS, None)


# --- no columns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "holds"), [(True, True), (False, False), (None, False), (np.True_, True)])
def test_a_predicate_over_no_columns_is_asked_once(said: Any, holds: bool) -> None:
    calls: list[int] = []

    def constant() -> Any:
        calls.append(1)
        return said

    verdict = Filter("c", constant, ()).evaluate(NUMBERS, np.array([1, 2, 5]))
    assert verdict.holds.tolist() == [holds] * 3
    assert not verdict.errors
    assert len(calls) == 1


def test_a_predicate_over_no_columns_may_raise_or_say_nonsense() -> None:
    broken = Filter("c", lambda: 1 / 0, ()).evaluate(NUMBERS, np.array([1, 2]))
    assert {i: type(e) for i, e in broken.errors.items()} == {0: ZeroDivisionError, 1: ZeroDivisionError}
    nonsense = Filter("c", lambda: 1, ()).evaluate(NUMBERS, np.array([1, 2]))
    assert {i: type(e) for i, e in nonsense.errors.items()} == {0: NoVerdict, 1: NoVerdict}


# --- what counts as a verdict -----------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    "said",
    [
        pa.array([True, False, None]),
        pa.chunked_array([[True], [], [False, None]]),
        pa.chunked_array([pa.array([True, False, None])]),
        pd.Series([True, False, None]),
        pd.Series([True, False, NAN], dtype=object),
        pd.Series([np.True_, np.False_, pd.NA], dtype=object),
        pd.Series([True, False, pd.NaT], dtype=object),
        pd.Series([True, False, None], dtype="boolean"),
        pd.Series([True, False, None], dtype="bool[pyarrow]"),
        pd.Series([True, False, False], index=[9, 9, 2]),
        pd.array([True, False, None], dtype="boolean"),
        np.array([True, False, False]),
        np.array([True, False, None], dtype=object),
        [True, False, None],
        [np.bool_(True), np.bool_(False), NAN],
        (True, False, None),
    ],
    ids=lambda said: f"{type(said).__name__}-{getattr(said, 'dtype', getattr(said, 'type', ''))}",
)
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_null_is_not_true_however_it_is_spelled(kind: Any, said: Any) -> None:
    batch = pa.record_batch({"x": [1, 2, 3]})
    verdict = Filter("p", lambda x: said, ("x",), kind).evaluate(batch, None)
    assert verdict.holds.tolist() == [True, False, False]
    assert not verdict.errors


def test_an_array_of_nothing_but_nulls() -> None:
    verdict = Filter("p", lambda x: pa.nulls(len(x)), ("x",), "arrow").evaluate(NUMBERS, None)
    assert verdict.holds.tolist() == [False] * 8


@pytest.mark.parametrize("said", [True, np.True_, None, False, np.False_])
def test_verdicts_of_a_row_function(said: Any) -> None:
    verdict = Filter("p", lambda x: said, ("x",)).evaluate(NUMBERS, np.array([0, 1]))
    assert verdict.holds.tolist() == [bool(said)] * 2


@pytest.mark.parametrize(
    ("kind", "function", "named"),
    [
        ("row", lambda x: 1, "a int \\(1\\)"),
        ("row", lambda x: "yes", "str \\('yes'\\)"),
        ("row", lambda x: NAN, "float"),
        ("row", lambda x: [True], "list"),
        ("row", lambda x: pa.scalar(True), "BooleanScalar"),
        ("arrow", lambda x: x, "Arrow array of int64"),
        ("arrow", lambda x: pa.array(["yes"] * len(x)), "Arrow array of string"),
        ("arrow", lambda x: None, "NoneType"),
        ("arrow", lambda x: True, "bool"),
        ("pandas", lambda x: x.fillna(0), "int|float"),
        ("pandas", lambda x: pd.Series(["yes"] * len(x)), "str \\('yes'\\)"),
        ("pandas", lambda x: x.to_frame(), "DataFrame"),
        ("pandas", lambda x: [[True]] * len(x), "bool|list|shape"),
    ],
)
def test_what_is_no_boolean_is_an_error_of_its_row_with_the_predicate_named(
    kind: Any, function: Callable[..., Any], named: str
) -> None:
    judge = Filter("nosy", function, ("x",), kind)
    try:
        verdict = judge.evaluate(NUMBERS, None)
    except PredicateError as raised:
        errors = [raised]
    else:
        assert sorted(verdict.errors) == list(range(8))
        errors = list(verdict.errors.values())
    for error in errors:
        assert isinstance(error, PredicateError)
        assert "'nosy'" in str(error)
        assert "hint" in str(error)
        assert re.search(named, str(error)), str(error)


def test_nonsense_on_one_row_is_that_rows_error() -> None:
    """The written order may never bring such a row here: then it is no error, as if the predicate had raised."""
    batch = pa.record_batch({"x": [1, 2, 3, 4]})

    def odd(x: int) -> Any:
        return "three" if x == 3 else x > 1

    by_row = Filter("p", odd, ("x",)).evaluate(batch, None)
    by_pandas = Filter("p", lambda s: pd.Series([odd(v) for v in s], dtype=object), ("x",), "pandas").evaluate(
        batch, None
    )
    for verdict in (by_row, by_pandas):
        assert list(verdict.errors) == [2]
        assert "str ('three')" in str(verdict.errors[2])
        assert verdict.holds.tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    "said", [[True], [], [True] * 9, np.ones((8, 2), bool), np.array(True), pa.chunked_array([], pa.bool_())]
)
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_another_number_of_verdicts_is_raised_at_once(kind: Any, said: Any) -> None:
    with pytest.raises(WrongCount, match=r"'short' was given 8 rows and returned (0|1|9|an array of shape)"):
        Filter("short", lambda x: said, ("x",), kind).evaluate(NUMBERS, None)


# --- readers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["row", "arrow", "pandas"])
def test_readers_take_the_place_of_the_usual_reading(kind: Any) -> None:
    batch = pa.record_batch({"x": [1, 2, 3], "y": [10, 20, 30]})
    seen: list[Any] = []

    def watch(x: Any, y: Any) -> Any:
        seen.append((x, y))
        return True if kind == "row" else [True] * 3

    Filter("p", watch, ("x", "y"), kind, readers=(lambda a: [-v for v in a.to_pylist()], None)).evaluate(batch, None)
    if kind == "row":
        assert seen == [(-1, 10), (-2, 20), (-3, 30)]
    else:
        assert seen[0][0] == [-1, -2, -3]
        assert isinstance(seen[0][1], pa.Array if kind == "arrow" else pd.Series)


def test_a_sliced_batch_is_read_at_its_offset() -> None:
    batch = pa.record_batch({"x": list(range(100))}).slice(40, 20)
    for kind, function in (("row", lambda x: x % 2 == 0), ("pandas", lambda s: s % 2 == 0)):
        verdict = Filter("even", function, ("x",), kind).evaluate(batch, np.array([1, 2, 19]))
        assert verdict.holds.tolist() == [False, True, False]
