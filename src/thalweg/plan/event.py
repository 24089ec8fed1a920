"""An event: the record of one decision, or of an observation that changed nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thalweg.plan.change import Change
from thalweg.plan.reason import Reason


@dataclass(frozen=True)
class Event:
    """Who decided what, when and why.

    >>> event = Event("agreedy", "reorder", 1, 500, Reason("b drops more"), Change("routes", "a", {}, {"": ("b",)}))
    >>> Event.of(event.record()) == event
    True
    """

    by: str
    """The policy or tuner, or "user"."""
    kind: str
    """What was decided: reorder, adopt, fall back, change seen, freeze, ..."""
    version: int
    """Version of the decider's part of the plan after the decision."""
    tuples: int
    """How many tuples the decider had seen."""
    why: Reason
    change: Change | None = None
    """None if nothing changed."""

    @property
    def cost_before(self) -> float | None:
        return None if self.change is None else self.change.cost_before

    @property
    def cost_after(self) -> float | None:
        return None if self.change is None else self.change.cost_after

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "by": self.by, "kind": self.kind, "version": self.version, "tuples": self.tuples,
            "why": self.why.record(), "change": None if self.change is None else self.change.record(),
        }  # fmt: skip

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Event:
        change = record["change"]
        return cls(
            **{**record, "why": Reason(**record["why"]), "change": None if change is None else Change.of(change)}
        )
