"""Kernels against plain twins: the same arithmetic and the same joins without Numba, written the obvious way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from thalweg.execute.kernels import join as kernels
from thalweg.state.kernels import layout
from thalweg.state.kernels.count import Seen, count
from thalweg.state.kernels.hashing import hash_keys, mix
from thalweg.state.kernels.index import FELL, extend_bits, extend_hash
from thalweg.state.kernels.layout import EXPIRY, KEYS, MEMBERS, NEWEST, TIME
from thalweg.state.keys import hash_values

Ints = NDArray[np.int64]
WORD = (1 << 64) - 1


def signed(x: int) -> int:
    x &= WORD
    return x - (1 << 64) if x >> 63 else x


def plain_mix(key: int) -> int:
    h = (key * -7046029254386353131) & WORD
    h ^= h >> 32
    h = (h * -4658895280553007687) & WORD
    return signed(h ^ (h >> 29))


def plain_hash(keys: list[int]) -> int:
    h = 0
    for key in keys:
        h = plain_mix(h ^ key)
    return h


def plain_hash_bytes(text: bytes) -> int:
    h = len(text)
    for at in range(0, len(text), 8):
        h = plain_mix(h ^ signed(int.from_bytes(text[at : at + 8], "little")))
    return h


def plain_join(partial: Ints, cells: Ints, ends: Ints, live: list[int], pairs: Ints) -> list[list[int]]:
    """For each partial result the rows that it matches."""
    return [
        [
            r
            for r in live
            if all(p[a] == cells[r, b] for a, b in pairs)
            and cells[r, MEMBERS] & MEMBER
            and max(p[NEWEST], cells[r, TIME]) <= min(p[EXPIRY], ends[r])
        ]
        for p in partial
    ]


def test_mix_and_hashes_agree_with_their_twins() -> None:
    random = np.random.default_rng(1)
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), *random.integers(-(2**62), 2**62, 200).tolist()]
    assert [mix(n) for n in numbers] == [plain_mix(n) for n in numbers]
    rows = np.array(numbers[:200], np.int64).reshape(-1, 5)
    pairs = np.array([[0, 4], [1, 2], [3, 0]])
    for side in (0, 1):
        expected = [plain_hash([int(row[c]) for c in pairs[:, side]]) for row in rows]
        assert [hash_keys(rows, i, pairs, side) for i in range(len(rows))] == expected


def test_mix_is_a_bijection_on_a_sample_and_spreads_its_high_bits() -> None:
    mixed = np.array([mix(n) for n in range(4096)])
    assert len(set(mixed.tolist())) == 4096
    buckets = np.bincount((mixed >> 58) & 63, minlength=64)
    assert buckets.min() > 30
    assert buckets.max() < 100


def test_byte_hashes_agree_with_their_twin() -> None:
    random = np.random.default_rng(2)
    texts = [b"", b"a", b"12345678", b"123456789", *(random.bytes(int(n)) for n in random.integers(0, 40, 100))]
    array = pa.array([b"cut off", *texts], pa.binary()).slice(1)
    assert hash_values(array).tolist() == [plain_hash_bytes(t) for t in texts]


@pytest.mark.parametrize("bits", [(0, 0, 0), (3, 0, 2), (1, 4, 1), (0, 6, 0)])
def test_addresses_put_the_first_attribute_highest(bits: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    cells = random.integers(-5, 5, (50, KEYS + 3))
    links = np.full((1 << sum(bits)) + 50, -1, np.int32)
    extend_bits(cells, links, 0, 0, 50, 0, 1 << sum(bits), np.array(bits), FELL + 1)
    expected: dict[int, list[int]] = {}
    for r in range(50):
        bucket = 0
        for k, b in enumerate(bits):
            bucket = (bucket << b) | ((plain_mix(int(cells[r, KEYS + k])) & WORD) >> (64 - b) if b else 0)
        expected.setdefault(bucket, []).insert(0, r)
    for bucket in range(1 << sum(bits)):
        assert chain(links, bucket, 1 << sum(bits)) == expected.get(bucket, [])


def chain(links: NDArray[np.int32], bucket: int, following: int) -> list[int]:
    rows, r = [], int(links[bucket])
    while r >= 0:
        rows.append(r)
        r = int(links[following + r])
    return rows


def test_extend_tells_whether_times_only_rise() -> None:
    cells = np.zeros((6, KEYS + 1), np.int64)
    cells[:, TIME] = [3, 3, 5, 9, 8, 10]
    links = np.full(32, -1, np.int32)
    pairs = np.array([[0, KEYS]])
    assert extend_hash(cells, links, 0, 0, 4, 0, 4, 3, pairs, FELL + 1) == 9
    assert extend_hash(cells, links, 0, 4, 5, 0, 4, 3, pairs, 9) == FELL
    assert extend_hash(cells, links, 0, 5, 6, 0, 4, 3, pairs, FELL) == FELL


WIDEST = 3
MEMBER = 2
"""The bit of the member that looks."""
CLASSES = 4
WIDTH = KEYS + CLASSES + 4
"""A partial result here: four key classes, and row numbers of four inputs, the first of which is the arriving one."""


class Store:
    """A random stem as the kernels see it: up to two runs, hash or bit-address, over one matrix of cells."""

    def __init__(self, random: np.random.Generator, number: int, known: set[int]) -> None:
        self.rows = int(random.integers(1, 120))
        self.number = KEYS + CLASSES + number
        self.classes = sorted(random.choice(CLASSES, WIDEST, replace=False).tolist())
        rising = bool(random.random() < 0.5)
        self.cells = np.empty((self.rows + 7, KEYS + WIDEST), np.int64)
        times = random.integers(0, 60, self.rows + 7)
        self.cells[:, TIME] = np.sort(times) if rising else times
        self.cells[:, MEMBERS] = random.choice([MEMBER, 1, MEMBER | 1], len(times), p=[0.4, 0.2, 0.4])
        kind = random.random()
        self.span = int(layout.FOREVER if kind < 0.2 else layout.COUNTED if kind < 0.5 else 20)
        self.expiries = self.cells[:, TIME] + (20 if rising else random.integers(0, 40, len(times)))
        forever = np.full(len(times), layout.FOREVER)
        self.ends = forever if kind < 0.2 else self.expiries if kind < 0.5 else self.cells[:, TIME] + 20
        self.cells[:, KEYS:] = random.integers(0, 4, (len(times), WIDEST))
        self.pattern = [k for k, c in enumerate(self.classes) if c in known]
        self.pairs = np.array([(KEYS + self.classes[k], KEYS + k) for k in self.pattern], np.int64).reshape(-1, 2)
        new = [k for k in range(WIDEST) if k not in self.pattern]
        self.adds = np.array([(KEYS + k, KEYS + self.classes[k]) for k in new], np.int64).reshape(-1, 2)
        known |= set(self.classes)
        cut = int(random.integers(0, self.rows + 1))
        spans = [s for s in ((0, cut), (cut + 7, self.rows + 7)) if s[0] < s[1]]
        self.live = [r for a, b in spans for r in range(a, b)]
        lines, blocks, at = [], [], 0
        for a, b in spans:
            line = np.zeros(layout.SHARES + 2 * WIDEST, np.int64)
            if random.random() < 0.5:
                heads = 8 if self.pattern else 1
                block = np.full(heads + b - a, -1, np.int32)
                latest = extend_hash(self.cells, block, a, 0, b - a, 0, heads, heads - 1, self.pairs, FELL + 1)
                line[layout.MASK] = heads - 1
            else:
                bits = tuple(int(x) for x in random.integers(0, 3, WIDEST))
                heads = 1 << sum(bits)
                block = np.full(heads + b - a, -1, np.int32)
                latest = extend_bits(self.cells, block, a, 0, b - a, 0, heads, np.array(bits), FELL + 1)
                line[layout.KIND] = layout.BITS
                line[layout.WILD] = heads - 1
                for k, attribute in enumerate(self.pattern):
                    place = sum(bits[attribute + 1 :])
                    line[layout.SHARES + 2 * k : layout.SHARES + 2 * k + 2] = bits[attribute], place
                    line[layout.WILD] &= ~(((1 << bits[attribute]) - 1) << place)
            line[layout.START], line[layout.HEAD], line[layout.NEXT] = a, at, at + heads
            line[layout.FIRST_TIME] = self.cells[a:b, TIME].min()
            line[layout.LAST_EXPIRY] = self.ends[a:b].max()
            line[layout.FALLING] = latest != FELL and (self.span != layout.COUNTED or rising)
            lines.append(line)
            blocks.append(block)
            at += len(block)
        self.runs = np.stack(lines)
        self.links = np.concatenate(blocks)
        self.seen = Seen(MEMBER, self.span, self.expiries)

    def join(self, partial: list[list[int]]) -> tuple[list[list[int]], int]:
        """Every partial result extended by every row that it matches, the plain way; and how many had a match."""
        out = []
        matches = plain_join(
            np.array(partial, np.int64).reshape(-1, WIDTH), self.cells, self.ends, self.live, self.pairs
        )
        for row, found in zip(partial, matches, strict=True):
            for r in found:
                new = list(row)
                new[NEWEST] = max(row[NEWEST], int(self.cells[r, TIME]))
                new[EXPIRY] = min(row[EXPIRY], int(self.ends[r]))
                for a, b in self.adds:
                    new[b] = int(self.cells[r, a])
                new[self.number] = r
                out.append(new)
        return out, sum(1 for m in matches if m)


def arriving(random: np.random.Generator, known: set[int]) -> Ints:
    partial = np.zeros((int(random.integers(0, 150)), WIDTH), np.int64)
    partial[:, NEWEST] = random.integers(0, 80, len(partial))
    partial[:, EXPIRY] = partial[:, NEWEST] + random.integers(0, 30, len(partial))
    for c in known:
        partial[:, KEYS + c] = random.integers(0, 4, len(partial))
    partial[:, KEYS + CLASSES] = np.arange(len(partial))
    return partial


def join_all(
    stores: list[Store], partial: Ints, room: int, trust: int = 0, limit: float = 0.0
) -> tuple[list[list[int]], Ints, int]:
    """Everything that a join writes, in buffers of `room` rows, its tallies, and how many rows it began."""
    lines, run, pair, add = [], 0, 0, 0
    for s in stores:
        ends = run + len(s.runs), pair + len(s.pairs), add + len(s.adds)
        where = s.cells.ctypes.data, s.cells.shape[1], s.links.ctypes.data, s.expiries.ctypes.data, s.span, MEMBER
        lines.append((*where, run, ends[0], pair, ends[1], add, ends[2], s.number, -1, 0))
        run, pair, add = ends
    runs, pairs, adds = (np.concatenate([getattr(s, n) for s in stores]) for n in ("runs", "pairs", "adds"))
    cursor, stack = np.zeros(kernels.CURSOR, np.int64), np.zeros((len(stores), kernels.STACK), np.int64)
    tallies = np.zeros((len(stores), kernels.TALLY), np.int64)
    blocks = np.empty((len(stores), kernels.AHEAD, WIDTH), np.int64)
    candidates = np.empty((len(stores), kernels.AHEAD, len(runs)), np.int64)
    living = np.empty((len(stores), kernels.AHEAD), np.int64)
    tables = kernels.Tables(np.array(lines), runs, pairs, adds, kernels.NONE_HELD)
    space = kernels.Room(blocks, candidates, living, stack)
    out = np.empty((room, WIDTH), np.int64)
    written: list[list[int]] = []
    while True:
        n = kernels.join(partial, tables, space, out, cursor, tallies, trust, limit)
        written += out[:n].tolist()
        if cursor[kernels.AT_STEP] < 0:
            assert bool(cursor[kernels.RECALLED]) == (cursor[kernels.AT_ROW] < len(partial))
            return written, tallies, int(cursor[kernels.AT_ROW])
        assert n == room


@pytest.mark.parametrize("seed", range(60))
def test_joins_agree_with_the_plain_join_step_by_step(seed: int) -> None:
    random = np.random.default_rng(seed)
    known = set(random.choice(CLASSES, int(random.integers(0, 3)), replace=False).tolist())
    partial = arriving(random, known)
    stores = [Store(random, k, known) for k in range(1, int(random.integers(2, 5)))]
    rows: list[list[int]] = partial.tolist()
    expected: list[tuple[int, int, int]] = []
    for store in stores:
        if len(rows) > 3000:
            stores = stores[: len(expected)]
            break
        came = len(rows)
        rows, survivors = store.join(rows)
        expected.append((came, len(rows), survivors))
    whole, tallies, _ = join_all(stores, partial, 1 << 16)
    assert sorted(whole) == sorted(rows)
    met = tallies[:, [kernels.ROWS_IN, kernels.ROWS_OUT, kernels.SURVIVORS]]
    assert met.tolist() == [list(e) for e in expected]

    # Whatever the buffer, the same rows in the same order, with the same tallies, work included.
    small, again, _ = join_all(stores, partial, int(random.integers(1, 5)))
    assert small == whole
    assert again.tolist() == tallies.tolist()

    counts = np.empty(len(partial), np.int64)
    first = stores[0]
    work = count(partial, first.cells, first.links, first.runs, first.pairs, first.seen, 1 << 60, counts)
    assert counts.sum() == expected[0][1]
    assert (counts > 0).sum() == expected[0][2]
    assert work == tallies[0, kernels.WORK]


def test_rows_are_recalled_once_they_take_more_work_than_the_limit() -> None:
    random = np.random.default_rng(8)
    stores = [Store(random, 1, set()), Store(random, 2, set(range(CLASSES)))]
    partial = np.repeat(arriving(random, set())[:1], 2000, axis=0)
    partial[:, NEWEST], partial[:, EXPIRY] = 0, 100
    whole, tallies, _ = join_all(stores, partial, 1 << 16)
    each = tallies[:, kernels.WORK].sum() / len(partial)
    assert each > 5
    for room in (1 << 16, 7):
        found, tallies, begun = join_all(stores, partial, room, trust=int(100 * each), limit=each / 2)
        assert 100 <= begun < 300
        assert tallies[0, kernels.ROWS_IN] == begun
        assert found == join_all(stores, partial[:begun], 1 << 16)[0]
        found, _, begun = join_all(stores, partial, room, trust=int(100 * each), limit=each + 1)
        assert found == whole
        assert begun == len(partial)

    # The first thousand match nothing; the limit is met then, and no longer where the others begin.
    partial[:1000, NEWEST], partial[:1000, EXPIRY] = 200, 100
    found, _, begun = join_all(stores, partial, 1 << 16, trust=100, limit=each / 2)
    assert 1000 < begun < 1500
    assert found == join_all(stores, partial[:begun], 1 << 16)[0]


def test_count_stops_at_its_budget_and_says_which_rows_were_tried() -> None:
    random = np.random.default_rng(5)
    store = Store(random, 1, set())
    partial = np.repeat(arriving(random, set())[:1], 20, axis=0)
    counts = np.empty(20, np.int64)
    whole = count(partial, store.cells, store.links, store.runs, store.pairs, store.seen, 1 << 60, counts)
    each = whole // 20
    assert each > 0
    work = count(partial, store.cells, store.links, store.runs, store.pairs, store.seen, 3 * each, counts)
    assert work == 3 * each
    assert (counts >= 0).tolist() == [True] * 3 + [False] * 17
