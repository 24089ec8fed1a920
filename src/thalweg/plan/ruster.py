"""A ruster: the rows of one batch that travel one route, and why they travel it.

Profiling is a route too. A ruster whose purpose is `profile` has its rows tried on operators even after a drop, and
its pass bits come back to the policy; `also` says which operators those are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thalweg.plan.route import Route

Purpose = Literal["work", "profile", "explore"]
Also = Literal["all", "next"] | frozenset[int]
"""Tried even after a drop: all operators, the one after the dropping one, or those named."""


@dataclass(frozen=True, slots=True, eq=False)
class Ruster:
    """Rows (positions in the batch; None means all of them), their route, and what for."""

    rows: NDArray[np.int64] | None
    route: Route
    purpose: Purpose = "work"
    also: Also = frozenset()
    label: str = ""
    """The class these rows belong to, where the policy has classes."""
    trace: bool = False
    """Filters: tell which rows left each operator. It costs nothing to tell and lets a policy count by content."""
    limit: float | None = None
    """Joins: recall the rows not begun yet if its stems take more units of work for each row than this."""
    turn: float | None = None
    """Joins, profiled: recall all rows at the first stem, before anything is joined, if another one lets less than this
    share of its matches through."""
