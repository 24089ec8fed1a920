"""Groups against plain bags: every aggregate, with removals, NULLs and ties, cut and restored at random."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.course import (
    VALUES,
    Bag,
    Event,
    by_instant,
    check,
    emptied,
    plain,
    random_cuts,
    random_events,
    random_instants,
    run,
)

from thalweg.contract.relation import Changes
from thalweg.errors import AggregateError
from thalweg.language.algebra import Aggregate, Group, Node
from thalweg.relate import operator

Values = list[Any]
INT, DOUBLE = pa.int64(), pa.float64()


def finite(value: Any) -> float:
    return math.nan if value == "NaN" else float(value)


def float_sum(values: Values) -> float:
    numbers = [finite(v) for v in values]
    if any(map(math.isnan, numbers)) or {math.inf, -math.inf} <= set(numbers):
        return math.nan
    infinite = [x for x in numbers if math.isinf(x)]
    return infinite[0] if infinite else math.fsum(numbers)


def decimal_mean(values: Values, scale: int) -> Decimal:
    exact = sum(map(Fraction, values), Fraction()) / len(values)
    step = Decimal(10) ** scale
    scaled = exact * 10**scale
    whole = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    return (Decimal(whole) / step).quantize(Decimal(1) / step, ROUND_HALF_UP)


def of_values(compute: Callable[[Values], Any]) -> Callable[[Values], Any]:
    """NULL is skipped, and the aggregate of nothing is NULL."""

    def wrapped(values: Values) -> Any:
        kept = [v for v in values if v is not None]
        return plain(compute(kept)) if kept else None

    return wrapped


def ranked(value: Any) -> float:
    return math.inf if value == "NaN" else min(value, 1e300)


def moment(sample: bool, root: bool) -> Callable[[Values], Any]:
    def compute(values: Values) -> Any:
        kept = [finite(v) for v in values if v is not None]
        if len(kept) < 1 + sample:
            return None
        if not all(map(math.isfinite, kept)):
            return "NaN"
        mean = sum(map(Fraction, kept), Fraction()) / len(kept)
        found = float(sum(((Fraction(v) - mean) ** 2 for v in kept), Fraction()) / (len(kept) - sample))
        return math.sqrt(found) if root else found

    return compute


FLOATS = pa.float32()
VALUES[FLOATS] = [None, 1.5, 2.5, -0.0, 100.25]
SHORT, LONG = pa.decimal128(10, 2), pa.decimal128(30, 4)
CASES: dict[str, tuple[str, pa.DataType, pa.DataType, Callable[[Values], Any]]] = {
    "count": ("count", INT, INT, lambda values: sum(v is not None for v in values)),
    "sum of integers": ("sum", INT, INT, of_values(sum)),
    "sum of doubles": ("sum", DOUBLE, DOUBLE, of_values(float_sum)),
    "sum of decimals": ("sum", SHORT, pa.decimal128(20, 2), of_values(sum)),
    "sum of long decimals": ("sum", LONG, pa.decimal128(38, 4), of_values(sum)),
    "avg of integers": ("avg", pa.int32(), DOUBLE, of_values(lambda v: sum(v) / len(v))),
    "avg of doubles": ("avg", DOUBLE, DOUBLE, of_values(lambda v: float_sum(v) / len(v))),
    "avg of decimals": ("avg", SHORT, pa.decimal128(14, 6), of_values(lambda v: decimal_mean(v, 6))),
    "min of integers": ("min", INT, INT, of_values(min)),
    "max of doubles": ("max", DOUBLE, DOUBLE, of_values(lambda v: max(v, key=ranked))),
    "min of doubles": ("min", DOUBLE, DOUBLE, of_values(lambda v: min(v, key=ranked))),
    "max of texts": ("max", pa.string(), pa.string(), of_values(lambda v: max(v, key=str.encode))),
    "min of texts": ("min", pa.string(), pa.string(), of_values(lambda v: min(v, key=str.encode))),
    "max of long decimals": ("max", LONG, LONG, of_values(max)),
    "min of decimals": ("min", SHORT, SHORT, of_values(min)),
    "max of flags": ("max", pa.bool_(), pa.bool_(), of_values(max)),
    "count of different texts": ("count distinct", pa.string(), INT, lambda v: len(set(v) - {None})),
    "about how many doubles": ("approx_count_distinct", DOUBLE, INT, lambda v: len(set(v) - {None})),
    "sum of different integers": ("sum distinct", INT, INT, of_values(lambda v: sum(set(v)))),
    "avg of different doubles": ("avg distinct", DOUBLE, DOUBLE, of_values(lambda v: float_sum(set(v)) / len(set(v)))),
    "stddev": ("stddev_samp", FLOATS, DOUBLE, moment(True, True)),
    "stddev_pop": ("stddev_pop", INT, DOUBLE, moment(False, True)),
    "variance": ("variance", FLOATS, DOUBLE, moment(True, False)),
    "var_pop": ("var_pop", DOUBLE, DOUBLE, moment(False, False)),
    "avg of long decimals": ("avg", LONG, pa.decimal128(34, 8), of_values(lambda v: decimal_mean(v, 8))),
}


def grouped(keys: int, aggregates: list[tuple[int, Callable[[Values], Any]]], bags: list[Bag]) -> Bag:
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {} if keys else {(): []}
    for row, n in bags[0].items():
        groups.setdefault(row[:keys], []).extend([row] * n)
    return Counter(
        (*key, *(compute([row[at] for row in rows]) if at >= 0 else len(rows) for at, compute in aggregates))
        for key, rows in groups.items()
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(8))
def test_aggregates(seed: int, name: str) -> None:
    chance = np.random.default_rng([seed, *name.encode()])
    function, argument, result, compute = CASES[name]
    keys = seed % 3
    types = [list(VALUES)[int(chance.integers(len(VALUES)))] for _ in range(keys)]
    schema = pa.schema([*((f"k{k}", t) for k, t in enumerate(types)), ("x", argument), ("y", pa.bool_())])
    names = [f"k{k}" for k in range(keys)]
    function, distinct = function.removesuffix(" distinct"), function.endswith(" distinct")
    out = pa.schema([*(schema.field(k) for k in names), ("n", INT), ("v", result)])
    node = Group(out, Node(schema), tuple(names), {"n": Aggregate("count"), "v": Aggregate(function, ("x",), distinct)})
    instants = random_instants(chance, 20, table=seed % 2 == 0)
    events = random_events(chance, schema, instants, rate=4 + 2 * keys)
    check(
        lambda: operator(node),
        lambda bags: grouped(keys, [(-1, len), (keys, compute)], bags),
        [events],
        [schema],
        chance,
        always=not keys,
        digits=14 if compute.__qualname__.startswith("moment") else None,
    )
    _, op = run(lambda: operator(node), [emptied(events, 500)], [schema], chance, [40, 501])
    assert op.size() == (0 if keys else 1)


def test_without_keys_there_is_one_row_from_the_beginning() -> None:
    schema = pa.schema([("x", INT)])
    node = Group(
        pa.schema([("n", INT), ("s", INT)]), Node(schema), (), {"n": Aggregate("count"), "s": Aggregate("sum", ("x",))}
    )
    events: list[Event] = [((4,), 1, 7), ((4,), -1, 9)]
    out, _ = run(lambda: operator(node), [events], [schema], np.random.default_rng(0), [5, 8, 20])
    always = -(2**63)
    assert out == [
        ((0, None), 1, always),
        ((0, None), -1, 7),
        ((1, 4), 1, 7),
        ((1, 4), -1, 9),
        ((0, None), 1, 9),
    ]


def one_group(function: str, argument: pa.DataType, result: pa.DataType) -> Group:
    schema = pa.schema([("x", argument)])
    return Group(pa.schema([("v", result)]), Node(schema), (), {"v": Aggregate(function, ("x",))})


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_doubles_do_not_drift(seed: int) -> None:
    """After ten thousand removals the sum is that of what is left, to the last bit; huge values included."""
    chance = np.random.default_rng(seed)
    node = one_group("sum", DOUBLE, DOUBLE)
    values = (chance.standard_normal(10_000) * 10.0 ** chance.integers(-300, 305, 10_000)).tolist()
    values[:3] = [1.7e308, 1.7e308, -1.7e308]
    left = values[-7:]
    events: list[Event] = [((v,), 1, k // 100) for k, v in enumerate(values)]
    events += [((v,), -1, 200 + k // 100) for k, v in enumerate(values[:-7])]
    schema = node.child.schema
    out, _ = run(lambda: operator(node), [events], [schema], chance, [150, 250, 400])
    assert out[-1] == ((math.fsum(left),), 1, 299)
    assert ((math.inf,), 1, 0) not in out[:2], "two huge values and the opposite of one are finite together"


def test_variances_do_not_drift_and_do_not_cancel() -> None:
    """A thousand rows far from zero, of which most leave: the textbook formula would have no digit right."""
    chance = np.random.default_rng(3)
    node = one_group("var_pop", DOUBLE, DOUBLE)
    values = (1e9 + chance.standard_normal(1000) * 1e-3).tolist()
    events: list[Event] = [((v,), 1, 1) for v in values] + [((v,), -1, 2) for v in values[5:]]
    out, _ = run(lambda: operator(node), [events], [node.child.schema], chance, [2, 5])
    wanted = moment(False, False)(values[:5])
    assert out[-1][0][0] == pytest.approx(wanted, rel=1e-14)
    naive = float(np.mean(np.square(values[:5])) - np.mean(values[:5]) ** 2)
    assert naive != pytest.approx(wanted, rel=0.01)


def test_naive_sums_do_drift() -> None:
    """The test above can fail."""
    total = 0.0
    for v in (1e16, 1.0, -1e16):
        total += v
    assert total != 1.0


@pytest.mark.parametrize(
    ("argument", "result", "most"),
    [(INT, INT, 2**63 - 1), (SHORT, pa.decimal128(10, 2), Decimal("99999999.99"))],
)
def test_a_sum_raises_where_it_does_not_fit_at_an_instant(argument: Any, result: Any, most: Any) -> None:
    node = one_group("sum", argument, result)
    schema = node.child.schema
    one = most * 0 + 1
    fits: list[Event] = [((most,), 1, 1), ((-one,), 1, 1), ((one,), 1, 1), ((-most,), 1, 1)]
    out, _ = run(lambda: operator(node), [fits], [schema], np.random.default_rng(0), [5])
    assert out[-1][0] == (0,)
    for rows in ([most, one], [-most, -one, -one]):
        events: list[Event] = [((v,), 1, 1) for v in rows]
        with pytest.raises(AggregateError, match="sum overflows"):
            run(lambda: operator(node), [events], [schema], np.random.default_rng(0), [5])


def in_order(keys: int, at: int, what: str, events: list[Event]) -> dict[int, Bag]:
    """Rows of each group in the order in which they came; of equal rows the oldest leaves."""
    groups: dict[Any, list[Any]] = {} if keys else {(): []}
    before = Counter() if keys else Counter([((), shown([], at, what))])
    out: dict[int, Bag] = {}
    for instant in sorted({t for _, _, t in events}):
        now = [(plain(row), sign) for row, sign, t in events if t == instant]
        for row, sign in now:
            for _ in range(-sign):
                groups[row[:keys]].remove(row)
        for row, sign in now:
            for _ in range(sign):
                groups.setdefault(row[:keys], []).append(row)
        after = Counter((key, shown(rows, at, what)) for key, rows in groups.items() if rows or not keys)
        change = Counter(after)
        change.subtract(before)
        found = {(*key, value): n for (key, value), n in change.items() if n}
        if found:
            out[instant] = Counter(found)
        before = after
    return out


def shown(rows: list[Any], at: int, what: str) -> Any:
    values = [row[at] for row in rows]
    if what == "collect_list":
        return tuple(v for v in values if v is not None)
    return None if not values else values[0 if what == "first" else -1]


@pytest.mark.parametrize("what", ["first", "last", "collect_list"])
@pytest.mark.parametrize("seed", range(12))
def test_rows_in_the_order_in_which_they_came(seed: int, what: str) -> None:
    chance = np.random.default_rng([seed, *what.encode()])
    schema = pa.schema([("k", pa.string()), ("x", DOUBLE if seed % 2 else pa.string()), ("y", INT)])
    keys = seed % 3 > 0
    result = pa.list_(schema.field("x").type) if what == "collect_list" else schema.field("x").type
    out = pa.schema([*([schema.field("k")] if keys else []), ("v", result)])
    node = Group(out, Node(schema), ("k",) if keys else (), {"v": Aggregate(what, ("x",))})
    events = random_events(chance, schema, random_instants(chance, 20), rate=4)
    if not keys:
        events = [(row[1:], s, t) for row, s, t in events]
        schema = pa.schema(list(schema)[1:])
        node = Group(out, Node(schema), (), {"v": Aggregate(what, ("x",))})
        events = merged_equal(events)
    wanted = in_order(int(keys), int(keys), what, events)
    whole, _ = run(lambda: operator(node), [events], [schema], chance, [2**62], snapshots=0)
    found = by_instant(whole)
    found.pop(-(2**63), None)
    assert found == wanted
    cut, _ = run(lambda: operator(node), [events], [schema], chance, random_cuts(chance, [events]))
    assert cut == whole
    _, op = run(lambda: operator(node), [emptied(events, 500)], [schema], chance, [40, 501])
    assert op.size() == (0 if keys else 1)


def merged_equal(events: list[Event]) -> list[Event]:
    """One event for each row and instant, as the contract says."""
    net: dict[Any, int] = {}
    rows: dict[Any, Any] = {}
    for row, sign, time in events:
        net[time, plain(row)] = net.get((time, plain(row)), 0) + sign
        rows.setdefault(plain(row), row)
    return [(rows[row], sign, time) for (time, row), sign in net.items() if sign]


class Span:
    """Greatest less least, of two columns: a user's own aggregate."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, x: int | None, y: int | None) -> None:
        self.counts.update(v for v in (x, y) if v is not None)

    def remove(self, x: int | None, y: int | None) -> None:
        self.counts.subtract(v for v in (x, y) if v is not None)
        self.counts = +self.counts

    def value(self) -> int | None:
        return max(self.counts) - min(self.counts) if self.counts else None

    def merge(self, other: Span) -> None:
        self.counts.update(other.counts)


@pytest.mark.parametrize("seed", range(8))
def test_a_users_own_aggregate(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.string()), ("x", INT), ("y", pa.int32())])
    out = pa.schema([schema.field("k"), ("v", INT)])
    node = Group(out, Node(schema), ("k",), {"v": Aggregate("span", ("x", "y"), make=Span)})
    events = random_events(chance, schema, random_instants(chance, 20), rate=4)

    def evaluate(bags: list[Bag]) -> Bag:
        groups: dict[Any, Span] = {}
        for (k, x, y), n in bags[0].items():
            for _ in range(n):
                groups.setdefault(k, Span()).add(x, y)
        return Counter((k, span.value()) for k, span in groups.items())

    check(lambda: operator(node), evaluate, [events], [schema], chance)
    _, op = run(lambda: operator(node), [emptied(events, 500)], [schema], chance, [40, 501])
    assert op.size() == 0


def test_an_aggregate_that_raises_is_named() -> None:
    class Broken(Span):
        def add(self, x: int | None, y: int | None) -> None:
            raise ValueError("no")

    schema = pa.schema([("x", INT), ("y", INT)])
    node = Group(pa.schema([("v", INT)]), Node(schema), (), {"v": Aggregate("broken", ("x", "y"), make=Broken)})
    with pytest.raises(AggregateError, match="aggregate 'broken' raised in add: ValueError: no"):
        run(lambda: operator(node), [[((1, 2), 1, 1)]], [schema], np.random.default_rng(0), [5])


@pytest.mark.parametrize("least", [True, False])
def test_heaps_forget_the_dead(least: bool) -> None:
    """Values that leave below the top are not kept, in whichever direction values move."""
    schema = pa.schema([("x", INT)])
    node = Group(pa.schema([("v", INT)]), Node(schema), (), {"v": Aggregate("min" if least else "max", ("x",))})
    for direction in (1, -1):
        op, sizes, held = operator(node), [], []
        for step in range(200):
            fresh, gone = np.arange(100) + 100 * step, np.arange(100) + 100 * (step - 3)
            values = np.r_[fresh, gone if step >= 3 else gone[:0]]
            sign = np.r_[np.ones(100, np.int64), np.full(len(values) - 100, -1)]
            op.step([Changes(pa.table({"x": direction * values}), sign, np.full(len(values), step))], step + 1)
            sizes.append(op.size())
            held.append(op.nbytes)
        assert set(sizes[3:]) == {301}
        assert held[-1] == held[20]
