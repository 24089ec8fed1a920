"""Which caches to use, of given benefits and costs (thesis 5.5.4, 5.7). No two may have a stem in common.

Without sharing a recursion over nested candidates is optimal, in linear time (theorems 5.5.1, 5.5.2). Caches of several
pipelines that hold the same are paid for once; then the problem is NP-hard: greedy and randomized come within O(log n)
(theorem 5.5.3; the thesis leaves the algorithms to a paper, these are ours), and an exhaustive search serves small sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, log2

import numpy as np

from thalweg.optimize.caches.candidates import Candidate
from thalweg.optimize.exhaustive import EXHAUSTIVE
from thalweg.plan.cached import Cached

Slot = tuple[int, int]
"""A place in the order of an input."""


@dataclass(frozen=True)
class Choice:
    """A candidate as selection sees it: what is left to pay in its pipeline, and once for all that share it."""

    candidate: Candidate
    proc: float
    cost: float

    @property
    def group(self) -> Cached:
        return self.candidate.placed.cached

    @property
    def slots(self) -> frozenset[Slot]:
        c = self.candidate
        return frozenset((c.placed.input, k) for k in range(c.first, c.last + 1))


Plain = Mapping[Slot, float]
"""What each stem costs without a cache."""
Allowed = Callable[[Sequence[Choice]], bool]


def total(chosen: Iterable[Choice], plain: Plain) -> float:
    """Seconds of everything: uncovered stems, chosen caches, and each store once."""
    chosen = list(chosen)
    covered = {slot for c in chosen for slot in c.slots}
    stores = {c.group: c.cost for c in chosen}
    return (
        sum(s for slot, s in plain.items() if slot not in covered) + sum(c.proc for c in chosen) + sum(stores.values())
    )


def apart(chosen: Sequence[Choice]) -> bool:
    return not any(a.candidate.overlaps(b.candidate) for a, b in combinations(chosen, 2))


def shared(choices: Sequence[Choice]) -> bool:
    groups = [c.group for c in choices]
    return len(set(groups)) < len(groups)


def select(choices: Sequence[Choice], plain: Plain) -> list[Choice]:
    """The thesis' choice of algorithm: the recursion if nothing is shared, else exhaustive for few (it does so for joins of
    six inputs, even while they run), greedy for many."""
    if not shared(choices):
        return recursive(choices, plain)
    return exhaustive(choices, plain) if 2 ** len(choices) <= EXHAUSTIVE else greedy(choices, plain)


def recursive(choices: Sequence[Choice], plain: Plain, free: frozenset[Cached] = frozenset()) -> list[Choice]:
    """Each cache or the best of what it contains, whichever is cheaper. The cost of `free` stores is paid already."""
    rest = sorted(choices, key=lambda c: c.candidate.length)
    best: dict[Choice, tuple[float, list[Choice]]] = {}
    for c in rest:
        inner = [b for b in best if c.candidate.contains(b.candidate) or _twin(c, b)]
        tops = [b for b in inner if not any(o.candidate.contains(b.candidate) or _later(inner, o, b) for o in inner)]
        covered = {slot for b in tops for slot in b.slots}
        below = sum(best[b][0] for b in tops) + sum(plain[s] for s in c.slots if s not in covered)
        own = c.proc + (0.0 if c.group in free else c.cost)
        best[c] = (own, [c]) if own < below else (below, [x for b in tops for x in best[b][1]])
    tops = [c for c in rest if not any(o.candidate.contains(c.candidate) or _later(rest, o, c) for o in rest)]
    return [x for c in tops for x in best[c][1]]


def _twin(c: Choice, b: Choice) -> bool:
    """Another cache over the same places."""
    return c != b and c.slots == b.slots


def _later(order: Sequence[Choice], o: Choice, b: Choice) -> bool:
    return _twin(o, b) and order.index(o) > order.index(b)


def exhaustive(choices: Sequence[Choice], plain: Plain, allowed: Allowed = apart) -> list[Choice]:
    """The best of all sets."""
    best: tuple[float, list[Choice]] = (total([], plain), [])
    stack: list[tuple[int, list[Choice]]] = [(0, [])]
    while stack:
        at, chosen = stack.pop()
        if at == len(choices):
            price = total(chosen, plain)
            if price < best[0]:
                best = (price, chosen)
            continue
        stack.append((at + 1, chosen))
        more = [*chosen, choices[at]]
        if allowed(more):
            stack.append((at + 1, more))
    return best[1]


def greedy(choices: Sequence[Choice], plain: Plain) -> list[Choice]:
    """Cover the places by what costs least for each; then polish with the stores that it opened."""
    groups: dict[Cached, list[Choice]] = {}
    for c in choices:
        groups.setdefault(c.group, []).append(c)
    left, opened, chosen = set(plain), set[Cached](), list[Choice]()
    while left:
        slot = min(left, key=lambda s: (plain[s], s))
        ratio, taken, group = plain[slot], list[Choice](), None
        for g, members in groups.items():
            new = [c for c in members if c.slots & left]
            new.sort(key=lambda c: c.proc / len(c.slots & left))
            price, covers = 0.0 if g in opened else members[0].cost, 0
            for k, c in enumerate(new):
                price, covers = price + c.proc, covers + len(c.slots & left)
                if price / covers < ratio:
                    ratio, taken, group = price / covers, new[: k + 1], g
        if group is None:
            left.discard(slot)
            continue
        opened.add(group)
        chosen += taken
        left -= {s for c in taken for s in c.slots}
    kept = _widest(chosen)
    return min((polished(choices, plain, opened), polished(choices, plain, set(groups)), kept),
               key=lambda found: total(found, plain))  # fmt: skip


def _widest(chosen: Sequence[Choice]) -> list[Choice]:
    """Without those that another contains or that overlap an earlier one."""
    kept: list[Choice] = []
    for c in sorted(chosen, key=lambda c: -c.candidate.length):
        if not any(c.candidate.overlaps(k.candidate) for k in kept):
            kept.append(c)
    return kept


def polished(choices: Sequence[Choice], plain: Plain, opened: set[Cached]) -> list[Choice]:
    """The best use of these stores, without those that do not pay."""
    while True:
        usable = [c for c in choices if c.group in opened]
        found = recursive(usable, plain, frozenset(opened))
        price = total(found, plain)
        for group in sorted({c.group for c in found}, key=str):
            without = recursive([c for c in usable if c.group != group], plain, frozenset(opened - {group}))
            if total(without, plain) < price:
                opened = opened - {group}
                break
        else:
            return found


def randomized(choices: Sequence[Choice], plain: Plain, seed: int = 0) -> list[Choice]:
    """Draw which stores to open, the more often the better they are alone; keep the best of O(log n) draws for each of
    them. Rounding of a relaxed cover: each store's odds are what it saves when all its places are used."""
    groups = sorted({c.group for c in choices}, key=str)
    random = np.random.default_rng(seed)
    odds = []
    for g in groups:
        members = [c for c in choices if c.group == g]
        before = sum(plain[s] for c in members for s in c.slots)
        after = members[0].cost + sum(min(c.proc, sum(plain[s] for s in c.slots)) for c in members)
        odds.append(min(max((before - after) / before if before else 0.0, 0.05), 0.95))
    best = list[Choice]()
    for _ in range(4 * len(groups) * ceil(log2(len(plain) + 2))):
        opened = {g for g, p in zip(groups, odds, strict=True) if random.random() < p}
        found = polished(choices, plain, opened)
        best = min((best, found), key=lambda f: total(f, plain))
    return best
