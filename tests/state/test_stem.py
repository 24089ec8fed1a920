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
from thalweg.state import record
from thalweg.state.columns import read
from thalweg.state.ids import ids_at, rows_of
from thalweg.state.kernels.layout import COUNTED, KEYS, MEMBERS, TIME
from thalweg.state.roworder import RowOrder
from thalweg.state.slice import FOREVER, Window
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


LONG = [Window(40)]
LAST = [Window(COUNTED)]


def timed(times: list[int]) -> Ints:
    cells = np.zeros((len(times), KEYS + 1), np.int64)
    cells[:, TIME] = times
    cells[:, MEMBERS] = 1
    return cells


def stored_times(stem: Stem) -> list[int]:
    cells = stem.view((0,)).cells
    return sorted(int(t) for s in stem.slices for t in cells[s.start : s.start + s.rows, TIME])


@pytest.mark.parametrize(("dtype", "values"), VALUES, ids=[str(t) for t, _ in VALUES])
def test_columns_come_back_as_they_went_in(dtype: pa.DataType, values: list[Any]) -> None:
    stem = Stem("s", 1, {"v": dtype}, LONG, length=3, slice_rows=1)
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
        per_time.setdefault(int(view.cells[row, TIME]), []).append(value)
    as_read = column.to_pylist()
    assert [per_time[2 * step] for step in range(5)] == [[as_read[0], as_read[2], as_read[1]]] * 5
    assert [per_time[2 * step + 1] for step in range(5)] == [[as_read[3]]] * 5
    picked = np.random.default_rng(0).permutation(len(rows))[:7]
    assert stem.gather("v", rows[picked]).to_pylist() == [got.to_pylist()[k] for k in picked]


def test_slices_are_cut_by_time_and_dropped_whole() -> None:
    stem = Stem("s", 1, {}, LONG, length=10, slice_rows=1)
    stem.build(timed(list(range(0, 60, 2))), {}, np.arange(30))
    spans = [(s.since, s.until, s.rows) for s in stem.slices]
    assert spans == [(k, k + 10, 5) for k in range(0, 60, 10)]
    assert stem.evict(48) == 0  # the last tuple of the first slice, of time 8, is needed until 48
    assert stem.evict(49) == 5
    assert stored_times(stem) == list(range(10, 60, 2))
    assert stem.rows == 25


def test_slices_below_the_least_rows_take_in_later_times() -> None:
    stem = Stem("s", 1, {}, LONG, length=10, slice_rows=8)
    stem.build(timed(list(range(0, 1000, 50))), {}, np.arange(20))
    assert [s.rows for s in stem.slices] == [8, 8, 4]


def test_late_tuples_go_to_the_slice_that_owns_their_time() -> None:
    stem = Stem("s", 1, {"v": pa.string()}, LONG, length=10, slice_rows=1)
    names = read(pa.array([f"t{t}" for t in range(100)]))
    stem.build(timed([0, 12, 25, 31]), {"v": names}, np.array([0, 12, 25, 31]))
    stem.build(timed([3, 11, 26]), {"v": names}, np.array([3, 11, 26]))
    assert [(s.since, s.rows) for s in stem.slices] == [(0, 3), (12, 1), (25, 3)]
    cells = stem.view((0,)).cells
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    assert stem.gather("v", rows).to_pylist() == [f"t{t}" for t in cells[rows, TIME]]


def test_memory_stays_at_the_size_of_the_window() -> None:
    stem = Stem("s", 1, {"v": pa.string(), "w": pa.int64()}, [Window(4000)], length=1000)
    column = {"v": read(pa.array(["some text"] * 1000)), "w": read(pa.array(np.arange(1000)))}
    sizes = []
    for step in range(300):
        stem.build(timed(list(range(1000 * step, 1000 * step + 1000))), column, np.arange(1000))
        stem.view((0,))
        stem.evict(1000 * step - 4000)
        sizes.append(stem.nbytes)
    assert stem.rows <= 10_000
    assert max(sizes[100:]) <= 1.2 * max(sizes[12:40])


def test_a_dumped_slice_loads_into_an_equal_stem_and_is_not_written_twice() -> None:
    types = {"v": pa.string(), "w": pa.decimal128(30, 2), "x": pa.int32()}
    stem = Stem("s", 1, types, LONG, length=10, slice_rows=1)
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

    other = Stem("s", 1, types, LONG, length=10, slice_rows=1)
    record.read(other, record.write(stem), [stem.dump(part) for part in stem.slices], layouts=True)
    assert stored_times(other) == [1, 5, 12, 14]
    for name in types:
        for mine, theirs in zip(stem.slices, other.slices, strict=True):
            a = stem.gather(name, np.arange(mine.start, mine.start + mine.rows))
            b = other.gather(name, np.arange(theirs.start, theirs.start + theirs.rows))
            assert a.equals(b)
    changed = Stem("s", 1, types | {"x": pa.int64()}, LONG, length=10)
    with pytest.raises(CheckpointError, match="int64"):
        record.read(changed, record.write(stem), [stem.dump(part) for part in stem.slices], layouts=True)


def test_expiries_told_later_reach_the_stored_rows_and_free_them() -> None:
    stem = Stem("s", 1, {}, LAST, most=4, slice_rows=2)
    cells = timed(list(range(10)))
    kept = np.array([0, 1, 3, 4, 5, 7, 8, 9])  # 2 and 6 were dropped by a filter
    stem.build(cells[kept], {}, np.arange(len(kept)), kept, [np.full(len(kept), FOREVER)])
    assert stem.evict(1000) == 0
    stem.expire(np.arange(6), np.arange(6) + 2)
    assert stem.evict(7) == 4  # 0, 1, 3, 4: the whole first slice; 5 shares its slice with rows that stay
    assert stored_times(stem) == [5, 7, 8, 9]


def test_rows_that_expire_out_of_order_are_squeezed_out() -> None:
    stem = Stem("s", 1, {"v": pa.string()}, [Window(COUNTED, scattered=True)], most=4, slice_rows=4)
    names = read(pa.array([f"t{t}" for t in range(100)]))
    cells = timed(list(range(100)))
    for t in range(100):
        stem.build(cells[t : t + 1], {"v": names}, np.array([t]), np.array([t]), [np.array([FOREVER])])
        if t % 10:
            stem.expire(np.array([t]), np.array([t]))
        stem.evict(t + 1)
    living = [t for t in range(100) if t % 10 == 0]
    assert set(living) <= set(stored_times(stem))
    assert stem.rows <= 2 * len(living) + 2 * 4
    cells = stem.view((0,)).cells
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    assert stem.gather("v", rows).to_pylist() == [f"t{t}" for t in cells[rows, TIME]]


def test_a_slow_stream_does_not_keep_what_has_expired() -> None:
    stem = Stem("s", 1, {"v": pa.string()}, LONG, length=10)
    names = read(pa.array([f"t{t}" for t in range(0, 2000, 5)]))
    for at in range(0, 400, 20):  # far fewer than make a slice
        stem.build(timed([5 * t for t in range(at, at + 20)]), {"v": names}, np.arange(at, at + 20))
        stem.evict(horizon := 5 * (at + 20))
        living = [5 * t for t in range(at + 20) if 5 * t + 40 >= horizon]
        assert set(living) <= set(stored_times(stem))
        assert stem.rows < 64 + len(living)
    rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices])
    assert stem.gather("v", rows).to_pylist() == [f"t{t}" for t in stem.view((0,)).cells[rows, TIME]]


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


class Heard:
    """A listener that writes everything down."""

    def __init__(self) -> None:
        self.stored: set[int] = set()
        self.renamed = 0

    def built(self, ids: Ints) -> None:
        assert not self.stored & set(ids.tolist()), "an id was given twice"
        self.stored |= set(ids.tolist())

    def evicted(self, ids: Ints) -> None:
        assert set(ids.tolist()) <= self.stored
        self.stored -= set(ids.tolist())

    def renumbered(self, before: Ints, after: Ints) -> None:
        assert set(before.tolist()) <= self.stored
        self.stored = set(after.tolist())
        self.renamed += 1


@pytest.mark.parametrize("seed", range(10))
def test_ids_stay_while_slices_move_and_listeners_know_what_is_stored(seed: int) -> None:
    random = np.random.default_rng(seed)
    stem, heard = Stem("s", 1, {}, LONG, length=10, slice_rows=int(random.choice([1, 8, 64]))), Heard()
    stem.listeners.append(heard)
    remembered: dict[int, int] = {}
    """Id to key: no two rows have the same."""
    for step in range(60):
        count = int(random.choice([0, 1, 5, 40]))
        cells = timed(sorted(random.integers(max(10 * step - 15, 0), 10 * step + 10, count).tolist()))
        cells[:, KEYS] = 1000 * step + np.arange(count)
        stem.build(cells, {}, np.arange(count))
        stem.view((0,))
        stem.evict(10 * step - 20)
        rows = np.concatenate([np.arange(s.start, s.start + s.rows) for s in stem.slices] or [np.empty(0, np.int64)])
        ids = ids_at(stem.slices, rows)
        assert rows_of(stem.slices, ids).tolist() == rows.tolist()
        assert set(ids.tolist()) == heard.stored
        now = dict(zip(ids.tolist(), stem.store.cells[rows, KEYS].tolist(), strict=True))
        if not heard.renamed:
            assert all(now[i] == key for i, key in remembered.items() if i in now)
            gone = np.array([i for i in remembered if i not in now], np.int64)
            assert (rows_of(stem.slices, gone) == -1).all()
        heard.renamed, remembered = 0, now


def test_rows_written_together_get_new_ids_and_are_told() -> None:
    stem, heard = Stem("s", 1, {}, LONG, length=10), Heard()
    stem.listeners.append(heard)
    stem.build(timed(list(range(0, 1000, 5))), {}, np.arange(200))
    before = ids_at(stem.slices, np.arange(stem.slices[0].start, stem.slices[0].start + 200))
    stem.evict(990)
    assert heard.renamed == 1
    assert len(heard.stored) == stem.rows < 200
    assert (rows_of(stem.slices, before) == -1).all()


def test_members_see_what_they_are_admitted_to_for_as_long_as_their_windows_say() -> None:
    stem = Stem("a+b", 1, {}, [Window(40), Window(10)], length=10, slice_rows=1)
    cells = timed([0, 5, 30])
    cells[:, MEMBERS] = 0
    placed = stem.build(cells, {}, np.arange(3))
    stem.admit(placed, np.array([True, True, True]), 0)
    stem.admit(placed, np.array([False, True, True]), 1)
    probe = np.array([[15, 100, 0]])
    pairs = np.array([(KEYS, KEYS)])
    found = [stem.count(probe, (0,), pairs, 15, 100, 1 << 60, member).matches.tolist() for member in (0, 1)]
    assert found == [[3], [2]]
    late = np.array([[16, 100, 0]])
    found = [stem.count(late, (0,), pairs, 16, 100, 1 << 60, member).matches.tolist() for member in (0, 1)]
    assert found == [[3], [1]]
    assert stem.evict(45) == 0  # the row of time 5 is needed until then, and shares its slice
    assert stem.evict(46) == 2
    assert stem.living(46) == 1
