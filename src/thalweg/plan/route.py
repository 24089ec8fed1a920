"""A route: the order in which a tuple visits operators.

Operators are numbered as their pipeline lists them, so a route means something only beside its pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """An order of operators.

    >>> Route((2, 0, 1)).named(["cheap", "costly", "odd"])
    'odd → cheap → costly'
    """

    operators: tuple[int, ...]

    def __iter__(self) -> Iterator[int]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def named(self, names: Sequence[str]) -> str:
        return " → ".join(names[i] for i in self.operators)
