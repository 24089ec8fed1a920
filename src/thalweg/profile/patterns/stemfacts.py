"""The facts about a stem that a tuner decides on: sizes, evenness of its attributes, its slices' layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from thalweg.plan.layout import Layout


class Probe(NamedTuple):
    """The outcome of some search requests with one access pattern at one stem."""

    stem: str
    mask: int
    requests: int
    work: float
    """Buckets looked up and candidates examined."""
    matches: int


@dataclass(frozen=True, slots=True)
class SliceFacts:
    number: int
    layout: Layout
    rows: int
    life: float
    """For what share of a window future tuples may still search it."""
    waiting: int = 0
    """Waiting tuples that will search it."""


@dataclass
class StemFacts:
    """Expensive facts are computed on first use."""

    names: tuple[str, ...]
    """Names of the join attributes."""
    rows: int
    built: int
    """Rows stored since the query began."""
    runs: int
    look: Callable[[], Sequence[Sequence[float]]]
    listed: Callable[[], tuple[SliceFacts, ...]] = tuple

    @cached_property
    def evenness(self) -> Sequence[Sequence[float]]:
        """Per attribute and number of bits, the share of the tuples that a probe by it meets."""
        return self.look()

    @cached_property
    def slices(self) -> tuple[SliceFacts, ...]:
        return self.listed()

    @property
    def bits(self) -> int:
        """The most bits that a directory no larger than the rows can have."""
        return max(self.rows - 1, 0).bit_length()
