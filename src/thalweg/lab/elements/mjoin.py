"""An MJoin with caches: a pipeline for each stream, nothing stored but windows and what caches hold (thesis 5.2, 5.4).

An element goes through its pipeline to the end before the next one is read. A cache stands before the joins that it
replaces; changes of what it holds are taken from the pipelines of its streams, where they have joined just those.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        count = len(join.names)
        self._probes = [[Probe(join, {i, *order[:k]}, self.windows[order[k]]) for k in range(count - 1)]
                        for i, order in sorted(self.orders.items())]  # fmt: skip
        self._asked: list[dict[int, tuple[Cache, int]]] = [{} for _ in range(count)]
        self._told: list[dict[int, list[Cache]]] = [{} for _ in range(count)]
        for c in caches:
            self._place(c)

    def _place(self, c: Candidate) -> None:
        i, cached = c.placed.input, c.placed.cached
        key = cached, i if cached.within else -1
        if key not in self.caches:
            before = frozenset([i, *self.orders[i][: c.first]])
            cache = self.caches[key] = Cache(self.join, c, before, self.work, self.budget)
            for stream in cache.whole:
                self._told[stream].setdefault(len(cache.whole) - 1, []).append(cache)
            for stream in cache.asking:
                self.windows[stream].index(cache.keys)
        self._asked[i][c.first] = self.caches[key], c.last

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
        probes, asked, told = self._probes[stream], self._asked[stream], self._told[stream]
        at: list[list[Record]] = [[] for _ in range(len(probes) + 1)]
        at[0].append(record)
        for k, records in enumerate(at):
            if not records:
                continue
            for cache in told.get(k, ()):
                cache.changed(records, enters=enters)
            if k == len(probes):
                break
            if k in asked:
                cache, last = asked[k]
                segment = probes[k : last + 1]
                for r in records:
                    at[last + 1] += cache.ask(r, segment)
            else:
                for r in records:
                    at[k + 1] += probes[k](r)
        return at[-1]
