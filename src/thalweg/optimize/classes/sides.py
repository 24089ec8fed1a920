"""Routes of classes for the fabric: named tuples of routes that stay the same objects from batch to batch.

A side is a table of classes with their routes: the one in force, one on trial, or both concatenated. The last route of
a side is for rows of an unknown class. Sides follow from what a policy knows and are rebuilt when that changes, so they
are not state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from thalweg.plan import Route, Ruster

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]


class Sides:
    """Routes and labels by side.

    >>> sides = Sides()
    >>> sides.put("table", [(1, 0)], (0, 1), {"small": Route((1, 0)), "other": Route((0, 1))})
    >>> ruster = sides.ruster("table", None, np.array([0, 1, 0], np.int32))
    >>> ruster.labels, sides.name(ruster.routes)
    (('small', 'other'), 'table')
    """

    def __init__(self) -> None:
        self._routes: dict[str, tuple[Route, ...]] = {}
        self._labels: dict[str, tuple[str, ...]] = {}

    def __contains__(self, side: str) -> bool:
        return side in self._routes

    def put(self, side: str, orders: Iterable[Iterable[int]], last: Iterable[int], plan: Mapping[str, Route]) -> None:
        """An order for each class and one for the rest; labels are those of the plan's routes, the first for others."""
        routes = (*(Route(tuple(order)) for order in orders), Route(tuple(last)))
        by_route, first = {route: label for label, route in plan.items()}, next(iter(plan))
        self._routes[side], self._labels[side] = routes, tuple(by_route.get(route, first) for route in routes)

    def join(self, side: str, *others: str) -> None:
        """Concatenate sides into one."""
        self._routes[side] = tuple(route for other in others for route in self._routes[other])
        self._labels[side] = tuple(label for other in others for label in self._labels[other])

    def ruster(self, side: str, rows: Rows | None, ids: Ids) -> Ruster:
        """A ruster of these rows, or all, each on the route of its id."""
        routes, labels = self._routes[side], self._labels[side]
        if len(routes) == 1:
            return Ruster(rows, routes[0], label=labels[0])
        return Ruster.mixed(rows, routes, ids if rows is None else ids[rows], labels)

    def name(self, routes: tuple[Route, ...]) -> str | None:
        """The side that has these routes."""
        return next((side for side, mine in self._routes.items() if mine == routes), None)

    def clear(self) -> None:
        self._routes.clear()
        self._labels.clear()
