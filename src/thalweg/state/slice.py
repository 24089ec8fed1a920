"""A slice: a stem's tuples of one span of time, the unit of state, expiry and checkpointing. A run: slices indexed
together.

A slice's rows are a block of the stem's arena, in order of arrival. It owns the times from `since` to where the next
slice begins, and goes as a whole once nothing in it can be needed. Each slice has an index layout; neighbours of one
layout share their indexes, so that a probe looks into one directory instead of one for each slice (AMRI, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.plan.layout import Layout, Pattern
from thalweg.state.arena import Arena, Block
from thalweg.state.index import Index, index_for

FOREVER = (1 << 63) - 1
"""The expiry of what never leaves its window, or of which it is not known yet when it will."""
ALWAYS = -(1 << 63)
"""The time of what has none (rows of tables), and the expiry of what was dropped."""


@dataclass(eq=False)
class Slice:
    number: int
    block: Block
    since: int = ALWAYS
    until: int = FOREVER
    rows: int = 0
    first_time: int = FOREVER
    last_expiry: int = ALWAYS
    """Bound of the expiries that are known."""
    unknown: int = 0
    """Rows whose expiry is not known yet."""
    chunks: dict[str, list[pa.Array]] = field(default_factory=dict)
    """Columns that stay in Arrow, in pieces as they came, merged so that there are few."""
    stamp: int = 0
    """Counts the changes, so that what was written of it is written again only if it changed."""
    dumped: tuple[int, bytes] | None = None

    @property
    def start(self) -> int:
        return self.block.offset

    @property
    def capacity(self) -> int:
        return self.block.size

    @property
    def expiry(self) -> int:
        """The last moment at which any of its rows may be needed."""
        return FOREVER if self.unknown else self.last_expiry

    def append_chunk(self, name: str, array: pa.Array) -> None:
        """Add a piece; neighbours of like size are merged, so n rows lie in about log n pieces."""
        pieces = self.chunks.setdefault(name, [])
        pieces.append(array)
        while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
            pieces[-2:] = [pa.concat_arrays(pieces[-2:])]


@dataclass(eq=False)
class Run:
    """Consecutive slices of one layout and their indexes. What it says of its slices is right after `refresh`."""

    layout: Layout
    expected: int = 0
    """Rows that the run before it grew to: room for so many is made at once."""
    slices: list[Slice] = field(default_factory=list)
    stamp: int = 0
    """Counts the changes of its slices."""
    moves: int = 0
    """Counts how often one of its slices took another block."""
    rows: int = 0
    """All that its slices ever held."""
    indexes: dict[Pattern | None, Index] = field(default_factory=dict)
    base: int = 0
    end: int = 0
    first_time: int = 0
    expiry: int = 0
    _fresh: tuple[int, int] = (-1, -1)

    def refresh(self, version: int) -> None:
        """Look at the slices again if they changed, or moved in their arena."""
        if self._fresh == (version, self.stamp):
            return
        self._fresh = (version, self.stamp)
        self.base = min([s.block.offset for s in self.slices])
        self.end = max([s.block.offset + s.rows for s in self.slices])
        self.first_time = min([s.first_time for s in self.slices])
        self.expiry = max([s.expiry for s in self.slices])

    @property
    def capacity(self) -> int:
        return sum(s.capacity for s in self.slices)

    def index(self, pattern: Pattern, attributes: int) -> Index:
        """The index that serves an access pattern; made when first asked for."""
        key = self.layout.serving(pattern) if self.layout.kind == "hash" else None
        index = self.indexes.get(key)
        if index is None:
            index = self.indexes[key] = index_for(self.layout, pattern, attributes)
        return index

    def missing(self, pattern: Pattern) -> int:
        """Rows that are not in the hash index of just this access pattern; 0 where the layout serves it with another one."""
        if self.layout.kind != "hash" or self.layout.serving(pattern) != pattern:
            return 0
        index = self.indexes.get(pattern)
        return sum([s.rows - (index.entered.get(s.number, 0) if index is not None else 0) for s in self.slices])

    def release(self, links: Arena) -> None:
        for index in self.indexes.values():
            index.release(links)
        self.indexes.clear()
