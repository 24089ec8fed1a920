"""A slice: a stem's tuples of one span of time, the unit of state, expiry, indexing and checkpointing.

Its rows are a block of the stem's arena, in order of arrival. It owns the times from `since` to where the next slice begins,
keeps its own index layout, and goes as a whole once nothing in it can be needed: `last_expiry` bounds all its expiries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.execute.arena import Arena, Block
from thalweg.execute.index import BitAddressIndex, HashIndex, Layout, Pattern, SliceIndex

FOREVER = (1 << 63) - 1
"""The expiry of what never leaves its window, or of which it is not known yet when it will."""
ALWAYS = -(1 << 63)
"""The time of what has none: rows of tables."""


@dataclass
class Slice:
    number: int
    block: Block
    layout: Layout
    since: int = ALWAYS
    until: int = FOREVER
    rows: int = 0
    first_time: int = FOREVER
    last_expiry: int = ALWAYS
    """Bound of the expiries that are known."""
    unknown: int = 0
    """Rows whose expiry is not known yet."""
    indexes: dict[Pattern | None, SliceIndex] = field(default_factory=dict)
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

    def index(self, pattern: Pattern, attributes: int) -> SliceIndex:
        """The index that serves an access pattern; made when first asked for."""
        key = pattern if self.layout.kind == "hash" else None
        index = self.indexes.get(key)
        if index is None:
            hashed = self.layout.kind == "hash"
            index = HashIndex(pattern) if hashed else BitAddressIndex(self.layout, attributes)
            self.indexes[key] = index
        return index

    def relayout(self, layout: Layout, links: Arena) -> None:
        """Another layout; indexes are made anew when next probed."""
        self.release(links)
        self.layout = layout

    def release(self, links: Arena) -> None:
        for index in self.indexes.values():
            index.release(links)
        self.indexes.clear()

    def append_chunk(self, name: str, array: pa.Array) -> None:
        """Add a piece; neighbours of like size are merged, so n rows lie in about log n pieces."""
        pieces = self.chunks.setdefault(name, [])
        pieces.append(array)
        while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
            pieces[-2:] = [pa.concat_arrays(pieces[-2:])]
