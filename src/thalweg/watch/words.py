"""Words for what was decided: events, routes and layouts as the texts that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.plan import Change, Event
from thalweg.plan.layout import Layout

EVENT_COLUMNS = [
    "batch", "partition", "by", "kind", "version", "tuples", "where", "before", "after", "why", "cost_before", "cost_after",
]  # fmt: skip


def routed(routes: Mapping[str, tuple[str, ...]]) -> str:
    """The routes of one input in one line.

    >>> routed({"": ("b", "a")}), routed({"hot": ("b", "a"), "cold": ("a", "b")})
    ('b → a', 'hot: b → a; cold: a → b')
    """
    orders = {label: " → ".join(route) for label, route in routes.items()}
    return "; ".join(f"{label}: {order}" if label else order for label, order in orders.items())


def sides(change: Change | None) -> tuple[str, str]:
    """What was, and what is now."""
    if change is None:
        return "", ""

    def side(value: Any) -> str:
        if isinstance(value, Layout):
            return value.named(change.attributes)
        return "" if value is None else routed(value) if isinstance(value, Mapping) else str(value)

    return side(change.before), side(change.after)


def row(event: Event, batch: int | None = None, partition: int | None = None) -> dict[str, Any]:
    """An event as a row of `events()`."""
    change = event.change
    before, after = sides(change)
    return {
        "batch": batch, "partition": partition, "by": event.by, "kind": event.kind, "version": event.version,
        "tuples": event.tuples, "where": "" if change is None else change.where,
        "before": before, "after": after,
        "why": str(event.why), "cost_before": event.cost_before, "cost_after": event.cost_after,
    }  # fmt: skip
