"""What a tuner gets to know of a stem when it decides: sizes, evenness of its attributes, its slices' layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from thalweg.plan.layout import Layout


class Probe(NamedTuple):
    """What some search requests with one access pattern met at one stem."""

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
    """Share of a window for which tuples to come may still search it."""
    waiting: int = 0
    """Tuples that have come, wait, and will search it."""


@dataclass
class StemFacts:
    """What costs something to find out is found out when it is first asked for."""

    names: tuple[str, ...]
    """Of the join attributes."""
    rows: int
    built: int
    """Rows stored since the query began."""
    runs: int
    look: Callable[[], Sequence[Sequence[float]]]
    listed: Callable[[], tuple[SliceFacts, ...]] = tuple

    @cached_property
    def evenness(self) -> Sequence[Sequence[float]]:
        """For each attribute and number of bits, the share of the tuples that a probe of it meets."""
        return self.look()

    @cached_property
    def slices(self) -> tuple[SliceFacts, ...]:
        return self.listed()

    @property
    def bits(self) -> int:
        """Most bits that a directory no larger than the rows can have."""
        return max(self.rows - 1, 0).bit_length()
