"""`twophase`: joins in two phases, so that A-Greedy or one of its kin orders stems as it orders filters (thesis 5.2).

Drop probing asks each window whether it has a match for a row, and stops there; only rows that every window has a match
for are joined. The cost of that second phase does not depend on the order, so the first decides, and it is pipelined
filters: A-Greedy with its profile window, matrix view and bound (4.3) is used as it is, on the logical filters of the
pipeline (plan/logical.py). So are `sweep`, `independent` and `localswaps`, by `by=`.

Decisions where the thesis is silent:
- An input's own filters come before all stems, as in the thesis' plans (figure 5.1), and are ordered by a policy of
  their own on the same profiled rows.
- Stems that must come first are joined first; then each partial result is a row for the logical filters (5.2.2).
- The cost of a logical filter is that of its probes to the first match, in units of work times this machine's price.
- A ledger says how much may go into profiling, as elsewhere. `regret=None` samples at the thesis' fixed rate.

Neither the thesis nor this policy weighs two phases against one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation, OperatorView, RouteView
from thalweg.contract.policy import Pricing
from thalweg.contract.visits import DROPPED, Journey, Visit, Visits
from thalweg.errors import CheckpointError, DefinitionError, did_you_mean
from thalweg.optimize.auto.ledger import Ledger
from thalweg.optimize.orders.agreedy import BURST, AGreedy
from thalweg.optimize.orders.independent import Independent
from thalweg.optimize.orders.localswaps import LocalSwaps
from thalweg.optimize.orders.profiling import Profiling
from thalweg.optimize.orders.single import SingleRoute
from thalweg.optimize.orders.sweep import Sweep
from thalweg.plan import Operator, Pipeline, Reason, Route, Ruster
from thalweg.plan.logical import paths, placed
from thalweg.plan.ruster import Also
from thalweg.profile.prices import RECORDED, Prices
from thalweg.profile.rates.rates import MEMORY

KIN: dict[str, type[Profiling]] = {kind.name: kind for kind in (AGreedy, Sweep, Independent, LocalSwaps)}


@dataclass(frozen=True)
class Part:
    """Operators that are ordered among themselves, and the policy that does it, to which they are filters 0, 1, ..."""

    operators: tuple[int, ...]
    policy: Profiling

    @classmethod
    def of(cls, pipeline: Pipeline, operators: tuple[int, ...], make: Callable[[Pipeline], Profiling]) -> Part:
        """Filters keep the guards that are among them; stems are free, as logical filters are."""
        place = {op: k for k, op in enumerate(operators)}
        named = [pipeline.operators[op] for op in operators]
        guards = [frozenset(place[g] for g in it.after if g in place) for it in named]
        alike = [Operator(it.name, after=after) for it, after in zip(named, guards, strict=True)]
        return cls(operators, make(Pipeline(pipeline.stream, tuple(alike))))

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(self.operators[k] for k in self.policy.order)

    @property
    def also(self) -> Also:
        also = self.policy.also()
        return frozenset(self.operators[k] for k in also) if isinstance(also, frozenset) else also

    def price(self, route: Sequence[int]) -> float | None:
        """Seconds per row that comes to them in the order of a route."""
        local = [self.operators.index(op) for op in route if op in self.operators]
        return self.policy.price(Route(tuple(local))) if isinstance(self.policy, Pricing) else None

    def told(self, visits: Visits, journeys: Sequence[Journey]) -> Visits:
        return Visits(visits.batch, sum(j.rows for j in journeys), tuple(journeys))

    def journey(
        self, ruster: Ruster, rows: int, visits: Sequence[Visit], bits: NDArray[np.int8] | None
    ) -> Journey:  # fmt: skip
        """A journey through these operators as their policy numbers them; `bits` are those of all operators."""
        place = {op: k for k, op in enumerate(self.operators)}
        own = Ruster(
            None, self.policy.plan.route, ruster.purpose, self.policy.also() if bits is not None else frozenset()
        )
        met = tuple(replace(v, operator=place[v.operator]) for v in visits if v.operator in place)
        return Journey(own, rows, met, None if bits is None else np.ascontiguousarray(bits[:, self.operators]))


@dataclass
class TwoPhase(SingleRoute):
    """A policy for filters, over the logical filters of a join.

    >>> policy = TwoPhase(Pipeline("a", tuple(Operator(name, "stem") for name in "bcd")))
    >>> policy.stems.policy.name, len(policy.stems.policy.pipeline)
    ('agreedy', 3)
    """

    prices: Prices = RECORDED
    by: str = "agreedy"
    regret: float | None = 0.01
    options: Mapping[str, Any] = field(default_factory=dict)
    """For the policy that orders."""
    name = "twophase"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in KIN:
            raise DefinitionError(f"'{self.by}' orders no filters", hint=did_you_mean(self.by, list(KIN)))
        filters = tuple(op for op in self.pipeline.written if self.pipeline.operators[op].kind == "filter")
        visited = list(filters)
        while len(ready := self.pipeline.eligible(visited)) == 1:
            visited += ready
        self._alone = tuple(filters)
        self._first = tuple(visited[len(filters) :])
        """Stems that must come first."""
        self._paths = paths(self.pipeline, visited)
        self.filters = self._part(filters)
        self.stems = self._part(tuple(self._paths))
        self.unit = (self.prices.bucket + self.prices.candidate) / 2
        """Seconds of one unit of a stem's work."""
        self.ledger = Ledger(self.regret or 0.0, loan=BURST * (self.prices.ask + self.prices.send))
        self._met = np.zeros(3)
        """Rows, partial results that were probed, and seconds of joins, of the last rows."""

    def _part(self, operators: tuple[int, ...]) -> Part | None:
        if len(operators) < 2:
            return None
        return Part.of(
            self.pipeline, operators, lambda p: KIN[self.by](p, self.seed, prices=self.prices, **self.options)
        )

    @property
    def parts(self) -> list[Part]:
        return [part for part in (self.filters, self.stems) if part is not None]

    def best(self) -> tuple[int, ...]:
        """The route for the orders of the parts."""
        filters = self._alone if self.filters is None else self.filters.order
        stems = tuple(self._paths) if self.stems is None else self.stems.order
        return self.pipeline.closest((*filters, *self._first, *placed(self._paths, stems))).operators

    def route(self, batch: Batch) -> list[Ruster]:
        phases = 1 if self.stems is None else 2
        whole = [Ruster(None, self.plan.route, phases=phases)]
        if not self.parts or not self._affords():
            return whole
        also = self._also()
        return [
            Ruster(r.rows, self.plan.route, r.purpose, also if r.purpose == "profile" else frozenset(), phases=phases)
            for r in self.parts[-1].policy.route(batch)
        ]

    def _affords(self) -> bool:
        return self.regret is None or self.ledger.spent <= self.ledger.earned + self.ledger.loan

    def _also(self) -> Also:
        """What profiled rows are tried on for all parts."""
        wanted = [part.also for part in self.parts]
        named = [also for also in wanted if isinstance(also, frozenset)]
        return frozenset[int]().union(*named) if len(named) == len(wanted) else wanted[0]

    def observe(self, visits: Visits) -> None:
        super().observe(visits)
        self._enter(visits)
        mine = [j for j in visits.journeys if j.ruster.route == self.plan.route]
        if self.filters is not None:
            told = [self.filters.journey(j.ruster, j.rows, j.visits, j.passed) for j in mine]
            self.filters.policy.observe(self.filters.told(visits, told))
        if self.stems is not None:
            told = [self._probed(self.stems, j) for j in mine if j.probes]
            self.stems.policy.observe(self.stems.told(visits, told))
        self._follow()

    def _probed(self, stems: Part, journey: Journey) -> Journey:
        """What drop probing met, as a journey through filters."""
        met = [
            Visit(p.operator, p.rows, p.survivors, p.work * self.unit, p.extra, p.extra_work * self.unit, work=p.work)
            for p in journey.probes
        ]
        bits = journey.probed
        if bits is not None:  # nothing joins along a path if nothing joins along the first part of it
            bits = bits.copy()
            for op, path in self._paths.items():
                bits[(bits[:, list(path)] == DROPPED).any(axis=1), op] = DROPPED
        return stems.journey(journey.ruster, journey.probes[0].rows, met, bits)

    def _follow(self) -> None:
        """Bring in force what the parts decided, for their reasons."""
        before = self.estimate()
        decided = [event for part in self.parts for event in part.policy.drain()]
        for event in decided:
            if event.change is None:
                self.note(event.kind, event.why)
        reasons = [event.why for event in decided if event.change is not None]
        if reasons:
            order = self.best()
            self.reorder(order, reasons[-1], before=before, after=self.price(Route(order)))

    def _enter(self, visits: Visits) -> None:
        """Enter what the rows took, and what profiling took."""
        stems = [op.kind == "stem" for op in self.pipeline.operators]
        met = np.zeros(3)
        for j in visits.journeys:
            joined = self.unit * sum(v.work for v in j.visits if stems[v.operator])
            self.ledger.useful += joined + sum(v.seconds for v in j.visits if not stems[v.operator])
            extra = sum(v.extra_seconds for v in j.visits if not stems[v.operator])
            if j.ruster.purpose == "profile":
                self.ledger.spend(extra + self.unit * sum(p.extra_work for p in j.probes) + self.prices.send)
            probing = self.unit * sum(p.work for p in j.probes)
            met += j.rows, j.probes[0].rows if j.probes else 0, joined - probing
        self._met = self._met * 0.5 ** (visits.rows / MEMORY) + met

    # Seen from outside

    def price(self, route: Route) -> float | None:
        """Estimated seconds per row in two phases."""
        rows, probed, joining = self._met.tolist()
        if not rows or not self.parts:
            return None
        judging = 0.0 if self.filters is None else self.filters.price(route.operators)
        probing = 0.0 if self.stems is None else self.stems.price(route.operators)
        return None if judging is None or probing is None else judging + (probing * probed + joining) / rows

    def estimate(self) -> float | None:
        return self.price(self.plan.route)

    def explain(self) -> Explanation:
        views = [OperatorView(name) for name in self.pipeline.names]
        for part in self.parts:
            for op, view in zip(part.operators, part.policy.explain().operators, strict=True):
                views[op] = view
        change = self.parts[-1].policy.explain().to_change if self.parts else Reason("")
        route = RouteView("", 1.0, self.plan.route, self.estimate())
        return Explanation(self.name, self.why(), (route,), tuple(views), change)

    def why(self) -> Reason:
        if not self.parts:
            return Reason("only one order is allowed")
        told = str(self.parts[-1].policy.why())
        if self.stems is None:
            return Reason.of("{told}", told=told)
        return Reason.of("rows are probed before they are joined; {told}", told=told)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "parts": [part.policy.snapshot() for part in self.parts],
            "ledger": self.ledger.snapshot(),
            "met": self._met.tolist(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        if len(record["parts"]) != len(self.parts):
            raise CheckpointError(
                f"what was learned of {len(record['parts'])} groups of operators of '{self.pipeline.stream}' does not fit "
                f"the {len(self.parts)} of this query",
                hint="it was learned by another query",
            )
        for part, known in zip(self.parts, record["parts"], strict=True):
            part.policy.restore(known)
        self.ledger.restore(record["ledger"])
        self._met = np.array(record["met"], float)
