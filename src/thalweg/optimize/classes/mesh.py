"""`mesh`: query mesh, many routes and a decision tree that assigns them (Nehme et al., sections 4 and 5).

Invariant: a solution comes into force only if equation (2) says it is `worthwhile` cheaper on the sampled tuples, by
more than chance; the swap is one assignment between batches. Every search, drift and re-route is an event. A search
reads only its own input (meshfind.py) and runs in a thread beside execution; the next observation takes its result.

How this differs from the paper:
- It trains on the first batches and pays for that, where the paper trains before execution (3, 4.2).
- Training tuples are the leaves of a tree over content that separates what operators pass; their sampled tuples are the
  densities. There is no cross-validation of the sample and no training from earlier runs.
- We induce the classifier from the routes found, and keep the pruned condensing tree instead if that is cheaper.
- Defaults follow table 1; table 3 has others (100 training tuples, SA-QM, content-driven) for the same experiments.
- Rows of all classes travel as one ruster with a route id each (5.2), so a route itself is free and no class is too
  small for its own route. A test costs its price (prices.py). Joins are not charged for tests, because a match costs
  far more at later operators.
- Each match of a tuple becomes a row (routeprices.py).
- Drift (5.3): a class drops its sample, is reordered at once by its latest pass rates, and is sampled again: profiling
  goes where it can change a route. The tree stays until a search from the current solution finds a better one.
- Missing: one classification per window of tuples (5.1), rusters of several queries (5.5), time and memory caps (4.7).

One class and one file: what it keeps apart is elsewhere (meshsample.py, meshfind.py, meshclasses.py); what is left is
the policy's contract and the life of a search, from its start to its swap.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.optimize.classes.classed import Bits, Classed, outcomes
from thalweg.optimize.classes.meshclasses import ClassState, class_names, drawn
from thalweg.optimize.classes.meshfind import Found, Search, Task, by_class, find
from thalweg.optimize.classes.meshsample import MeshSample
from thalweg.optimize.classes.met import Met, met
from thalweg.optimize.classes.routeprices import Prices
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.optimize.classes.selectivity import ranked
from thalweg.plan import Route, Ruster
from thalweg.plan.tree import Tree
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.classifier import Classifier
from thalweg.profile.prices import RECORDED
from thalweg.profile.rates.given import ENOUGH

Ids = NDArray[np.int32]


@dataclass
class Mesh(Classed):
    """Query mesh over one pipeline.

    >>> from thalweg.lab.simulate import run
    >>> random = np.random.default_rng(7)
    >>> a, b = random.random((2, 60_000))
    >>> rows = random.random((60_000, 2)) < np.where(((a < 0.5) & (b < 0.5))[:, None], [0.05, 0.9], [0.9, 0.05])
    >>> r = run("mesh", rows, costs=[1.0, 1.0], seed=7, columns={"a": a, "b": b})
    >>> round(float(r.useful[40:].sum()) / 20_000, 1)  # one order for all needs 1.3 evaluations a tuple
    1.1
    """

    p: float = 0.01
    """Long-run share of rows to sample."""
    burst: float = 0.1
    """Largest share of a batch to sample at once."""
    sample: int = 1000
    """Sampled tuples to keep (table 1, as are `training`, `strategy` and `start`)."""
    training: int = 10
    strategy: str = "ii"
    start: str = "route-driven"
    budget: int = 400
    """Most solutions that one search examines."""
    evidence: float = 2.0
    """Standard errors by which another solution or route must be cheaper."""
    worthwhile: float = 0.01
    """Share of the cost that it must save."""
    uncertain: float = 0.0
    """Share of a route's cost below which the order of two neighbours is left to the lottery (5.4); 0: never."""
    beside: bool = True
    """Whether searches run in a thread beside execution; else between batches."""
    name = "mesh"

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.pipeline)
        self.sampling = MeshSample(n, self.p, self.burst, self.sample, self.training)
        self.classifier = Classifier(Tree(0))
        self.states = [ClassState(self.pipeline.written, np.full(n, 0.5), np.ones(n))]
        self.looked = 0
        """Solutions priced by all searches so far."""
        self._batch_rows = 1
        self._asked = False
        self._routes: tuple[Route, ...] = ()
        self._probe: tuple[Ruster, Batch] | None = None
        self._seen: tuple[Batch, Ids | None] | None = None
        self._search: Search | None = None
        """The search under way."""

    @property
    def searched(self) -> bool:
        return self.sampling.searched

    # Routing

    def route(self, batch: Batch) -> list[Ruster]:
        self._probe = None
        if not self.choice or not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        self._asked = True
        chosen = self.wish(batch)
        rusters = self.work(batch, None if chosen is None else ~chosen)
        if chosen is not None:
            rows = np.flatnonzero(chosen)
            probe = Ruster(rows, self.plan.route, "profile", "all")
            self._probe = (probe, Batch(batch.data.take(rows), batch.number, batch.stream))
            rusters.append(probe)
        return rusters

    def assign(self, batch: Batch) -> list[Ruster]:
        return [self._ruster(self.classifier.batch(self.attributes, batch.data), None)]

    def wish(self, batch: Batch) -> NDArray[np.bool_] | None:
        """Rows worth sampling now; `work` on the same batch comes next."""
        ids = self.classifier.batch(self.attributes, batch.data)
        self._seen = (batch, ids)
        return self.sampling.choose(ids, len(batch), [s.wanted for s in self.states], self._random)

    def work(self, batch: Batch, rest: NDArray[np.bool_] | None) -> list[Ruster]:
        known = self._seen is not None and self._seen[0] is batch
        ids = self._seen[1] if known and self._seen else self.classifier.batch(self.attributes, batch.data)
        self._seen, self._batch_rows = None, len(batch)
        return [self._ruster(ids, None if rest is None else np.flatnonzero(rest), draw=True)]

    def foretell(self, values: Values) -> Ruster:
        return self._ruster(self.classifier.values(values) if self.classifier.used else None, None)

    def _ruster(self, ids: Ids | None, rows: NDArray[np.int64] | None, draw: bool = False) -> Ruster:
        """Rows on the routes of their classes; uncertain routes are drawn."""
        labels, routes = tuple(self.plan.routes), tuple(s.route for s in self.states)
        if draw and any(s.token is not None for s in self.states):
            costs = self.per_row
            routes = tuple(s.departing(self.pipeline, costs, self._random) for s in self.states)
        if ids is None:
            return Ruster(rows, routes[0], label=labels[0])
        if routes != self._routes:
            self._routes = routes
        return Ruster.mixed(rows, self._routes, ids if rows is None else ids[rows], labels)

    @property
    def wanting(self) -> bool:
        """Whether a class that drifted waits for fresh tuples."""
        return any(s.wanted for s in self.states)

    @property
    def rest(self) -> int:
        """Batches until the next sample; averages over `memory` rows learn little from more frequent calls."""
        busy = self._search is not None or self.wanting or any(s.token is not None for s in self.states)
        if not self.choice or busy or not self.searched:
            return 0
        return int(min(self.sampling.lacking(), self.costs.memory)) // self._batch_rows

    # Observing

    def observe(self, visits: Visits) -> None:
        self.tally(visits)
        probe, self._probe, asked, self._asked = self._probe, None, self._asked, False
        if not self.choice:
            return
        if not asked:
            self.sampling.pass_by(visits.rows)
        if self._search is not None:
            found, self._search = self._search.end(), None
            self._take(found)
            return  # this batch ran under the previous classes
        for each in met(visits, self.stems):
            if each.ruster.purpose == "work":
                self._follow(each)
        for journey in visits.journeys:
            if probe is not None and journey.ruster is probe[0] and journey.passed is not None:
                values = self.look(probe[1])
                if values is not None:
                    self._learn(values, outcomes(journey))
        self.settle()

    def _follow(self, each: Met) -> None:
        """Each class's cost per tuple, and pass rates of the operators it met."""
        place = {label: k for k, label in enumerate(self.plan.routes)}
        for i, (route, label) in enumerate(zip(each.ruster.routes, each.ruster.labels, strict=True)):
            rows, state = float(each.begun[i]), self.states[place.get(label, 0)]
            if rows < ENOUGH or label not in place or (route != state.route and state.token is None):
                continue
            # An uncertain route mixes orders with different costs, so it tells nothing about drift.
            if route == state.route and state.moved(rows, each.came[i], each.survived[i]):
                self._drifted(place[label], each.came[i], each.left[i])
            else:
                state.follow(rows, each.came[i], each.left[i], self.costs.memory)
                if state.wanted:
                    self._reroute(state)

    def _drifted(self, k: int, came: NDArray[np.float64], left: NDArray[np.float64]) -> None:
        """A class changed: drop its sample, order it by its latest work, sample it again."""
        state, fresh = self.states[k], max(self.sampling.enough // len(self.states), 2 * ENOUGH)
        if len(self.sampling):
            self.sampling.forget(self._members(k))
        state.drifted(came, left, fresh)
        self.sampling.drift(sum(s.wanted for s in self.states))
        self._reroute(state)
        name = list(self.plan.routes)[k] or "the rows"
        seen = f"{name}: the cost per tuple has moved"
        if not self._bring_in_force(f"{seen}; ordered by what the last batch shows", "drift"):
            self.note("drift", f"{seen}; sampling again")

    def _reroute(self, state: ClassState) -> None:
        """Order a class by drop rate per cost of its work so far."""
        rates, costs = state.believed(), self.per_row
        route = Route(tuple(ranked(self.pipeline, rates[None, :], costs)[0].tolist()))
        if state.cost(route, costs) < (1 - self.worthwhile) * state.cost(state.route, costs):
            state.set(route, rates, costs)

    def _members(self, k: int) -> NDArray[np.bool_]:
        """Which sampled tuples belong to a class."""
        return np.asarray(self.classifier.values(self.sampling.reservoir.values) == k)

    # Learning

    def study(self, values: Values, bits: Bits) -> None:
        """Learn from tuples tried on every operator, for a policy that does not route."""
        self.refresh()
        self._learn(values, bits)

    def _learn(self, values: Values, bits: Bits) -> None:
        sampling = self.sampling
        sampling.add(values, bits, self._random)
        ids = self.classifier.values(values)
        for k, count in enumerate(np.bincount(ids, minlength=len(self.states)).tolist()):
            self.states[k].wanted = max(0, self.states[k].wanted - count)
        if self.wanting and self.searched:
            return
        if sampling.due and self._search is None:
            self._look_for_classes()
        elif self.searched:
            for k in set(ids.tolist()):
                self._refine(k, self.prices())

    def _refine(self, k: int, prices: Prices) -> None:
        """The best route of a class on its sampled tuples, if it is better by more than chance."""
        bits, state = self.sampling.reservoir.bits[self._members(k)], self.states[k]
        if len(bits) < ENOUGH:
            return
        route, _ = RouteSearch(self.pipeline, prices).best(bits)
        if self._clear(prices.each(bits, state.route), prices.each(bits, route)):
            state.set(route, _rates(bits, prices), self.per_row)
        state.leave_open(self.pipeline, bits, prices, self.uncertain)

    def _clear(self, now: NDArray[np.float64], then: NDArray[np.float64]) -> bool:
        """Whether paired costs of sampled tuples fall by a worthwhile share and by more than chance."""
        difference = now - then
        error = sqrt(float((difference**2).sum())) / len(now)
        gain = float(difference.mean())
        return gain > self.evidence * error and gain > self.worthwhile * float(now.mean())

    def _look_for_classes(self) -> None:
        """Search for a mesh on the current sample; takes the result at once, or with the next batch."""
        first, a = not self.searched, self.attributes
        self.sampling.begin()
        values, bits = self.sampling.reservoir.values, self.sampling.reservoir.bits
        present = None if first or len(self.states) == 1 else self.classifier.values(values).astype(np.int64)
        task = Task(
            self.pipeline, self.prices(), values.copy(), bits.copy(), list(a.category), a.usable, present,
            self.training, self.strategy, self.start, self.budget, 0.0 if self.stems.any() else RECORDED.classify,
        )  # fmt: skip
        if self.beside:
            # A separate generator: execution's draws must not depend on when a search runs.
            self._search = Search(task, [self.seed, self.tuples]).begin()
        else:
            self._take(find(task, self._random))

    def _take(self, found: Found) -> None:
        """Adopt a mesh that pays on the tuples it was found on."""
        model, routes, tree = found.model, found.routes, Classifier(found.tree)
        values, bits, prices = found.task.values, found.task.bits, found.task.prices
        self.looked += model.evaluated
        present, then = self.classifier.values(values), tree.values(values)
        was = [s.route for s in self.states]
        now = by_class(bits, present, was, prices) + model.classifying(self.classifier.tree, present)
        after = by_class(bits, then, routes, prices) + model.classifying(found.tree, then)
        looked = f"{model.evaluated} solutions of {len(model)} training rows from {len(bits)} sampled ones"
        clear = self._clear(now, after)
        self.sampling.found(clear, len(bits))
        if not clear:
            for k in range(len(self.states)):
                self._refine(k, self.prices())
            if not self._bring_in_force(f"{looked}: the classes stay", "search"):
                self.note("search", f"{looked}: nothing clearly cheaper")
            return
        self.classifier, self.states = tree, []
        for k, route in enumerate(routes):
            mine = bits[then == k] if (then == k).any() else bits
            state = ClassState(route, _rates(mine, prices), self.per_row.copy())
            state.leave_open(self.pipeline, mine, prices, self.uncertain)
            self.states.append(state)
        a = self.attributes
        shape = found.tree.text(a.names, a.word) if tree.used else "one class"
        self._bring_in_force(f"{looked}: {shape}", "search", float(now.mean()), float(after.mean()))

    def settle(self) -> None:
        """Bring what was learned into force."""
        self._bring_in_force("new drop rates changed an order", "reorder")

    def forget(self) -> None:
        """Drop the outdated sample; the classes stay until a search on new tuples."""
        self.sampling.start_over()
        for state in self.states:
            state.drift.reset()

    def _bring_in_force(self, why: str, kind: str, before: float | None = None, after: float | None = None) -> bool:
        names = class_names(self.classifier.tree, len(self.states), self.attributes)
        routes = {name: s.route for name, s in zip(names, self.states, strict=True)}
        return self.change(routes, why, kind=kind, before=before, after=after)

    # Seen from outside

    def estimate(self, label: str) -> float | None:
        names = list(self.plan.routes)
        if not self.tuples or label not in names:
            return None
        state = self.states[names.index(label)]
        return state.cost(state.route, self.per_row)

    def why(self) -> str:
        if not self.choice:
            return "only one order is possible: nothing to choose, nothing sampled"
        sampled = len(self.sampling)
        if not self.searched:
            return f"as written until {self.sampling.enough} rows are sampled; {sampled} so far"
        many = f"{len(self.states)} classes" if len(self.states) > 1 else "one route for all"
        tokens = [s.token.named(self.pipeline.names) for s in self.states if s.token is not None]
        undecided = f"; undecided: {', '.join(tokens)}" if tokens else ""
        return f"{many}, the cheapest mesh found on {sampled} sampled rows{undecided}"

    def to_change(self) -> str:
        if not self.choice:
            return ""
        drifting = sum(s.wanted > 0 for s in self.states)
        if drifting:
            return f"{drifting} of {len(self.states)} classes are being sampled again"
        more = max(0, self.sampling.again - self.sampling.added)
        return f"next search after {more} more sampled rows, or a drift"

    def tree(self) -> str:
        """The classifier as indented text, with the route of each class."""
        return drawn(self.classifier.tree, [s.route.named(self.pipeline.names) for s in self.states], self.attributes)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "attributes": self.attributes.snapshot(),
            "sampling": self.sampling.snapshot(),
            "tree": self.classifier.tree.record(),
            "states": [s.record() for s in self.states],
            "looked": self.looked,
            "batch_rows": self._batch_rows,
            "search": None if self._search is None else self._search.record(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        if record["attributes"] is not None:
            self.attributes.restore(record["attributes"])
        self.sampling.restore(record["sampling"])
        self.classifier = Classifier(Tree.of(record["tree"]))
        self.states = [ClassState.of(s, self.pipeline) for s in record["states"]]
        self.looked, self._batch_rows = int(record["looked"]), int(record["batch_rows"])
        self._search = None if record["search"] is None else Search.of(self.pipeline, record["search"]).begin()
        self._routes, self._probe, self._seen, self._asked = (), None, None, False


def _rates(bits: Bits, prices: Prices) -> NDArray[np.float64]:
    """Rows out per row in on sampled tuples, shrunk towards the usual rates because a handful says little."""
    return np.asarray((prices.rows(bits).sum(axis=0) + 2.0 * prices.fill) / (len(bits) + 2.0))
