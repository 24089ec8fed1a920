"""Who decides: one file for each policy and each tuner, registered under the entry-point group `thalweg.policies`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import Any

from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.policy import Policy
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.plan import Pipeline
from thalweg.profile.prices import Prices

GROUP = "thalweg.policies"


@cache
def _registered() -> dict[str, EntryPoint]:
    return {e.name: e for e in entry_points(group=GROUP)}


def names() -> list[str]:
    """All policies by name, ours and those of other packages."""
    return sorted(_registered())


def make(name: str, pipeline: Pipeline, seed: int = 0, prices: Prices | None = None, **options: Any) -> Policy:
    """A fresh policy for a pipeline. One that takes `prices` gets those of the machine."""
    if name not in _registered():
        raise DefinitionError(f"no policy '{name}'", hint=did_you_mean(name, names()))
    kind = _registered()[name].load()
    if prices is not None and "prices" in signature(kind).parameters:
        options["prices"] = prices
    policy: Policy = kind(pipeline, seed, **options)
    return policy


__all__ = ["Explanation", "OperatorView", "Policy", "RouteView", "make", "names"]
