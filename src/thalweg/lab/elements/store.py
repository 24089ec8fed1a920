"""Stored records: a window, or a materialised partial result whose records live as long as all of their rows.

Every probe has an index of its own. Work is counted the same way for all plans: probes, records that probes touch, and
records written or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.lab.elements.join import Join, Record, columns

Index = dict[Any, dict[Record, None]]
REFERENCE = 8
"""Bytes of a reference to a row."""


@dataclass
class Work:
    """What a plan did."""

    probes: int = 0
    """Look-ups in indexes and caches."""
    touched: int = 0
    """Records that they gave, or looked through."""
    updates: int = 0
    """Records written to windows, partial results and caches, or removed from them."""

    @property
    def total(self) -> int:
        return self.probes + self.touched + self.updates


class Store:
    """Records over some streams."""

    def __init__(self, join: Join, streams: Iterable[int], work: Work) -> None:
        self.join, self.streams, self.work = join, frozenset(streams), work
        self.records: dict[Record, None] = {}
        self.most = 0
        """The largest number of records it held."""
        self._indexes: dict[tuple[int, ...], tuple[Any, Index]] = {}
        self._numbers = [join.count + i for i in self.streams]
        self._holding: dict[int, dict[Record, None]] | None = {} if len(self.streams) > 1 else None

    @property
    def bytes(self) -> int:
        """The most that its references took."""
        return self.most * len(self.streams) * REFERENCE

    def index(self, classes: Sequence[int]) -> Index:
        """The index that finds records by their values of some classes; a record with a NULL there is in none."""
        key = tuple(classes)
        if key not in self._indexes:
            read: Any = columns(key)
            index: Index = {}
            self._indexes[key] = read, index
            for record in self.records:
                if all(record[c] is not None for c in key):
                    index.setdefault(read(record), {})[record] = None
        return self._indexes[key][1]

    def insert(self, record: Record) -> None:
        self.work.updates += 1
        self.records[record] = None
        self.most = max(self.most, len(self.records))
        for classes, (key, index) in self._indexes.items():
            if all(record[c] is not None for c in classes):
                index.setdefault(key(record), {})[record] = None
        if self._holding is not None:
            for place in self._numbers:
                self._holding.setdefault(record[place], {})[record] = None

    def delete(self, record: Record) -> None:
        self.work.updates += 1
        del self.records[record]
        for classes, (key, index) in self._indexes.items():
            if all(record[c] is not None for c in classes):
                found = index[key(record)]
                del found[record]
                if not found:
                    del index[key(record)]
        if self._holding is not None:
            for place in self._numbers:
                held = self._holding[record[place]]
                del held[record]
                if not held:
                    del self._holding[record[place]]

    def forget(self, number: int) -> None:
        """A row left its window: what holds it goes."""
        assert self._holding is not None
        for record in list(self._holding.get(number, ())):
            self.delete(record)


class Probe:
    """Joins records over some streams with a store."""

    def __init__(self, join: Join, bound: Iterable[int], store: Store) -> None:
        shared = sorted(join.shared(bound, store.streams))
        self.store, self.work = store, store.work
        self.key = self.theirs = columns(shared)
        plain = min(store.streams) if len(store.streams) == 1 else None
        self.scans = not shared or (len(shared) == 1 and (plain, shared[0]) in join.scanned)
        self.index: Index = {} if self.scans else store.index(shared)
        self.merge = merging(join, store.streams)

    def __call__(self, record: Record) -> list[Record]:
        self.work.probes += 1
        found: Iterable[Record]
        if self.scans:
            key = self.key(record)
            self.work.touched += len(self.store.records)
            found = [o for o in self.store.records if self.theirs(o) == key] if key is not None else ()
        else:
            held = self.index.get(self.key(record), ())
            self.work.touched += len(held)
            found = held
        merge = self.merge
        return [merge(record + other) for other in found]


def merging(join: Join, streams: Iterable[int]) -> Any:
    """Makes one record of two that stand one after the other: what the second one's streams bring comes from it."""
    own = join.known(streams) | {join.count + i for i in streams}
    return columns([join.width + p if p in own else p for p in range(join.width)])
