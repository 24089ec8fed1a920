"""What an index costs on this machine: the kernels that run queries, timed on a stem of made-up tuples.

Probes of several layouts differ in how many buckets they walk and how many candidates they meet; a least-squares fit
of their times gives the prices of a request, a bucket and a candidate. Entering rows by one attribute and by two gives
those of a hash and an entry, evicting them that of a deletion. Processor time of this thread, the least of a few
passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thalweg.engine import overheads
from thalweg.engine import recollect as caching
from thalweg.engine.overheads import Clock
from thalweg.execute.kernels import join as kernels
from thalweg.execute.meter import own_nanoseconds
from thalweg.plan.layout import Layout
from thalweg.profile.prices import Prices
from thalweg.state.kernels import index
from thalweg.state.kernels.layout import EXPIRY, KEYS, MEMBERS
from thalweg.state.slice import FOREVER, Window
from thalweg.state.stem import Stem

Ints = NDArray[np.int64]
Call = Callable[[Clock], int]
"""Does something and returns what it took."""
ROWS = 1 << 13
"""Size: rows of the stem, a window that fits the caches near the core, as those of a cell should."""
UNITS = 1 << 13
"""Size: buckets and candidates of one timed call, about."""
PASSES = 8
"""Size: times that everything is timed; the least counts."""
LAYOUTS = ((13, 0), (11, 0), (9, 0), (7, 0), (9, 4), (8, 5), (7, 4), (7, 6), (6, 7), (5, 8))
"""Sizes: bits of an attribute that the probes know and of one that they do not: 1 to 256 buckets, up to 256 candidates."""


def measure(clock: Clock = own_nanoseconds) -> Prices:
    random = np.random.default_rng(0)
    cells = np.zeros((ROWS, KEYS + 2), np.int64)
    cells[:, MEMBERS] = 1
    cells[:, KEYS:] = random.integers(0, 1 << 62, (ROWS, 2))
    probes = [_Probing(cells, bits, random) for bits in LAYOUTS]
    calls: list[Call] = [
        *(p.call for p in probes), partial(_enter, cells, (12, 0)), partial(_enter, cells, (6, 6)), partial(_evict, cells)
    ]  # fmt: skip
    # All in turn, again and again: what disturbs the machine for a moment disturbs one pass of each, not one of them.
    passes = [[call(clock) for call in calls] for _ in range(PASSES)]
    *times, one, two, delete = np.min(passes, axis=0)
    counts = np.array([p.counted for p in probes], float)
    # By relative error: long calls must not drown the short ones.
    fitted = np.linalg.lstsq(counts / np.array(times)[:, None], np.ones(len(times)), rcond=None)[0]
    request, bucket, candidate = fitted.tolist()
    found = {
        "hash": (two - one) / ROWS, "candidate": candidate, "bucket": bucket, "insert": (2 * one - two) / ROWS,
        "delete": delete / ROWS, "request": request - (two - one) / ROWS,
    }  # fmt: skip
    found |= caching.measure(clock, PASSES, ROWS)
    seconds = {name: price * 1e-9 for name, price in found.items()} | overheads.measure(clock, PASSES, ROWS)
    # No price is nothing: at least what the clock would have shown.
    return Prices(**{name: max(float(price), 1e-9 / ROWS) for name, price in seconds.items()})


class _Probing:
    """Probes by the first attribute. No key of theirs is stored: every candidate is compared, and none is a result."""

    def __init__(self, cells: Ints, bits: tuple[int, int], random: np.random.Generator) -> None:
        self.view = _stem(cells, bits).view((0,))
        each = 2 ** bits[1] + len(cells) / 2 ** bits[0]
        self.partial = np.zeros((max(int(UNITS / each), 16), KEYS + 4), np.int64)
        self.partial[:, EXPIRY] = FOREVER
        self.partial[:, KEYS] = -1 - random.integers(0, 1 << 62, len(self.partial))
        width, runs = self.partial.shape[1], len(self.view.runs)
        steps = np.array([[*self.view.where, 0, runs, 0, 1, 0, 0, width - 1, -1, 0]])
        pairs, adds = np.array([[KEYS, KEYS]]), np.empty((0, 2), np.int64)
        self.tables = kernels.Tables(steps, self.view.runs, pairs, adds, kernels.NONE_HELD)
        self.out, self.blocks = np.empty((1, width), np.int64), np.empty((1, kernels.AHEAD, width), np.int64)
        self.candidates = np.empty((1, kernels.AHEAD, runs), np.int64)
        self.living = np.empty((1, kernels.AHEAD), np.int64)
        self.counted = (0, 0, 0)
        """Requests, buckets and candidates of one call."""

    def call(self, clock: Clock) -> int:
        cursor, stack = np.zeros(kernels.CURSOR, np.int64), np.zeros((1, kernels.STACK), np.int64)
        tallies = np.zeros((1, kernels.TALLY), np.int64)
        began = clock()
        room = kernels.Room(self.blocks, self.candidates, self.living, stack)
        kernels.join(self.partial, self.tables, room, self.out, cursor, tallies, 0, 0.0)
        spent = clock() - began
        requests, work, buckets = (int(tallies[0, k]) for k in (kernels.ROWS_IN, kernels.WORK, kernels.BUCKETS))
        self.counted = (requests, buckets, work - buckets)
        return max(spent, 1)


def _stem(cells: Ints, bits: tuple[int, int]) -> Stem:
    stem = Stem("calibration", 2, {}, [Window(1)], length=1, layout=Layout("bits", bits))
    stem.build(cells, {}, np.arange(len(cells)))
    return stem


def _enter(cells: Ints, bits: tuple[int, int], clock: Clock) -> int:
    """Time to enter all rows."""
    heads, divided = 1 << sum(bits), np.array(bits, np.int64)
    links = np.full(heads + len(cells), -1, np.int32)
    began = clock()
    index.extend_bits(cells, links, 0, 0, len(cells), 0, heads, divided, index.FELL + 1)
    return clock() - began


def _evict(cells: Ints, clock: Clock) -> int:
    """Time in which all rows go, with their slice."""
    stem = _stem(cells, (12, 0))
    began = clock()
    gone = stem.evict(2)
    spent = clock() - began
    assert gone == len(cells)
    return spent
