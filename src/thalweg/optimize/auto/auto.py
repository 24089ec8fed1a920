"""`auto`: as written until another plan is shown to pay; back to as written when it no longer does.

It weighs the written order, A-Greedy's, and the routes by class of `cbr` and `mesh`. Invariant, the no-regret bound:
one ledger (ledger.py) holds all work, the cost of profiling and the savings; if adapting can't pay, it costs a small
share of the work. If only one order is possible, it costs nothing.

Filters and joins differ in how rows can be profiled. Filters (sampled.py): a few rows of a batch are tried on all of
them, so the cost of each order on those rows is known. Joins (scouted.py): a few rows go ahead as scouts, are counted
against other stems, and classes are measured beside one order before they come into force.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import Visits
from thalweg.optimize.auto.contest import Contest
from thalweg.optimize.auto.lessons import Lessons
from thalweg.optimize.auto.sampled import Sampled
from thalweg.optimize.auto.scouted import Scouted
from thalweg.optimize.orders.agreedy import BURST, AGreedy
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Reason, Route, Routes, Ruster
from thalweg.profile.prices import RECORDED, Prices


@dataclass
class Auto(SingleRoute):
    """Weighs `written`, `agreedy`, `cbr` and `mesh`.

    >>> import numpy as np
    >>> from thalweg.lab.simulate import run
    >>> rows = np.random.default_rng(7).random((50_000, 3)) < [0.9, 0.5, 0.1]
    >>> r = run("auto", rows, costs=[1.0, 1.0, 1.0], seed=7)
    >>> r.final_order, [e.kind for e in r.events if e.change][0]
    ((2, 1, 0), 'adopt')
    """

    regret: float = 0.01
    worthwhile: float = 0.03
    """Share of the cost that another plan must save."""
    prices: Prices = RECORDED
    name = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.greedy = AGreedy(self.pipeline, self.seed, prices=self.prices, regret=self.regret)
        self.ledger = self.greedy.ledger
        self.lessons = Lessons(len(self.pipeline))
        self.classed = ""
        """The contestant whose classes are in force, if any."""
        self._contest: Contest | None = None
        self.way: Sampled | Scouted = Scouted(self) if self.greedy.costs.joins else Sampled(self)
        # As many looks as the rows of a burst, even if each brings only one.
        self.ledger.loan = BURST * (self.prices.ask + self.prices.send)

    @property
    def choice(self) -> bool:
        """Whether there is anything to choose: more than one allowed order."""
        return self.greedy.choice

    @property
    def contest(self) -> Contest:
        """Created on first use: many inputs never need it."""
        if self._contest is None:
            rows = self.greedy.scouting.pace.rows if self.greedy.costs.joins else 1000
            self._contest = Contest(self.pipeline, self.seed, self.greedy.costs, rows)
        return self._contest

    @property
    def contested(self) -> bool:
        """Whether a contest is under way."""
        return self._contest is not None

    def end_contest(self) -> None:
        """Leave classes alone; a later contest starts over."""
        self._contest = None
        self.lessons.drop()

    def ahead(self, rows: int, sent: int) -> int:
        """The number of remaining rows to send as scouts."""
        return self.way.ahead(rows, sent)

    @property
    def rest(self) -> int:
        """For how many batches the engine need not ask."""
        return self.way.rest

    def route(self, batch: Batch) -> list[Ruster]:
        if not self.choice or not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        return self.way.route(batch)

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        if self.choice:
            self.way.observe(visits)

    def assign(self, batch: Batch) -> list[Ruster]:
        """The rows of a batch on the routes in force; pure."""
        if not self.classed:
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        return self.contest.contestants[self.classed].assign(batch)

    def price(self, route: Route) -> float | None:
        """Estimated seconds per row on a route."""
        return self.greedy.price(route)

    def explain(self) -> Explanation:
        believed = self.greedy.explain()
        if self.classed:
            told = self.contest.explain(self.classed, self.plan)
            return replace(told, policy=self.name, why=self.why(), operators=believed.operators)
        return self.way.explain(replace(believed, policy=self.name, why=self.why()))

    def why(self) -> Reason:
        return (
            self.way.why() if self.choice else Reason("only one order is possible: nothing to choose, nothing profiled")
        )

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "greedy": self.greedy.snapshot(),
            "contest": None if self._contest is None else self._contest.snapshot(),
            "lessons": self.lessons.snapshot(),
            "classed": self.classed,
            "routes": [[label, list(route)] for label, route in self.plan.routes.items()],
            "way": self.way.snapshot(),
        }

    def prior(self) -> dict[str, Any]:
        """What a new worker begins with: plan, costs, classes and the ledger, but no samples."""
        contest = None if self._contest is None else self._contest.prior()
        return self.snapshot() | {"contest": contest, "lessons": [[], []]}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.greedy.restore(record["greedy"])
        self._contest = None
        if record["contest"] is not None:
            self.contest.restore(record["contest"])
        self.lessons.restore(record["lessons"])
        self.classed = record["classed"]
        routes = {label: self.pipeline.closest(order) for label, order in record["routes"]}
        self.plan = Routes(int(record["version"]), routes)
        self.way.restore(record["way"])
