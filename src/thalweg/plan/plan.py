"""The plan: every decision in force, as one immutable value with one version.

Routes by input and class, layouts by stem, and room for caches, purges and the schedule. A decision is a `Change`;
applying it gives the next plan. An engine swaps plans only between rusters, so a batch never sees half a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from thalweg.plan.change import Change, NamedRoutes
from thalweg.plan.layout import Layout

PARTS = ("routes", "layouts", "caches", "purges", "schedule")


@dataclass(frozen=True)
class Plan:
    """Every part is a mapping: inputs to routes, stems to layouts, names to whatever a later tuner decides.

    >>> plan = Plan(routes={"a": {"": ("b", "c")}})
    >>> plan = plan.apply(Change("routes", "a", plan.routes["a"], {"": ("c", "b")}))
    >>> plan.version, dict(plan.routes["a"])
    (1, {'': ('c', 'b')})
    """

    version: int = 0
    routes: Mapping[str, NamedRoutes] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    caches: Mapping[str, Any] = field(default_factory=dict)
    purges: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    """Inputs whose routes are frozen."""

    def __post_init__(self) -> None:
        for part in PARTS:
            object.__setattr__(self, part, MappingProxyType(dict(getattr(self, part))))

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan, (self.version, *(dict(getattr(self, part)) for part in PARTS), self.pinned)

    def apply(self, change: Change) -> Plan:
        """The plan after a change; None removes an entry."""
        part = {**getattr(self, change.part), change.where: change.after}
        if change.after is None:
            del part[change.where]
        changes: dict[str, Any] = {change.part: part}
        return replace(self, version=self.version + 1, **changes)

    def route(self, where: str | None = None) -> tuple[str, ...]:
        """The order of the first class of an input; without a name, of the only input."""
        routes = self.routes[where] if where is not None else next(iter(self.routes.values()))
        return next(iter(routes.values()))
