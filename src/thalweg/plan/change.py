"""A change: one part of the plan before and after a decision, with the cost of a row under each.

Values only: routes are tuples of operator names by class, layouts are `Layout`. Costs are in seconds per row of the
affected input, or None while unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from thalweg.plan.cached import Placed
from thalweg.plan.layout import Layout

Part = Literal["routes", "layouts", "caches", "purges", "schedule"]
NamedRoutes = Mapping[str, tuple[str, ...]]
"""By class label, the operators' names in visiting order."""


@dataclass(frozen=True)
class Change:
    """What changes, and where: an input for routes, a stem for layouts.

    >>> change = Change("routes", "a", {"": ("b", "c")}, {"": ("c", "b")}, 2e-6, 1e-6)
    >>> Change.of(change.record()) == change
    True
    """

    part: Part
    where: str
    before: Any
    after: Any
    cost_before: float | None = None
    cost_after: float | None = None
    slices: frozenset[int] = frozenset()
    """Layouts: the stored slices that migrate. Others keep their layout."""
    attributes: tuple[str, ...] = ()
    """Layouts: the names of the stem's join attributes, in the layout's order."""

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "part": self.part, "where": self.where, "before": _record(self.before), "after": _record(self.after),
            "cost_before": self.cost_before, "cost_after": self.cost_after, "slices": sorted(self.slices),
            "attributes": list(self.attributes),
        }  # fmt: skip

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Change:
        read = _READERS.get(record["part"], _as_it_is)
        values = {k: None if record[k] is None else read(record[k]) for k in ("before", "after")}
        values |= {"slices": frozenset(record["slices"]), "attributes": tuple(record["attributes"])}
        return cls(**{**record, **values})


def _record(value: Any) -> Any:
    if isinstance(value, (Layout, Placed)):
        return value.record()
    if isinstance(value, Mapping):
        return {k: list(v) if isinstance(v, tuple) else v for k, v in value.items()}
    return value


def _routes(record: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {label: tuple(route) for label, route in record.items()}


def _as_it_is(record: Any) -> Any:
    return record


_READERS: dict[str, Callable[[Any], Any]] = {"routes": _routes, "layouts": Layout.of, "caches": Placed.of}
