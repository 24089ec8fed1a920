"""What a policy has learned, as a record that outlives it: in a checkpoint, or in a control file for new workers.

It is only ever a hint: it changes cost, never results. So a record says its format and its policy; one of another
policy is not read, nor one of another version, and then an event says that the policy begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.contract.policy import Formatted, Policy, Priming
from thalweg.plan import Event, Reason

FORMAT = 12
"""Of what the policies and tuners of this package write in `snapshot`. Raised whenever one of them writes or reads it otherwise."""


def record(policy: Policy, seen: int = 0, *, light: bool = False) -> dict[str, Any]:
    """All that was learned from the rows `seen`; `light`: what a new worker needs to begin where others are, where the
    policy says that this is less."""
    written = policy.prior() if light and isinstance(policy, Priming) else policy.snapshot()
    return {"format": _format(policy), "policy": policy.name, "seen": seen, "learned": written}


def seen(kept: Mapping[str, Any]) -> int:
    """The rows that a record rests on, those of the records that it went on from among them."""
    found = kept.get("seen")
    return found if isinstance(found, int) and found > 0 else 0


def fuller(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of two records to share, the one that rests on more rows; the later one if they can't be compared."""
    alike = before is not None and all(before.get(k) == after.get(k) for k in ("policy", "format"))
    return before if before is not None and alike and seen(before) > seen(after) else after


def choose(policy: Policy, own: Mapping[str, Any] | None, shared: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The record to go on from. A worker's own has samples that a shared one may lack, so the shared one has to make up
    for them: the rows that only others saw must outnumber the worker's."""
    fitting = [
        k is not None and k.get("policy") == policy.name and k.get("format") == _format(policy) for k in (own, shared)
    ]
    if own is None or shared is None or fitting != [True, True]:
        return shared if own is None or (fitting[1] and not fitting[0]) else own
    return shared if seen(shared) - seen(own) > seen(own) else own


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
