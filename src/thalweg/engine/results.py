"""Results: the part of a query that compares whole histories; its answer is a stream of results.

New results of the blocks go through the operators in the order of the tree, a node that is used several times once. A
subtree that is a relation (a subquery over tables, ISTREAM(...) in FROM) is run as one, and its rows become results with
lifetimes again. Where an end may be told later (row windows, relations), results wait until the frontier has passed
their beginning: then all ends before it are known, and every step sees which rows overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thalweg.contract.relation import History, Moves
from thalweg.engine.leaves import Leaves, under
from thalweg.engine.relations import Relations, names
from thalweg.engine.waits import wait_of
from thalweg.language.algebra import Leaf, Node
from thalweg.language.bind.kinds import grows
from thalweg.plan import Reason
from thalweg.relate.arrivals import Arrivals
from thalweg.relate.histories import history, native
from thalweg.relate.lives import Lives
from thalweg.relate.meet import Meet
from thalweg.state.slice import ALWAYS, FOREVER


class Results:
    """Runs the nodes below the root of a query."""

    def __init__(self, root: Node, leaves: Leaves) -> None:
        self.leaves = leaves
        self.nodes = list(_in_order(root))
        self._places = {id(node): k for k, node in enumerate(self.nodes)}
        self._blocks = {id(leaf): k for k, leaf in enumerate(leaves.leaves)}
        foreign = {k: node for k, node in enumerate(self.nodes) if not isinstance(node, Leaf) and not native(node)}
        self.tables = Relations([n for n in foreign.values() if static(n)], leaves)
        """Relations over tables only: they have one value."""
        self.relations = Relations([n for n in foreign.values() if not static(n)], leaves)
        closes = [self._closes(node) for node in self.nodes]
        self.ordered = any(closes[k] for k, node in enumerate(self.nodes) if isinstance(node, Leaf) or k in foreign)
        """Whether results wait for the frontier."""
        self.arrivals: dict[int, Arrivals] = {}
        self.lives: dict[int, Lives] = {}
        self.histories: dict[int, History] = {}
        for k, node in enumerate(self.nodes):
            if isinstance(node, Leaf):
                self.arrivals[k] = Arrivals(node.schema)
                leaves.tees[self._blocks[id(node)]].sinks.append(self.arrivals[k])
            elif k in foreign:
                self.lives[k] = Lives(node.schema, closes=closes[k])
            else:
                self.histories[k] = history(node, [closes[self._places[id(child)]] for child in node.children])

    def _closes(self, node: Node) -> bool:
        """Whether results of a node may end later than they know."""
        if isinstance(node, Leaf):
            return any(i.window.ordered for i in node.query.streams)
        if native(node):
            return any(map(self._closes, node.children))
        return not grows(node)

    def step(self, begun: bool) -> Moves:
        """What the rows and the watermarks since the last step bring."""
        frontier = self.leaves.clocks.least if begun else ALWAYS
        made: list[Moves] = []
        moving, fixed = iter(self.relations.advance(frontier)), iter(self.tables.advance(FOREVER if begun else ALWAYS))
        for k, node in enumerate(self.nodes):
            if k in self.arrivals:
                made.append(self.arrivals[k].release(*self._until(node, frontier, begun)))
            elif k in self.lives:
                floor = FOREVER if begun and static(node) else frontier
                made.append(self.lives[k].take(next(fixed if static(node) else moving), floor))
            else:
                inputs = [made[self._places[id(child)]] for child in node.children]
                made.append(self.histories[k].step(inputs))
        return made[-1]

    def _until(self, node: Node, frontier: int, begun: bool) -> tuple[int, int]:
        """Up to which time results of a block are taken now, and before which none will begin."""
        if self.ordered and not static(node):
            return frontier, frontier
        least = self.leaves.blocks[self._blocks[id(node)]].sources.least  # without streams there is nothing to wait for
        return FOREVER, least if begun else ALWAYS

    # What is known

    def sizes(self) -> dict[str, int]:
        """Rows kept, by operator."""
        kept: Mapping[int, Arrivals | Lives | History] = {**self.arrivals, **self.lives, **self.histories}
        sizes = {name: kept[k].size() for k, name in enumerate(names(self.nodes))}
        below = {**self.tables.sizes(), **self.relations.sizes()}
        return sizes | {f"relation {name}": count for name, count in below.items()}

    def waiting(self) -> dict[str, int]:
        """Rows whose outcome is not known yet, by operator."""
        found = {}
        for k, name in enumerate(names(self.nodes)):
            operator = self.histories.get(k)
            if isinstance(operator, Meet) and operator.kind != "inner":
                found[f"{name} ({operator.kind})"] = operator.waiting()
            elif k in self.arrivals and self.ordered:
                found[name] = self.arrivals[k].size()
        return found

    def waits(self) -> dict[str, Reason]:
        """How long rows of an operator wait for a partner, at most."""
        found = {}
        for k, name in enumerate(names(self.nodes)):
            operator = self.histories.get(k)
            if isinstance(operator, Meet) and operator.kind != "inner":
                found[f"{name} ({operator.kind})"] = wait_of(operator.node)
        return found | {f"relation {name}": why for name, why in self.relations.waits().items()}

    # State

    def snapshot(self) -> dict[str, bytes]:
        kept: Mapping[int, Arrivals | Lives | History] = {**self.arrivals, **self.lives, **self.histories}
        parts = {f"{k}/{name}": part for k, o in sorted(kept.items()) for name, part in o.snapshot().items()}
        for prefix, relations in (("tables", self.tables), ("relations", self.relations)):
            parts |= {f"{prefix}/{name}": part for name, part in relations.snapshot().items()}
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        kept: Mapping[int, Arrivals | Lives | History] = {**self.arrivals, **self.lives, **self.histories}
        for k, operator in kept.items():
            operator.restore(under(f"{k}/", parts))
        self.tables.restore(under("tables/", parts))
        self.relations.restore(under("relations/", parts))


def static(node: Node) -> bool:
    """Whether a node reads tables only."""
    return not any(leaf.query.streams for leaf in node.walk() if isinstance(leaf, Leaf))


def _in_order(root: Node) -> Iterator[Node]:
    """The root's nodes once each, children first; below a node that is a relation, none."""
    seen: set[int] = set()

    def below(node: Node) -> Iterator[Node]:
        if id(node) in seen:
            return
        if native(node):
            for child in node.children:
                yield from below(child)
        seen.add(id(node))
        yield node

    return below(root)
