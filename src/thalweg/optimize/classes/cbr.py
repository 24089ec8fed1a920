"""`cbr`: content-based routing, Content-Learns (Bizarro, Babu, DeWitt, Widom: sections 3-5).

Invariant: operator ℓ is ranked by the pass rate S[ℓ, i] of its classifier attribute's partition i where it has one in
use, else by its overall rate W[ℓ]. An attribute comes into use only if its gain ratio over a sample R stands out and
measured work then falls.

Where the paper is silent, or other choices are better:
- Cost-aware: operators are ranked by drop rate per cost; the paper takes costs as equal.
- The benefit test sends half of the rows of the same batches with the new attribute and half without, so a drift can't
  pass for a benefit. Work is calls times measured cost.
- An attribute in use stays in use while its operator is profiled again: the sample is steered, so use can't bias it.
- A sample of 150 in 24 partitions has a gain ratio by chance alone; it is taken off before the threshold.
- A class keeps its route until another is estimated `worthwhile` cheaper; classes too small for a ruster of their own
  in a batch travel with the one whose route suits them best.
- Joins (4.5): rates are rows out per row in, and the share of their variance that lies between partitions stands in
  place of the gain ratio. Their visits have no trace, so S is learned from profiled tuples alone.
- Beyond the paper: `pairs` lets two attributes together be an operator's classifier (pairs.py); `at_once` profiles all
  operators on the same tuples (they are tried even after a drop), and `study` learns from such tuples whoever asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import PASSED, UNTRIED, Journey, Visits
from thalweg.optimize.classes.classed import Bits, Classed, outcomes
from thalweg.optimize.classes.routeprices import has_stems
from thalweg.optimize.orders.single import sampled
from thalweg.plan import Route, Ruster
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.gainratio import by_chance, gain_ratio, variance_by_chance, variance_share
from thalweg.profile.content.pairs import Content
from thalweg.profile.content.partitions import PARTS, Partitions

Parts = dict[int, NDArray[np.int64]]
LEAST_ROWS = 32
"""Rows of a class in a batch that are worth a ruster of their own."""
TRIAL = (300, 1500)
"""Tuples with and without a new attribute: the least before a verdict, and the most."""
SURE = 2.5
"""Standard errors between with and without that end a trial early."""
VARIANCE = 0.1
"""Joins: share of the variance of an operator's rows that its attribute must tell, beyond chance. Shares of samples of
150 in 24 partitions scatter some six times as far as gain ratios do."""
PAIR = 0.01
"""Gain ratio, or share of the variance, that a pair must tell beyond a single attribute."""
MOST_CLASSES = 1024
MOST_TOLD = 24
"""Partitions that the name of a class lists."""
MOST_ROUTES = 8
"""Rusters of one batch: beyond that each costs more than its route saves."""


@dataclass
class Table:
    """The classes known under one choice of attributes: a code for each combination of partitions, and its order."""

    attribute: list[int]
    """For each operator its classifier attribute, or -1 (CA in the paper)."""
    codes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    orders: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        if not len(self.codes):
            self.orders = np.zeros((0, len(self.attribute)), np.int64)

    @property
    def used(self) -> list[int]:
        return sorted({j for j in self.attribute if j >= 0})

    def code(self, parts: Parts, d: int) -> NDArray[np.int64]:
        """One number for the partitions that a row is in."""
        used = self.used
        code = parts[used[0]].copy()
        for j in used[1:]:
            code *= d + 1
            code += parts[j]
        return code

    def part(self, j: int, d: int) -> NDArray[np.int64]:
        """The partition of attribute j in each known code."""
        behind = len(self.used) - 1 - self.used.index(j)
        return np.asarray(self.codes // (d + 1) ** behind % (d + 1))

    def place(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where codes stand in the table; -1 where they don't."""
        if not len(self.codes):
            return np.full(len(codes), -1)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, at, -1)


@dataclass
class Arm:
    """Tuples of one side of a benefit test, and what they cost."""

    tuples: float = 0.0
    cost: float = 0.0
    squares: float = 0.0

    def add(self, journey: Journey, costs: NDArray[np.float64]) -> None:
        spent = 0.0
        for k, v in enumerate(journey.visits):
            spent += float(costs[v.operator])
            following = journey.visits[k + 1].rows_in if k + 1 < len(journey.visits) else 0
            stopped = max(v.rows_in - following, 0)
            self.cost += v.rows_in * float(costs[v.operator])
            self.squares += stopped * spent * spent
        self.tuples += journey.rows

    @property
    def mean(self) -> float:
        return self.cost / self.tuples

    @property
    def error(self) -> float:
        """Squared standard error of the mean."""
        return max(self.squares / self.tuples - self.mean**2, 0.0) / self.tuples


@dataclass
class Trial:
    """An attribute on trial for an operator."""

    operator: int
    attribute: int
    ratio: float
    table: Table
    without: Arm = field(default_factory=Arm)
    under: Arm = field(default_factory=Arm)


@dataclass
class CBR(Classed):
    """Content-Learns over one pipeline.

    >>> from thalweg.lab.simulate import run
    >>> random = np.random.default_rng(7)
    >>> kind = random.integers(0, 2, 60_000)
    >>> rows = random.random((60_000, 2)) < np.where(kind[:, None] == 0, [0.05, 0.9], [0.9, 0.05])
    >>> r = run("cbr", rows, costs=[1.0, 1.0], seed=7, columns={"kind": kind})
    >>> round(float(r.useful[40:].sum()) / 20_000, 1)  # one order for all needs 1.5 evaluations a tuple
    1.1
    """

    p: float = 0.06
    sample: int = 150
    parts: int = PARTS
    alpha: float = 0.95
    threshold: float = 0.015
    worthwhile: float = 0.05
    at_once: bool = False
    pairs: bool = False
    """Whether two attributes together may tell what an operator passes."""
    benefit: bool = True
    """Whether an attribute must pass the benefit test; False where somebody else weighs what comes of it."""
    name = "cbr"

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.pipeline)
        self._stems = has_stems(self.pipeline)
        self.at_once = self.at_once or self._stems
        self.partitions = Partitions(self.parts)
        self.taken = np.zeros((n, 0, self.parts + 1))
        self.through = np.zeros((n, 0, self.parts + 1))
        self.squares = np.zeros((n, 0))
        """Joins: squares of the rows out, summed over a sample."""
        self.S = np.zeros((n, self.parts + 1))
        self.W = np.full(n, 0.5)
        self._met = np.zeros(n)
        self.table = self._in_force = Table([-1] * n)
        self.trial: Trial | None = None
        self.focus = 0
        self._single = self.pipeline.written.operators
        self._forget_batch()

    def _forget_batch(self) -> None:
        self._parts: Parts = {}
        self._sent: list[tuple[Ruster, Arm | None]] = []
        self._probe: tuple[Ruster, Batch] | None = None

    # Routing (4.2)

    def route(self, batch: Batch) -> list[Ruster]:
        self._forget_batch()
        if not self.choice or not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        chosen = self._choose(batch)
        self._parts = self._parts_of(batch, self._wanted())
        rest = None if chosen is None else ~chosen
        rusters = []
        if self.trial is None:
            self._sent = [(r, None) for r in self._split(self.table, self._parts, rest, len(batch))]
        else:
            coin = sampled(self._random, len(batch), 0.5)
            for table, arm, side in (
                (self.table, self.trial.without, ~coin), (self.trial.table, self.trial.under, coin),
            ):  # fmt: skip
                half = side if rest is None else side & rest
                self._sent += [(r, arm) for r in self._split(table, self._parts, half, len(batch))]
        rusters = [r for r, _ in self._sent]
        if chosen is not None:
            rows = np.flatnonzero(chosen)
            label = next(iter(self.plan.routes))
            if self.at_once:
                probe = Ruster(rows, self.plan.route, "profile", "all", label)
            else:
                first = self.pipeline.closest([self.focus, *(op for op in self.plan.route if op != self.focus)])
                probe = Ruster(rows, first, "explore", label=label, trace=True)
            self._probe = (probe, Batch(batch.data.take(rows), batch.number, batch.stream))
            rusters.append(probe)
        return rusters

    def work(self, batch: Batch, rest: NDArray[np.bool_] | None) -> list[Ruster]:
        self._forget_batch()
        self._parts = self._parts_of(batch, self.table.used)
        self._sent = [(r, None) for r in self._split(self.table, self._parts, rest, len(batch))]
        return [r for r, _ in self._sent]

    def foretell(self, values: Values) -> list[Ruster]:
        return self._split(self.table, self._parts_in(values, self.table.used), None, len(values), least=1)

    def _parts_in(self, values: Values, used: list[int]) -> Parts:
        return {j: self.content.parts(lambda m: values[:, m], j) for j in used}

    def assign(self, batch: Batch) -> list[Ruster]:
        if not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        return self._split(self.table, self._parts_of(batch, self.table.used), None, len(batch))

    def _choose(self, batch: Batch) -> NDArray[np.bool_] | None:
        """Rows that are steered to the operator being profiled; during a trial that is the next one already."""
        # Tried on all operators, a tuple tells as much as one steered to each.
        chosen = sampled(self._random, len(batch), self.p / len(self.pipeline) if self.at_once else self.p)
        return chosen if chosen.any() else None

    def _wanted(self) -> list[int]:
        return sorted({*self.table.used, *(self.trial.table.used if self.trial else ())})

    def _parts_of(self, batch: Batch, used: list[int]) -> Parts:
        if not used or not self.attributes.known(batch.data):
            return {}
        return {j: self.content.parts(lambda m: self.attributes.column(batch.data, m), j) for j in used}

    @property
    def content(self) -> Content:
        return Content(self.attributes, self.partitions, self.pairs)

    def _split(
        self, table: Table, parts: Parts, rows: NDArray[np.bool_] | None, count: int, least: int = LEAST_ROWS
    ) -> list[Ruster]:
        """Rows by the route of their class."""
        label = next(iter(self.plan.routes))
        if not table.used or not parts:
            everything = None if rows is None else np.flatnonzero(rows)
            # Without classes of its own, the side of a trial that has none goes by the overall rates.
            route = self.plan.route if table is self.table and not table.used else self.allowed(self._single)
            return [Ruster(everything, route, label=label, trace=True)]
        codes = table.code(parts, self.parts)
        mine = np.arange(count) if rows is None else np.flatnonzero(rows)
        kinds, inverse = np.unique(codes[mine], return_inverse=True)
        places = table.place(kinds)
        fallback = self.allowed(self._single).operators
        orders = [tuple(table.orders[k].tolist()) if k >= 0 else fallback for k in places]
        numbers = {order: k for k, order in enumerate(dict.fromkeys(orders))}
        group = np.array([numbers[o] for o in orders], np.int64)
        sizes = np.bincount(inverse, minlength=len(kinds))
        group = self._merged(table, places, group, sizes, list(numbers), least)
        row_group = group[inverse]
        by_route = {route: label for label, route in self.plan.routes.items()}
        rusters = []
        for order, k in numbers.items():
            own = mine[row_group == k]
            if len(own):
                route = Route(order)
                rusters.append(Ruster(own, route, label=by_route.get(route, label), trace=True))
        return rusters or [Ruster(mine, self.plan.route, label=label, trace=True)]

    def _merged(
        self, table: Table, places: NDArray[np.int64], group: NDArray[np.int64], sizes: NDArray[np.int64],
        orders: list[tuple[int, ...]], least: int,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Small groups go along with the large one whose route costs them least."""
        rows = np.bincount(group, weights=sizes, minlength=len(orders))
        large = np.sort(np.argsort(-rows, kind="stable")[:MOST_ROUTES])
        large = large[rows[large] >= least]
        if len(large) == len(orders):
            return group
        if not len(large):
            large = np.array([int(rows.argmax())])
        small = np.flatnonzero(~np.isin(group, large))
        rates = self._rates(table)
        each = np.where((places[small] >= 0)[:, None], rates[places[small]] if len(rates) else self.W, self.W)
        prices = [self._expected(each, np.tile(orders[k], (len(small), 1))) for k in large]
        group = group.copy()
        group[small] = large[np.argmin(prices, axis=0)]
        return group

    # Rates, ranks and expected costs

    def _rates(self, table: Table) -> NDArray[np.float64]:
        """Pass rate of each operator for each class of a table."""
        rates = np.tile(self.W, (len(table.codes), 1))
        for op, j in enumerate(table.attribute):
            if j >= 0:
                rates[:, op] = self.S[op, table.part(j, self.parts)]
        return rates

    def _ranked(self, rates: NDArray[np.float64]) -> NDArray[np.int64]:
        """Orders by drop rate per cost."""
        orders = np.argsort(-(1 - rates) / self.costs.per_row, axis=1, kind="stable")
        if not self.pipeline.free:
            orders = np.array([self.pipeline.closest(o.tolist()).operators for o in orders], np.int64).reshape(
                orders.shape
            )
        return orders

    def _expected(self, rates: NDArray[np.float64], orders: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds per tuple of each class on an order, operators taken as independent within a class."""
        placed = np.take_along_axis(rates, orders, axis=1)
        reaching = np.cumprod(np.concatenate([np.ones((len(placed), 1)), placed[:, :-1]], axis=1), axis=1)
        return np.asarray((reaching * self.costs.per_row[orders]).sum(axis=1))

    # Observing

    def observe(self, visits: Visits) -> None:
        self.tally(visits)
        if not self.choice:
            return
        self._follow_rates(visits)
        for journey in visits.journeys:
            if self._probe is not None and journey.ruster is self._probe[0]:
                self._sampled(journey, self._probe[1])
        if self.trial is not None:
            self._judge(visits)
        elif visits.rows:
            self._optimize()
        changed = self._update(self.table, self._parts) or self.table is not self._in_force
        if self.trial is not None:
            self._update(self.trial.table, self._parts)
        if changed:
            self._bring_in_force()
            self._in_force = self.table
        self._forget_batch()

    def _follow_rates(self, visits: Visits) -> None:
        """W and S from ordinary work: what came to an operator and what left it (the run-time update of 4.1)."""
        n = len(self.pipeline)
        came, left = np.zeros(n), np.zeros(n)
        for journey in visits.journeys:
            for v in journey.visits:
                came[v.operator] += v.rows_in
                left[v.operator] += v.rows_out
        met = self._met > 0
        weight = np.where(met, 1 - self.alpha**came, (came > 0).astype(float))
        self.W = self.W * (1 - weight) + weight * left / np.maximum(came, 1)
        self._met = np.minimum(self._met + came, 1e9)
        attribute = (self.trial.table if self.trial else self.table).attribute
        mine = {id(r) for r, _ in self._sent}
        tallies: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        for journey in visits.journeys:
            if journey.left is None or id(journey.ruster) not in mine:
                continue
            before = journey.ruster.rows
            for v, after in zip(journey.visits, journey.left, strict=True):
                j = attribute[v.operator]
                if j >= 0 and j in self._parts:
                    parts = self._parts[j]
                    old = tallies.get(v.operator, (np.zeros(self.parts + 1), np.zeros(self.parts + 1)))
                    tallies[v.operator] = (
                        old[0] + np.bincount(parts if before is None else parts[before], minlength=self.parts + 1),
                        old[1] + np.bincount(parts[after], minlength=self.parts + 1),
                    )
                before = after
        for op, (taken, passed) in tallies.items():
            kept = self.alpha**taken
            self.S[op] = self.S[op] * kept + (1 - kept) * passed / np.maximum(taken, 1)

    def _sampled(self, journey: Journey, sample: Batch) -> None:
        values = self.look(sample)
        if values is None:
            return
        if journey.passed is not None:
            self.study(values, outcomes(journey))
        elif journey.left is not None:
            bits = np.full((len(sample), len(self.pipeline)), UNTRIED, np.int8)
            before = np.arange(len(sample))
            for v, rows in zip(journey.visits, journey.left, strict=True):
                after = rows if journey.ruster.rows is None else np.searchsorted(journey.ruster.rows, rows)
                if v.operator == self.focus:
                    bits[before, self.focus] = 0
                    bits[after, self.focus] = PASSED
                    break
                before = after
            self.study(values, bits)

    def study(self, values: Values, bits: Bits) -> None:
        """Count tuples in and out by partition of every attribute (In and Out of figure 2)."""
        content = self.content
        n, k, d = len(self.pipeline), len(content), self.parts
        if self.taken.shape[1] != k:
            self.taken, self.through = np.zeros((n, k, d + 1)), np.zeros((n, k, d + 1))
            self.squares = np.zeros((n, k))
        for j in content.touched(self.partitions.widen(values, self.attributes.category)):
            self.taken[:, j] = self.through[:, j] = 0.0
            self.squares[:, j] = 0.0
            for op in range(n):
                if self.table.attribute[op] == j or (self.trial and self.trial.table.attribute[op] == j):
                    self.S[op] = self.W[op]
        place = np.stack(
            [content.parts(lambda m: values[:, m], j) + j * (d + 1) for j in range(k)], axis=1
        ) if k else np.zeros((len(values), 0), np.int64)  # fmt: skip
        for op in range(n):
            tried = bits[:, op] != UNTRIED
            if tried.any():
                self.taken[op] += np.bincount(place[tried].ravel(), minlength=k * (d + 1)).reshape(k, d + 1)
                rows = bits[tried, op].astype(float)
                out = np.bincount(place[tried].ravel(), np.repeat(rows, k), minlength=k * (d + 1))
                self.through[op] += out.reshape(k, d + 1)
                self.squares[op] += float(rows @ rows)

    def consider(self, values: Values, bits: Bits) -> None:
        """Study tuples and decide at once: for a policy that only would route, while another does."""
        came, left = (bits != UNTRIED).sum(axis=0), np.maximum(bits, 0).sum(axis=0)
        weight = np.where(self._met > 0, 1 - 0.98**came, (came > 0).astype(float))
        self.W = self.W * (1 - weight) + weight * left / np.maximum(came, 1)
        self._met = self._met + came
        self.study(values, bits)
        self._optimize()
        changed = self._update(self.table, self._parts_in(values, self.table.used))
        if changed or self.table is not self._in_force:
            self._bring_in_force()
            self._in_force = self.table

    def forget(self) -> None:
        """Samples of before a change say nothing about now."""
        self.taken[:] = self.through[:] = 0.0
        self.squares[:] = 0.0

    # Optimizing (4.1)

    def _optimize(self) -> None:
        """When the sample of the operator in focus is full: choose its attribute, and go on to the next operator."""
        for _ in range(len(self.pipeline)):
            op = self.focus
            full = self.taken.shape[1] > 0 and self.taken[op].sum(axis=1).max(initial=0.0) >= self.sample
            if not full and not self._pruned(op):
                return
            if full:
                self._choose_attribute(op)
                self.taken[op] = self.through[op] = 0.0
                self.squares[op] = 0.0
            self.focus = (op + 1) % len(self.pipeline)
            if self.trial is not None:
                return

    def _pruned(self, op: int) -> bool:
        """An operator whose place can hardly change: nearly all or none of the tuples pass, or it is far cheaper than
        all others and so always comes early (4.4)."""
        if self._met[op] < 1000:
            return False
        others = np.delete(self.costs.per_row, op)
        idle = not self._stems and self.W[op] > 0.98
        return bool(self.W[op] < 0.02 or idle or self.costs.per_row[op] < 0.05 * others.min(initial=np.inf))

    def ratios(self, op: int) -> NDArray[np.float64]:
        """Gain ratio of every attribute for an operator, for joins the share of the variance, less what chance gives;
        attributes that can't serve: 0."""
        taken, through = self.taken[op], self.through[op]
        if self._stems:
            ratio = variance_share(taken, through, self.squares[op][:, None]) - variance_by_chance(taken)
        else:
            ratio = gain_ratio(taken, through) - by_chance(taken)
        enough = taken.sum(axis=1) >= 0.9 * self.sample
        ratio = np.where(enough & self.content.usable, ratio, 0.0)
        if self.pairs:
            # A pair that tells no more than one of its members is only dearer.
            ratio[len(self.attributes) :] -= PAIR
        return ratio

    def _choose_attribute(self, op: int) -> None:
        ratios = self.ratios(op)
        best = int(ratios.argmax()) if len(ratios) else -1
        present = self.table.attribute[op]
        threshold = VARIANCE if self._stems else self.threshold
        if best < 0 or ratios[best] <= threshold:
            # In use it costs next to nothing and S corrects itself (example 5.1): it goes when nothing is left of it.
            if present >= 0 and ratios[present] <= threshold / 4:
                self._use(op, -1, f"no attribute tells what '{self.pipeline.names[op]}' passes any more")
            return
        if best == present:
            if self._stems:
                self._set_rates(op, best)
            return  # in use, and for filters S follows by itself
        self._set_rates(op, best)
        without = list(self.table.attribute)
        if present >= 0:
            without[op] = -1
            self.table = Table(without)
        under = list(without)
        under[op] = best
        if self.benefit:
            self.trial = Trial(op, best, float(ratios[best]), Table(under))
        else:
            self.table = Table(under)
            name = self.content.name(best)
            self.note(
                "classifier",
                f"'{name}' tells what '{self.pipeline.names[op]}' passes: {self._measure()} {ratios[best]:.2f}",
            )

    def _measure(self) -> str:
        return "share of the variance" if self._stems else "gain ratio"

    def _set_rates(self, op: int, attribute: int) -> None:
        """S of an operator from its sample (the initialization of 4.1)."""
        taken, through = self.taken[op, attribute], self.through[op, attribute]
        overall = through.sum() / taken.sum()
        self.S[op] = np.where(taken > 0, through / np.maximum(taken, 1), overall)

    def _use(self, op: int, attribute: int, why: str) -> None:
        chosen = list(self.table.attribute)
        chosen[op] = attribute
        self.table = Table(chosen)
        self.note("classifier", why)

    def _judge(self, visits: Visits) -> None:
        """The benefit test: does work fall with the attribute?"""
        trial = self.trial
        assert trial is not None
        arms = {id(r): arm for r, arm in self._sent if arm is not None}
        costs = self.costs.per_row
        for journey in visits.journeys:
            arm = arms.get(id(journey.ruster))
            if arm is not None and len(trial.table.codes):
                arm.add(journey, costs)
        least, most = TRIAL
        if min(trial.without.tuples, trial.under.tuples) < least:
            return
        before, after = trial.without.mean, trial.under.mean
        error = sqrt(trial.without.error + trial.under.error)
        if abs(before - after) < SURE * error and min(trial.without.tuples, trial.under.tuples) < most:
            return
        name, attribute = self.pipeline.names[trial.operator], self.content.name(trial.attribute)
        kept = after < before
        if kept:
            self.table = trial.table
        self.note(
            "classifier",
            f"'{attribute}' {'now tells' if kept else 'tells too little of'} what '{name}' passes: "
            f"{self._measure()} {trial.ratio:.2f}, work {after / before - 1:+.1%} on {trial.under.tuples:.0f} tuples",
        )
        self.trial = None

    # Plan

    def _update(self, table: Table, parts: Parts) -> bool:
        """Add classes that were met, and change routes where another is clearly cheaper; whether anything changed."""
        turned = self._update_single()
        if not table.used:
            return turned
        if all(j in parts for j in table.used):
            codes = np.union1d(table.codes, np.unique(table.code(parts, self.parts)))
            if len(codes) > MOST_CLASSES:
                codes = np.unique(table.code(parts, self.parts))[:MOST_CLASSES]
            if len(codes) != len(table.codes):
                old = table.place(codes)
                orders = np.full((len(codes), len(self.pipeline)), -1, np.int64)
                orders[old >= 0] = table.orders[old[old >= 0]]
                table.codes, table.orders = codes, orders
        if not len(table.codes):
            return turned
        rates = self._rates(table)
        wish = self._ranked(rates)
        fresh = table.orders[:, 0] < 0
        present = np.where(fresh[:, None], wish, table.orders)
        better = self._expected(rates, wish) < (1 - self.worthwhile) * self._expected(rates, present)
        if not (fresh | better).any():
            return False
        table.orders = np.where((fresh | better)[:, None], wish, table.orders)
        return True

    def _update_single(self) -> bool:
        rates = self.W[None, :]
        wish, present = self._ranked(rates), np.array([self._single], np.int64)
        if self._expected(rates, wish)[0] < (1 - self.worthwhile) * self._expected(rates, present)[0]:
            self._single = tuple(wish[0].tolist())
            return True
        return False

    def _bring_in_force(self) -> None:
        table = self.table
        if not table.used or not len(table.codes):
            order = self.allowed(self._single)
            self.change(
                {"": order}, "sorted by drop rate per cost" if not table.used else "its classes are not met yet"
            )
            return
        groups: dict[tuple[int, ...], list[int]] = {}
        for k, order in enumerate(table.orders.tolist()):
            groups.setdefault(tuple(order), []).append(k)
        parts, content = {j: table.part(j, self.parts).tolist() for j in table.used}, self.content

        def told(k: int) -> str:
            return " & ".join(content.describe(j, parts[j][k]) for j in table.used)

        routes = {self._label(members, len(groups), told): Route(order) for order, members in groups.items()}
        if len(routes) == len(groups):
            before, after = None, float(self._expected(self._rates(table), table.orders).mean())
            self.change(routes, "drop rates per cost of a class turned its order round", before=before, after=after)

    def _label(self, members: list[int], groups: int, told: Callable[[int], str]) -> str:
        """A class as a reader knows it: the partitions of the attributes in use; of many the first few. They differ
        between classes, for a partition is in one class only."""
        if groups == 1:
            return ""
        mine = [told(k) for k in members[:MOST_TOLD]]
        if len(self.table.used) == 1:
            name = self.content.name(self.table.used[0])
            mine = [mine[0], *(t.removeprefix(name).strip() for t in mine[1:])]
        more = len(members) - len(mine)
        return ", ".join(mine) + (f" and {more} more" if more else "")

    # Seen from outside

    def estimate(self, label: str) -> float | None:
        if not self.tuples or label not in self.plan.routes:
            return None
        order = self.plan.routes[label].operators
        if not self.table.used or not len(self.table.codes):
            return float(self._expected(self.W[None, :], np.array([order], np.int64))[0])
        mine = (self.table.orders == np.array(order)).all(axis=1)
        if not mine.any():
            return None
        return float(self._expected(self._rates(self.table)[mine], self.table.orders[mine]).mean())

    def why(self) -> str:
        if not self.choice:
            return "only one order is possible: nothing to choose, nothing profiled"
        told = [
            f"'{self.content.name(j)}' tells what '{self.pipeline.names[op]}' passes"
            for op, j in enumerate(self.table.attribute)
            if j >= 0
        ]
        return "; ".join(told) or "drop rate per cost over all tuples: no attribute was shown to tell classes apart"

    def to_change(self) -> str:
        if not self.choice:
            return ""
        if self.trial is not None:
            attribute, op = self.content.name(self.trial.attribute), self.pipeline.names[self.trial.operator]
            return f"'{attribute}' is on trial for '{op}'"
        return f"profiling '{self.pipeline.names[self.focus]}'"

    def tree(self) -> str:
        if len(self.plan.routes) < 2:
            return ""
        names = self.pipeline.names
        return "\n".join(f"{label}: {route.named(names)}" for label, route in self.plan.routes.items())

    def snapshot(self) -> dict[str, Any]:
        trial = self.trial
        return super().snapshot() | {
            "attributes": self.attributes.snapshot(),
            "partitions": self.partitions.snapshot(),
            "taken": self.taken.tolist(),
            "through": self.through.tolist(),
            "squares": self.squares.tolist(),
            "S": self.S.tolist(),
            "W": self.W.tolist(),
            "met": self._met.tolist(),
            "table": _record(self.table),
            "focus": self.focus,
            "single": list(self._single),
            "trial": None
            if trial is None
            else [
                trial.operator,
                trial.attribute,
                trial.ratio,
                _record(trial.table),
                vars(trial.without),
                vars(trial.under),
            ],
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        n, d = len(self.pipeline), self.parts
        self.attributes.restore(record["attributes"])
        self.partitions.restore(record["partitions"])
        if "taken" in record:
            k = len(record["taken"][0]) if record["taken"] else 0
            self.taken = np.array(record["taken"], float).reshape(n, k, d + 1)
            self.through = np.array(record["through"], float).reshape(n, k, d + 1)
            self.squares = np.array(record["squares"], float).reshape(n, k)
        if record["S"]:
            self.S = np.array(record["S"], float).reshape(n, d + 1)
        self.W, self._met = np.array(record["W"], float), np.array(record["met"], float)
        self.table = self._in_force = self._restored(record["table"])
        self.focus = int(record["focus"])
        self._single = self.allowed(record["single"]).operators
        self.trial = None
        if record["trial"] is not None:
            op, attribute, ratio, table, without, under = record["trial"]
            self.trial = Trial(op, attribute, ratio, self._restored(table), Arm(**without), Arm(**under))

    def _restored(self, record: dict[str, Any]) -> Table:
        orders = [self.allowed(o).operators for o in record["orders"]]
        codes = np.array(record["codes"], np.int64)
        return Table(
            list(record["attribute"]), codes, np.array(orders, np.int64).reshape(len(codes), len(self.pipeline))
        )


def _record(table: Table) -> dict[str, Any]:
    return {"attribute": list(table.attribute), "codes": table.codes.tolist(), "orders": table.orders.tolist()}
