"""An MJoin with caches: a pipeline for each stream, nothing stored but windows and what caches hold (thesis 5.2, 5.4).

An element goes through its pipeline to the end before the next one is read. A cache stands before the joins that it
replaces; changes of what it holds are taken from the pipelines of its streams, where they have joined just those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.lab.elements.cache import Budget, Cache
from thalweg.lab.elements.join import Element, Join, Record
from thalweg.lab.elements.store import Probe, Store, Work
from thalweg.optimize.caches.candidates import Candidate, Orders
from thalweg.plan.cached import Cached


class MJoin:
    """Orders of the other streams for each stream, and caches that fit them."""

    def __init__(
        self, join: Join, orders: Orders, caches: Sequence[Candidate] = (), *, deletions: bool = True,
        memory: int | None = None,
    ) -> None:  # fmt: skip
        self.join, self.orders, self.deletions = join, {i: tuple(o) for i, o in orders.items()}, deletions
        self.work = Work()
        self.budget = Budget(memory)
        self.windows = [Store(join, [i], self.work) for i in range(len(join.names))]
        self.spent = [0] * len(join.names)
        """Work by stream."""
        self.caches: dict[tuple[Cached, int], Cache] = {}
        """By what they hold; globally-consistent ones also by who asks."""
        self._probes = [[Probe(join, {i, *order[:k]}, self.windows[order[k]]) for k in range(len(order))]
                        for i, order in sorted(self.orders.items())]  # fmt: skip
        self.place(caches)

    def place(self, caches: Sequence[Candidate]) -> None:
        """Use these from now on: those that were in use keep their entries, the others begin empty."""
        count, before = len(self.join.names), self.caches
        self.placed, self.caches = tuple(caches), {}
        self.asked: list[dict[int, tuple[Cache, int]]] = [{} for _ in range(count)]
        """By stream and place: the cache looked up there, and the last place that it replaces."""
        self._told: list[dict[int, list[Cache]]] = [{} for _ in range(count)]
        for c in caches:
            self._place(c, before)
        for key in before.keys() - self.caches.keys():
            before[key].clear()

    def _place(self, c: Candidate, kept: Mapping[tuple[Cached, int], Cache]) -> None:
        i, cached = c.placed.input, c.placed.cached
        key = cached, i if cached.within else -1
        if key not in self.caches:
            before = frozenset([i, *self.orders[i][: c.first]])
            cache = self.caches[key] = kept.get(key) or Cache(self.join, c, before, self.work, self.budget)
            for stream in cache.whole - cache.asking:
                self._told[stream].setdefault(len(cache.whole) - 1, []).append(cache)
            for stream in cache.asking:
                self.windows[stream].index(cache.keys)
        self.asked[i][c.first] = self.caches[key], c.last

    def take(self, element: Element) -> list[Record]:
        """Results that begin with an element, or end with it."""
        stream, record, enters = element
        before = self.work.total
        found = self._joined(stream, record, enters=enters) if enters or self.deletions else []
        window = self.windows[stream]
        if enters:
            window.insert(record)
        else:
            window.delete(record)
            for cache in self.caches.values():
                cache.left(stream, record, window, by_reference=not self.deletions)
        self.spent[stream] += self.work.total - before
        return found

    def _joined(self, stream: int, record: Record, *, enters: bool) -> list[Record]:
        told, last = self._told[stream], len(self.orders[stream])
        at: list[list[Record]] = [[] for _ in range(last + 1)]
        at[0].append(record)
        for k, records in enumerate(at):
            if not records:
                continue
            for cache in told.get(k, ()):
                cache.changed(records, enters=enters)
            if k < last:
                to, found = self._step(stream, k, records)
                at[to] += found
        return at[-1]

    def _step(self, stream: int, k: int, records: list[Record]) -> tuple[int, list[Record]]:
        """Records at a place, joined with what stands there: the place after it, and what they became."""
        probes, asked = self._probes[stream], self.asked[stream]
        if k in asked:
            cache, last = asked[k]
            segment = probes[k : last + 1]
            return last + 1, [found for r in records for found in cache.ask(r, segment)]
        return k + 1, [found for r in records for found in probes[k](r)]
