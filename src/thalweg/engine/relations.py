"""Relations: the part of a query whose nodes have a value at every instant.

Blocks give results with lifetimes; `Living` turns them into changes up to the frontier, the least watermark of all
streams; operators take them in the order of the tree. A node that is used several times runs once. So every operator
sees each instant whole, and only once. Time windows and frames (`Hop`, `Over`) read results, not a relation: below them
results are made (`results.py`), and the frontier waits for those that may still begin before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.contract.relation import Changes, Deltas, Derived
from thalweg.engine.leaves import Leaves, under
from thalweg.engine.waits import wait_in_relation, waits_for_partners
from thalweg.language.algebra import Hop, Leaf, Match, Node, Over, Sent, SetOperation
from thalweg.plan import Reason
from thalweg.relate import operator
from thalweg.relate.arriving import Arriving
from thalweg.relate.early import early
from thalweg.relate.heard import Heard
from thalweg.relate.living import Living
from thalweg.state.slice import ALWAYS

if TYPE_CHECKING:
    from thalweg.engine.results import Results


class Relations:
    """Runs the nodes below some roots."""

    def __init__(self, roots: Iterable[Node], leaves: Leaves) -> None:
        from thalweg.engine.results import Results

        self.roots = list(roots)
        self.nodes = list(in_order(self.roots))
        self.frontier = ALWAYS
        self.living: dict[int, Living | Heard] = {}
        self.heard: Heard | None = None
        """What other cells send."""
        self.operators: dict[int, Derived] = {}
        self.readings: dict[int, tuple[Results, Arriving]] = {}
        """Of nodes that read results: who makes these, and those that the frontier has not passed."""
        places = {id(leaf): k for k, leaf in enumerate(leaves.leaves)}
        ahead = early(self.roots, self.nodes)
        for k, node in enumerate(self.nodes):
            if isinstance(node, Leaf):
                self.living[k] = living = Living(node.schema)
                leaves.tees[places[id(node)]].sinks.append(living)
                continue
            if isinstance(node, Sent):
                self.living[k] = self.heard = Heard(node.schema)
                continue
            self.operators[k] = operator(node, leaves.tick, leaves.scale, early=id(node) in ahead)
            if reads_results(node):
                (child,) = node.children
                self.readings[k] = Results(child, leaves), Arriving(child.schema)
        self._places = {id(node): k for k, node in enumerate(self.nodes)}

    def advance(self, frontier: int) -> list[Changes]:
        """The changes of the roots with times before the frontier."""
        if frontier > ALWAYS:
            for results, arriving in self.readings.values():
                made = results.step(begun=True)
                arriving.opened(_at_their_times(made.opened))
                frontier = min(frontier, made.floor)
        if frontier <= self.frontier:
            return [nothing(root) for root in self.roots]
        found: list[Changes] = []
        for k, node in enumerate(self.nodes):
            if k in self.living:
                found.append(self.living[k].advance(frontier))
                continue
            inputs = [found[self._places[id(child)]] for child in children(node)]
            if k in self.readings:
                inputs = [self.readings[k][1].advance(frontier)]
            found.append(self.operators[k].step(inputs, frontier))
        self.frontier = frontier
        return [found[self._places[id(root)]] for root in self.roots]

    def _keepers(self) -> dict[str, Any]:
        """Everything that has state, by the name of its parts."""
        kept: dict[str, Any] = {str(k): part for k, part in (*self.living.items(), *self.operators.items())}
        for k, (results, arriving) in self.readings.items():
            kept |= {f"{k}.results": results, f"{k}.arriving": arriving}
        return kept

    def sizes(self) -> dict[str, int]:
        """Rows kept, by operator."""
        keepers: list[Any] = [self.living.get(k) or self.operators[k] for k in range(len(self.nodes))]
        return {name: keeper.size() for name, keeper in zip(names(self.nodes), keepers, strict=True)}

    def waiting(self) -> dict[str, int]:
        """Changes ahead of the frontier, by block."""
        found = names(self.nodes)
        return {found[k]: living.size() for k, living in self.living.items()}

    def waits(self) -> dict[str, Reason]:
        """What holds rows without a partner back, by operator."""
        found = {}
        for k, (name, node) in enumerate(zip(names(self.nodes), self.nodes, strict=True)):
            kind = waits_for_partners(node)
            if kind and isinstance(node, Match | SetOperation):
                found[f"{name} ({kind})"] = wait_in_relation(node, self.roots)
            if k in self.readings:
                found |= {f"{name}, {inner}": why for inner, why in self.readings[k][0].waits().items()}
        return found

    def snapshot(self) -> dict[str, bytes]:
        parts: dict[str, bytes] = {"frontier": str(self.frontier).encode()}
        for prefix, keeper in self._keepers().items():
            parts |= {f"{prefix}/{name}": part for name, part in keeper.snapshot().items()}
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self.frontier = int(parts["frontier"])
        for prefix, keeper in self._keepers().items():
            keeper.restore(under(f"{prefix}/", parts))


def reads_results(node: Node) -> bool:
    """Whether a node reads its child's results, each once, and not the relation that they make."""
    return isinstance(node, Hop | Over)


def children(node: Node) -> tuple[Node, ...]:
    """The relations that a node reads."""
    return () if reads_results(node) else node.children


def _at_their_times(deltas: Deltas) -> Deltas:
    return Deltas(deltas.rows, deltas.number, deltas.time, deltas.end)


def in_order(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node that is run as a relation once, children first."""
    seen: set[int] = set()

    def below(node: Node) -> Iterator[Node]:
        if id(node) not in seen:
            for child in children(node):
                yield from below(child)
            seen.add(id(node))
            yield node

    for root in roots:
        yield from below(root)


def names(nodes: Iterable[Node]) -> list[str]:
    """What nodes are called in reports: kind and number."""
    return [f"{k + 1} {type(node).__name__.lower()}" for k, node in enumerate(nodes)]


def nothing(node: Node) -> Changes:
    empty = np.empty(0, np.int64)
    return Changes(node.schema.empty_table(), empty, empty)
