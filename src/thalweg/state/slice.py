"""A slice: a stem's rows of one time span, the unit of state, expiry and checkpointing. A run: slices indexed together.

A slice's rows are a block of the stem's arena, in order of arrival. It owns the times from `since` to the start of the
next slice, and is dropped as a whole once no window needs it. Each slice has an index layout; neighbours with the same
layout share indexes, so a probe reads one directory instead of one per slice (AMRI, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.plan.layout import Layout, Pattern
from thalweg.state.arena import Arena, Stretch
from thalweg.state.index import Index, index_for
from thalweg.state.kernels.layout import ALWAYS as ALWAYS
from thalweg.state.kernels.layout import COUNTED
from thalweg.state.kernels.layout import FOREVER as FOREVER


@dataclass(frozen=True)
class Window:
    """How long one member of a stem sees a row: for a time span, forever, or until RowOrder says so."""

    span: int = FOREVER
    scattered: bool = False
    """Counted rows: whether they leave in a different order from their arrival (PARTITION BY)."""

    @property
    def counted(self) -> bool:
        return self.span == COUNTED


@dataclass(eq=False)
class Slice:
    number: int
    block: Stretch
    since: int = ALWAYS
    until: int = FOREVER
    rows: int = 0
    windows: tuple[Window, ...] = (Window(),)
    first_time: int = FOREVER
    last_time: int = ALWAYS
    known: list[int] = field(default_factory=list)
    """By window that counts rows: an upper bound of the known expiries."""
    unknown: list[int] = field(default_factory=list)
    """By window that counts rows: the number of expiries not known yet."""
    chunks: dict[str, list[pa.Array]] = field(default_factory=dict)
    """Arrow columns, in pieces as they arrived, merged to keep the pieces few."""
    stamp: int = 0
    """Counts changes, so a slice is written again only if it changed."""
    dumped: tuple[int, bytes] | None = None

    def __post_init__(self) -> None:
        self.known, self.unknown = [ALWAYS] * len(self.windows), [0] * len(self.windows)

    @property
    def start(self) -> int:
        return self.block.offset

    @property
    def capacity(self) -> int:
        return self.block.size

    def expiry_of(self, member: int) -> int:
        """The last moment at which a member may need any of its rows."""
        window = self.windows[member]
        if not self.rows:
            return ALWAYS
        if window.counted:
            return FOREVER if self.unknown[member] else self.known[member]
        return FOREVER if window.span == FOREVER else self.last_time + window.span

    @property
    def expiry(self) -> int:
        """The last moment at which any member may need any of its rows."""
        return max([self.expiry_of(k) for k in range(len(self.windows))])

    def append_chunk(self, name: str, array: pa.Array) -> None:
        """Add a piece; merges neighbours of similar size, so n rows lie in about log n pieces."""
        pieces = self.chunks.setdefault(name, [])
        pieces.append(array)
        while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
            pieces[-2:] = [pa.concat_arrays(pieces[-2:])]


@dataclass(eq=False)
class Run:
    """Consecutive slices of one layout and their indexes. Its summary of the slices is valid after `refresh`."""

    layout: Layout
    expected: int = 0
    """Rows that the previous run grew to: the first allocation has room for that number."""
    slices: list[Slice] = field(default_factory=list)
    stamp: int = 0
    """Counts the changes of its slices."""
    moves: int = 0
    """Counts how often one of its slices moved to another block."""
    rows: int = 0
    """Rows ever held by its slices."""
    indexes: dict[Pattern | None, Index] = field(default_factory=dict)
    base: int = 0
    end: int = 0
    first_time: int = 0
    expiries: list[int] = field(default_factory=list)
    """By member."""
    _fresh: tuple[int, int] = (-1, -1)

    def refresh(self, version: int) -> None:
        """Read the slices again if they changed or moved in their arena."""
        if self._fresh == (version, self.stamp):
            return
        self._fresh = (version, self.stamp)
        self.base = min([s.block.offset for s in self.slices])
        self.end = max([s.block.offset + s.rows for s in self.slices])
        self.first_time = min([s.first_time for s in self.slices])
        members = range(len(self.slices[0].windows))
        self.expiries = [max([s.expiry_of(k) for s in self.slices]) for k in members]

    @property
    def held(self) -> int:
        """Rows in its slices now."""
        return sum([s.rows for s in self.slices])

    def index(self, pattern: Pattern, attributes: int) -> Index:
        """The index that serves an access pattern; built on first use."""
        key = self.layout.serving(pattern) if self.layout.kind == "hash" else None
        index = self.indexes.get(key)
        if index is None:
            index = self.indexes[key] = index_for(self.layout, pattern, attributes)
        return index

    def missing(self, pattern: Pattern) -> int:
        """Rows missing from the hash index of this very pattern; 0 if the layout serves it with another index."""
        if self.layout.kind != "hash" or self.layout.serving(pattern) != pattern:
            return 0
        index = self.indexes.get(pattern)
        return sum([s.rows - (index.known.get(s.number, 0) if index is not None else 0) for s in self.slices])

    def release(self, links: Arena) -> None:
        for index in self.indexes.values():
            index.release(links)
        self.indexes.clear()
