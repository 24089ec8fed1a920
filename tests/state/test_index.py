"""Hash and bit-address indexes give equal answers under random layouts, while stems grow, lose slices and change
layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.state.arena import Arena, Stretch
from thalweg.state.index import HashIndex, Layout
from thalweg.state.kernels import count as kernels
from thalweg.state.kernels.hashing import mix
from thalweg.state.kernels.layout import EXPIRY, HEAD, KEYS, MASK, MEMBERS, NEWEST, NEXT, SHARES, START, TIME
from thalweg.state.slice import Run, Slice, Window
from thalweg.state.stem import Stem

Ints = NDArray[np.int64]
ATTRIBUTES = 3
PATTERNS = [p for n in range(ATTRIBUTES + 1) for p in itertools.combinations(range(ATTRIBUTES), n)]


def matches(stem: Stem, pattern: tuple[int, ...], probes: Ints) -> list[int]:
    view = stem.view(pattern)
    pairs = np.array([(KEYS + k, KEYS + k) for k in pattern], np.int64).reshape(-1, 2)
    counts = np.empty(len(probes), np.int64)
    kernels.count(probes, view.cells, view.links, view.runs, pairs, view.seen, 1 << 60, counts)
    return counts.tolist()


def expected(stored: Ints, pattern: tuple[int, ...], probes: Ints) -> list[int]:
    return [
        sum(
            1
            for row in stored
            if all(row[KEYS + k] == p[KEYS + k] for k in pattern)
            and max(row[TIME], p[NEWEST]) <= min(row[TIME] + SPAN, p[EXPIRY])
        )
        for p in probes
    ]


SPAN = 40
LONG = [Window(SPAN)]


def rows(random: np.random.Generator, count: int, time: int) -> Ints:
    """Rows to store."""
    cells = np.empty((count, KEYS + ATTRIBUTES), np.int64)
    cells[:, TIME] = np.sort(random.integers(max(time - 15, 0), time + 10, count))
    cells[:, MEMBERS] = 1
    cells[:, KEYS:] = random.integers(0, 5, (count, ATTRIBUTES))
    return cells


def probing(random: np.random.Generator, count: int, time: int) -> Ints:
    """Partial results that look for them."""
    probes = rows(random, count, time)
    probes[:, EXPIRY] = probes[:, NEWEST] + SPAN
    return probes


def stored_rows(times: Ints, keys: object) -> Ints:
    return np.stack([times, np.ones(len(times), np.int64), np.broadcast_to(np.asarray(keys), len(times))], axis=1)


def random_layout(random: np.random.Generator) -> Layout:
    if random.random() < 0.3:
        return Layout("hash")
    if random.random() < 0.3:
        return Layout("bits")
    return Layout("bits", tuple(int(b) for b in random.integers(0, 5, ATTRIBUTES)))


@pytest.mark.parametrize("seed", range(20))
def test_every_layout_finds_what_is_stored_and_alive(seed: int) -> None:
    random = np.random.default_rng(seed)
    slice_rows = int(random.choice([1, 8, 1024]))
    stems = [
        Stem("s", ATTRIBUTES, {}, LONG, length=10, slice_rows=slice_rows, layout=random_layout(random)),
        Stem("s", ATTRIBUTES, {}, LONG, length=10, slice_rows=slice_rows, layout=Layout("hash")),
        Stem("s", ATTRIBUTES, {}, LONG, length=10, slice_rows=slice_rows, layout=Layout("bits")),
    ]
    stored = np.empty((0, KEYS + ATTRIBUTES), np.int64)
    for step in range(12):
        new = rows(random, int(random.integers(0, 60)), 10 * step)
        stored = np.concatenate([stored, new])
        for stem in stems:
            stem.build(new, {}, np.arange(len(new)))
        if random.random() < 0.3:
            stems[0].relayout(random_layout(random), migrate=bool(random.random() < 0.5))
        if random.random() < 0.5:
            horizon = 10 * step - 20
            for stem in stems:
                stem.evict(horizon)
        probes = probing(random, 10, 10 * step)
        for pattern in random.permutation(len(PATTERNS))[:3]:
            # What was evicted had expired before any of these probes came.
            probes[:, NEWEST] = np.maximum(probes[:, NEWEST], 10 * step - 20)
            want = expected(stored, PATTERNS[pattern], probes)
            for stem in stems:
                assert matches(stem, PATTERNS[pattern], probes) == want, (seed, step, stem.layout, PATTERNS[pattern])


@pytest.mark.parametrize("layout", ["hash", "bits", "scan"])
@pytest.mark.parametrize("seed", range(8))
def test_counting_finds_the_same_with_an_index_and_without(seed: int, layout: str) -> None:
    """A few partial results against a stem that grows and loses slices; its indexes are missing, behind or in step."""
    random = np.random.default_rng(seed)
    stem = Stem("s", ATTRIBUTES, {}, LONG, length=10, slice_rows=4, layout=Layout.parse(layout))
    stored = np.empty((0, KEYS + ATTRIBUTES), np.int64)
    scanned = 0
    for step in range(60):
        new = rows(random, int(random.choice([0, 1, 20, 60])), 10 * step)
        new[:, KEYS:] = random.integers(0, int(random.choice([1, 5, 50])), (len(new), ATTRIBUTES))
        stored = np.concatenate([stored, new])
        stem.build(new, {}, np.arange(len(new)))
        stem.evict(10 * step - 20)
        stored = stored[stored[:, TIME] + SPAN >= 10 * step - 20]
        probes = probing(random, int(random.integers(1, 65)), 10 * step)
        probes[:, NEWEST] = np.maximum(probes[:, NEWEST], 10 * step - 20)
        pattern = PATTERNS[random.integers(len(PATTERNS))]
        pairs = np.array([(KEYS + k, KEYS + k) for k in pattern], np.int64).reshape(-1, 2)
        if random.random() < 0.2:
            stem.view(pattern)
        entries = stem.entries
        told = stem.count(probes, pattern, pairs, int(probes[:, NEWEST].min()), int(probes[:, EXPIRY].max()), 1 << 60)
        assert told.matches.tolist() == expected(stored, pattern, probes), (step, pattern)
        scanned += told.entries > 0 and stem.entries == entries
        some = stem.count(probes, pattern, pairs, int(probes[:, NEWEST].min()), int(probes[:, EXPIRY].max()), 5)
        tried = some.matches >= 0
        assert some.matches[tried].tolist() == told.matches[tried].tolist()
        assert tried.tolist() == sorted(tried.tolist(), reverse=True)
    assert (scanned > 5) == (layout == "hash")


def test_what_a_scan_says_a_probe_would_take_is_what_it_takes() -> None:
    random = np.random.default_rng(3)
    for keys in (300, 3000, 30_000):
        ours, theirs = (Stem("s", 1, {}, [Window(10_000)], length=2500) for _ in range(2))
        for step in range(12):
            times = np.arange(2500 * step, 2500 * (step + 1))
            new = stored_rows(times, random.integers(0, keys, 2500))
            for stem in (ours, theirs):
                stem.build(new, {}, np.arange(2500))
                stem.evict(2500 * (step - 4))
        probes = np.stack([np.full(64, 30_000), np.full(64, 40_000), random.integers(0, keys, 64)], axis=1)
        theirs.view((0,))
        pairs = np.array([(KEYS, KEYS)], np.int64)
        scan, index = (stem.count(probes, (0,), pairs, 30_000, 40_000, 1 << 60) for stem in (ours, theirs))
        assert (scan.matches.tolist(), scan.entries > 0, ours.entries) == (index.matches.tolist(), True, 0)
        assert scan.work == pytest.approx(index.work, rel=0.15)


def test_rows_with_one_key_in_common_are_counted_with_an_index() -> None:
    """Looking through would compare every row with every partial result."""
    stem = Stem("s", 1, {}, [Window(10**6)], length=10_000)
    stem.build(stored_rows(np.arange(5000), 7), {}, np.arange(5000))
    probes = np.stack([np.full(64, 6000), np.full(64, 7000), np.full(64, 7)], axis=1)
    told = stem.count(probes, (0,), np.array([(KEYS, KEYS)], np.int64), 6000, 7000, 20_000)
    assert told.matches[told.matches >= 0].tolist() == [5000] * 4
    assert stem.entries == told.entries == 5000


def test_tables_are_not_looked_through_again_and_again() -> None:
    stem = Stem("t", 1, {})
    stem.build(stored_rows(np.zeros(5000, np.int64), np.arange(5000)), {}, np.arange(5000))
    probes = np.stack([np.full(9, 1), np.full(9, 2), np.arange(9)], axis=1)
    for entries in (5000, 0):
        told = stem.count(probes, (0,), np.array([(KEYS, KEYS)], np.int64), 1, 2, 1 << 60)
        assert (told.matches.tolist(), told.entries) == ([1] * 9, entries)


@pytest.mark.parametrize("layout", ["hash", "bits"])
@pytest.mark.parametrize("late", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_an_index_moves_on_with_the_window(seed: int, late: float, layout: str) -> None:
    random = np.random.default_rng(seed)
    stem = Stem("s", ATTRIBUTES, {}, LONG, length=10, slice_rows=4, layout=Layout(layout))
    stored = np.empty((0, KEYS + ATTRIBUTES), np.int64)
    often, seldom = (0,), (1, 2)
    for step in range(80):
        new = rows(random, int(random.choice([0, 1, 15, 20, 25])), 10 * step)
        in_time = 10 * step + np.sort(random.integers(0, 10, len(new)))
        new[:, TIME] = np.where(random.random(len(new)) < late, new[:, TIME], in_time)
        new = new[np.argsort(new[:, TIME], kind="stable")]
        stored = np.concatenate([stored, new])
        stem.build(new, {}, np.arange(len(new)))
        stem.evict(10 * step - 20)
        stored = stored[stored[:, TIME] + SPAN >= 10 * step - 20]
        probes = probing(random, 5, 10 * step)
        probes[:, NEWEST] = np.maximum(probes[:, NEWEST], 10 * step - 20)
        for pattern in [often] + [seldom] * (random.random() < 0.15):
            assert matches(stem, pattern, probes) == expected(stored, pattern, probes), (step, pattern)


@pytest.mark.parametrize("layout", ["hash", "bits"])
def test_rows_that_come_in_order_are_entered_once(layout: str) -> None:
    stem = Stem("s", 1, {}, [Window(1000)], length=250, layout=Layout(layout))
    for step in range(100):
        times = np.arange(250 * step, 250 * (step + 1)).repeat(8)
        stem.build(stored_rows(times, times % 97), {}, np.arange(len(times)))
        stem.evict(250 * step)
        assert matches(stem, (0,), np.array([[250 * step + 249, 250 * step + 1249, 5]]))[0] > 0
    assert stem.entries < 1.2 * 100 * 2000


@pytest.mark.parametrize("dies", [0, 1, 2])
@pytest.mark.parametrize("offsets", list(itertools.permutations([0, 4, 8])))
def test_slices_that_lie_or_leave_out_of_order_are_found_again(offsets: tuple[int, ...], dies: int) -> None:
    cells = stored_rows(np.arange(16), 7)
    links = Arena({"links": np.empty(0, np.int32)})
    run = Run(Layout("hash"), slices=[Slice(n, Stretch(at, 4), rows=4) for n, at in enumerate(offsets)])
    index = HashIndex((0,))
    run.refresh(0)
    index.sync(run, cells, 0, links)
    # One leaves, the arena moves the others down, and a new one takes the place behind them.
    run.slices.pop(dies)
    for at, part in enumerate(sorted(run.slices, key=lambda s: s.block.offset)):
        part.block.offset = 4 * at
    run.slices.append(Slice(3, Stretch(8, 4), rows=4))
    run.stamp += 1
    run.refresh(1)
    index.sync(run, cells, 1, links)
    line = np.zeros(SHARES + 2, np.int64)
    index.describe(line, (0,))
    row, found = links.arrays["links"][line[HEAD] + (mix(7) & line[MASK])], []
    while row >= 0 and len(found) < 100:
        found.append(int(line[START] + row))
        row = links.arrays["links"][line[NEXT] + row]
    assert sorted(found) == list(range(12))


def test_an_exact_probe_looks_into_one_bucket_and_a_wild_one_into_all_that_agree() -> None:
    stem = Stem("s", 2, {}, most=1 << 20, layout=Layout("bits", (4, 3)))
    cells = np.zeros((1000, KEYS + 2), np.int64)
    cells[:, MEMBERS] = 1
    cells[:, KEYS:] = np.random.default_rng(1).integers(0, 100, (1000, 2))
    stem.build(cells, {}, np.arange(1000))
    probe = np.full((1, KEYS + 2), 1000, np.int64)
    probe[:, NEWEST], probe[:, EXPIRY] = 0, 1
    looked = {}
    for pattern in ((0, 1), (0,), (1,), ()):
        view = stem.view(pattern)
        pairs = np.array([(KEYS + k, KEYS + k) for k in pattern], np.int64).reshape(-1, 2)
        counts = np.empty(1, np.int64)
        empty = view.links.copy()
        line = view.runs[0]
        empty[line[HEAD] : line[NEXT]] = -1  # no candidates: what is left of the work is buckets
        looked[pattern] = kernels.count(probe, view.cells, empty, view.runs, pairs, view.seen, 1 << 60, counts)
    assert looked == {(0, 1): 1, (0,): 8, (1,): 16, (): 128}


def test_directories_follow_the_number_of_rows() -> None:
    layout = Layout("bits", (8, 8))
    assert layout.fitted(2, 1) == (0, 0)
    assert sum(layout.fitted(2, 1000)) == 10
    assert layout.fitted(2, 1 << 20) == (8, 8)


def test_slices_of_one_layout_share_an_index_and_a_new_layout_starts_its_own() -> None:
    stem = Stem("s", 1, {}, LONG, length=10, slice_rows=1)
    for step in range(4):
        stem.build(stored_rows(np.array([10 * step]), 7), {}, np.arange(1))
    assert [len(r.slices) for r in stem.runs] == [4]
    stem.relayout(Layout("bits"))
    stem.build(stored_rows(np.array([40]), 7), {}, np.arange(1))
    assert [(r.layout.kind, len(r.slices)) for r in stem.runs] == [("hash", 4), ("bits", 1)]
    probe = np.array([[40, 80, 7]])
    assert matches(stem, (0,), probe) == [5]


def test_a_long_stem_is_cut_into_runs_that_times_tell_apart() -> None:
    stem = Stem("s", 1, {}, LONG, length=10, slice_rows=1)
    for step in range(100):
        stem.build(stored_rows(np.array([10 * step]), 7), {}, np.arange(1))
    view = stem.view((0,))
    assert len(view.runs) > 8
    assert len(view.between(500, 540).runs) <= 2


@pytest.mark.parametrize("layout", ["tree", ""])
def test_unknown_layouts_are_refused_by_name(layout: str) -> None:
    with pytest.raises(DefinitionError, match="no index layout"):
        Layout.parse(layout)


def test_bits_must_match_the_attributes() -> None:
    with pytest.raises(DefinitionError, match="2 attributes"):
        Stem("s", 3, {}, layout=Layout("bits", (1, 2)))


@pytest.mark.parametrize("seed", range(10))
def test_blocks_of_an_arena_keep_their_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    arena = Arena({"x": np.empty((0, 2), np.int64), "y": np.empty(0, np.int32)})
    blocks = {}
    for step in range(200):
        if blocks and random.random() < 0.45:
            arena.free(blocks.pop(int(random.choice(list(blocks)))))
        else:
            block = arena.allocate(int(random.integers(1, 300)))
            arena.arrays["x"][block.span] = step
            arena.arrays["y"][block.span] = -step
            blocks[step] = block
        for number, block in blocks.items():
            assert (arena.arrays["x"][block.span] == number).all()
            assert (arena.arrays["y"][block.span] == -number).all()
    live = sum(b.size for b in blocks.values())
    assert arena.capacity <= max(8 * (live + 300), 8 * 256)
