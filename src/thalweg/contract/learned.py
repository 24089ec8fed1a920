"""What a policy has learned, as a record that outlives it: in a checkpoint, or in a control file for new workers.

It is only ever a hint: it changes cost, never results. So a record says its format and its policy; one of another
policy is not read, nor one of another version, and then an event says that the policy begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.contract.policy import Formatted, Policy, Priming
from thalweg.plan import Event, Reason

FORMAT = 11
"""Of what the policies and tuners of this package write in `snapshot`. Raised whenever one of them writes or reads it otherwise."""


def record(policy: Policy, *, light: bool = False) -> dict[str, Any]:
    """All that was learned; `light`: what a new worker needs to begin where others are, where the policy says that this
    is less."""
    written = policy.prior() if light and isinstance(policy, Priming) else policy.snapshot()
    return {"format": _format(policy), "policy": policy.name, "learned": written}


def take_up(policy: Policy, kept: Mapping[str, Any]) -> list[Event]:
    """Let a new policy go on from a record of its own; what there is to say if it is of another version."""
    if kept.get("policy") != policy.name:
        return []
    if kept.get("format") != _format(policy):
        why = Reason.of(
            "what was learned has format {found}, this version reads {wanted}",
            found=kept.get("format", 0),
            wanted=_format(policy),
        )
        return [Event(policy.name, "begin anew", policy.plan.version, 0, why)]
    policy.restore(kept["learned"])
    return []


def _format(policy: Policy) -> int:
    """A policy of another package numbers its own."""
    return policy.format if isinstance(policy, Formatted) else FORMAT
