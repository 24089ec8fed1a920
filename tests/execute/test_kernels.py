"""Kernels against plain twins: the same arithmetic and the same joins without Numba, written the obvious way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from thalweg.execute import kernels
from thalweg.execute.kernels import EXPIRY, KEYS, NEWEST
from thalweg.execute.keys import hash_values

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


def plain_join(partial: Ints, cells: Ints, live: list[int], pairs: Ints) -> list[list[int]]:
    """For each partial result the rows that it matches."""
    return [
        [
            r
            for r in live
            if all(p[a] == cells[r, b] for a, b in pairs)
            and max(p[NEWEST], cells[r, NEWEST]) <= min(p[EXPIRY], cells[r, EXPIRY])
        ]
        for p in partial
    ]


def test_mix_and_hashes_agree_with_their_twins() -> None:
    random = np.random.default_rng(1)
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), *random.integers(-(2**62), 2**62, 200).tolist()]
    assert [kernels.mix(n) for n in numbers] == [plain_mix(n) for n in numbers]
    rows = np.array(numbers[:200], np.int64).reshape(-1, 5)
    pairs = np.array([[0, 4], [1, 2], [3, 0]])
    for side in (0, 1):
        expected = [plain_hash([int(row[c]) for c in pairs[:, side]]) for row in rows]
        assert [kernels.hash_keys(rows, i, pairs, side) for i in range(len(rows))] == expected


def test_mix_is_a_bijection_on_a_sample_and_spreads_its_high_bits() -> None:
    mixed = np.array([kernels.mix(n) for n in range(4096)])
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
    kernels.extend_bits(cells, links, 0, 0, 50, 0, 1 << sum(bits), np.array(bits), kernels.FELL + 1)
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


def test_extend_tells_whether_expiries_only_rise() -> None:
    cells = np.zeros((6, KEYS + 1), np.int64)
    cells[:, EXPIRY] = [3, 3, 5, 9, 8, 10]
    links = np.full(32, -1, np.int32)
    pairs = np.array([[0, KEYS]])
    assert kernels.extend_hash(cells, links, 0, 0, 4, 0, 4, 3, pairs, kernels.FELL + 1) == 9
    assert kernels.extend_hash(cells, links, 0, 4, 5, 0, 4, 3, pairs, 9) == kernels.FELL
    assert kernels.extend_hash(cells, links, 0, 5, 6, 0, 4, 3, pairs, kernels.FELL) == kernels.FELL


class Store:
    """A random stem as the kernels see it: two runs, hash or bit-address, over one matrix of cells."""

    def __init__(self, random: np.random.Generator, kind: str, rising: bool) -> None:
        self.rows = int(random.integers(1, 120))
        attributes = 3
        self.cells = np.empty((self.rows + 7, KEYS + attributes), np.int64)
        times = np.sort(random.integers(0, 60, self.rows + 7)) if rising else random.integers(0, 60, self.rows + 7)
        self.cells[:, NEWEST] = times
        self.cells[:, EXPIRY] = times + (20 if rising else random.integers(0, 40, len(times)))
        self.cells[:, KEYS:] = random.integers(0, 4, (len(times), attributes))
        self.pattern = sorted(random.choice(3, int(random.integers(0, 4)), replace=False).tolist())
        cut = int(random.integers(0, self.rows + 1))
        self.spans = [s for s in ((0, cut), (cut + 7, self.rows + 7)) if s[0] < s[1]]
        self.live = [r for a, b in self.spans for r in range(a, b)]
        self.pairs = np.array([(KEYS + 3 - k, KEYS + k) for k in self.pattern], np.int64).reshape(-1, 2)
        lines, blocks, at = [], [], 0
        for a, b in self.spans:
            line = np.zeros(kernels.BITS + 2 * len(self.pattern), np.int64)
            if kind == "hash":
                heads = 8 if self.pattern else 1
                block = np.full(heads + b - a, -1, np.int32)
                latest = kernels.extend_hash(
                    self.cells, block, a, 0, b - a, 0, heads, heads - 1, self.pairs, kernels.FELL + 1
                )
                line[kernels.MASK] = heads - 1
            else:
                bits = tuple(int(x) for x in random.integers(0, 3, attributes))
                heads = 1 << sum(bits)
                block = np.full(heads + b - a, -1, np.int32)
                latest = kernels.extend_bits(self.cells, block, a, 0, b - a, 0, heads, np.array(bits), kernels.FELL + 1)
                line[kernels.MASK] = -1
                line[kernels.WILD] = heads - 1
                for k, attribute in enumerate(self.pattern):
                    place = sum(bits[attribute + 1 :])
                    line[kernels.BITS + 2 * k : kernels.BITS + 2 * k + 2] = bits[attribute], place
                    line[kernels.WILD] &= ~(((1 << bits[attribute]) - 1) << place)
            line[kernels.START], line[kernels.HEAD], line[kernels.NEXT] = a, at, at + heads
            line[kernels.FIRST_TIME] = self.cells[a:b, NEWEST].min()
            line[kernels.LAST_EXPIRY] = self.cells[a:b, EXPIRY].max()
            line[kernels.FALLING] = latest != kernels.FELL
            lines.append(line)
            blocks.append(block)
            at += len(block)
        self.runs = np.stack(lines)
        self.links = np.concatenate(blocks)

    def partial(self, random: np.random.Generator) -> Ints:
        partial = random.integers(0, 4, (int(random.integers(0, 150)), KEYS + 5))
        partial[:, NEWEST] = random.integers(0, 80, len(partial))
        partial[:, EXPIRY] = partial[:, NEWEST] + random.integers(0, 30, len(partial))
        return partial


def probe_all(store: Store, partial: Ints, adds: Ints, room: int) -> tuple[list[list[int]], Ints]:
    """Everything that a probe writes, in buffers of `room` rows, and where its cursor ends."""
    cursor = np.zeros(kernels.CURSOR, np.int64)
    cursor[kernels.AT_CANDIDATE] = kernels.BEGIN
    out = np.empty((room, partial.shape[1]), np.int64)
    written: list[list[int]] = []
    while True:
        n = kernels.probe(
            partial, store.cells, store.links, store.runs, store.pairs, adds, KEYS + 4, out, cursor
        )  # fmt: skip
        written += out[:n].tolist()
        if cursor[kernels.AT_ROW] == len(partial):
            return written, cursor
        assert n == room


@pytest.mark.parametrize("kind", ["hash", "bits"])
@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_probe_and_count_agree_with_the_plain_join(kind: str, rising: bool, seed: int) -> None:
    random = np.random.default_rng([seed, rising, len(kind)])
    store = Store(random, kind, rising)
    partial = store.partial(random)
    adds = np.array([[KEYS, KEYS]] if 0 not in store.pattern else np.empty((0, 2)), np.int64).reshape(-1, 2)
    expected = plain_join(partial, store.cells, store.live, store.pairs)

    rows: list[Any] = []
    for p, matches in zip(partial, expected, strict=True):
        for r in matches:
            out = p.copy()
            out[NEWEST] = max(p[NEWEST], store.cells[r, NEWEST])
            out[EXPIRY] = min(p[EXPIRY], store.cells[r, EXPIRY])
            for a, b in adds:
                out[b] = store.cells[r, a]
            out[KEYS + 4] = r
            rows.append(out.tolist())
    whole, cursor = probe_all(store, partial, adds, 1 << 12)
    assert sorted(whole) == sorted(rows)
    assert cursor[kernels.SURVIVORS] == sum(1 for m in expected if m)

    # Whatever the buffer, the same rows in the same order, the same survivors and the same work.
    small, again = probe_all(store, partial, adds, int(random.integers(1, 5)))
    assert small == whole
    assert again[kernels.SURVIVORS] == cursor[kernels.SURVIVORS]
    assert again[kernels.WORK] == cursor[kernels.WORK]

    counts = np.empty(len(partial), np.int64)
    work = kernels.count(partial, store.cells, store.links, store.runs, store.pairs, 1 << 60, counts)
    assert counts.tolist() == [len(m) for m in expected]
    assert work == cursor[kernels.WORK]


def test_count_stops_at_its_budget_and_says_which_rows_were_tried() -> None:
    random = np.random.default_rng(5)
    store = Store(random, "hash", True)
    partial = np.repeat(store.partial(random)[:1], 20, axis=0)
    counts = np.empty(20, np.int64)
    whole = kernels.count(partial, store.cells, store.links, store.runs, store.pairs, 1 << 60, counts)
    each = whole // 20
    assert each > 0
    work = kernels.count(partial, store.cells, store.links, store.runs, store.pairs, 3 * each, counts)
    assert work == 3 * each
    assert (counts >= 0).tolist() == [True] * 3 + [False] * 17
