"""Fan-out and cost of operators, given which operators were visited before (the d(i|j) of the thesis, with matches).

An average per (visited, operator), as if over the last `MEMORY` rows. `doubt` makes what all averages stand on count
for little, so that newer rows soon outweigh it: for when the data has changed. Where a set of visited operators has
never been met, the nearest one that has stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Visited = frozenset[int]
ENOUGH = 8
"""Rows that an observation, and what it is compared with, must have to be called a change."""
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
    >>> table.ratio(frozenset(), 0, rows=50, work=3500.0)
    10.0
    >>> table.doubt()
    >>> table.observe(frozenset(), 0, rows=98, matches=9800, work=9900.0)
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

    def observe(self, visited: Visited, operator: int, rows: int, matches: float, work: float) -> None:
        """Take in what became of some rows."""
        if rows <= 0:
            return
        fanout, cost = matches / rows, work / rows
        beliefs = self._beliefs.setdefault(operator, {})
        old = beliefs.get(visited)
        if old is None or self.round - old.at > STALE:
            beliefs[visited] = Belief(fanout, cost, min(rows, MEMORY), self.round)
            return
        weight = rows / (rows + old.rows)
        old.fanout += weight * (fanout - old.fanout)
        old.work += weight * (cost - old.work)
        old.rows = min(old.rows + rows, MEMORY)
        old.at = self.round

    def ratio(self, visited: Visited, operator: int, rows: int, work: float) -> float:
        """How many times what is believed an observation cost; 1 where there is too little to compare, or nothing: an empty
        stem says nothing about what will fill it."""
        old = self._beliefs.get(operator, {}).get(visited)
        if old is None or not old.work or min(rows, old.rows) < ENOUGH or self.round - old.at > STALE:
            return 1.0
        return work / rows / old.work

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
        for visited, operator, fanout, work, rows, at in record[1]:
            belief = Belief(float(fanout), float(work), float(rows), int(at))
            self._beliefs.setdefault(int(operator), {})[frozenset(visited)] = belief
