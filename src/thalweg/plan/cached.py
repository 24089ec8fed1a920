"""Which part of a join is cached where: values, by the numbers of inputs and key classes.

`Cached` is what is stored: the combinations of a segment's rows, by key. `Placed` is where it is looked up: in the
pipeline of one input, before the segment (C_ijk of the thesis, 5.4). Pipelines that place the same `Cached` share one
store (definition 5.5.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cached:
    """The combinations of some inputs' rows, by the values of their key classes that the rows before them know.

    With `judges`, the key also holds what the rows before them bring to these predicates between the two, and only
    combinations that pass are kept.

    >>> Cached(frozenset({2, 1}), (0,)).named(["t", "r", "s"])
    'r ⋈ s'
    """

    inputs: frozenset[int]
    keys: tuple[int, ...]
    judges: tuple[int, ...] = ()
    within: frozenset[int] = frozenset()
    """Further inputs: only combinations that have a partner there must be kept (X ⋉ Y of 5.7)."""

    def named(self, aliases: Sequence[str]) -> str:
        name = " ⋈ ".join(aliases[i] for i in sorted(self.inputs))
        if self.within:
            name = f"({name}) ⋉ {' ⋈ '.join(aliases[i] for i in sorted(self.within))}"
        return name + (" by value" if self.judges else "")


@dataclass(frozen=True)
class Placed:
    """A cache in the pipeline of an input.

    >>> Placed(0, Cached(frozenset({2, 1}), (0,))).named(["t", "r", "s"])
    't: r ⋈ s'
    """

    input: int
    cached: Cached

    def named(self, aliases: Sequence[str]) -> str:
        return f"{aliases[self.input]}: {self.cached.named(aliases)}"

    def record(self) -> dict[str, Any]:
        """As plain JSON values.

        >>> placed = Placed(0, Cached(frozenset({2, 1}), (0,)))
        >>> Placed.of(placed.record()) == placed
        True
        """
        c = self.cached
        return {
            "input": self.input, "inputs": sorted(c.inputs), "keys": list(c.keys), "judges": list(c.judges),
            "within": sorted(c.within),
        }  # fmt: skip

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Placed:
        keys, judges = tuple(record["keys"]), tuple(record["judges"])
        cached = Cached(frozenset(record["inputs"]), keys, judges, frozenset(record["within"]))
        return cls(record["input"], cached)
