"""`mesh`: query mesh, many routes and a decision tree that assigns them (Nehme et al., sections 4 and 5).

Invariant: a solution comes in force only if equation (2) says it is `worthwhile` cheaper on the sampled tuples, by more
than chance; the swap is one assignment between batches. Every search, drift and re-route is an event. A search reads only
what it is handed (meshfind.py) and runs in a thread beside execution; its outcome is taken a set number of batches later.

How the paper's steps are done here:
- Training sample: tuples tried on every operator, in a reservoir that forgets exponentially. Condensed by a tree over
  content that separates what operators pass; its leaves are the training tuples, their sampled tuples the densities.
- Defaults are those of table 1; table 3 has others (100 training tuples, SA-QM, content-driven) for the same experiments.
- Per-route overhead and the price of a test are constants measured beside (`benchmarks/filters`): a policy reads no
  clock. With the tree of the condensed tuples, tests on the way to a route are known for every partition searched.
- The classifier is induced again from the routes found; where the condensing tree, pruned, is cheaper, that one is kept.
- Joins: a tuple becomes as many rows as it has matches (prices.py), in units of work. What a match brings on later
  operators would outweigh tests and rusters, so these are not charged there.
- Uncertain routes (5.4), with `uncertain` above 0: neighbours on a route whose exchange changes its cost by less than
  that share are left undecided, and drawn for each ruster by a lottery whose slices follow what the class' own work shows.
- Drift (the paper's twin work, 5.3): Page-Hinkley on the cost per tuple of each class. The class forgets its sample, is
  ordered at once by the pass rates that the last batch's own work shows, and is sampled afresh: profiling goes where
  it can change a route. The tree stays until a search from the present solution finds a better one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Journey, Visits
from thalweg.optimize.classes.classed import Bits, Classed, outcomes
from thalweg.optimize.classes.meshfind import LEAF, Found, Search, Task, by_class, find
from thalweg.optimize.classes.routeprices import Prices, has_stems
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.optimize.orders.single import sampled
from thalweg.plan import Route, Ruster
from thalweg.plan.tree import Tree, told
from thalweg.plan.uncertain import Uncertain
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.drift import PageHinkley
from thalweg.profile.content.reservoir import Reservoir

FIRST = 100
"""Sampled tuples before the first search."""
AGAIN, SELDOM = 200, 1600
"""Further sampled tuples before the next one; twice as many after each search that found nothing, up to so many..."""
GROWN, FULL = 0.5, 0.8
"""...but where content told nothing, more tuples may show what few did not: until this part of a sample is there, as soon as
there are so many more, as a share of those that it told nothing of."""
FRESH = 32
"""Sampled tuples that a class wants after a drift."""
BURST = 0.1
"""Most rows of a batch that are sampled at once."""
CLUMP = 16
"""Sampled tuples that are worth a ruster of their own."""
TEST = 2e-8
"""Seconds to test one attribute of one tuple, within a batch of a thousand."""
RUSTER = 6e-5
"""Seconds that one more ruster costs in a batch."""
LATER = 1
"""Batches after which a search beside execution is to have ended. What it found is taken then and not before, so that the
same tuples give the same decisions whatever the machine does meanwhile."""
PRIOR = 5.0
"""Rows that an old pass rate counts for against newly met ones."""


@dataclass
class ClassState:
    """One class: its route, and what ordinary work has shown of it since its route or its data changed."""

    route: Route
    rates: NDArray[np.float64]
    """Pass rates believed when the route was chosen."""
    basis: NDArray[np.float64]
    """Costs then: drift is about the data, so the cost per tuple is watched at constant prices."""
    drift: PageHinkley = field(default_factory=PageHinkley)
    came: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    left: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    wanted: int = 0
    """Sampled tuples still wanted after a drift."""
    token: Uncertain | None = None
    """What is undecided about the route, if anything."""

    def __post_init__(self) -> None:
        if not len(self.came):
            self.came, self.left = np.zeros(len(self.rates)), np.zeros(len(self.rates))

    def believed(self) -> NDArray[np.float64]:
        return np.asarray((self.left + PRIOR * self.rates) / (self.came + PRIOR))


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
    sample: int = 1000
    training: int = 10
    strategy: str = "ii"
    start: str = "route-driven"
    budget: int = 400
    """Solutions that one search looks at, at most."""
    evidence: float = 2.0
    worthwhile: float = 0.01
    uncertain: float = 0.0
    """Share of a route's cost below which the order of two neighbours is left to the lottery; 0: never."""
    ruster: int = 100
    """Rows of a class in a batch that get a ruster of their own, at least (the paper's ruster size; its classification window
    is the batch, which executors cut at a thousand rows and more)."""
    beside: bool = True
    """Whether searches run in a thread beside execution; else between batches."""
    name = "mesh"

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.pipeline)
        self._stems = has_stems(self.pipeline)
        self.reservoir = Reservoir(self.sample, n)
        self.classifier = Tree(0)
        self.states = [ClassState(self.pipeline.written, np.full(n, 0.5), np.ones(n))]
        self._added = 0
        self._again = AGAIN
        self.searched = False
        self.looked = 0
        """Solutions that all searches have priced."""
        self._owed = 0.0
        self._batch_rows = 1000.0
        self._probe: tuple[Ruster, Batch] | None = None
        self._seen: tuple[Batch, NDArray[np.int64] | None] | None = None
        self._search: Search | None = None
        """The one under way beside execution."""

    # Routing

    def route(self, batch: Batch) -> list[Ruster]:
        self._probe = None
        if not self.choice or not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        self._batch_rows += 0.1 * (len(batch) - self._batch_rows)
        labels = self._classify(batch)
        chosen = self._choose(labels, len(batch))
        rusters = self._rusters(labels, None if chosen is None else ~chosen, len(batch), draw=True)
        if chosen is not None:
            rows = np.flatnonzero(chosen)
            probe = Ruster(rows, self.plan.route, "profile", "all")
            self._probe = (probe, Batch(batch.data.take(rows), batch.number, batch.stream))
            rusters.append(probe)
        return rusters

    def assign(self, batch: Batch) -> list[Ruster]:
        return self._rusters(self._classify(batch), None, len(batch))

    def wish(self, batch: Batch) -> NDArray[np.bool_] | None:
        """Rows that would be worth sampling now; `work` on the same batch comes next."""
        self._seen = (batch, self._classify(batch))
        return self._choose(self._seen[1], len(batch))

    def work(self, batch: Batch, rest: NDArray[np.bool_] | None) -> list[Ruster]:
        labels = self._seen[1] if self._seen is not None and self._seen[0] is batch else self._classify(batch)
        self._seen = None
        self._batch_rows += 0.1 * (len(batch) - self._batch_rows)
        return self._rusters(labels, rest, len(batch), draw=True)

    def foretell(self, values: Values) -> list[Ruster]:
        if self.classifier.test is None:
            return self._rusters(None, None, len(values))
        return self._rusters(self.classifier.classify(lambda j: values[:, j], len(values)), None, len(values), least=1)

    def _classify(self, batch: Batch) -> NDArray[np.int64] | None:
        """The class of each row; None where there is one class, or the content is not what was learned."""
        if self.classifier.test is None or not self.attributes.known(batch.data):
            return None
        columns: dict[int, NDArray[np.float32]] = {}

        def column(j: int) -> NDArray[np.float32]:
            if j not in columns:
                columns[j] = self.attributes.column(batch.data, j)
            return columns[j]

        return self.classifier.classify(column, len(batch))

    def _rusters(
        self, labels: NDArray[np.int64] | None, rest: NDArray[np.bool_] | None, count: int, least: int | None = None,
        draw: bool = False,
    ) -> list[Ruster]:  # fmt: skip
        names = list(self.plan.routes)
        if labels is None:
            route = self._departing(0) if draw else self.plan.route
            return [Ruster(None if rest is None else np.flatnonzero(rest), route, label=names[0])]
        sizes = np.bincount(labels, minlength=len(names))
        largest = int(sizes.argmax())
        rusters = []
        least = self.ruster if least is None else least
        own = {k for k in range(len(names)) if sizes[k] >= least} | {largest}
        if len(own) < len(names):
            labels = np.where(np.isin(labels, list(own)), labels, largest)
        for k in sorted(own):
            mine = labels == k
            rows = np.flatnonzero(mine if rest is None else mine & rest)
            if len(rows):
                route = self._departing(k) if draw else self.states[k].route
                rusters.append(Ruster(rows, route, label=names[k]))
        return rusters or [Ruster(np.zeros(0, np.int64), self.plan.route, label=names[0])]

    def _departing(self, k: int) -> Route:
        """The route of a ruster of class k; where it is uncertain, by lot. An operator's slice is its drop rate per cost
        among the tuples of the class that came to it."""
        state = self.states[k]
        if state.token is None:
            return state.route
        odds = np.clip(1 - state.believed(), 0.02, 1.0) / self.costs.per_row
        return self.pipeline.closest(state.token.draw(self._random, odds.tolist()).operators)

    def _choose(self, labels: NDArray[np.int64] | None, count: int) -> NDArray[np.bool_] | None:
        """Rows to sample: of classes that drifted as many as they want, of all a few."""
        self._owed = min(self._owed + self.sampling() * count, FIRST)
        wanted = np.array([s.wanted for s in self.states], float)
        if wanted.any():
            sizes = np.bincount(labels, minlength=len(wanted)) if labels is not None else np.array([count])
            probability = np.minimum(wanted / np.maximum(sizes, 1), 2 * BURST)
            chosen = self._random.random(count) < (probability[labels] if labels is not None else probability[0])
            return chosen if chosen.any() else None
        if self._owed < self.clump():
            return None
        chosen = sampled(self._random, count, min(self._owed / count, BURST))
        self._owed -= min(self._owed, float(chosen.sum()))
        return chosen if chosen.any() else None

    @property
    def wanting(self) -> bool:
        """Whether a class that drifted waits for fresh tuples."""
        return any(s.wanted for s in self.states)

    def sampling(self) -> float:
        """Share of the tuples to sample: the fuller the reservoir without drift, the less another can tell."""
        if len(self.reservoir) < FIRST and not self.searched:
            return BURST
        return self.p * min(max(FIRST / max(len(self.reservoir), 1), 0.25), 2.0)

    def clump(self) -> int:
        return max(CLUMP, len(self.reservoir) // CLUMP)

    # Observing

    def observe(self, visits: Visits) -> None:
        self.tally(visits)
        if not self.choice:
            self._probe = None
            return
        if self._search is not None:
            self._search.left -= 1
            if not self._search.left:
                found, self._search = self._search.end(), None
                self._take(found)
                self._probe = None
                return  # what this batch shows is of the classes before
        place = {label: k for k, label in enumerate(self.plan.routes)}
        together: dict[int, list[Journey]] = {}
        for journey in visits.journeys:
            if journey.passed is None and journey.ruster.label in place and journey.ruster.purpose == "work":
                k = place[journey.ruster.label]
                if journey.ruster.route == self.states[k].route or self.states[k].token is not None:
                    together.setdefault(k, []).append(journey)
        for k, journeys in together.items():
            self._follow(k, journeys)
        if self._probe is not None:
            probe, sample = self._probe
            self._probe = None
            for journey in visits.journeys:
                if journey.ruster is probe and journey.passed is not None:
                    values = self.look(sample)
                    if values is not None:
                        self.study(values, outcomes(journey))
        self._bring_in_force("drop rates turned an order round", "reorder")

    def _follow(self, k: int, journeys: list[Journey]) -> None:
        """What a class' own work shows: cost per tuple, and pass rates of the operators it met."""
        state = self.states[k]
        came, left = np.zeros(len(self.pipeline)), np.zeros(len(self.pipeline))
        rows = total = squares = 0.0
        for journey in journeys:
            spent, alive = 0.0, float(journey.rows)
            for i, v in enumerate(journey.visits):
                survived = v.rows_out if v.survivors is None else v.survivors
                came[v.operator] += v.rows_in
                left[v.operator] += v.rows_out
                spent += float(state.basis[v.operator])
                # Tuples, not partial results: several matches of one tuple come and go together.
                on = alive * survived / v.rows_in if v.rows_in and i + 1 < len(journey.visits) else 0.0
                stopped, alive = alive - on, on
                total += stopped * spent
                squares += stopped * spent * spent
            rows += journey.rows
        if rows < 20:
            return
        mean = total / rows
        error = sqrt(max(squares / rows - mean * mean, 0.0) / rows)
        certain = all(j.ruster.route == state.route for j in journeys)  # other orders cost something else
        if certain and state.drift.observe(mean, max(error, 1e-3 * mean / sqrt(rows)), int(rows)):
            self._drifted(k, came, left)
        else:
            kept = 0.5 ** (rows / 20_000)
            state.came, state.left = state.came * kept + came, state.left * kept + left
            if state.wanted:
                self._reroute(k)

    def _drifted(self, k: int, came: NDArray[np.float64], left: NDArray[np.float64]) -> None:
        """A class changed: forget its sample, order it by what its latest work shows, sample it afresh."""
        state = self.states[k]
        mine = self._members(k)
        if len(mine):
            self.reservoir.forget(mine)
        state.rates = state.believed()
        state.came, state.left = came, left
        state.drift.reset()  # or the same change would be found again in every batch, and no sample could grow
        state.wanted = FRESH
        self._again = AGAIN
        self._added = max(self._added, AGAIN - FRESH * sum(s.wanted > 0 for s in self.states))
        self._reroute(k)
        name = list(self.plan.routes)[k] or "the tuples"
        if not self._bring_in_force(
            f"{name}: the cost per tuple left what it was; ordered by what the last batch shows", "drift"
        ):
            self.note("drift", f"{name}: the cost per tuple left what it was; sampling afresh")

    def _reroute(self, k: int) -> None:
        """Order a class by drop rate per cost of what its work has shown."""
        state = self.states[k]
        rates, costs = state.believed(), self.costs.per_row
        wish = np.argsort(-(1 - rates) / costs, kind="stable").tolist()
        route = self.pipeline.closest(wish)
        if _expected(rates, route, costs) < 0.95 * _expected(rates, state.route, costs):
            self._set(k, route, rates)

    def _set(self, k: int, route: Route, rates: NDArray[np.float64]) -> None:
        state = self.states[k]
        state.route, state.rates, state.basis = route, rates, self.costs.per_row.copy()
        state.drift.reset()
        self._leave_open(k)

    def _leave_open(self, k: int) -> None:
        """Which neighbours on the route of a class are undecided, on its sampled tuples."""
        state = self.states[k]
        state.token = None
        bits = self.reservoir.bits[self._members(k)] if self.uncertain > 0 else self.reservoir.bits[:0]
        if len(bits) < LEAF:
            return
        prices, order = self.prices(), state.route.operators
        cost = float(prices.each(bits, order).mean())
        groups = [[order[0]]]
        for i in range(1, len(order)):
            other = (*order[: i - 1], order[i], order[i - 1], *order[i + 1 :])
            tied = self.pipeline.allows(Route(other)) and (
                abs(float(prices.each(bits, other).mean()) - cost) < self.uncertain * cost
            )
            if tied:
                groups[-1].append(order[i])
            else:
                groups.append([order[i]])
        token = Uncertain(tuple(map(tuple, groups)))
        state.token = None if token.certain else token

    def _members(self, k: int) -> NDArray[np.bool_]:
        """Which sampled tuples belong to a class."""
        if self.classifier.test is None:
            return np.ones(len(self.reservoir), np.bool_)
        return np.asarray(self.classifier.classify(lambda j: self.reservoir.values[:, j], len(self.reservoir)) == k)

    # Learning

    def study(self, values: Values, bits: Bits) -> None:
        self.reservoir.add(values, bits, self._random)
        self._added += len(bits)
        labels = self.classifier.classify(lambda j: values[:, j], len(values))
        for k, count in enumerate(np.bincount(labels, minlength=len(self.states)).tolist()):
            self.states[k].wanted = max(0, self.states[k].wanted - count)
        if self.wanting and self.searched:
            return
        due = len(self.reservoir) >= FIRST and self._added >= (self._again if self.searched else FIRST)
        if due and self._search is None:
            self._look_for_classes()
        elif self.searched:
            for k in set(labels.tolist()):
                self._refine(k)

    def _refine(self, k: int) -> None:
        """The best route of a class on its sampled tuples, if it is better by more than chance."""
        mine = self._members(k)
        bits = self.reservoir.bits[mine]
        if len(bits) < LEAF:
            return
        prices = self.prices()
        route, _ = RouteSearch(self.pipeline, prices).best(bits)
        if self._clear(prices.each(bits, self.states[k].route), prices.each(bits, route)):
            self._set(k, route, _rates(bits, prices))

    def _clear(self, now: NDArray[np.float64], then: NDArray[np.float64]) -> bool:
        """Whether paired costs of sampled tuples fall, by a worthwhile share and by more than chance."""
        difference = now - then
        error = sqrt(float((difference**2).sum())) / len(now)
        gain = float(difference.mean())
        return gain > self.evidence * error and gain > self.worthwhile * float(now.mean())

    def _look_for_classes(self) -> None:
        """Search for a mesh on what is sampled now; the outcome is taken at once, or with a later batch."""
        first = not self.searched
        self.searched, self._added = True, 0
        values, bits, a = self.reservoir.values, self.reservoir.bits, self.attributes
        known = first or len(self.states) == 1
        task = Task(
            self.pipeline, self.prices(), values.copy(), bits.copy(), list(a.category), a.usable,
            None if known else self.classifier.classify(lambda j: values[:, j], len(values)),
            self.training, self.strategy, self.start, self.budget,
            0.0 if self._stems else TEST, 0.0 if self._stems else RUSTER / max(self._batch_rows, 1.0),
        )  # fmt: skip
        if self.beside:
            # A generator of its own: what execution draws must not depend on when a search runs.
            self._search = Search(task, [self.seed, self.tuples], LATER).begin()
        else:
            self._take(find(task, self._random))

    def _take(self, found: Found) -> None:
        """Take a mesh that pays on the tuples it was found on."""
        model, routes, classifier, a = found.model, found.routes, found.classifier, self.attributes
        values, bits, prices = found.task.values, found.task.bits, found.task.prices
        self.looked += model.evaluated
        present = self.classifier.classify(lambda j: values[:, j], len(values))
        then = classifier.classify(lambda j: values[:, j], len(values))
        now = by_class(bits, present, [s.route for s in self.states], prices) + model.classifying(
            self.classifier, present
        )
        after = by_class(bits, then, routes, prices) + model.classifying(classifier, then)
        told_cost = (float(now.mean()), float(after.mean()))
        looked = f"{model.evaluated} solutions of {len(model)} training tuples from {len(bits)} sampled ones"
        if not self._clear(now, after):
            early = len(model) == 1 and len(self.reservoir) < FULL * self.sample
            self._again = int(GROWN * len(bits)) if early else min(2 * max(self._again, AGAIN), SELDOM)
            for k in range(len(self.states)):
                self._refine(k)
                self._leave_open(k)
            if not self._bring_in_force(f"{looked}: the classes stay", "search"):
                self.note("search", f"{looked}: nothing clearly cheaper")
            return
        self._again = AGAIN
        self.classifier = classifier
        self.states = [
            ClassState(route, _rates(bits[then == k] if (then == k).any() else bits, prices), self.costs.per_row.copy())
            for k, route in enumerate(routes)
        ]
        for k in range(len(self.states)):
            self._leave_open(k)
        shape = classifier.text(a.names, a.word) if classifier.test else "one class"
        self._bring_in_force(f"{looked}: {shape}", "search", *told_cost)

    def settle(self) -> None:
        """Bring in force what was learned: for a policy that only would route, while another does."""
        self._bring_in_force("drop rates turned an order round", "reorder")

    def forget(self) -> None:
        """What was sampled says nothing about now; the classes stay until a search on new tuples."""
        self.reservoir.forget(np.ones(len(self.reservoir), np.bool_))
        self._added, self._again = AGAIN - FIRST, AGAIN
        for state in self.states:
            state.drift.reset()

    # Plan

    def _bring_in_force(self, why: str, kind: str, before: float | None = None, after: float | None = None) -> bool:
        names = self._labels()
        return self.change(
            {name: s.route for name, s in zip(names, self.states, strict=True)},
            why,
            kind=kind,
            before=before,
            after=after,
        )

    def _labels(self) -> list[str]:
        """A name for each class: the tests that lead to it."""
        if self.classifier.test is None:
            return [""]
        a = self.attributes
        paths: list[list[str]] = [[] for _ in self.states]
        for label, path in self.classifier.leaves():
            paths[label].append(" & ".join(told(t, holds, a.names, a.word) for t, holds in path))
        names = [" or ".join(p) for p in paths]
        # Words not met since a restart have no name; classes must.
        return [n if n and names.count(n) == 1 else f"class {k + 1}: {n}" for k, n in enumerate(names)]

    def estimate(self, label: str) -> float | None:
        names = list(self.plan.routes)
        if not self.tuples or label not in names:
            return None
        state = self.states[names.index(label)]
        return _expected(state.believed(), state.route, self.costs.per_row)

    def why(self) -> str:
        if not self.choice:
            return "only one order is possible: nothing to choose, nothing sampled"
        if not self.searched:
            return f"as written until {FIRST} tuples are sampled; {len(self.reservoir)} so far"
        many = f"{len(self.states)} classes" if len(self.states) > 1 else "one route for all"
        tokens = [s.token.named(self.pipeline.names) for s in self.states if s.token is not None]
        undecided = f"; undecided: {', '.join(tokens)}" if tokens else ""
        return f"{many}, the cheapest mesh found on {len(self.reservoir)} sampled tuples{undecided}"

    def to_change(self) -> str:
        if not self.choice:
            return ""
        drifting = sum(s.wanted > 0 for s in self.states)
        if drifting:
            return f"{drifting} of {len(self.states)} classes are being sampled afresh"
        more = max(0, (self._again if self.searched else FIRST) - self._added)
        return f"next search after {more} more sampled tuples, or a drift"

    def tree(self) -> str:
        """The classifier as indented text, with the route of each class."""
        if self.classifier.test is None:
            return ""
        lines: list[str] = []
        a, names = self.attributes, self.pipeline.names

        def grow(tree: Tree, depth: int) -> None:
            if tree.test is None:
                lines[-1] += f": {self.states[tree.label].route.named(names)}"
                return
            for side, holds in ((tree.yes, True), (tree.no, False)):
                assert side is not None
                lines.append("  " * depth + told(tree.test, holds, a.names, a.word))
                grow(side, depth + 1)

        grow(self.classifier, 0)
        return "\n".join(lines)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "attributes": self.attributes.snapshot(),
            "reservoir": self.reservoir.snapshot(),
            "tree": self.classifier.record(),
            "states": [
                {
                    "route": list(s.route), "rates": s.rates.tolist(), "basis": s.basis.tolist(),
                    "drift": s.drift.snapshot(), "came": s.came.tolist(), "left": s.left.tolist(), "wanted": s.wanted,
                    "token": None if s.token is None else [list(g) for g in s.token.groups],
                }
                for s in self.states
            ],
            "added": self._added, "again": self._again, "looked": self.looked, "searched": self.searched,
            "owed": self._owed, "batch_rows": self._batch_rows,
            "search": None if self._search is None else self._search.record(),
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        if record["attributes"] is not None:
            self.attributes.restore(record["attributes"])
        if "reservoir" in record:
            self.reservoir.restore(record["reservoir"])
        self.classifier = Tree.of(record["tree"])
        self.states = []
        for s in record["states"]:
            state = ClassState(
                self.allowed(s["route"]), np.array(s["rates"], float), np.array(s["basis"], float),
                came=np.array(s["came"], float), left=np.array(s["left"], float), wanted=int(s["wanted"]),
            )  # fmt: skip
            state.drift.restore(s["drift"])
            if s["token"] is not None:
                state.token = Uncertain(tuple(map(tuple, s["token"])))
            self.states.append(state)
        self._added, self._again, self.searched = int(record["added"]), int(record["again"]), bool(record["searched"])
        self.looked = int(record["looked"])
        self._owed, self._batch_rows = record["owed"], record["batch_rows"]
        self._search = None if record["search"] is None else Search.of(self.pipeline, record["search"]).begin()


def _expected(rates: NDArray[np.float64], route: Route, costs: NDArray[np.float64]) -> float:
    """Cost per tuple on a route, operators taken as independent within a class."""
    reaching, total = 1.0, 0.0
    for op in route:
        total += reaching * float(costs[op])
        reaching *= float(rates[op])
    return total


def _rates(bits: Bits, prices: Prices) -> NDArray[np.float64]:
    """Rows out per row in on sampled tuples, drawn a little to one half, or to what is usual: a handful says little."""
    usual = 0.5 if prices.fill is None else prices.fill
    return np.asarray((prices.rows(bits).sum(axis=0) + 2.0 * usual) / (len(bits) + 2.0))
