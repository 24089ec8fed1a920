"""A contest: would classes of tuples pay? `cbr` and `mesh` learn in the background and are judged on new tuples.

Invariant: a tuple is judged before it is learned from. Tuples tried on every operator are first priced on the routes
that each contestant would have chosen (test, then train), so no contestant is judged on tuples it has seen. Prices are
paired and include the cost of more rusters and tests. The simplest contestant that pays wins.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.explanation import Explanation, RouteView
from thalweg.optimize.classes.cbr import CBR
from thalweg.optimize.classes.classed import Bits, Classed
from thalweg.optimize.classes.mesh import Mesh
from thalweg.optimize.classes.meshfind import by_class
from thalweg.plan import Pipeline, Routes
from thalweg.profile.content.attributes import Values
from thalweg.profile.prices import Prices
from thalweg.profile.rates.rates import Rates

CLASSED = ("cbr", "mesh")
"""From simple to elaborate."""
SINGLE = ("written", "agreedy")
COLUMNS = {name: k for k, name in enumerate((*SINGLE, *CLASSED))}
SAMPLE = 400
"""Tested: newest rows that the mesh learns from, whose prices judge it, and that decide a trial."""
MOST_OVERHEAD = 0.25
"""Tested: largest share of a row's cost that two classes may add: they seldom save more."""


@dataclass(frozen=True)
class Saving:
    """Paired prices of tuples: what one plan saves against another per tuple, its error, and the cost of the other."""

    mean: float
    error: float
    cost: float
    tuples: int

    def sure(self, least: int, errors: float, share: float) -> bool:
        return self.tuples >= least and self.mean > max(errors * self.error, share * self.cost)


def overhead(prices: Prices, rows: float | None = None) -> float:
    """Seconds per row that classes take, however many they are: all travel as one ruster. Telling them apart costs the
    same by the row; filters are called again for other routes, once for a batch of `rows`. Joins give none."""
    return prices.classify + (0.0 if rows is None else prices.send / rows)


def conceivable(cost: float, prices: Prices, rows: float | None = None) -> bool:
    """Whether classes could pay at all where a row costs this many seconds."""
    return overhead(prices, rows) < MOST_OVERHEAD * cost


class Contest:
    """Keeps the contestants and the newest prices."""

    def __init__(self, pipeline: Pipeline, seed: int, costs: Rates, rows: float = 1000.0) -> None:
        self.costs = costs
        self.cbr = CBR(pipeline, seed, alpha=0.99, benefit=False)  # the paper's 0.95 follows noise
        self.mesh = Mesh(pipeline, seed, sample=SAMPLE, training=8, budget=150, beside=False)
        self.contestants: dict[str, Classed] = {"cbr": self.cbr, "mesh": self.mesh}
        self.mesh.attributes = self.cbr.attributes
        for contestant in self.contestants.values():
            contestant.costs, contestant.costs_shared = costs, True
        self._prices: NDArray[np.float64] = np.zeros((0, len(COLUMNS)))
        self._valid = dict.fromkeys(CLASSED, 0)
        """A contestant's newest prices under its present classes."""
        self._batch_rows = rows

    def classes(self, name: str) -> int:
        return len(self.contestants[name].plan.routes)

    def enter(
        self, values: Values, bits: Bits, written: tuple[int, ...], greedy: tuple[int, ...], follows: str = ""
    ) -> float:
        """Price the tuples, then let the contestants learn from them. Returns what the plan of `follows`, the
        contestant in force, saves against the written one per tuple; 0 where none is."""
        self.mesh.refresh()
        now = self.mesh.prices()
        prices = np.empty((len(bits), len(COLUMNS)))
        prices[:, 0], prices[:, 1] = now.each(bits, written), now.each(bits, greedy)
        # If the more elaborate one is in force, the simpler one has already lost to it.
        judged = {"mesh": self.contestants["mesh"]} if follows == "mesh" else self.contestants
        prices[:, COLUMNS["cbr"]] = np.inf
        for name, contestant in judged.items():
            foretold = contestant.foretell(values)
            ids = np.zeros(len(bits), np.int32) if foretold.ids is None else foretold.ids
            prices[:, COLUMNS[name]] = by_class(bits, ids, foretold.routes, now) + self.overhead(name)
            self._valid[name] = min(self._valid[name] + len(bits), SAMPLE)
        self._prices = np.concatenate([self._prices, prices])[-SAMPLE:]
        before = {name: set(c.plan.routes) for name, c in self.contestants.items()}
        if "cbr" in judged:
            self.cbr.consider(values, bits)
        self.mesh.study(values, bits)
        self.mesh.settle()
        for name, contestant in self.contestants.items():
            if before[name] != set(contestant.plan.routes) or name not in judged:
                self._valid[name] = 0
        return float((prices[:, 0] - prices[:, COLUMNS[follows]]).mean()) if follows else 0.0

    def overhead(self, name: str) -> float:
        """Seconds per row that the classes of a contestant take."""
        rows = None if self.costs.joins else self._batch_rows
        return overhead(self.costs.prices, rows) if self.classes(name) > 1 else 0.0

    def batch(self, rows: int) -> None:
        self._batch_rows += 0.1 * (rows - self._batch_rows)

    def saving(self, name: str, against: str) -> Saving:
        """What a plan saves against another on the newest tuples since its classes last changed."""
        count = min([len(self._prices), *(self._valid[n] for n in (name, against) if n in self._valid)])
        if not count:
            return Saving(0.0, 0.0, 0.0, 0)
        newest = self._prices[-count:]
        difference = newest[:, COLUMNS[against]] - newest[:, COLUMNS[name]]
        error = sqrt(float((difference**2).sum())) / count
        return Saving(float(difference.mean()), error, float(newest[:, COLUMNS[against]].mean()), count)

    def winner(self, against: str, least: int, errors: float, share: float) -> str | None:
        """The simplest contestant whose classes clearly save; a more elaborate one must clearly save against it."""
        best = against
        for name in CLASSED:
            if self.classes(name) > 1 and self.saving(name, best).sure(least, errors, share):
                best = name
        return best if best != against else None

    def explain(self, name: str, plan: Routes) -> Explanation:
        """The contestant's description, with the routes of the plan in force if those are not its newest."""
        policy = self.contestants[name]
        told = policy.explain()
        if dict(policy.plan.routes) == dict(plan.routes):
            return told
        equal = 1 / len(plan.routes)
        return replace(told, routes=tuple(RouteView(label, equal, route) for label, route in plan.routes.items()))

    def keen(self, least: int) -> bool:
        """Whether a contestant has classes that need more new tuples to judge them."""
        return any(self.classes(name) > 1 and self._valid[name] < least for name in CLASSED)

    def settled(self, least: int) -> bool:
        """Whether the mesh was searched, and enough new tuples have judged the result."""
        return self.mesh.searched and not self.keen(least)

    def forget(self, follows: str = "") -> None:
        """The stream changed: drop earlier prices and samples."""
        self._prices = self._prices[:0]
        self._valid = dict.fromkeys(CLASSED, 0)
        self.cbr.forget()
        if follows != "mesh":
            self.mesh.forget()

    def drain(self) -> None:
        """Drop the decisions of contestants that did not route: they are no events."""
        for contestant in self.contestants.values():
            contestant.drain()

    def snapshot(self) -> dict[str, Any]:
        return {
            "cbr": self.cbr.snapshot(), "mesh": self.mesh.snapshot(),
            "prices": b64encode(np.ascontiguousarray(self._prices, "<f8").tobytes()).decode(),
            "valid": dict(self._valid), "batch_rows": self._batch_rows,
        }  # fmt: skip

    def prior(self) -> dict[str, Any]:
        """The classes found, without their samples: a new worker continues with them and samples again."""
        cbr, mesh = self.cbr.snapshot(), self.mesh.snapshot()
        learning, rates = cbr["learning"], self.cbr.learning.rates
        learning["counts"] = mesh["sampling"]["reservoir"] = None
        used = self.cbr.table.attribute
        learning["rates"]["S"] = [
            row if j >= 0 else [] for row, j in zip(np.round(rates.S, 4).tolist(), used, strict=True)
        ]
        mesh["attributes"] = None  # those of cbr, which are the same
        return {
            "cbr": cbr,
            "mesh": mesh,
            "prices": "",
            "valid": dict.fromkeys(CLASSED, 0),
            "batch_rows": self._batch_rows,
        }

    def restore(self, record: dict[str, Any]) -> None:
        self.cbr.restore(record["cbr"])
        self.mesh.restore(record["mesh"])
        self._prices = np.frombuffer(b64decode(record["prices"]), "<f8").reshape(-1, len(COLUMNS)).copy()
        self._valid = {name: int(n) for name, n in record["valid"].items()}
        self._batch_rows = record["batch_rows"]
