"""The definition of a query for the board and `watch/`: the same value for filters and joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thalweg.language.query import Query, Window
from thalweg.plan import Pipeline
from thalweg.plan.shares import Shares


@dataclass(frozen=True)
class AskedInput:
    """One input: its window, if it is a stream with one, and the operators of its rows."""

    alias: str
    window: Window | None
    """None for a table, and for the rows of `tw.where`."""
    pipeline: Pipeline
    copies: int = 1
    """Number of cells that store each of its rows."""


@dataclass(frozen=True)
class Cut:
    """How the rows of a join are spread over cells."""

    query: Query | None = field(compare=False, repr=False)
    """The block that is cut by shares of its keys; None if a whole query is cut by one value."""
    shares: Shares
    why: str
    partitions: int
    """Partitions of the shuffle to the cells."""


@dataclass(frozen=True)
class Asked:
    """A named query."""

    name: str
    policy: str
    streaming: bool
    inputs: tuple[AskedInput, ...]
    """One, with an empty alias, for `tw.where`."""
    places: Mapping[str, str]
    """Where each predicate runs and why, in the written order."""
    text: str = ""
    """The SQL of a join."""
    cut: Cut | None = None
    """None if each task works on its own rows: no shuffle, no state."""

    @property
    def is_join(self) -> bool:
        return bool(self.text)

    def input(self, alias: str) -> AskedInput:
        return next(i for i in self.inputs if i.alias == alias)
