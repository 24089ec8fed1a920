"""Which stored slices take a new layout: All, Nothing, or Partial by the benefit of AMRI's equation (3).

B_m = C_s(old) - (C_s(new) + C_m): what searching a slice will cost as it is, against moving its tuples and searching
it then. The searches to come are those of tuples that wait with a window over the slice, as in the paper (8.2), and,
since in a window that slides new tuples search old slices too, those foreseen until the slice expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.optimize.indexes.layoutcost import Workload
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.stemfacts import SliceFacts

MIGRATIONS = ("nothing", "all", "partial")


def check(name: str) -> str:
    if name not in MIGRATIONS:
        raise DefinitionError(f"no migration '{name}'", hint=did_you_mean(name, MIGRATIONS))
    return name


def to_move(
    migration: str, slices: Sequence[SliceFacts], layout: Layout, workload: Workload, windows: float
) -> frozenset[int]:
    """Numbers of the slices to index anew. The workload is that of `1 / windows` of a window."""
    others = [s for s in slices if s.layout != layout]
    if migration == "nothing":
        return frozenset()
    if migration == "all":
        return frozenset(s.number for s in others)
    return frozenset(s.number for s in others if benefit(s, layout, workload, windows) > 0)


def benefit(part: SliceFacts, layout: Layout, workload: Workload, windows: float) -> float:
    """B_m of one slice, equation (3)."""
    requests = workload.requests * windows * part.life + part.waiting
    own = replace(workload, requests=requests, arrivals=0.0, stored=float(part.rows), runs=1.0)
    old, new = (each.fitted(workload.attributes, part.rows) for each in (part.layout, layout))
    prices = workload.prices
    used, was = sum(b > 0 for b in new), sum(b > 0 for b in old)
    move = part.rows * ((used * prices.hash + prices.insert) + (was * prices.hash + prices.delete))
    if part.layout.kind != "bits" or layout.kind != "bits":
        return 0.0
    return own.cost(old) - (own.cost(new) + move)
