"""Indexes: where to look for the tuples that agree with a probe on some join attributes.

A hash index serves one access pattern (the set of attributes a probe knows). A bit-address index (AMRI, section 4.1)
serves all: a few bits of each attribute form the bucket number, and a probe that lacks attributes walks every value of
their bits. An index covers a run: consecutive slices of one layout. As the window moves, `_slide` counts links from a
later row instead of rebuilding. Invariants: after `sync` every row of the run is in the index once; rows of dropped
slices may remain, expired, until the arena reuses their place. The number of buckets follows from the rows that
arrived, never from where they lie, so a probe costs the same after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thalweg.plan.layout import Layout, Pattern
from thalweg.state.arena import Arena, Stretch
from thalweg.state.kernels import index as kernels
from thalweg.state.kernels import layout as lay

if TYPE_CHECKING:
    from thalweg.state.slice import Run

Ints = NDArray[np.int64]


def index_for(layout: Layout, pattern: Pattern, attributes: int) -> Index:
    """A new index that serves an access pattern."""
    return HashIndex(layout.serving(pattern)) if layout.kind == "hash" else BitAddressIndex(layout, attributes)


def expected_rows(run: Run) -> int:
    """The number of rows an index of the run should have buckets for."""
    return max(64, run.held * 5 // 4, run.expected)


def buckets_for(rows: int) -> int:
    """The number of buckets of a hash index of `rows` rows."""
    return 1 << max(rows - 1, 0).bit_length()


@dataclass
class Index:
    """Base of both: a block of links that holds bucket heads, then the chain of each row from `base` on."""

    block: Stretch | None = None
    base: int = 0
    heads: int = 0
    room: int = 0
    top: int = 0
    """Rows from `base` to the last one entered."""
    rising: bool = True
    """Whether rows were entered from the first to the last, so that a chain never leads to a later row."""
    latest: int = kernels.FELL + 1
    size: int = 0
    """Rows for which it has buckets."""
    known: dict[int, int] = field(default_factory=dict)
    """Slice number to the number of its rows ever entered."""
    entered: dict[int, int] = field(default_factory=dict)
    """Slice number to the number of its rows in the index now."""
    places: dict[int, int] = field(default_factory=dict)
    """Slice number to its first row, counted from `base`."""
    seen: tuple[int, int, int] = (-1, -1, -1)
    """Version of the arena, moves and stamp of the run at the last `sync`."""

    def sync(self, run: Run, cells: Ints, version: int, links: Arena) -> int:
        """Enter new rows; returns the number of rows entered for the first time. `version` is that of the arena of the
        cells: rows move when it changes."""
        now = (version, run.moves, run.stamp)
        if self.seen == now:
            return 0
        entered = 0
        resized = self._resize(expected_rows(run))
        if self.block is None or resized or (self._outgrown(run, now) and not self._slide(run, links)):
            self._start(run, links)
        for part in run.slices:
            done = self.entered.get(part.number, 0)
            if done < part.rows:
                at = part.block.offset - self.base
                self.rising = self.rising and at + done >= self.top
                self.latest = self._extend(cells, links.arrays["links"], at + done, at + part.rows)
                self.entered[part.number] = part.rows
                self.places[part.number] = at
                self.top = max(self.top, at + part.rows)
        for part in run.slices:
            entered += part.rows - self.known.get(part.number, 0)
        self.known = {part.number: part.rows for part in run.slices}
        self.seen = now
        return entered

    def _resize(self, rows: int) -> bool:
        """Whether that many rows need a different number of buckets."""
        wanted, present = buckets_for(rows), buckets_for(self.size)
        if self.size and wanted <= present <= 4 * wanted:
            return False
        self.size = rows
        return True

    def _outgrown(self, run: Run, now: tuple[int, int, int]) -> bool:
        """Whether rows moved, there is no room for the new ones, or many entered rows have been dropped."""
        if self.seen[:2] != now[:2] or run.end - self.base > self.room or run.base < self.base:
            return True
        return run.base - self.base > (run.end - run.base) // 2 or len(self.entered) > 2 * len(run.slices) + 8

    def _slide(self, run: Run, links: Arena) -> bool:
        """Forget the rows before the first slice and count from there. Returns False if that is not enough: the other
        rows moved, or a chain might lead from a forgotten row to a living one."""
        bases = {s.block.offset - self.places[s.number] for s in run.slices if s.number in self.places}
        if len(bases) != 1 or not self.rising or self.latest == kernels.FELL:
            return False
        held = {s.number for s in run.slices}
        first = min(place for number, place in self.places.items() if number in held)
        base = bases.pop() + first
        if run.base < base or run.end - base > self.room:
            return False
        if any(place > first for number, place in self.places.items() if number not in held):
            return False
        if first:
            kernels.slide(links.arrays["links"], self.head, self.heads, self.top - first, first)
        self.base, self.top = base, self.top - first
        self.places = {number: place - first for number, place in self.places.items() if number in held}
        self.entered = {number: rows for number, rows in self.entered.items() if number in held}
        return True

    def _start(self, run: Run, links: Arena) -> None:
        self.release(links)
        self.base = run.base
        self.room = max(64, (run.end - run.base) * 3 // 2, run.expected * 9 // 8)
        self.heads = self._buckets(self.size)
        self.block = links.allocate(self.heads + self.room)
        self.top, self.rising, self.latest = 0, True, kernels.FELL + 1
        self.entered, self.places = {}, {}
        links.arrays["links"][self.head : self.head + self.heads] = -1

    def release(self, links: Arena) -> None:
        if self.block is not None:
            links.free(self.block)
            self.block = None

    @property
    def head(self) -> int:
        assert self.block is not None
        return self.block.offset

    @property
    def hashed(self) -> int:
        """Attributes hashed to enter a row."""
        raise NotImplementedError

    def _buckets(self, rows: int) -> int:
        raise NotImplementedError

    def _extend(self, cells: Ints, links: NDArray[np.int32], first: int, last: int) -> int:
        raise NotImplementedError

    def describe(self, line: Ints, pattern: Pattern) -> None:
        """Write where a probe with this access pattern looks."""
        line[lay.START] = self.base
        line[lay.HEAD] = self.head
        line[lay.NEXT] = self.head + self.heads
        line[lay.FALLING] = self.latest != kernels.FELL


class HashIndex(Index):
    """A hash index on the attributes of one access pattern; also serves patterns that know more."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__()
        self.pattern = pattern
        self._pairs = np.array([(0, lay.KEYS + k) for k in pattern], np.int64).reshape(-1, 2)

    @property
    def hashed(self) -> int:
        return len(self.pattern)

    def _buckets(self, rows: int) -> int:
        return buckets_for(rows) if self.pattern else 1

    def _extend(self, cells: Ints, links: NDArray[np.int32], first: int, last: int) -> int:
        head = self.head
        return int(
            kernels.extend_hash(
                cells, links, self.base, first, last, head, head + self.heads, self.heads - 1, self._pairs, self.latest
            )
        )

    def describe(self, line: Ints, pattern: Pattern) -> None:
        super().describe(line, pattern)
        line[lay.MASK] = self.heads - 1
        line[lay.HASHED] = len(self.pattern)
        if self.pattern and pattern != self.pattern:
            line[lay.KIND] = lay.SOME
            for k, attribute in enumerate(pattern):
                line[lay.SHARES + 2 * k] = attribute in self.pattern


class BitAddressIndex(Index):
    """One index for all access patterns."""

    def __init__(self, layout: Layout, attributes: int) -> None:
        super().__init__()
        self.layout = layout
        self.attributes = attributes
        self.bits: tuple[int, ...] = ()

    @property
    def hashed(self) -> int:
        return sum(b > 0 for b in self.bits)

    def _buckets(self, rows: int) -> int:
        return 1 << sum(self.layout.fitted(self.attributes, rows))

    def _start(self, run: Run, links: Arena) -> None:
        self.bits = self.layout.fitted(self.attributes, self.size)
        super()._start(run, links)

    def _extend(self, cells: Ints, links: NDArray[np.int32], first: int, last: int) -> int:
        bits, head = np.array(self.bits, np.int64), self.head
        return int(
            kernels.extend_bits(cells, links, self.base, first, last, head, head + self.heads, bits, self.latest)
        )

    def describe(self, line: Ints, pattern: Pattern) -> None:
        super().describe(line, pattern)
        line[lay.KIND], line[lay.MASK] = lay.BITS, self.heads - 1
        wild = self.heads - 1
        for k, attribute in enumerate(pattern):
            place = sum(self.bits[attribute + 1 :])
            line[lay.SHARES + 2 * k] = self.bits[attribute]
            line[lay.SHARES + 2 * k + 1] = place
            line[lay.HASHED] += self.bits[attribute] > 0
            wild &= ~(((1 << self.bits[attribute]) - 1) << place)
        line[lay.WILD] = wild
