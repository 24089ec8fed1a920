"""Where the decisions of a random case come from: a seed, or Hypothesis.

A seed makes thousands of cases cheap. Hypothesis draws, remembers and shrinks. Invariant: a seed alone decides a case,
on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


class Chance(Protocol):
    """Where a case's decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """Between both bounds, both included."""
        ...

    def yes(self, probability: float) -> bool: ...

    def choice(self, options: Sequence[T]) -> T: ...


class Seeded:
    """Decisions from a seed: cheap, and the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low + 1))

    def yes(self, probability: float) -> bool:
        return self._random.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]


class Drawn:
    """Decisions that Hypothesis draws, remembers and shrinks; its simplest case answers no to everything."""

    def __init__(self, draw: Callable[[SearchStrategy[Any]], Any]) -> None:
        from hypothesis import strategies

        self._draw = draw
        self._strategies = strategies

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(self._strategies.integers(low, high)))

    def yes(self, probability: float) -> bool:
        return self.integer(0, 99) >= 100 - round(100 * probability)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]


def shuffled(chance: Chance, items: Sequence[T]) -> list[T]:
    """The items in an order drawn at random."""
    rest, drawn = list(items), []
    while rest:
        drawn.append(rest.pop(chance.integer(0, len(rest) - 1)))
    return drawn


def strategy(make: Callable[[Chance], T]) -> SearchStrategy[T]:
    """A Hypothesis strategy out of a generator."""
    from hypothesis import strategies

    @strategies.composite
    def build(draw: Callable[[SearchStrategy[Any]], Any]) -> T:
        return make(Drawn(draw))

    built: SearchStrategy[T] = build()
    return built
