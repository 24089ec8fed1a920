"""Trees of joins: every inner node keeps its result, indexed for the probes of its siblings (thesis 5.1, 5.3).

A written tree is a stream's number or a tuple of trees: `((0, 1), 2)` is an XJoin that keeps the join of the first two,
`((0, 1), 2, 3)` a tree of MJoins, `(0, 1, 2)` an MJoin. What changes in a node climbs to the root; each node on the way
joins it with its siblings and stores what it found. With `deletions`, rows that leave are joined again and take their
partial results with them, as in the thesis; without, a partial result ends with the first of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias

from thalweg.lab.elements.join import Element, Join, Record
from thalweg.lab.elements.store import Probe, Store, Work

Written: TypeAlias = "int | tuple[Written, ...]"


class Tree:
    """A tree that runs. The siblings of a node are joined in the order in which they connect."""

    def __init__(self, join: Join, written: Written, *, deletions: bool = True) -> None:
        self.join, self.written, self.deletions = join, written, deletions
        self.work = Work()
        self._leaves: dict[int, Store] = {}
        self._inner: list[Store] = []
        self._ways: dict[int, list[tuple[list[Probe], Store | None]]] = {i: [] for i in range(len(join.names))}
        self._build(written, root=True)

    def _build(self, written: Written, *, root: bool = False) -> Store | None:
        if isinstance(written, int):
            self._leaves[written] = Store(self.join, [written], self.work)
            return self._leaves[written]
        children: list[Store] = [store for child in written if (store := self._build(child)) is not None]
        node = None if root else Store(self.join, leaves(written), self.work)
        if node is not None:
            self._inner.append(node)
        for store in children:
            probes = self._probes(store, [c for c in children if c is not store])
            for stream in store.streams:
                self._ways[stream].append((probes, node))
        return node

    def _probes(self, child: Store, siblings: list[Store]) -> list[Probe]:
        bound, probes = child.streams, []
        while siblings:
            near = [s for s in siblings if self.join.shared(bound, s.streams)] or siblings
            siblings = [s for s in siblings if s is not near[0]]
            probes.append(Probe(self.join, bound, near[0]))
            bound |= near[0].streams
        return probes

    @property
    def bytes(self) -> int:
        """The most that partial results took."""
        return sum(node.bytes for node in self._inner)

    def take(self, element: Element) -> list[Record]:
        """Results that begin with an element, or end with it."""
        stream, record, enters = element
        leaf, way = self._leaves[stream], self._ways[stream]
        if not enters:
            leaf.delete(record)
            if not self.deletions:
                for node in self._inner:
                    if stream in node.streams:
                        node.forget(record[self.join.count + stream])
                return []
        changed = [record]
        for probes, above in way:
            for probe in probes:
                changed = [found for r in changed for found in probe(r)]
            if above is not None:
                for r in changed:
                    above.insert(r) if enters else above.delete(r)
        if enters:
            leaf.insert(record)
        return changed


def leaves(written: Written) -> frozenset[int]:
    """
    >>> sorted(leaves(((0, 3), 2)))
    [0, 2, 3]
    """
    return frozenset([written]) if isinstance(written, int) else frozenset().union(*map(leaves, written))


def trees(streams: frozenset[int], most: int = 2) -> Iterator[Written]:
    """All trees over some streams whose nodes have up to `most` children, each once.

    >>> len(list(trees(frozenset(range(3))))), len(list(trees(frozenset(range(4)))))
    (3, 15)
    >>> len(list(trees(frozenset(range(4)), most=4)))
    26
    """
    if len(streams) == 1:
        yield min(streams)
        return
    for parts in _partitions(sorted(streams), most):
        if len(parts) > 1:
            yield from _products([frozenset(p) for p in parts], most)


def _partitions(items: list[int], most: int) -> Iterator[list[list[int]]]:
    """Ways to divide items into up to `most` parts; the first part holds the first item."""
    if not items:
        yield []
        return
    if most == 0:
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = [i for i in rest if i not in others]
            for more in _partitions(left, most - 1):
                yield [[first, *others], *more]


def _products(parts: list[frozenset[int]], most: int) -> Iterator[tuple[Written, ...]]:
    if not parts:
        yield ()
        return
    for head in trees(parts[0], most):
        for rest in _products(parts[1:], most):
            yield (head, *rest)


def sensible(join: Join, most: int = 2) -> list[Written]:
    """The trees without products, if there are some."""
    every = list(trees(frozenset(range(len(join.names))), most))
    return [t for t in every if _joins(join, t)] or every


def _joins(join: Join, written: Written) -> bool:
    if isinstance(written, int):
        return True
    return join.connected(leaves(written)) and all(_joins(join, child) for child in written)


def named(join: Join, written: Written, *, root: bool = True) -> str:
    """
    >>> named(Join(("r", "s", "t"), ((0,), (0,), (0,))), ((0, 1), 2))
    '(r ⋈ s) ⋈ t'
    """
    if isinstance(written, int):
        return join.names[written]
    text = " ⋈ ".join(named(join, child, root=False) for child in written)
    return text if root else f"({text})"
