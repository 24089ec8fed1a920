"""The graph of a join: which inputs share key classes and predicates. What caches and trees are chosen from.

A value by number: inputs and key classes as the query lists them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JoinGraph:
    """Inputs, their key classes, and the predicates between them.

    >>> g = JoinGraph(("r", "s", "t"), (frozenset({0}), frozenset({0, 1}), frozenset({1})), streams=frozenset({0, 1, 2}))
    >>> g.keys({2}, {0, 1}), g.connected(0, 2), g.order(2)
    ((1,), False, [1, 0])
    """

    aliases: tuple[str, ...]
    classes: tuple[frozenset[int], ...]
    judges: tuple[frozenset[int], ...] = ()
    """The inputs of each predicate that is not an equality of columns."""
    exact: tuple[frozenset[int], ...] = ()
    """Of them, those whose columns in it have a code that tells all values apart."""
    streams: frozenset[int] = frozenset()
    """Inputs whose rows travel: they have a pipeline."""
    stored: frozenset[int] = frozenset()
    """Inputs that others probe."""

    def __len__(self) -> int:
        return len(self.aliases)

    def keys(self, before: set[int] | frozenset[int], inputs: set[int] | frozenset[int]) -> tuple[int, ...]:
        """The key classes that inputs share with those bound before."""
        known = {c for i in before for c in self.classes[i]}
        return tuple(sorted(known & {c for i in inputs for c in self.classes[i]}))

    def between(self, before: set[int] | frozenset[int], inputs: set[int] | frozenset[int]) -> tuple[int, ...]:
        """The predicates between inputs and those bound before."""
        whole = set(before) | set(inputs)
        return tuple(r for r, over in enumerate(self.judges) if over <= whole and over & before and over & inputs)

    def by_value(self, before: set[int] | frozenset[int], inputs: set[int] | frozenset[int]) -> tuple[int, ...]:
        """These predicates, if a cache can judge them: all that is brought to them has an exact code."""
        due = self.between(before, inputs)
        return due if all(self.judges[r] & before <= self.exact[r] for r in due) else ()

    def connected(self, i: int, j: int) -> bool:
        return bool(self.classes[i] & self.classes[j]) or frozenset({i, j}) in self.judges

    def order(self, i: int) -> list[int]:
        """The other inputs, each after one that it is connected to where that is possible."""
        done, rest = [i], [j for j in range(len(self)) if j != i]
        while rest:
            nxt = next((j for j in rest if any(self.connected(j, k) for k in done)), rest[0])
            done.append(nxt)
            rest.remove(nxt)
        return done[1:]
