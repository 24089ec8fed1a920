"""An uncertain route: operators whose order is still open, `<2, 3|1, 4>` (query mesh 5.4). An immutable value.

Each place lists the operators that may take it; when a ruster departs, they are drawn one after the other with the
given odds. The paper draws at the preceding operator; here odds change only between batches, so the result is the same
and a ruster carries a certain route. Invariant: every drawn route visits every operator once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.plan.route import Route


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Groups of operators in order.

    >>> route = Uncertain(((2,), (3, 1), (0,)))
    >>> route.named(list("abcd"))
    'c → d|b → a'
    >>> route.draw(np.random.default_rng(1), [1.0, 0.0, 1.0, 1.0]).operators
    (2, 3, 1, 0)
    """

    groups: tuple[tuple[int, ...], ...]

    @property
    def certain(self) -> bool:
        return all(len(group) == 1 for group in self.groups)

    def draw(self, random: np.random.Generator, odds: Sequence[float]) -> Route:
        """Draw a route: within a group, without replacement, each operator in proportion to its odds."""
        order: list[int] = []
        for group in self.groups:
            waiting = list(group)
            while len(waiting) > 1:
                wheel = np.cumsum([max(float(odds[op]), 1e-9) for op in waiting])
                at = int(np.searchsorted(wheel, random.random() * wheel[-1], side="right"))
                order.append(waiting.pop(min(at, len(waiting) - 1)))
            order += waiting
        return Route(tuple(order))

    def named(self, names: Sequence[str]) -> str:
        return " → ".join("|".join(names[op] for op in group) for group in self.groups)
