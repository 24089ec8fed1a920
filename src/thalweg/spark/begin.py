"""What a worker's policy goes on from: its own record of an earlier task, or one that the board shared.

Records come from memory or from a file, and are only a hint. One that can't be read costs what was learned and is told
as an event; it never stops a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from thalweg.contract import learned
from thalweg.contract.policy import Policy
from thalweg.plan import Event, Reason


@dataclass(frozen=True)
class Begun:
    policy: Policy
    seen: int = 0
    """Rows from which it has learned already."""
    events: tuple[Event, ...] = ()


def begin(make: Callable[[], Policy], own: Mapping[str, Any] | None, shared: Mapping[str, Any] | None) -> Begun:
    policy = make()
    kept = learned.choose(policy, own, shared)
    if kept is None:
        return Begun(policy)
    try:
        events = learned.take_up(policy, kept)
    except Exception as error:
        why = Reason.of("what was learned can't be read: {error}", error=f"{type(error).__name__}: {error}")
        policy = make()  # the other may be half restored
        events = [Event(policy.name, "begin anew", policy.plan.version, 0, why)]
    taken = not events and kept.get("policy") == policy.name
    return Begun(policy, learned.seen(kept) if taken else 0, tuple(events))
