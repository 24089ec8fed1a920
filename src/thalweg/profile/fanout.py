"""Fan-out and cost of operators, given which operators were visited before (the d(i|j) of the thesis, with matches).

An average per (visited, operator), as if over the last `MEMORY` rows. An observation that is off by a factor says that the data has
changed: then what all averages stand on counts for little, and newer rows soon outweigh it. Where a set of visited operators has
never been met, the nearest one that has stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Visited = frozenset[int]
FACTOR = 2.5
"""An observation whose cost is off by more than this is a change, not noise."""
ENOUGH = 8
"""Rows that an observation must have to be called a change."""
MEMORY = 256.0
"""Rows that an average stands on at most."""
DOUBT = 2.0
"""Rows that an average still stands on after a change."""
STALE = 64
"""Rounds after which an average that was not renewed counts as unknown."""


@dataclass(slots=True)
class Belief:
    """Per row in: rows out, and units of work."""

    fanout: float
    work: float
    rows: float
    at: int
    """The round of the last observation."""


class Fanouts:
    """Beliefs by what was visited before.

    >>> table = Fanouts()
    >>> table.observe(frozenset(), 0, rows=100, matches=200, work=700.0)
    False
    >>> table.observe(frozenset(), 0, rows=98, matches=9800, work=9900.0)  # a change
    True
    >>> round(table.believe(frozenset({1}), 0).fanout)
    98
    """

    def __init__(self) -> None:
        self.round = 0
        self._beliefs: dict[int, dict[Visited, Belief]] = {}

    def __iter__(self) -> Iterator[tuple[Visited, int, Belief]]:
        for operator, beliefs in self._beliefs.items():
            for visited, belief in beliefs.items():
                yield visited, operator, belief

    def observe(self, visited: Visited, operator: int, rows: int, matches: float, work: float) -> bool:
        """Take in what became of some rows. Returns whether it looks like a change."""
        if rows <= 0:
            return False
        fanout, cost = matches / rows, work / rows
        beliefs = self._beliefs.setdefault(operator, {})
        old = beliefs.get(visited)
        if old is None or self.round - old.at > STALE:
            beliefs[visited] = Belief(fanout, cost, min(rows, MEMORY), self.round)
            return False
        low, high = sorted((old.work, cost))
        changed = rows >= ENOUGH and old.rows >= ENOUGH and high > FACTOR * max(low, 1e-12)
        if changed:
            self.doubt()
        weight = rows / (rows + old.rows)
        old.fanout += weight * (fanout - old.fanout)
        old.work += weight * (cost - old.work)
        old.rows = min(old.rows + rows, MEMORY)
        old.at = self.round
        return changed

    def doubt(self) -> None:
        """Let newer rows outweigh everything believed so far."""
        for _, _, belief in self:
            belief.rows = min(belief.rows, DOUBT)

    def believe(self, visited: Visited, operator: int) -> Belief | None:
        """What is known of an operator after these; else after the most of these, else after the most like these."""
        beliefs = self._beliefs.get(operator)
        if not beliefs:
            return None
        exact = beliefs.get(visited)
        if exact is not None and self.round - exact.at <= STALE:
            return exact

        def nearness(entry: tuple[Visited, Belief]) -> tuple[bool, bool, int, int]:
            known, belief = entry
            return self.round - belief.at <= STALE, known <= visited, len(known & visited), belief.at

        return max(beliefs.items(), key=nearness)[1]

    def snapshot(self) -> list[Any]:
        return [self.round, [[sorted(v), o, b.fanout, b.work, b.rows, b.at] for v, o, b in self]]

    def restore(self, record: list[Any]) -> None:
        self.round = int(record[0])
        self._beliefs = {}
        for visited, operator, *numbers, at in record[1]:
            self._beliefs.setdefault(int(operator), {})[frozenset(visited)] = Belief(*map(float, numbers), int(at))
