"""The routes of one input: one for each class of its rows, and a version that counts the changes.

A policy owns the routes of its input. The engine puts the routes of all inputs together into a `Plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from thalweg.plan.route import Route


@dataclass(frozen=True)
class Routes:
    """Routes by class label; a single class has the label "".

    >>> routes = Routes.single(Route((0, 1)))
    >>> routes.with_routes({"": Route((1, 0))}).version
    1
    """

    version: int = 0
    routes: Mapping[str, Route] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "routes", MappingProxyType(dict(self.routes)))

    def __reduce__(self) -> tuple[type[Routes], tuple[int, dict[str, Route]]]:
        # A read-only view does not pickle; policies travel to workers with their routes.
        return Routes, (self.version, dict(self.routes))

    @classmethod
    def single(cls, route: Route) -> Routes:
        return cls(0, {"": route})

    @property
    def route(self) -> Route:
        """The only route, or the first one of several."""
        return next(iter(self.routes.values()))

    def with_routes(self, routes: Mapping[str, Route]) -> Routes:
        return replace(self, version=self.version + 1, routes=routes)

    def names(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """By class label, the operators' names in visiting order.

        >>> Routes.single(Route((1, 0))).names(["a", "b"])
        {'': ('b', 'a')}
        """
        return {label: tuple(names[op] for op in route) for label, route in self.routes.items()}
