"""A plan: every decision in force, as one immutable value with a version.

Changing anything means making the next plan and swapping it in between rusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from thalweg.plan.route import Route


@dataclass(frozen=True)
class Plan:
    """Routes by class label; a plan with one class has the single label "".

    >>> plan = Plan.single(Route((0, 1)))
    >>> plan.with_routes({"": Route((1, 0))}).version
    1
    """

    version: int = 0
    routes: Mapping[str, Route] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "routes", MappingProxyType(dict(self.routes)))

    def __reduce__(self) -> tuple[type[Plan], tuple[int, dict[str, Route]]]:
        # A read-only view does not pickle; policies travel to workers with their plan.
        return Plan, (self.version, dict(self.routes))

    @classmethod
    def single(cls, route: Route) -> Plan:
        return cls(0, {"": route})

    @property
    def route(self) -> Route:
        """The only route, or the first one of several."""
        return next(iter(self.routes.values()))

    def named(self, names: list[str]) -> str:
        """The plan in one line."""
        return "; ".join(f"{label}: {r.named(names)}" if label else r.named(names) for label, r in self.routes.items())

    def with_routes(self, routes: Mapping[str, Route]) -> Plan:
        return replace(self, version=self.version + 1, routes=routes)
