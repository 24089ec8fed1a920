"""A ruster: the rows of one batch that travel together, the route of each, and their purpose.

Most rusters have one route. A ruster with several carries a route id per row (query mesh's self-routing fabric, 5.2),
so rows of all classes that share a next operator meet it in one call. Profiling is a route too: rows of a ruster whose
purpose is `profile` are tried on operators (those in `also`) even after a drop, and the policy gets their pass bits.
Only rows of one route can be profiled together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import DefinitionError
from thalweg.plan.route import Route

Purpose = Literal["work", "profile", "explore"]
Also = Literal["all", "next"] | frozenset[int]
"""Operators tried even after a drop: all, the one after the dropping one, or those named."""


@dataclass(frozen=True, slots=True, eq=False)
class Ruster:
    """Rows (positions in the batch; None means all), their route, and their purpose.

    >>> two = Ruster.mixed(None, (Route((0, 1)), Route((1, 0))), np.array([0, 1, 1], np.int32), ("low", "high"))
    >>> two.route.operators, two.label, len(two.routes)
    ((0, 1), 'low', 2)
    """

    rows: NDArray[np.int64] | None
    route: Route
    """The first of its routes."""
    purpose: Purpose = "work"
    also: Also = frozenset()
    label: str = ""
    """The class of these rows, if the policy has classes; the first if there are several."""
    trace: bool = False
    """Filters: report which operator dropped each row. It is free and lets a policy count by content."""
    limit: float | None = None
    """Joins: recall a route's unstarted rows if its stems take more units of work per row than this."""
    turn: float | None = None
    """Joins, profiled: recall all rows at the first stem, before joining, if another stem lets less than this share of
    its matches through."""
    routes: tuple[Route, ...] = ()
    """All its routes. Reuse the same tuple across batches if you can: the fabric prepares each tuple once."""
    labels: tuple[str, ...] = ()
    """The class of each route."""
    ids: NDArray[np.int32] | None = None
    """Per row, an index into `routes`; None: all rows take the first."""
    phases: int = 1
    """Joins: with 2, partial results are probed before they are joined, from where there is a choice of stems: they go
    on if each stem, or the path to it, has a match at all (thesis 5.2). The answer is the same."""

    def __post_init__(self) -> None:
        if self.ids is None:
            object.__setattr__(self, "routes", (self.route,))
            object.__setattr__(self, "labels", (self.label,))
        elif self.purpose == "profile" or self.phases > 1:
            what = "profiled" if self.purpose == "profile" else "probed before they are joined"
            raise DefinitionError(
                f"rows of several routes can't be {what} together", hint="send one such ruster for each route"
            )

    @classmethod
    def mixed(
        cls,
        rows: NDArray[np.int64] | None,
        routes: tuple[Route, ...],
        ids: NDArray[np.int32],
        labels: tuple[str, ...] = (),
        *,
        purpose: Purpose = "work",
        trace: bool = False,
        limit: float | None = None,
    ) -> Ruster:
        """Rows that take several routes: `ids` says which."""
        labels = labels or ("",) * len(routes)
        return cls(
            rows, routes[0], purpose, label=labels[0], trace=trace, limit=limit, routes=routes, labels=labels, ids=ids
        )
