"""Fan-out and cost of operators, given which operators were visited before: the thesis' d(i|j), with matches.

An average per (visited, operator), as if over the last `MEMORY` rows. When the data has changed, `doubt` makes old
averages count for one row, so newer ones outweigh them at once. For a set of visited operators that was never met, the
nearest known one stands in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from thalweg.contract.visits import PASSED, UNTRIED, Journey
from thalweg.plan import Pipeline

Visited = frozenset[int]
Seen = tuple[Visited, int, int, float, float]
"""An observation: visited before, operator, rows in, rows out, seconds."""
ENOUGH = 8
"""Tested: the fewest rows that say something about all rows of their kind. With fewer, one row with many matches
looks like a change."""
MEMORY = 256.0
"""Tested: rows behind an average at most, about five rounds of scouts."""
STALE = 64
"""Tested: rounds after which an average without updates counts as unknown."""


@dataclass(slots=True)
class Belief:
    """Per row in: rows out, and seconds."""

    fanout: float
    seconds: float
    rows: float
    at: int
    """The round of the last observation."""


class Given:
    """Beliefs by what was visited before.

    >>> table = Given()
    >>> table.observe(frozenset(), 0, rows=100, matches=200, seconds=7.0)
    >>> round(table.ratio(frozenset(), 0, rows=50, seconds=35.0), 6)
    10.0
    >>> table.doubt()
    >>> table.observe(frozenset(), 0, rows=99, matches=9800, seconds=99.0)
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

    def observe(self, visited: Visited, operator: int, rows: int, matches: float, seconds: float) -> None:
        """Learn from the outcome of some rows."""
        if rows <= 0:
            return
        fanout, cost = matches / rows, seconds / rows
        beliefs = self._beliefs.setdefault(operator, {})
        old = beliefs.get(visited)
        if old is None or self.round - old.at > STALE:
            beliefs[visited] = Belief(fanout, cost, min(rows, MEMORY), self.round)
            return
        weight = rows / (rows + old.rows)
        old.fanout += weight * (fanout - old.fanout)
        old.seconds += weight * (cost - old.seconds)
        old.rows = min(old.rows + rows, MEMORY)
        old.at = self.round

    def ratio(self, visited: Visited, operator: int, rows: int, seconds: float) -> float:
        """Observed over believed cost; 1 if there is too little to compare, or nothing: an empty stem says nothing
        about what will fill it."""
        old = self._beliefs.get(operator, {}).get(visited)
        if old is None or not old.seconds or min(rows, old.rows) < ENOUGH or self.round - old.at > STALE:
            return 1.0
        return seconds / rows / old.seconds

    def doubt(self) -> None:
        """Let newer rows outweigh everything believed so far."""
        for _, _, belief in self:
            belief.rows = min(belief.rows, 1.0)

    def believe(self, visited: Visited, operator: int) -> Belief | None:
        """The belief about an operator after these; else after the most of these, else after the most similar set."""
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
        return [self.round, [[sorted(v), o, b.fanout, b.seconds, b.rows, b.at] for v, o, b in self]]

    def restore(self, record: list[Any]) -> None:
        self.round = int(record[0])
        self._beliefs = {}
        for visited, operator, fanout, seconds, rows, at in record[1]:
            belief = Belief(float(fanout), float(seconds), float(rows), int(at))
            self._beliefs.setdefault(int(operator), {})[frozenset(visited)] = belief


@lru_cache(maxsize=1024)
def prefixes(order: tuple[int, ...]) -> dict[int, Visited]:
    """The set before each operator of an order."""
    return {op: frozenset(order[:k]) for k, op in enumerate(order)}


def seen_by(journey: Journey, pipeline: Pipeline, unit: float) -> tuple[list[Seen], list[Seen]]:
    """What operators on a ruster's route did to their rows, and what profiled ones would have done. `unit` is the price
    of a stem's work."""
    before = prefixes(journey.ruster.route.operators)
    on_way, rivals = list[Seen](), list[Seen]()
    for v in journey.visits:
        if v.rows_in:
            seconds = v.work * unit if pipeline.operators[v.operator].kind == "stem" else v.seconds
            on_way.append((before[v.operator], v.operator, v.rows_in, float(v.rows_out), seconds))
    for t in journey.trials:
        rivals.append((t.visited, t.operator, t.rows, float(t.matches), t.work * unit))
    if journey.passed is not None:
        rivals += _judged(journey, pipeline)
    return on_way, rivals


def _judged(journey: Journey, pipeline: Pipeline) -> Iterator[Seen]:
    """What filters tried only to profile would have done to the rows that the filters before them pass."""
    assert journey.passed is not None
    cost = {
        v.operator: (v.seconds + v.extra_seconds) / (v.rows_in + v.extra) for v in journey.visits if v.rows_in + v.extra
    }
    visited: Visited = frozenset()
    reached = np.ones(len(journey.passed), np.bool_)
    for v in journey.visits:
        if pipeline.operators[v.operator].kind == "stem":
            return
        for rival in pipeline.eligible(visited):
            bits = journey.passed[reached, rival]
            tried = int((bits != UNTRIED).sum())
            if rival != v.operator and pipeline.operators[rival].kind == "filter" and tried and rival in cost:
                yield visited, rival, tried, float((bits == PASSED).sum()), tried * cost[rival]
        reached = reached & (journey.passed[:, v.operator] == PASSED)
        visited |= {v.operator}
