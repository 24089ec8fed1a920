"""Indexes of one slice: where to look for the tuples that agree with a probe on some join attributes.

Two kinds behind one interface, `sync` and `describe`. A hash index serves one access pattern (the set of attributes a probe
knows). A bit-address index (AMRI, section 4.1) serves all: a few bits of each attribute make up the bucket's number, and a
probe that lacks attributes walks every value of their bits. Invariant: every row of the slice is in the index after `sync`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.execute import kernels
from thalweg.execute.arena import Arena, Block

if TYPE_CHECKING:
    from thalweg.execute.slice import Slice

Pattern = tuple[int, ...]
"""An access pattern: the join attributes of a stem that a probe knows, by their place in the stem's list."""


@dataclass(frozen=True)
class Layout:
    """How a slice is indexed. `bits` of a bit-address layout go to the stem's join attributes in their order; none given
    means equal shares. A directory is never larger than its slice: small slices get fewer bits.

    >>> Layout("bits", (5, 2, 3)).fitted(3, 16)
    (2, 1, 1)
    >>> Layout("bits").fitted(3, 1024)
    (4, 3, 3)
    """

    kind: Literal["hash", "bits"] = "hash"
    bits: tuple[int, ...] = ()

    @classmethod
    def parse(cls, layout: Layout | str) -> Layout:
        if isinstance(layout, Layout):
            return layout
        if layout not in ("hash", "bits"):
            raise DefinitionError(f"no index layout '{layout}'", hint="known are 'hash', 'bits'")
        return cls("hash" if layout == "hash" else "bits")

    def fitted(self, attributes: int, rows: int) -> tuple[int, ...]:
        """Bits per attribute of a slice that holds up to so many rows."""
        most = max(rows - 1, 0).bit_length()
        if not self.bits:
            return tuple(most // attributes + (k < most % attributes) for k in range(attributes))
        bits = list(self.bits)
        while sum(bits) > most:
            bits[bits.index(max(bits))] -= 1
        return tuple(bits)


class SliceIndex(Protocol):
    def sync(self, part: Slice, cells: NDArray[np.int64], links: Arena) -> None:
        """Take in the rows of the slice that are not in yet."""
        ...

    def describe(self, line: NDArray[np.int64], pattern: Pattern) -> None:
        """Write where a probe with this access pattern looks (`kernels.HEAD` ...)."""
        ...

    def release(self, links: Arena) -> None: ...


@dataclass
class Directory:
    """A block of links: the heads of buckets, then the chain of each row."""

    block: Block | None = None
    heads: int = 0
    room: int = 0
    entered: int = 0

    def prepare(self, part: Slice, heads: int, links: Arena) -> None:
        """Start afresh if the slice has outgrown the directory."""
        if self.block is not None and self.room >= part.rows and self.heads == heads:
            return
        self.release(links)
        self.block = links.allocate(heads + part.capacity)
        self.heads, self.room, self.entered = heads, part.capacity, 0
        offset = self.block.offset
        links.arrays["links"][offset : offset + heads] = -1

    def release(self, links: Arena) -> None:
        if self.block is not None:
            links.free(self.block)
            self.block = None

    @property
    def head(self) -> int:
        assert self.block is not None
        return self.block.offset


class HashIndex(Directory):
    """A hash index on the attributes of one access pattern."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__()
        self.pattern = pattern
        self._pairs = np.array([(0, kernels.KEYS + k) for k in pattern], np.int64).reshape(-1, 2)

    def sync(self, part: Slice, cells: NDArray[np.int64], links: Arena) -> None:
        if self.block is not None and self.entered == part.rows:
            return
        self.prepare(part, 1 << max(part.capacity - 1, 0).bit_length() if self.pattern else 1, links)
        kernels.extend_hash(
            cells, links.arrays["links"], part.start, self.entered, part.rows, self.head, self.head + self.heads,
            self.heads - 1, self._pairs,
        )  # fmt: skip
        self.entered = part.rows

    def describe(self, line: NDArray[np.int64], pattern: Pattern) -> None:
        line[kernels.HEAD] = self.head
        line[kernels.NEXT] = self.head + self.heads
        line[kernels.MASK] = self.heads - 1
        line[kernels.WILD] = 0


class BitAddressIndex(Directory):
    """One index for all access patterns of a slice."""

    def __init__(self, layout: Layout, attributes: int) -> None:
        super().__init__()
        self.layout = layout
        self.attributes = attributes
        self.bits: tuple[int, ...] = ()

    def sync(self, part: Slice, cells: NDArray[np.int64], links: Arena) -> None:
        if self.block is not None and self.entered == part.rows:
            return
        self.bits = self.layout.fitted(self.attributes, part.capacity) if self.attributes else ()
        self.prepare(part, 1 << sum(self.bits), links)
        kernels.extend_bits(
            cells, links.arrays["links"], part.start, self.entered, part.rows, self.head, self.head + self.heads,
            np.array(self.bits, np.int64),
        )  # fmt: skip
        self.entered = part.rows

    def describe(self, line: NDArray[np.int64], pattern: Pattern) -> None:
        line[kernels.HEAD] = self.head
        line[kernels.NEXT] = self.head + self.heads
        line[kernels.MASK] = -1
        wild = self.heads - 1
        for k, attribute in enumerate(pattern):
            place = sum(self.bits[attribute + 1 :])
            line[kernels.BITS + 2 * k] = self.bits[attribute]
            line[kernels.BITS + 2 * k + 1] = place
            wild &= ~(((1 << self.bits[attribute]) - 1) << place)
        line[kernels.WILD] = wild
