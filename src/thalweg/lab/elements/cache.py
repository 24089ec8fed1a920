"""A cache of partial results for one element at a time: exact, or globally consistent (thesis 5.4, 5.7).

An exact cache holds, for a key, every combination of its streams X. A globally-consistent one, X ⋉ Y, may leave out those
without a partner in Y, so it hears of changes where the pipelines of X and Y have joined both. What keeps it right:
only rows that enter add to it; a row of X that leaves takes its combinations with it; if the rows that ask are part of Y,
one of those that leaves takes the entries of its key, unless another row has that key. So an entry only lives while the rows
that ask support it, and whatever is new for its key is heard of from the other streams of X and Y: that nothing was found may
be remembered, too, and rows that ask have nothing to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from thalweg.lab.elements.join import Join, Record, columns
from thalweg.lab.elements.store import REFERENCE, Probe, Store, Work, merging
from thalweg.optimize.caches.candidates import Candidate, Orders

ENTRY = 16
"""Bytes of an entry besides its references: a key and a count."""


class Budget:
    """Bytes that all caches of a plan may take together; None: as many as they like."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self.used, self.most = limit, 0, 0

    def take(self, size: int) -> None:
        self.used += size
        self.most = max(self.most, self.used)

    @property
    def over(self) -> bool:
        return self.limit is not None and self.used > self.limit


class Cache:
    """One store of entries, for the pipelines that look it up."""

    def __init__(self, join: Join, candidate: Candidate, before: frozenset[int], work: Work, budget: Budget) -> None:
        cached = candidate.placed.cached
        self.join, self.work, self.budget = join, work, budget
        self.inputs, self.within, self.keys = cached.inputs, cached.within, cached.keys
        self.whole = candidate.whole
        self.asking = cached.within & before
        """Streams of Y whose rows ask."""
        self._apart = len(before) == 1 or join.count == 1
        """Whether a row of such a stream supports its key without the help of others."""
        self.entries: dict[Any, dict[Record, None]] = {}
        self.probes = self.misses = 0
        self._holding: dict[int, dict[tuple[Any, Record], None]] = {}
        self._numbers = [join.count + i for i in self.inputs]
        own = join.known(self.inputs) | set(self._numbers)
        self.key = columns(self.keys)
        self.project = columns([p if p in own else join.width for p in range(join.width)])
        self.merge = merging(join, self.inputs)
        self._size = REFERENCE * len(self.inputs)

    def ask(self, record: Record, segment: Sequence[Probe]) -> list[Record]:
        """A record joined with the segment."""
        u = self.key(record)
        self.probes += 1
        self.work.probes += 1
        held = self.entries.get(u)
        if held is not None:
            self.work.touched += len(held)
            merge = self.merge
            return [merge(record + x) for x in held]
        self.misses += 1
        found = [record]
        for probe in segment:
            found = [f for r in found for f in probe(r)]
        self._create(u, [self.project((*f, None)) for f in found])
        return found

    def _create(self, u: Any, combinations: Iterable[Record]) -> None:
        self.entries[u] = {}
        self.budget.take(ENTRY)
        for x in combinations:
            self._add(u, x)
        self.work.updates += max(len(self.entries[u]), 1)
        self._fit()

    def _fit(self) -> None:
        """Drop the oldest entries until the budget holds."""
        while self.budget.over and self.entries:
            self.drop(next(iter(self.entries)))

    def _add(self, u: Any, x: Record) -> None:
        if x not in self.entries[u]:
            self.entries[u][x] = None
            self.budget.take(self._size)
            for place in self._numbers:
                self._holding.setdefault(x[place], {})[u, x] = None

    def _remove(self, u: Any, x: Record) -> None:
        del self.entries[u][x]
        self.budget.take(-self._size)
        for place in self._numbers:
            held = self._holding[x[place]]
            del held[u, x]
            if not held:
                del self._holding[x[place]]

    def drop(self, u: Any) -> None:
        """Forget an entry: allowed at any moment."""
        for x in list(self.entries[u]):
            self._remove(u, x)
        del self.entries[u]
        self.budget.take(-ENTRY)

    def clear(self) -> None:
        """Forget everything."""
        for u in list(self.entries):
            self.drop(u)

    def changed(self, records: Iterable[Record], *, enters: bool) -> None:
        """Combinations of X and Y that a row made when it entered, or when it left."""
        for record in records:
            if not enters and self.within:
                continue
            self.work.updates += 1
            if any(record[c] is None for c in self.keys):
                continue
            u, x = self.key(record), self.project((*record, None))
            if u in self.entries:
                if enters:
                    self._add(u, x)
                    self._fit()
                elif x in self.entries[u]:
                    self._remove(u, x)

    def left(self, stream: int, record: Record, window: Store, *, by_reference: bool) -> None:
        """A row left its window."""
        if stream in self.inputs and (self.within or by_reference):
            for u, x in list(self._holding.get(record[self.join.count + stream], ())):
                self.work.updates += 1
                self._remove(u, x)
        elif stream in self.asking:
            self._unsupported(stream, record, window)

    def _unsupported(self, stream: int, record: Record, window: Store) -> None:
        known = [c for c in self.keys if c in self.join.classes[stream]]
        if len(known) == len(self.keys):
            self.work.probes += 1
            u = self.key(record)
            if u in self.entries and not (self._apart and u in window.index(self.keys)):
                self.work.updates += 1
                self.drop(u)
            return
        part = columns([self.keys.index(c) for c in known])
        for u in list(self.entries):
            if part(u) == columns(known)(record):
                self.work.updates += 1
                self.drop(u)


def compatible(chosen: Sequence[Candidate], orders: Orders) -> bool:
    """Whether caches can be used together: no two share a join, no change passes hidden through another cache's
    segment, and what lies before a change is made of the same streams."""
    for a in chosen:
        for b in chosen:
            if a is b:
                continue
            if a.overlaps(b):
                return False
            at = len(a.whole) - 1
            if b.placed.input in a.whole and (b.first < at <= b.last or (b.last < at and not b.whole <= a.whole)):
                return False
    return True
