"""Relations the plain way: bags as Counters, operators as functions of bags, changes instant by instant.

`check` runs an operator over random changes, cut into steps at random and restored from snapshots at random, and
compares what it gives with what its function gives at every instant.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Derived
from thalweg.state.slice import ALWAYS, FOREVER

Row = tuple[Any, ...]
Bag = Counter[Row]
Event = tuple[Row, int, int]
"""A row, its sign, its time."""
Chance = np.random.Generator


def plain(value: Any) -> Any:
    """A value that is equal, and hashes the same, exactly when the values are the same in a bag."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    return value


def rows_of(table: pa.Table) -> list[Row]:
    if not table.num_columns:
        return [()] * table.num_rows
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(plain(v) for v in row) for row in zip(*columns, strict=True)]


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    if not len(schema):
        return pa.table({"": pa.nulls(len(rows))}).select([])
    columns = [pa.array([row[k] for row in rows], field.type) for k, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, 1, 2, -3],
    pa.int32(): [None, 5, 6],
    pa.string(): [None, "", "a", "ab", "b\0", "ü"],
    pa.float64(): [None, 0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 0.1],
    pa.bool_(): [None, True, False],
    pa.decimal128(10, 2): [None, Decimal("0.00"), Decimal("1.50"), Decimal("-7.25")],
    pa.decimal128(30, 4): [None, Decimal("12345678901234567890.0001"), Decimal("-1.5000")],
    pa.struct([("x", pa.int64()), ("s", pa.string())]): [None, {"x": 1, "s": None}, {"x": None, "s": "q"}],
    pa.list_(pa.float64()): [None, [], [1.0, None], [math.nan]],
}
"""Few values of each type, so that rows meet their equals."""


def value_of(chance: Chance, dtype: pa.DataType) -> Any:
    values = VALUES[dtype]
    return values[int(chance.integers(len(values)))]


def random_events(
    chance: Chance, schema: pa.Schema, instants: Sequence[int], rate: float = 3.0, growing: bool = False, most: int = 2
) -> list[Event]:
    """Changes in the order of their times: rows enter, and those that are there leave. Those of an instant are net."""
    there: dict[Row, tuple[Row, int]] = {}
    events: list[Event] = []
    for instant in instants:
        net: dict[Row, int] = defaultdict(int)
        kept: dict[Row, Row] = {}
        for _ in range(int(chance.poisson(rate))):
            living = [key for key, (_, count) in there.items() if count + net[key] > 0]
            if living and not growing and chance.random() < 0.45:
                key = living[int(chance.integers(len(living)))]
                net[key] -= int(chance.integers(1, there[key][1] + net[key] + 1))
            else:
                row = tuple(value_of(chance, f.type) for f in schema)
                key = plain(row)
                row = there.get(key, (kept.setdefault(key, row), 0))[0]  # a row leaves as it came
                kept[key] = row
                there.setdefault(key, (row, 0))
                net[key] += int(chance.integers(1, most + 1))
        for key, sign in net.items():
            row, count = there[key]
            if sign:
                events.append((row, sign, instant))
                there[key] = (row, count + sign)
    return events


def random_instants(chance: Chance, count: int = 12, table: bool = False) -> list[int]:
    found = sorted(set(chance.integers(0, 4 * count, count).tolist()))
    return [ALWAYS, *found] if table else found


def bag_changes(
    evaluate: Callable[[list[Bag]], Bag], inputs: Sequence[list[Event]], always: bool = False
) -> dict[int, Bag]:
    """What a function of bags changes, by instant. `always`: also what it gives for empty bags."""
    bags: list[Bag] = [Counter() for _ in inputs]
    before: Bag = Counter() if always else evaluate(bags)
    instants = {time for events in inputs for _, _, time in events} | ({ALWAYS} if always else set())
    out: dict[int, Bag] = {}
    for instant in sorted(instants):
        for bag, events in zip(bags, inputs, strict=True):
            for row, sign, time in events:
                if time == instant:
                    bag[plain(row)] += sign
                    if not bag[plain(row)]:
                        del bag[plain(row)]
        after = evaluate([Counter(b) for b in bags])
        change = Counter(after)
        change.subtract(before)
        change = Counter({row: n for row, n in change.items() if n})
        if change:
            out[instant] = change
        before = after
    return out


def given(changes: Sequence[Changes], span: tuple[int, int]) -> list[Event]:
    low, high = span
    found: list[Event] = []
    for c in changes:
        assert c.rows.num_rows == len(c.sign) == len(c.time)
        found += zip(rows_of(c.rows), c.sign.tolist(), c.time.tolist(), strict=True)
    times = [time for _, _, time in found]
    assert times == sorted(times), "not in the order of their times"
    assert all(low <= t < high for t in times), f"outside of the step: {times} in {span}"
    return found


def by_instant(events: Sequence[Event]) -> dict[int, Bag]:
    out: dict[int, Bag] = defaultdict(Counter)
    signs: dict[tuple[int, Row], set[bool]] = defaultdict(set)
    for row, sign, time in events:
        assert sign
        out[time][row] += sign
        signs[time, row].add(sign > 0)
    assert all(len(s) == 1 for s in signs.values()), "changes that cancel left an instant"
    return dict(out)


def run(
    make: Callable[[], Derived],
    inputs: Sequence[list[Event]],
    schemas: Sequence[pa.Schema],
    chance: Chance,
    cuts: Sequence[int],
    snapshots: float = 0.3,
) -> tuple[list[Event], Derived]:
    """Step through the changes with frontiers at the cuts."""
    op = make()
    assert isinstance(op, Derived)
    out: list[Event] = []
    low = ALWAYS
    for frontier in cuts:
        step = []
        for events, schema in zip(inputs, schemas, strict=True):
            some = [e for e in events if low <= e[2] < frontier]
            sign, time = (np.array([e[k] for e in some], np.int64) for k in (1, 2))
            step.append(Changes(table_of([e[0] for e in some], schema), sign, time))
        out += given([op.step(step, frontier)], (low, frontier))
        low = frontier
        if chance.random() < snapshots:
            parts = op.snapshot()
            assert parts == op.snapshot(), "taking a snapshot changed it"
            assert op.size() >= 0
            fresh = make()
            fresh.restore(parts)
            assert fresh.size() == op.size()
            op = fresh
    return out, op


def random_cuts(chance: Chance, inputs: Sequence[list[Event]], beyond: int = 1) -> list[int]:
    times = [t for events in inputs for _, _, t in events if t != ALWAYS]
    end = max(times, default=0) + beyond
    some = chance.integers(min(times, default=0), end + 1, int(chance.integers(0, 8))).tolist()
    return sorted({*some, end})


def check(
    make: Callable[[], Derived],
    evaluate: Callable[[list[Bag]], Bag],
    inputs: Sequence[list[Event]],
    schemas: Sequence[pa.Schema],
    chance: Chance,
    always: bool = False,
    digits: int | None = None,
) -> Derived:
    """`digits`: how many of a double must be right; all by default."""
    wanted = bag_changes(evaluate, inputs, always)
    whole, _ = run(make, inputs, schemas, chance, [FOREVER], snapshots=0)
    found = by_instant(whole)
    if digits is not None:
        wanted, found = ({t: blurred(bag, digits) for t, bag in bags.items()} for bags in (wanted, found))
    assert found == wanted
    cut, op = run(make, inputs, schemas, chance, random_cuts(chance, inputs))
    assert cut == whole, "cuts or snapshots changed what is given"
    return op


def blurred(bag: Bag, digits: int) -> Bag:
    return Counter(
        {tuple(float(f"{v:.{digits}g}") if isinstance(v, float) else v for v in r): n for r, n in bag.items()}
    )


def emptied(events: Sequence[Event], after: int) -> list[Event]:
    """The events, and everything that is left leaves after them."""
    left: dict[Row, tuple[Row, int]] = {}
    for row, sign, _ in events:
        left[plain(row)] = (row, left.get(plain(row), (row, 0))[1] + sign)
    return [*events, *((row, -n, after) for row, n in left.values() if n)]
