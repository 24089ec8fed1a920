"""An MJoin that chooses its caches while it runs: A-Caching's loop (thesis 5.5.5, 5.7), one element at a time.

Candidates are Used, Profiled or Unused. After an interval all that are not used are profiled; once every statistic has its
observations, the best set of the candidates is used, if a benefit or a cost moved by more than a fifth. A cache that costs
more than it saves is dropped at once. The orders of the pipelines are given and stay.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from thalweg.lab.elements.cache import compatible
from thalweg.lab.elements.join import Element, Join, Record
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.profile import CHANCE, WINDOW, Profile, Shadow, missed
from thalweg.optimize.caches.candidates import Candidate, Orders, global_candidates
from thalweg.optimize.caches.costs import Estimate
from thalweg.optimize.caches.select import Choice, exhaustive

INTERVAL = 10_000
"""Elements between two re-optimizations (5.8.5)."""
GATE = 0.2
"""Nothing is selected again while no benefit and no cost has moved by more (5.5.5)."""
WATCH = 1_000
"""Elements between two looks at whether a used cache still pays: ten in an interval, one for each observation."""

SLOW = 0.05
"""Selection does not wait for candidates whose streams bring less than this share of all elements."""


class AdaptiveJoin(MJoin):
    """`quota`: candidates, globally-consistent ones among them (5.7: m)."""

    def __init__(
        self,
        join: Join,
        orders: Orders,
        *,
        deletions: bool = True,
        quota: int = 6,
        interval: int = INTERVAL,
        seed: int = 0,
    ) -> None:
        super().__init__(join, {i: tuple(o) for i, o in orders.items()}, deletions=deletions)
        self.candidates = global_candidates(self.orders, join.graph, quota)
        self.profile = Profile(join, self.orders)
        self.interval = interval
        self.selections = 0
        self.history: list[tuple[int, tuple[str, ...]]] = []
        """After how many elements which caches came into force."""
        self.count = 0
        self._random = np.random.default_rng([seed, 555])
        self._due = interval
        self._shadows: dict[Candidate, Shadow] = {}
        self._watching: dict[tuple[int, int], list[Shadow]] = {}
        """The same by stream and place."""
        self._misses: dict[Candidate, deque[float]] = {}
        self._last: dict[Candidate, tuple[float, float]] = {}
        self._before: dict[Candidate, tuple[int, int]] = {}
        self._met: list[tuple[int, int]] | None = None
        """What the row under way met, if it is profiled."""
        self._profile_again()

    def take(self, element: Element) -> list[Record]:
        stream = element[0]
        self.count += 1
        self.profile.rows[stream] += 1
        order = self.orders[stream]
        self._met = [(0, 0)] * (len(order) + 1) if self._random.random() < CHANCE else None
        found = super().take(element)
        if self._met is not None and (element[2] or self.deletions):
            self._met[-1] = (len(found), 0)
            self.profile.observe(stream, self._met)
        if self.count % WATCH == 0:
            self._look()
        return found

    def _step(self, stream: int, k: int, records: list[Record]) -> tuple[int, list[Record]]:
        for shadow in self._watching.get((stream, k), ()):
            shadow.see(records)
        if self._met is None:
            return super()._step(stream, k, records)
        before, probe = self.work.total, self._probes[stream][k]
        found = [f for r in records for f in probe(r)]
        self._met[k] = len(records), self.work.total - before
        return k + 1, found

    def _counts(self, c: Candidate) -> tuple[int, int]:
        cache, _ = self.asked[c.placed.input][c.first]
        return cache.probes, cache.misses

    def _look(self) -> None:
        """Drop what does not pay; re-optimize when it is time and all is known."""
        self.profile.turn()
        if not all(self.profile.known(i) for i in self.orders):
            return
        for c in self.placed:
            cache, _ = self.asked[c.placed.input][c.first]
            if cache.probes > self._before[c][0]:
                self._misses[c].append(missed(cache, self._before[c]))
            self._before[c] = cache.probes, cache.misses
        kept = [c for c in self.placed if len(self._misses[c]) < WINDOW or self._estimate(c).net >= 0]
        if len(kept) < len(self.placed):
            self._use(kept)
        if self.count < self._due:
            return
        if not self._shadows:
            self._profile_again()
        fast = [s for c, s in self._shadows.items() if self.profile.rate(c.placed.input) >= SLOW]
        if all(len(s.misses) == WINDOW for s in fast):
            self._select()

    def _profile_again(self) -> None:
        """Profile what is not used; a used cache that would hide the keys of one inside it rests meanwhile (5.5.5 b)."""
        unused = [c for c in self.candidates if c not in self.placed]
        self._use([u for u in self.placed if not any(u.contains(c) and u.first < c.first for c in unused)])
        self._shadows = {c: Shadow(self.join, c) for c in self.candidates if c not in self.placed}
        for c, shadow in self._shadows.items():
            self._watching.setdefault((c.placed.input, c.first), []).append(shadow)

    def _select(self) -> None:
        self._misses |= {c: s.misses for c, s in self._shadows.items()}
        estimates = {c: self._estimate(c) for c, m in self._misses.items() if m}
        self._shadows, self._watching, self._due = {}, {}, self.count + self.interval
        if self._moved(estimates):
            self.selections += 1
            self._last = {c: (e.benefit, e.cost) for c, e in estimates.items()}
            choices = [Choice(c, e.proc, e.cost) for c, e in estimates.items()]
            chosen = exhaustive(choices, self.profile.plain(),
                                lambda some: compatible([s.candidate for s in some], self.orders))  # fmt: skip
            self._use([c.candidate for c in chosen])

    def _moved(self, now: dict[Candidate, Estimate]) -> bool:
        for c, e in now.items():
            old = self._last.get(c)
            if old is None or any(abs(a - b) > GATE * abs(b) for a, b in zip((e.benefit, e.cost), old, strict=True)):
                return True
        return False

    def _use(self, chosen: list[Candidate]) -> None:
        if set(chosen) != set(self.placed):
            self.place(chosen)
            self.history.append((self.count, tuple(c.placed.named(self.join.names) for c in chosen)))
        self._misses |= {c: deque(maxlen=WINDOW) for c in chosen}
        self._before = {c: self._counts(c) for c in chosen}

    def _estimate(self, c: Candidate) -> Estimate:
        return self.profile.estimate(c, float(np.mean(self._misses[c])))
