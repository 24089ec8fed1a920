"""Stems: what is built is found, what has expired is dropped by whole slices, columns come back as they went in."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from thalweg.errors import CheckpointError
from thalweg.state.columns import read
from thalweg.state.kernels.layout import EXPIRY, KEYS, NEWEST
from thalweg.state.roworder import RowOrder
from thalweg.state.slice import FOREVER
from thalweg.state.stem import Stem

Ints = NDArray[np.int64]

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, None, -3, 4]),
    (pa.int64(), [1, 2, 3, 4]),
    (pa.float32(), [1.5, None, -0.0, float("inf")]),
    (pa.bool_(), [True, None, False, True]),
    (pa.date32(), [datetime.date(2020, 1, 1), None, datetime.date(1969, 1, 1), datetime.date(2020, 1, 2)]),
    (pa.timestamp("us", "UTC"), [0, None, 5, -5]),
    (pa.decimal128(30, 2), [Decimal("1.25"), None, Decimal("-7.00"), Decimal("0.01")]),
    (pa.decimal256(50, 1), [Decimal("1.5"), None, Decimal("-7.0"), Decimal("0.1")]),
    (pa.binary(3), [b"abc", None, b"xyz", b"123"]),
    (pa.string(), ["a", None, "", "longer"]),
    (pa.large_binary(), [b"a", None, b"", b"longer"]),
    (pa.list_(pa.int32()), [[1, 2], None, [], [3]]),
    (pa.struct([("x", pa.int32())]), [{"x": 1}, None, {"x": None}, {"x": 2}]),
]


def timed(times: list[int], span: int = 40) -> Ints:
    cells = np.zeros((len(times), KEYS + 1), np.int64)
    cells[:, NEWEST] = times
    cells[:, EXPIRY] = cells[:, NEWEST] + span
    return cells


def stored_times(stem: Stem) -> list[int]:
    cells = stem.view((0,)).cells
    return sorted(int(t) for s in stem.slices for t in cells[s.start : s.start + s.rows, NEWEST])


@pytest.mark.parametrize(("dtype", "values"), VALUES, ids=[str(t) for t, _ in VALUES])
def test_columns_come_back_as_they_went_in(dtype: pa.DataType, values: list[Any]) -> None:
    stem = Stem("s", 1, {"v": dtype}, length=3, slice_rows=1)
    column = pa.array(values, dtype)
    for step in range(5):
        stem.build(timed([2 * step, 2 * step, 2 * step + 1]), {"v": read(column)}, np.array([0, 2, 3]))
        stem.build(timed([2 * step]), {"v": read(column.slice(1))}, np.array([0]))
    view = stem.view((0,))
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    got = stem.gather("v", rows)
    assert got.type == dtype
    per_time: dict[int, list[Any]] = {}
    for row, value in zip(rows, got.to_pylist(), strict=True):
        per_time.setdefault(int(view.cells[row, NEWEST]), []).append(value)
    as_read = column.to_pylist()
    assert [per_time[2 * step] for step in range(5)] == [[as_read[0], as_read[2], as_read[1]]] * 5
    assert [per_time[2 * step + 1] for step in range(5)] == [[as_read[3]]] * 5
    picked = np.random.default_rng(0).permutation(len(rows))[:7]
    assert stem.gather("v", rows[picked]).to_pylist() == [got.to_pylist()[k] for k in picked]


def test_slices_are_cut_by_time_and_dropped_whole() -> None:
    stem = Stem("s", 1, {}, length=10, slice_rows=1)
    stem.build(timed(list(range(0, 60, 2))), {}, np.arange(30))
    spans = [(s.since, s.until, s.rows) for s in stem.slices]
    assert spans == [(k, k + 10, 5) for k in range(0, 60, 10)]
    assert stem.evict(48) == 0  # the last tuple of the first slice, of time 8, is needed until 48
    assert stem.evict(49) == 5
    assert stored_times(stem) == list(range(10, 60, 2))
    assert stem.rows == 25


def test_slices_below_the_least_rows_take_in_later_times() -> None:
    stem = Stem("s", 1, {}, length=10, slice_rows=8)
    stem.build(timed(list(range(0, 1000, 50))), {}, np.arange(20))
    assert [s.rows for s in stem.slices] == [8, 8, 4]


def test_late_tuples_go_to_the_slice_that_owns_their_time() -> None:
    stem = Stem("s", 1, {"v": pa.string()}, length=10, slice_rows=1)
    names = read(pa.array([f"t{t}" for t in range(100)]))
    stem.build(timed([0, 12, 25, 31]), {"v": names}, np.array([0, 12, 25, 31]))
    stem.build(timed([3, 11, 26]), {"v": names}, np.array([3, 11, 26]))
    assert [(s.since, s.rows) for s in stem.slices] == [(0, 3), (12, 1), (25, 3)]
    cells = stem.view((0,)).cells
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    assert stem.gather("v", rows).to_pylist() == [f"t{t}" for t in cells[rows, NEWEST]]


def test_memory_stays_at_the_size_of_the_window() -> None:
    stem = Stem("s", 1, {"v": pa.string(), "w": pa.int64()}, length=1000)
    column = {"v": read(pa.array(["some text"] * 1000)), "w": read(pa.array(np.arange(1000)))}
    sizes = []
    for step in range(300):
        stem.build(timed(list(range(1000 * step, 1000 * step + 1000)), span=4000), column, np.arange(1000))
        stem.view((0,))
        stem.evict(1000 * step - 4000)
        sizes.append(stem.nbytes)
    assert stem.rows <= 10_000
    assert max(sizes[100:]) <= 1.2 * max(sizes[12:40])


def test_a_dumped_slice_loads_into_an_equal_stem_and_is_not_written_twice() -> None:
    types = {"v": pa.string(), "w": pa.decimal128(30, 2), "x": pa.int32()}
    stem = Stem("s", 1, types, length=10, slice_rows=1)
    columns = {
        "v": read(pa.array(["a", None, "c"])),
        "w": read(pa.array([Decimal(1), Decimal(2), None], types["w"])),
        "x": read(pa.array([None, 2, 3], types["x"])),
    }
    stem.build(timed([1, 5, 12]), columns, np.arange(3))
    written = [stem.dump(s) for s in stem.slices]
    assert [stem.dump(s) is w for s, w in zip(stem.slices, written, strict=True)] == [True, True]
    stem.build(timed([14]), columns, np.array([1]))
    assert stem.dump(stem.slices[0]) is written[0]
    assert stem.dump(stem.slices[1]) is not written[1]

    other = Stem("s", 1, types, length=10, slice_rows=1)
    for part in stem.slices:
        other.load({"number": part.number, "since": part.since, "until": part.until}, stem.dump(part))
    assert stored_times(other) == [1, 5, 12, 14]
    for name in types:
        for mine, theirs in zip(stem.slices, other.slices, strict=True):
            a = stem.gather(name, np.arange(mine.start, mine.start + mine.rows))
            b = other.gather(name, np.arange(theirs.start, theirs.start + theirs.rows))
            assert a.equals(b)
    changed = Stem("s", 1, types | {"x": pa.int64()}, length=10)
    with pytest.raises(CheckpointError, match="int64"):
        changed.load({"number": 0, "since": 0, "until": 10}, written[0])


def test_expiries_told_later_reach_the_stored_rows_and_free_them() -> None:
    stem = Stem("s", 1, {}, most=4, slice_rows=2, ordered=True)
    cells = timed(list(range(10)))
    cells[:, EXPIRY] = FOREVER
    kept = np.array([0, 1, 3, 4, 5, 7, 8, 9])  # 2 and 6 were dropped by a filter
    stem.build(cells[kept], {}, np.arange(len(kept)), kept)
    assert stem.evict(1000) == 0
    stem.expire(np.arange(6), np.arange(6) + 2)
    assert stem.evict(7) == 4  # 0, 1, 3, 4: the whole first slice; 5 shares its slice with rows that stay
    assert stored_times(stem) == [5, 7, 8, 9]


def test_rows_that_expire_out_of_order_are_squeezed_out() -> None:
    stem = Stem("s", 1, {"v": pa.string()}, most=4, slice_rows=4, ordered=True, scattered=True)
    names = read(pa.array([f"t{t}" for t in range(100)]))
    cells = timed(list(range(100)))
    cells[:, EXPIRY] = FOREVER
    for t in range(100):
        stem.build(cells[t : t + 1], {"v": names}, np.array([t]), np.array([t]))
        if t % 10:
            stem.expire(np.array([t]), np.array([t]))
        stem.evict(t + 1)
    living = [t for t in range(100) if t % 10 == 0]
    assert set(living) <= set(stored_times(stem))
    assert stem.rows <= 2 * len(living) + 2 * 4
    cells = stem.view((0,)).cells
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    assert stem.gather("v", rows).to_pylist() == [f"t{t}" for t in cells[rows, NEWEST]]


def test_a_slow_stream_does_not_keep_what_has_expired() -> None:
    stem = Stem("s", 1, {"v": pa.string()}, length=10)
    names = read(pa.array([f"t{t}" for t in range(0, 2000, 5)]))
    for at in range(0, 400, 20):  # far fewer than make a slice
        stem.build(timed([5 * t for t in range(at, at + 20)]), {"v": names}, np.arange(at, at + 20))
        stem.evict(horizon := 5 * (at + 20))
        living = [5 * t for t in range(at + 20) if 5 * t + 40 >= horizon]
        assert set(living) <= set(stored_times(stem))
        assert stem.rows < 64 + len(living)
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    assert stem.gather("v", rows).to_pylist() == [f"t{t}" for t in stem.view((0,)).cells[rows, NEWEST]]


@pytest.mark.parametrize("seed", range(20))
def test_row_orders_tell_when_each_tuple_leaves(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 5))
    times = np.sort(random.integers(0, 20, 30))
    groups = random.integers(0, 3, 30)
    by = bool(random.random() < 0.5)
    order = RowOrder(n, (pa.int64(),) if by else ())
    known = np.full(30, FOREVER)
    at = 0
    while at < 30:
        step = int(random.integers(1, 8))
        values = [pa.array(groups[at : at + step])] if by else None
        expiries, numbers, told = order.release(times[at : at + step], values)
        assert (np.diff(numbers) > 0).all()
        known[at : at + step] = expiries
        known[numbers] = told
        at += step
        if random.random() < 0.3:
            waiting, partitions = order.dump()
            order = RowOrder(n, order.by)
            order.load(waiting, partitions, min(at, 30))
    for k in range(30):
        later = [j for j in range(k + 1, 30) if not by or groups[j] == groups[k]]
        expected = times[later[n - 1]] - 1 if len(later) >= n else FOREVER
        assert known[k] == expected
