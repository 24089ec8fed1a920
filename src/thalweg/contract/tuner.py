"""The contract of a tuner: it owns one part of the plan (layouts, caches, purges, schedule) and proposes changes to it.

A tuner is pure in its inputs, as a policy is. What it decides can be rebuilt at any time, so it changes cost, never
results. The engine asks between batches and applies what is proposed.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from thalweg.plan import Change, Event, Plan
from thalweg.plan.change import Part


@runtime_checkable
class Tuner(Protocol):
    """Chooses one part of the plan other than routes."""

    name: str
    part: Part

    def propose(self, plan: Plan) -> Change | None:
        """The next change, or None; asked again until it has none."""
        ...

    def drain(self) -> list[Event]:
        """The decisions since the last call."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The whole state as one record of plain JSON values. It has no side effect."""
        ...

    def restore(self, record: dict[str, Any]) -> None:
        """Go on from the record of an equal tuner."""
        ...
