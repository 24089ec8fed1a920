"""A cache's store against a dictionary: whatever comes and goes, an entry is whole or absent."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.state.cache import CacheStore, Pages, SegmentInput
from thalweg.state.ids import ids_of
from thalweg.state.kernels import cache as kernels
from thalweg.state.kernels.layout import EXPIRY, FOREVER, KEYS, MEMBERS, NEWEST, TIME
from thalweg.state.slice import Window
from thalweg.state.stem import Stem

SPAN = 20


def stem(name: str) -> Stem:
    return Stem(name, 1, {}, [Window(SPAN)], length=5, slice_rows=4)


def build(stem: Stem, times: list[int]) -> list[int]:
    cells = np.zeros((len(times), KEYS + 1), np.int64)
    cells[:, TIME], cells[:, MEMBERS] = sorted(times), 1
    return ids_of(stem.build(cells, {}, np.arange(len(times)))).tolist()


def looked_up(store: CacheStore, keys: np.ndarray, time: int) -> list[list[int] | None]:
    """For each key the ids of its records that are in their windows at a time; None if it is missing."""
    at, count, first = np.empty((3, len(keys)), np.int64)
    missing = kernels.find(keys, store.table, at, count, first)
    partial = np.zeros((len(keys), 4), np.int64)
    partial[:, NEWEST], partial[:, EXPIRY], partial[:, 2] = time, FOREVER, np.arange(len(keys))
    where, cursor, out = store.where(), np.zeros(2, np.int64), np.empty((3, 4), np.int64)
    found: list[list[int] | None] = [None if n < 0 else [] for n in count]
    assert len({tuple(k) for k, n in zip(keys.tolist(), count, strict=True) if n < 0}) == missing
    adds = np.empty((0, 2), np.int64)
    rows = {s.start + p: (s.number << 32) + p for s in store.members[0].stem.slices for p in range(s.rows)}
    while cursor[0] < len(keys):
        written, _ = kernels.expand(partial, at, count, store.heap, adds, where.members, where.starts, out, cursor)
        for line in out[:written]:
            found[line[2]].append(rows[int(line[3])])
    return [None if f is None else sorted(f) for f in found]


@pytest.mark.parametrize("seed", range(60))
def test_against_a_dictionary(seed):
    random = np.random.default_rng(seed)
    rows, limit = stem("r"), [None, 1 << 12, 3000][seed % 3]
    store = CacheStore(1, KEYS + 1, [SegmentInput(rows, 0, KEYS, 3)], Pages(limit, size=256), buckets=8)
    truth: dict[int, list[tuple[int, int]]] = {}  # every key's rows: id and time
    now, kept = 0, 0
    for _ in range(60):
        now += int(random.integers(0, 6))
        keys = random.integers(0, 12, int(random.integers(1, 9)))
        ids = build(rows, [now] * len(keys))
        records = np.array([[now, now + SPAN, i] for i in ids])
        store.insert(keys.reshape(-1, 1), records, floor=now)
        for key, i in zip(keys.tolist(), ids, strict=True):
            truth.setdefault(key, []).append((i, now))
        if random.random() < 0.5:
            rows.evict(now)
        asked = np.unique(random.integers(0, 14, 6)).reshape(-1, 1)
        living = {k: sorted(i for i, t in v if t + SPAN >= now) for k, v in truth.items()}
        answers = looked_up(store, asked, now)
        for (key,), answer in zip(asked.tolist(), answers, strict=True):
            assert answer is None or answer == living.get(key, []), (seed, key)
            kept += answer is not None
        missing = asked[[a is None for a in answers]]
        values = [[(i, t) for i, t in truth.get(k, []) if t + SPAN >= now] for (k,) in missing.tolist()]
        bounds = np.cumsum([0, *map(len, values)])
        flat = np.array([[t, t + SPAN, i] for v in values for i, t in v], np.int64).reshape(-1, 3)
        store.create(missing, bounds, flat)
        assert limit is None or store.pages.used <= limit
        if random.random() < 0.05:
            store.clear()
            assert store.pages.used == 0
    assert kept, "never a hit: nothing was tested"


def test_an_entry_that_does_not_fit_in_a_page_is_left_out():
    rows = stem("r")
    store = CacheStore(1, KEYS + 1, [SegmentInput(rows, 0, KEYS, 3)], Pages(size=48))
    ids = build(rows, [1] * 5)
    store.create(np.array([[7], [8]]), np.array([0, 5, 5]), np.array([[1, 21, i] for i in ids]))
    assert looked_up(store, np.array([[7], [8]]), 1) == [None, []]
    assert store.tall == 1


def test_pages_go_back_one_by_one():
    rows = stem("r")
    store = CacheStore(1, KEYS + 1, [SegmentInput(rows, 0, KEYS, 3)], Pages(size=48))
    ids = build(rows, [1] * 4)
    store.create(np.array([[7], [8]]), np.array([0, 2, 4]), np.array([[1, 21, i] for i in ids]))
    assert store.release() == 48
    assert looked_up(store, np.array([[7], [8]]), 1) == [None, sorted(ids[2:])]
    assert (store.release(), store.release(), store.entries) == (48, 0, 0)
