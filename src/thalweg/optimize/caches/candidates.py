"""Candidate caches of a set of orders (thesis 5.4, 5.5.4).

A cache of a segment satisfies the prefix invariant if the rows of each of its inputs visit the others of the segment
first: then all that changes it is computed on their way. Two such candidates of one pipeline are nested or apart.
Inputs without a pipeline (tables) never change and have no say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.plan.cached import Cached, Placed
from thalweg.plan.graph import JoinGraph

Orders = Mapping[int, Sequence[int]]
"""By input that has a pipeline: the other inputs in the order in which its rows visit them."""


@dataclass(frozen=True)
class Candidate:
    """A cache over the places `first` to `last` of an input's order, both included."""

    placed: Placed
    first: int
    last: int

    @property
    def inputs(self) -> frozenset[int]:
        return self.placed.cached.inputs

    @property
    def whole(self) -> frozenset[int]:
        """The inputs whose changes must reach it: X and Y."""
        return self.inputs | self.placed.cached.within

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def overlaps(self, other: Candidate) -> bool:
        same = self.placed.input == other.placed.input
        return same and self.first <= other.last and other.first <= self.last

    def contains(self, other: Candidate) -> bool:
        same = self.placed.input == other.placed.input
        return same and self.first <= other.first and other.last <= self.last and self != other


def is_closed(orders: Orders, inputs: frozenset[int]) -> bool:
    """The prefix invariant (definition 5.4.2).

    >>> is_closed({0: (1, 2), 1: (0, 2), 2: (1, 0)}, frozenset({0, 1}))
    True
    """
    return all(frozenset(orders[i][: len(inputs) - 1]) == inputs - {i} for i in inputs if i in orders)


def closed_sets(orders: Orders) -> set[frozenset[int]]:
    """The sets of at least two inputs, and not of all, that satisfy the prefix invariant."""
    found = set()
    for i, order in orders.items():
        for k in range(1, len(order)):
            inputs = frozenset([i, *order[:k]])
            if is_closed(orders, inputs):
                found.add(inputs)
    return found


def candidates(orders: Orders, graph: JoinGraph) -> list[Candidate]:
    """All caches that satisfy the prefix invariant: of at least one join; of a single input where its predicates have no
    index."""
    found = []
    for i, order in sorted(orders.items()):
        for first in range(len(order)):
            before = frozenset([i, *order[:first]])
            for last in range(first, len(order)):
                inputs = frozenset(order[first : last + 1])
                if not inputs <= graph.stored or not is_closed(orders, inputs):
                    continue
                keys, judges = graph.keys(before, inputs), graph.by_value(before, inputs)
                if last > first and keys:
                    found.append(Candidate(Placed(i, Cached(inputs, keys)), first, last))
                if judges:
                    found.append(Candidate(Placed(i, Cached(inputs, keys, judges)), first, last))
    return found


def global_candidates(orders: Orders, graph: JoinGraph, quota: int) -> list[Candidate]:
    """The prefix caches and, up to the quota, globally-consistent ones X ⋉ Y where X and Y together satisfy the prefix
    invariant (5.7): first X of all inputs but one, then but two, and so on."""
    found = candidates(orders, graph)
    sets = [*sorted(closed_sets(orders), key=len), frozenset(range(len(graph)))]
    known = {(c.placed.input, c.first, c.last) for c in found}
    count = len(graph)
    for length in range(count - 1, 1, -1):
        for i, order in sorted(orders.items()):
            for first in range(len(order) - length + 1):
                if len(found) >= quota:
                    return found
                last, inputs = first + length - 1, frozenset(order[first : first + length])
                before = frozenset([i, *order[:first]])
                if (i, first, last) in known or not inputs <= graph.stored or not graph.keys(before, inputs):
                    continue
                for whole in sets:
                    within = whole - inputs
                    if inputs < whole and _sound(graph, within, before):
                        cached = Cached(inputs, graph.keys(before, inputs), within=within)
                        found.append(Candidate(Placed(i, cached), first, last))
                        break
    return found


def _sound(graph: JoinGraph, within: frozenset[int], before: frozenset[int]) -> bool:
    """Where maintenance was tested to be right: Y apart from what comes before, or equal to it, or one key for all."""
    one = all(len(c) == 1 for c in graph.classes) and len({c for own in graph.classes for c in own}) == 1
    return not within & before or within == before or one
