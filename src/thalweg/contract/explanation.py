"""What a policy says of itself: the routes in force, why, and what it believes of each operator. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.plan import Reason, Route


@dataclass(frozen=True)
class OperatorView:
    """What a policy believes of one operator: unconditional pass rate, and seconds per row."""

    name: str
    pass_rate: float | None = None
    cost: float | None = None


@dataclass(frozen=True)
class RouteView:
    """One class of rows: its label, its share of the rows, its route, and the estimated seconds per row."""

    label: str
    share: float
    route: Route
    estimate: float | None = None


@dataclass(frozen=True)
class Explanation:
    """The present routes, why they are so, and what it would take to change them."""

    policy: str
    why: Reason
    routes: tuple[RouteView, ...]
    operators: tuple[OperatorView, ...]
    to_change: Reason | None = None
    tree: str = ""
    """How content is classified, as text; empty where all rows are one class."""
