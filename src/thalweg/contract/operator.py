"""The contract of an operator: it takes row sets, gives row sets, and says what that cost.

Filters, stems and caches are operators; the fabric knows no other word for them. An operator serves some of the routes
that rows travel together, whatever it does for them: judge rows, join them, look them up, or only watch them go by.
Invariants: rows of different routes stay apart, and what leaves for a route does not depend on the other routes or on
how rows were cut into sets. Self-routing fabric: query mesh 5.2; pipelines of operators: thesis 3.2, 5.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class RowSet:
    """Partial results on their way, a line each.

    Rows that have just arrived keep their order: `at` says which lines still live (None: all), `ids` the route of each
    (None: there is one route). Behind the first filters they are grouped: lines `ends[r]` to `ends[r + 1]` take route r.
    """

    lines: Ints
    ends: Ints | None = None
    at: Ints | None = None
    ids: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.lines if self.at is None else self.at)

    def only(self, places: Ints | None) -> RowSet:
        """The rows that have just arrived at these places among those that live; None: all."""
        if places is None or len(places) == len(self):
            return self
        at = places if self.at is None else self.at[places]
        return RowSet(self.lines, None, at, None if self.ids is None else self.ids[places])

    @property
    def sizes(self) -> Ints:
        """How many grouped rows take each route."""
        assert self.ends is not None
        return np.diff(self.ends)

    @property
    def routes(self) -> Ints:
        """The route of each grouped row."""
        sizes = self.sizes
        return np.repeat(np.arange(len(sizes)), sizes)

    def of(self, route: int) -> Ints:
        """The grouped rows of one route."""
        assert self.ends is not None
        return self.lines[self.ends[route] : self.ends[route + 1]]

    def where(self, keep: NDArray[np.bool_]) -> RowSet:
        """The grouped rows for which `keep` is true."""
        if keep.all():
            return self
        return RowSet(
            self.lines.compress(keep, axis=0), ends_of(np.bincount(self.routes[keep], minlength=len(self.sizes)))
        )

    def split(self, routes: NDArray[np.bool_]) -> tuple[RowSet, RowSet]:
        """The grouped rows of these routes, and those of the others."""
        sizes = self.sizes
        nobody = RowSet(self.lines[:0], np.zeros_like(sizes, shape=len(sizes) + 1))
        if not sizes[~routes].any():
            return self, nobody
        if not sizes[routes].any():
            return nobody, self
        mine = np.repeat(routes, sizes)
        return (
            RowSet(self.lines.compress(mine, axis=0), ends_of(np.where(routes, sizes, 0))),
            RowSet(self.lines.compress(~mine, axis=0), ends_of(np.where(routes, 0, sizes))),
        )


def ends_of(sizes: Ints) -> Ints:
    """Where parts of these sizes begin and end."""
    return np.concatenate([[0], np.cumsum(sizes)])


class Bill(Protocol):
    """What the rows under way have cost so far. An operator adds its price: nobody else measures it."""

    counts: Ints
    """By route, operator and what is counted: rows in, rows out, work, as in `contract/visits.py`."""
    seconds: list[float]
    """By operator."""


Under = TypeVar("Under", bound=Bill, contravariant=True)


@runtime_checkable
class Operator(Protocol[Under]):
    """What rows of several routes meet next, prepared for these routes."""

    routes: NDArray[np.bool_] | None
    """The routes it serves; None: all. Rows of others pass by."""

    def visit(self, bill: Under, rows: RowSet, /) -> Iterable[RowSet]:
        """What becomes of the rows, in as many parts as it takes. A part may lie in a buffer that the next one reuses.
        The price of each part is on the bill by the time the next is asked for, or the visit ends."""
        ...


To = TypeVar("To", contravariant=True)


@runtime_checkable
class Writing(Protocol[Under, To]):
    """An operator that can write results itself where nothing comes behind it, without making row sets of them."""

    def writes(self, bill: Under, to: To, /) -> bool:
        """Whether it can now: nothing more judges what it lets through."""
        ...

    def write(self, bill: Under, rows: RowSet, to: To, /) -> None: ...
