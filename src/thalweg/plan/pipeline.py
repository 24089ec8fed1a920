"""A pipeline: the operators that the tuples of one input must visit, and the allowed orders.

One pipeline per input, as in the thesis (3.2, 5.2). A filter may be pinned behind its guards. A stem may be visited
once the tuple is connected to it: directly by a predicate of the arriving input (`near` is None), or through an
operator already visited. Policies see nothing else of the query.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from thalweg.errors import DefinitionError
from thalweg.plan.route import Route

MOST_KNOWN = 1024
"""Size: answers of one kind to remember."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What a tuple can visit: a filter, or a stem (visiting it joins)."""

    name: str
    kind: Literal["filter", "stem"] = "filter"
    after: frozenset[int] = frozenset()
    """Operators that must all be visited first."""
    near: frozenset[int] | None = None
    """At least one of these must be visited first; None if the input itself is connected."""
    keys: frozenset[int] = frozenset()
    """The stem's join keys, numbered across all inputs of the query."""


@dataclass(frozen=True)
class Pipeline:
    """The operators of one input in written order.

    >>> p = Pipeline("packets", (Operator("parses", after=frozenset({1})), Operator("is_attack"), Operator("big")))
    >>> p.written.named(p.names)
    'is_attack → parses → big'
    >>> p.eligible({2})
    [1]
    >>> p.allows(Route((0, 1, 2)))
    False
    """

    stream: str
    operators: tuple[Operator, ...]
    keys: frozenset[int] = frozenset()
    """Join keys of the input itself."""

    def __len__(self) -> int:
        return len(self.operators)

    @cached_property
    def names(self) -> list[str]:
        return [op.name for op in self.operators]

    @cached_property
    def free(self) -> bool:
        """Whether every order is allowed."""
        return all(not op.after and op.near is None for op in self.operators)

    @cached_property
    def written(self) -> Route:
        """The written order; an operator written before its guard moves to just behind it."""
        visited: list[int] = []
        waiting = list(range(len(self)))
        while waiting:
            nxt = next((i for i in waiting if self._ready(i, visited)), None)
            if nxt is None:
                # No operator is ready: the guards form a circle, or the query is a product of unconnected parts.
                nxt = next((i for i in waiting if self.operators[i].after <= set(visited)), None)
            if nxt is None:
                names = ", ".join(f"'{self.names[i]}'" for i in waiting)
                raise DefinitionError(f"{names} wait for each other", hint="break the circle of after=")
            visited.append(nxt)
            waiting.remove(nxt)
        return Route(tuple(visited))

    def _ready(self, i: int, visited: Collection[int]) -> bool:
        op = self.operators[i]
        return all(g in visited for g in op.after) and (op.near is None or any(g in visited for g in op.near))

    def eligible(self, visited: Collection[int]) -> list[int]:
        """The operators that may come next. If nothing connects the rest (a product), all whose guards are met."""
        known = self._eligible
        key = frozenset(visited)
        if key not in known:
            if len(known) > MOST_KNOWN:
                known.clear()
            known[key] = self._find_eligible(key)
        return list(known[key])

    @cached_property
    def _eligible(self) -> dict[frozenset[int], list[int]]:
        """Earlier answers: policies repeat the same questions."""
        return {}

    def _find_eligible(self, visited: frozenset[int]) -> list[int]:
        if self.free:
            return [i for i in range(len(self)) if i not in visited]
        rest = [i for i in range(len(self)) if i not in visited]
        ready = [i for i in rest if self._ready(i, visited)]
        return ready or [i for i in rest if all(g in visited for g in self.operators[i].after)]

    def allows(self, route: Route) -> bool:
        """Whether the route visits every operator once, each when it is eligible."""
        if sorted(route) != list(range(len(self))):
            return False
        return self.free or all(op in self.eligible(route.operators[:k]) for k, op in enumerate(route))

    def indexes(self, route: Sequence[int]) -> frozenset[tuple[int, frozenset[int]]]:
        """The indexes that a route probes: each stem with those of its keys that are known by then.

        >>> keys = [frozenset(k) for k in ({0, 2}, {1, 2})]
        >>> p = Pipeline("a", tuple(Operator(n, "stem", keys=k) for n, k in zip("bc", keys)), frozenset({0, 1}))
        >>> sorted((op, sorted(known)) for op, known in p.indexes((1, 0)))
        [(0, [0, 2]), (1, [1])]
        """
        known, found = self.keys, set()
        for op in route:
            mine = self.operators[op].keys
            if self.operators[op].kind == "stem":
                found.add((op, mine & known))
            known |= mine
        return frozenset(found)

    def closest(self, wish: Sequence[int]) -> Route:
        """The allowed route nearest to a wanted order: at each place, the first wanted operator that is eligible."""
        if self.free:
            return Route(tuple(wish))
        route: list[int] = []
        rest = list(wish)
        while rest:
            ready = set(self.eligible(route))
            nxt = next(i for i in rest if i in ready)
            route.append(nxt)
            rest.remove(nxt)
        return Route(tuple(route))
