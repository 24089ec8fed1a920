"""An event: the record of one decision, with the estimates before and after it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """What changed, when, by whom, why. Estimates are cost per tuple in seconds, or None where there are none yet."""

    policy: str
    kind: str
    """What was decided: reorder, adopt, fall back, change seen, freeze, ..."""
    version: int
    """Version of the plan that the decision brought in force."""
    tuples: int
    """How many tuples the deciding policy had seen."""
    before: str
    after: str
    why: str
    estimate_before: float | None = None
    estimate_after: float | None = None

    def record(self) -> dict[str, Any]:
        return asdict(self)
