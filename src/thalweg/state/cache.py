"""A cache's store: keys to the combinations of a segment's rows, in pages. Never state.

Invariant (thesis, definition 5.4.1): an entry holds every combination of stored rows of the segment with its key that is
not out of its windows, whatever keys are present; an entry without records says that there is none. So it can lose any
entry at any time, and never holds a part of one. Combinations are ids of stored rows, not copies (5.4.1). Memory comes
in pages from a budget that several caches share (5.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thalweg.state.kernels import cache as kernels
from thalweg.state.kernels.cache import AT, BASE, COUNT, EXPIRIES, FIRST, KEY, SLICES, SPACE, WAYS
from thalweg.state.stem import Stem

Ints = NDArray[np.int64]
PAGE = 1 << 14
"""Size: bytes of a page."""
BUCKETS = 1 << 8
"""Size: buckets of a new cache; it grows with its entries."""
WORD = np.dtype(np.int64).itemsize


@dataclass
class Pages:
    """Bytes that all caches of a query may take together; None: as many as they like.

    >>> pages = Pages(limit=100)
    >>> pages.take(80), pages.take(80), pages.used
    (True, False, 80)
    """

    limit: int | None = None
    size: int = PAGE
    used: int = 0

    def take(self, size: int) -> bool:
        if self.limit is not None and self.used + size > self.limit:
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        self.used -= size

    @property
    def over(self) -> int:
        """Bytes to give back since the limit was lowered."""
        return 0 if self.limit is None else max(self.used - self.limit, 0)


@dataclass
class SegmentInput:
    """One input of the segment: its stem, its place among the stem's members, its columns in records and results."""

    stem: Stem
    member: int
    column: int
    number: int


@dataclass
class Whereabouts:
    """Where the rows of the segment are, for kernels: valid until a stem changes."""

    members: Ints
    starts: Ints
    slices: Ints
    held: list[Ints] = field(default_factory=list)
    """Arrays behind addresses."""


class CacheStore:
    """Entries of one segment. `width` is the length of a record, `keys` that of a key."""

    def __init__(
        self, keys: int, width: int, members: Sequence[SegmentInput], pages: Pages | None = None, buckets: int = BUCKETS
    ) -> None:
        self.keys, self.width, self.members = keys, width, list(members)
        self.pages = pages or Pages()
        self.first = buckets
        self.starved = False
        """Whether it wanted a page and got none."""
        self.tall = 0
        """Entries that did not fit in a page."""
        self._stamp: tuple[int, ...] | None = None
        self._where: Whereabouts | None = None
        self._order: list[int] = []
        """Pages in use, the oldest first."""
        self._spare: list[int] = []
        self.table = self._empty(buckets)
        self.heap = np.empty((0, width), np.int64)
        self.state = np.zeros(kernels.HEAP, np.int64)
        self.created = self.live = 0

    def _empty(self, buckets: int) -> Ints:
        table = np.zeros((buckets, KEY + self.keys), np.int64)
        table[:, COUNT] = -1
        return table

    @property
    def rows(self) -> int:
        """Records in a page."""
        return max(self.pages.size // (WORD * self.width), 1)

    @property
    def page_bytes(self) -> int:
        return self.rows * WORD * self.width

    @property
    def nbytes(self) -> int:
        """Bytes in use: pages, and the table."""
        return len(self._order) * self.page_bytes + int(self.table.nbytes)

    @property
    def entries(self) -> int:
        return int((self.table[:, COUNT] >= 0).sum())

    # Where rows are

    def where(self) -> Whereabouts:
        """The slices of the segment's stems as they lie now."""
        stamp = tuple(v for m in self.members for v in (m.stem.version, m.stem.store.version, m.stem.numbers))
        if self._where is not None and stamp == self._stamp:
            return self._where
        lines = np.zeros((len(self.members), kernels.MEMBER), np.int64)
        starts, slices, held, base = list[Ints](), list[tuple[int, int, int]](), list[Ints](), 0
        for k, m in enumerate(self.members):
            numbers = [s.number for s in m.stem.slices]
            first, count = (min(numbers), max(numbers) - min(numbers) + 1) if numbers else (0, 0)
            listed = np.full(count, kernels.GONE, np.int64)
            for s in m.stem.slices:
                listed[s.number - first] = s.start
                slices.append((k, s.start, s.number))
            expiries = m.stem.store.expiries(m.member)
            held.append(expiries)
            lines[k, kernels.ID], lines[k, kernels.NUMBER] = m.column, m.number
            lines[k, FIRST], lines[k, BASE], lines[k, SLICES] = first, base, count
            lines[k, EXPIRIES] = expiries.ctypes.data if m.stem.windows[m.member].counted else 0
            starts.append(listed)
            base += count
        table = np.array(sorted(slices), np.int64).reshape(-1, 3)
        self._where = Whereabouts(lines, np.concatenate(starts), table, held)
        self._stamp = stamp
        return self._where

    # Entries

    def create(self, keys: Ints, bounds: Ints, records: Ints) -> None:
        """Add entries: those of key g are records `bounds[g]` to `bounds[g + 1]`. One that finds no space is left out."""
        if WAYS * (self.live + len(keys)) > len(self.table):
            self._grow(len(keys))
        at = 0
        while True:
            at = kernels.create(keys, self.table, bounds, records, self.heap, self.state, at)
            if at == len(keys):
                break
            if not self._make_space(int(bounds[at + 1] - bounds[at])):
                at += 1
        self.created += len(keys)
        self.live += len(keys)

    def insert(self, keys: Ints, records: Ints, floor: int) -> int:
        """Add records to the entries of their keys; returns how many there were. An entry that finds no space goes."""
        at, tally, where = 0, np.zeros(1, np.int64), self.where()
        while True:
            at = kernels.insert(
                keys, records, self.table, self.heap, self.state, where.members, where.starts, floor, at, tally
            )
            if at == len(keys):
                return int(tally[0])
            slot = self._slot(keys, at)
            line = self.table[slot]
            if not self._make_space(max(2 * int(line[SPACE]), kernels.LEAST)):
                line[COUNT] = -1
                line[SPACE] = 0

    def _slot(self, keys: Ints, row: int) -> int:
        """The bucket of a key that is known to be present."""
        same = (self.table[:, KEY:] == keys[row]).all(axis=1) & (self.table[:, COUNT] >= 0)
        return int(np.flatnonzero(same)[0])

    def _grow(self, more: int) -> None:
        """Double the table where entries outnumber the sets of buckets (so far hardly any key is driven out), as far as the
        budget allows it."""
        self.live = self.entries
        buckets = len(self.table)
        while WAYS * (self.live + more) > buckets:
            buckets *= 2
        line = WORD * (KEY + self.keys)
        while buckets > len(self.table) and not self.pages.take((buckets - len(self.table)) * line):
            buckets //= 2
        if buckets > len(self.table):
            old, self.table = self.table, self._empty(buckets)
            kernels.rehash(old, self.table)

    def _make_space(self, records: int) -> bool:
        """Begin a page that takes this many records: a new one, else the oldest of its own."""
        if records > self.rows:
            self.tall += 1
            return False
        if self.pages.take(self.page_bytes):
            page = self._spare.pop() if self._spare else self._add_page()
        else:
            self.starved = True
            if not self._order:
                return False
            page = self._order.pop(0)
            self._forget(page)
        self._order.append(page)
        self.state[:] = page * self.rows, (page + 1) * self.rows
        return True

    def _add_page(self) -> int:
        page = len(self._order)
        if (page + 1) * self.rows > len(self.heap):
            heap = np.empty((2 * (page + 1) * self.rows, self.width), np.int64)
            heap[: len(self.heap)] = self.heap
            self.heap = heap
        return page

    def _forget(self, page: int) -> None:
        """Drop the entries whose records are in a page."""
        at = self.table[:, AT]
        inside = (at >= page * self.rows) & (at < (page + 1) * self.rows) & (self.table[:, SPACE] > 0)
        self.table[inside, COUNT] = -1
        self.table[inside, SPACE] = 0

    def release(self) -> int:
        """Give the oldest page back; returns its bytes, 0 if there is none."""
        if not self._order:
            return 0
        page = self._order.pop(0)
        self._forget(page)
        self._spare.append(page)
        if not self._order:
            self.state[:] = 0
        self.pages.give(self.page_bytes)
        return self.page_bytes

    def clear(self) -> None:
        """Drop every entry and give all memory back but the smallest table."""
        line = WORD * (KEY + self.keys)
        self.pages.give(len(self._order) * self.page_bytes + (len(self.table) - self.first) * line)
        self._order, self._spare = [], []
        self.heap = np.empty((0, self.width), np.int64)
        self.state[:] = 0
        if len(self.table) == self.first:
            self.table[:, COUNT] = -1
        else:
            self.table = self._empty(self.first)
        self.live = 0
        self.starved = False
