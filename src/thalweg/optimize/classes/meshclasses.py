"""The query mesh in force: a tree that classifies, and for each class its route and what its own work has shown.

Invariant: the leaves of the tree are numbered as `states`. Drift (the paper's twin work, 5.3) is found per class by
Page-Hinkley on the cost per tuple at constant prices: it reflects the data, not the machine. With `uncertain` above 0,
the order of neighbours on a route that cost about the same either way stays open (5.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.routeprices import Bits, Prices
from thalweg.optimize.classes.selectivity import expected
from thalweg.plan import Pipeline, Route
from thalweg.plan.tree import Tree, told
from thalweg.plan.uncertain import Uncertain
from thalweg.profile.content.attributes import Attributes
from thalweg.profile.content.drift import PageHinkley
from thalweg.profile.rates.given import ENOUGH

Floats = NDArray[np.float64]


@dataclass
class ClassState:
    """One class: its route, and the evidence of ordinary work since its route or its data changed."""

    route: Route
    rates: Floats
    """Pass rates believed when the route was chosen."""
    basis: Floats
    """Costs at that time."""
    drift: PageHinkley = field(default_factory=PageHinkley)
    came: Floats = field(default_factory=lambda: np.zeros(0))
    left: Floats = field(default_factory=lambda: np.zeros(0))
    wanted: int = 0
    """Sampled tuples still needed after a drift."""
    token: Uncertain | None = None
    """The undecided part of the route, if any."""

    def __post_init__(self) -> None:
        if not len(self.came):
            self.came, self.left = np.zeros(len(self.rates)), np.zeros(len(self.rates))

    def believed(self) -> Floats:
        """Current pass rates; the old ones count as the fewest rows behind a training tuple."""
        return np.asarray((self.left + ENOUGH * self.rates) / (self.came + ENOUGH))

    def cost(self, route: Route, costs: Floats) -> float:
        """Estimated seconds per tuple."""
        return float(expected(self.believed()[None, :], np.array([route.operators], np.int64), costs)[0])

    def set(self, route: Route, rates: Floats, costs: Floats) -> None:
        self.route, self.rates, self.basis, self.token = route, rates, costs.copy(), None
        self.drift.reset()

    def moved(self, rows: float, came: Floats, survived: Floats) -> bool:
        """Whether the cost per tuple has moved, given the counts of this class on its route."""
        order = list(self.route)
        spent, alive, total, squares = 0.0, rows, 0.0, 0.0
        for i, op in enumerate(order):
            spent += float(self.basis[op])
            # Tuples, not partial results: several matches of one tuple come and go together.
            on = alive * float(survived[op] / came[op]) if came[op] and i + 1 < len(order) else 0.0
            total += (alive - on) * spent
            squares += (alive - on) * spent * spent
            alive = on
        mean = total / rows
        error = sqrt(max(squares / rows - mean * mean, 0.0) / rows)
        return self.drift.observe(mean, max(error, 1e-3 * mean / sqrt(rows)), int(rows))

    def follow(self, rows: float, came: Floats, left: Floats, memory: int) -> None:
        kept = 0.5 ** (rows / memory)
        self.came, self.left = self.came * kept + came, self.left * kept + left

    def drifted(self, came: Floats, left: Floats, wanted: int) -> None:
        """Start over from the latest work, and request new samples."""
        self.rates = self.believed()
        self.came, self.left, self.wanted = came, left, wanted
        self.drift.reset()  # or every batch would find the same change again, and no sample could grow

    def departing(self, pipeline: Pipeline, costs: Floats, random: np.random.Generator) -> Route:
        """The route of a ruster, drawn if uncertain. An operator's odds are its drop rate per cost among the tuples of
        the class that reached it."""
        if self.token is None:
            return self.route
        odds = np.maximum(1 - self.believed(), 0.0) / costs
        return pipeline.closest(self.token.draw(random, odds.tolist()).operators)

    def leave_open(self, pipeline: Pipeline, bits: Bits, prices: Prices, uncertain: float) -> None:
        """Which neighbours on the route are undecided, on sampled tuples of the class."""
        self.token = None
        if uncertain <= 0 or len(bits) < ENOUGH:
            return
        order = self.route.operators
        cost = float(prices.each(bits, order).mean())
        groups = [[order[0]]]
        for i in range(1, len(order)):
            other = (*order[: i - 1], order[i], order[i - 1], *order[i + 1 :])
            tied = pipeline.allows(Route(other)) and (
                abs(float(prices.each(bits, other).mean()) - cost) < uncertain * cost
            )
            if tied:
                groups[-1].append(order[i])
            else:
                groups.append([order[i]])
        token = Uncertain(tuple(map(tuple, groups)))
        self.token = None if token.certain else token

    def record(self) -> dict[str, Any]:
        return {
            "route": list(self.route), "rates": self.rates.tolist(), "basis": self.basis.tolist(),
            "drift": self.drift.snapshot(), "came": self.came.tolist(), "left": self.left.tolist(),
            "wanted": self.wanted, "token": None if self.token is None else [list(g) for g in self.token.groups],
        }  # fmt: skip

    @classmethod
    def of(cls, record: dict[str, Any], pipeline: Pipeline) -> ClassState:
        rates, basis, came, left = (np.array(record[name], float) for name in ("rates", "basis", "came", "left"))
        route, wanted = pipeline.closest(record["route"]), int(record["wanted"])
        state = cls(route, rates, basis, came=came, left=left, wanted=wanted)
        state.drift.restore(record["drift"])
        token = record["token"]
        state.token = None if token is None else Uncertain(tuple(map(tuple, token)))
        return state


def class_names(tree: Tree, classes: int, attributes: Attributes) -> list[str]:
    """A name for each class: the tests that lead to it."""
    if tree.test is None:
        return [""]
    paths: list[list[str]] = [[] for _ in range(classes)]
    for label, path in tree.leaves():
        paths[label].append(" & ".join(told(t, holds, attributes.names, attributes.word) for t, holds in path))
    names = [" or ".join(p) for p in paths]
    # Words not seen since a restart have no name, but classes need one.
    return [n if n and names.count(n) == 1 else f"class {k + 1}: {n}" for k, n in enumerate(names)]


def drawn(tree: Tree, routes: list[str], attributes: Attributes) -> str:
    """The tree as indented text, with the route of each class."""
    lines: list[str] = []

    def grow(tree: Tree, depth: int) -> None:
        if tree.test is None:
            lines[-1] += f": {routes[tree.label]}"
            return
        for side, holds in ((tree.yes, True), (tree.no, False)):
            assert side is not None
            lines.append("  " * depth + told(tree.test, holds, attributes.names, attributes.word))
            grow(side, depth + 1)

    if tree.test is not None:
        grow(tree, 0)
    return "\n".join(lines)
