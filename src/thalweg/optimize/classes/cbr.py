"""`cbr`: content-based routing, Content-Learns (Bizarro, Babu, DeWitt, Widom: sections 3-5). Here: the routing step.

Invariant: operator ℓ is ranked by the pass rate S[ℓ, i] of partition i of its classifier attribute if it has one, else
by its overall rate W[ℓ]; while ℓ is profiled, its attribute is not used. All rows of a batch travel as one ruster
with a route for each class.

How this differs from the paper:
- Operators are ranked by drop rate per cost; the paper takes costs as equal.
- R tuples are steered to an operator together, once a share P of the tuples since the last sample reaches R; in a large
  batch, to several operators, whose attributes are then tested together. While rounds confirm the attributes, samples
  become rarer if they cost more than they could be worth.
- An attribute that a new sample confirms comes back into use without another benefit test.
- Standard errors decide whether an attribute stands out (learning.py); work with and without it is compared on the same
  batches (benefit.py).
- For joins (4.5) rates are rows out per row in. If a row had several matches, the share of the variance of the rows
  between partitions replaces the gain ratio.
- Beyond the paper: `pairs` lets two attributes together be a classifier, and `consider` learns from tuples that another
  policy tried on all operators.

One class and one file: what it keeps apart is elsewhere (learning.py, benefit.py, classtable.py); what is left is the
policy's contract and the routing step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import UNTRIED, Visits
from thalweg.optimize.classes.benefit import Tryout
from thalweg.optimize.classes.classed import Bits, Classed, outcomes
from thalweg.optimize.classes.classtable import ClassTable
from thalweg.optimize.classes.learning import Learning
from thalweg.optimize.classes.met import Met, met
from thalweg.optimize.classes.selectivity import expected, ranked
from thalweg.optimize.classes.sides import Sides
from thalweg.plan import Route, Ruster
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.pairs import Content, Parts
from thalweg.profile.content.partitions import PARTS, Partitions
from thalweg.profile.prices import RECORDED


@dataclass(frozen=True, eq=False)
class _Sample:
    """Steered rows of the current batch: their operators, and their content."""

    probes: dict[int, Ruster]
    rows: NDArray[np.int64]
    batch: Batch


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
    """P of the paper's table 2, as are `sample` (R) and `parts` (d); α is from section 4.1."""
    sample: int = 150
    parts: int = PARTS
    alpha: float = 0.95
    evidence: float = 2.5
    """Standard errors by which an attribute must stand out from chance, and work with it from work without."""
    worthwhile: float = 0.05
    """Share of its cost that a class must save to change its order."""
    pairs: bool = False
    """Whether two attributes together may tell what an operator passes."""
    benefit: bool = True
    """Whether an attribute must pass the benefit test; False if the caller judges the result."""
    name = "cbr"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.content = Content(self.attributes, Partitions(self.parts), self.pairs)
        self.learning = Learning(
            self.pipeline, self.content, self.sample, self.alpha, self.evidence, self.worthwhile, self.benefit
        )
        self._since = 0
        """Tuples since the last ones were steered."""
        self._spent = 0.0
        """Recent seconds of work per tuple."""
        self._batch_rows = 1
        self._asked = False
        """Whether this policy routed the batch to be observed; else it was assigned while the policy rested."""
        self._sides = Sides()
        self._parts: dict[str, Parts] = {}
        """Partitions of the current batch by side, if they show new classes."""
        self._sample: _Sample | None = None

    @property
    def table(self) -> ClassTable:
        return self.learning.table

    # Routing (4.2)

    def route(self, batch: Batch) -> list[Ruster]:
        self._parts, self._sample = {}, None
        if not self.choice or not len(batch):
            return [Ruster(None, self.plan.route, label=next(iter(self.plan.routes)))]
        self._batch_rows, self._asked, self._since = len(batch), True, self._since + len(batch)
        profiled = self._profiled(len(batch))
        if not profiled:
            return [self._work(batch, None)]
        label, probes = next(iter(self.plan.routes)), dict[int, Ruster]()
        for op, rows in profiled.items():
            first = self.pipeline.closest([op, *(other for other in self.plan.route if other != op)])
            probes[op] = Ruster(rows, first, "profile", frozenset({op}), label)
        chosen = np.sort(np.concatenate(list(profiled.values())))
        self._sample = _Sample(probes, chosen, Batch(batch.data.take(chosen), batch.number, batch.stream))
        rest = np.ones(len(batch), np.bool_)
        rest[chosen] = False
        return [self._work(batch, np.flatnonzero(rest), tuple(profiled)), *probes.values()]

    def _profiled(self, count: int) -> dict[int, NDArray[np.int64]]:
        """Operators to profile now, with the rows that go to each first; none during a benefit test."""
        each, learning = self._between() / self.sample, self.learning
        ops = [] if learning.trial is not None else learning.next(self._since / each, self.per_row)
        if not ops:
            return {}
        ends = np.cumsum([0, *(learning.lacking(op) for op in ops)]).tolist()
        drawn = self._random.choice(count, min(ends[-1], count), replace=False)
        self._since = min(self._since - int(len(drawn) * each), int(self._between()) * len(self.pipeline))
        rows = {op: np.sort(drawn[a:b]) for op, a, b in zip(ops, ends, ends[1:], strict=False)}
        return {op: mine for op, mine in rows.items() if len(mine)}

    def _between(self) -> float:
        """Tuples between two samples of R. A share P is steered until a round of samples has confirmed the attributes;
        each further round halves the pace, until a sample costs no more than a worthwhile share of the work between."""
        paced, rounds = self.sample / self.p, max(self.learning.calm - len(self.pipeline), 0)
        affordable = (RECORDED.ask + RECORDED.send) / max(self.worthwhile * self._spent, RECORDED.hash)
        return max(paced, min(paced * (1 << min(rounds, 32)), affordable))

    def _work(self, batch: Batch, rows: NDArray[np.int64] | None, profiled: tuple[int, ...] = ()) -> Ruster:
        """The rows on the routes of their classes; in a benefit test, half of them with the attributes on trial. While
        an operator is profiled, which takes R / P tuples, the other rows do without its attribute (4.1)."""
        trial, table = self.learning.trial, self.table
        ids = self._classes(batch, table, "table")
        if trial is not None:
            under = self._classes(batch, trial.table, "trial") + np.int32(len(table) + 1)
            coin = self._random.random(len(batch)) < 0.5
            return self._side("both").ruster("both", rows, np.where(coin, under, ids))
        paused = [op for op in profiled if len(table) and table.attribute[op] >= 0]
        if not paused:
            return self._side("table").ruster("table", rows, ids)
        for k, op in enumerate(paused):
            orders = ranked(self.pipeline, self.learning.rates.of(table, without=op), self.per_row)
            self._sides.put(f"without {op}", orders.tolist(), self.learning.single, self.plan.routes)
            first, last = (int(i * self.sample / self.p) for i in (k, k + 1))
            ids[first:last] += np.int32((k + 1) * (len(table) + 1))
        self._side("table").join("paused", "table", *(f"without {op}" for op in paused))
        return self._sides.ruster("paused", rows, ids)

    def _classes(self, batch: Batch, table: ClassTable, side: str = "") -> NDArray[np.int32]:
        """The class of each row; if a side is named, remember the classes that are new there."""
        if not table.used or not self.attributes.known(batch.data):
            return np.full(len(batch), len(table), np.int32)
        classes = self.content.places_of(batch.data, table.used, table.known)
        if side and (classes == len(table)).any():
            self._parts[side] = self.content.parts_of(batch.data, table.used)
        return classes

    def _side(self, side: str) -> Sides:
        """The routes in force plus one more side."""
        if side not in self._sides:
            if side == "both":
                self._side("table")
                self._side("trial").join("both", "table", "trial")
            else:
                trial = self.learning.trial
                table = trial.table if side == "trial" and trial else self.table
                # Without classes, all rows take the plan's route.
                last = self.plan.route.operators if table is self.table and not table.used else self.learning.single
                self._sides.put(side, table.orders.tolist(), last, self.plan.routes)
        return self._sides

    def assign(self, batch: Batch) -> list[Ruster]:
        return [self._side("table").ruster("table", None, self._classes(batch, self.table))]

    def work(self, batch: Batch, rest: NDArray[np.bool_] | None) -> list[Ruster]:
        self._parts, self._sample = {}, None
        return [self._work(batch, None if rest is None else np.flatnonzero(rest))]

    def foretell(self, values: Values) -> Ruster:
        table, known = self.table, values.shape[1] == len(self.attributes)
        ids = np.full(len(values), len(table), np.int32)
        if table.used and known:
            ids = self.content.places(values, table.used, table.known)
        return self._side("table").ruster("table", None, ids)

    @property
    def rest(self) -> int:
        """Batches until the next sample; averages over `memory` rows learn little from more frequent calls."""
        learning = self.learning
        if not self.choice or learning.trial is not None or not len(self.attributes):
            return 0
        due = self._between() * learning.lacking(learning.focus) / self.sample - self._since
        return max(int(min(due, self.costs.memory) // self._batch_rows), 0)

    # Observing

    def observe(self, visits: Visits) -> None:
        self.tally(visits)
        if not self.choice:
            return
        learning, before, found = self.learning, (self.table, self.learning.trial), met(visits, self.stems)
        came, left = (sum((each.sum(axis=0) for each in side), np.zeros(len(self.pipeline))) for side in
                      ([m.came for m in found], [m.left for m in found]))  # fmt: skip
        learning.rates.follow(came, left)
        if visits.rows:
            self._spent = float(came @ self.per_row) / visits.rows
        for each in found:
            self._follow(each)
        values = self._study(visits)
        if not self._asked:
            self._since += visits.rows
        if learning.trial is not None:
            learning.judge()
        elif values is not None:
            learning.optimize(self.per_row)
        if self.table is not before[0]:
            self._parts = {}  # of other attributes
        if learning.trial is not None and learning.trial is not before[1] and values is not None:
            self._parts["trial"] = self.content.parts(values, learning.trial.table.used)
        self._settle(before)

    def _follow(self, each: Met) -> None:
        """Update S from the outcome of each class (the run-time update of 4.1), and the two sides of a benefit test."""
        side, rates, trial = self._sides.name(each.ruster.routes), self.learning.rates, self.learning.trial
        if side is None or each.ruster.purpose != "work":
            return
        cut = len(self.table) + 1
        came, left = each.came[:cut], each.left[:cut]
        if side == "paused":
            blocks = (-1, cut, len(self.pipeline))
            came, left = each.came.reshape(blocks).sum(axis=0), each.left.reshape(blocks).sum(axis=0)
        rates.follow_classes(self.table, came[:-1], left[:-1])
        if side == "both" and trial is not None and len(trial.table):
            rates.follow_classes(trial.table, each.came[cut:-1], each.left[cut:-1])
            orders = np.array([route.operators for route in each.ruster.routes], np.int64)
            for arm, mine in ((trial.without, slice(0, cut)), (trial.under, slice(cut, None))):
                arm.add(each.begun[mine], each.came[mine], orders[mine], self.per_row)

    def _study(self, visits: Visits) -> Values | None:
        """Learn from steered tuples, each from the outcome at its own operator: others met only what that one passed.
        Returns their content."""
        sample = self._sample
        values = None if sample is None else self.look(sample.batch)
        if sample is None or values is None:
            return None
        bits = np.full((len(values), len(self.pipeline)), UNTRIED, np.int8)
        for op, probe in sample.probes.items():
            for journey in visits.journeys:
                if journey.ruster is probe and probe.rows is not None and journey.passed is not None:
                    bits[np.searchsorted(sample.rows, probe.rows), op] = outcomes(journey)[:, op]
        self.learning.study(values, bits)
        return values

    def consider(self, values: Values, bits: Bits) -> None:
        """Learn from tuples tried on all operators and decide at once, for a policy that does not route."""
        learning, before = self.learning, (self.table, self.learning.trial)
        self.refresh()
        tried, passed = (bits != UNTRIED).sum(axis=0), np.maximum(bits, 0).sum(axis=0)
        learning.rates.follow(tried.astype(float), passed.astype(float))
        learning.study(values, bits)
        learning.optimize(self.per_row)
        self._parts = {"table": self.content.parts(values, self.table.used)} if self.table.used else {}
        self._settle(before)

    def forget(self) -> None:
        """Drop samples from before a change."""
        self.learning.counts.forget()

    def _settle(self, before: tuple[ClassTable, Tryout | None]) -> None:
        """Order all classes by current rates, bring that into force, and record the decision."""
        learning, costs, table = self.learning, self.per_row, self.table
        for why in learning.notes:
            self.note("classifier", why)
        learning.notes.clear()
        changed = table is not before[0] or learning.trial is not before[1]
        changed |= learning.update(costs, table, self._parts.get("table"))
        if learning.trial is not None:
            changed |= learning.update(costs, learning.trial.table, self._parts.get("trial"))
        self._parts, self._sample, self._asked = {}, None, False
        if not changed:
            return
        self._sides.clear()
        if not len(table):
            why = "its classes are not met yet" if table.used else "sorted by drop rate per cost"
            self.change({"": self.allowed(learning.single)}, why)
            return
        named = zip(table.labels(self.content), table.orders.tolist(), strict=True)
        routes = {name: Route(tuple(order)) for name, order in named}
        after = float(expected(learning.rates.of(table), table.orders, costs).mean())
        self.change(routes, "new drop rates per cost changed a class's order", after=after)

    # Seen from outside

    def estimate(self, label: str) -> float | None:
        if not self.tuples or label not in self.plan.routes:
            return None
        order, table, rates = self.plan.routes[label].operators, self.table, self.learning.rates
        if not len(table):
            return float(expected(rates.W[None, :], np.array([order], np.int64), self.per_row)[0])
        mine = (table.orders == np.array(order)).all(axis=1)
        return float(expected(rates.of(table)[mine], table.orders[mine], self.per_row).mean()) if mine.any() else None

    def why(self) -> str:
        if not self.choice:
            return "only one order is possible: nothing to choose, nothing profiled"
        told = [
            f"'{self.content.name(j)}' tells what '{self.pipeline.names[op]}' passes"
            for op, j in enumerate(self.table.attribute)
            if j >= 0
        ]
        return "; ".join(told) or "drop rate per cost over all rows: no column was shown to tell kinds of rows apart"

    def to_change(self) -> str:
        if not self.choice:
            return ""
        trial = self.learning.trial
        if trial is not None:
            tried = [f"'{self.content.name(j)}' for '{self.pipeline.names[op]}'" for op, (j, _) in trial.chosen.items()]
            return f"on trial: {', '.join(tried)}"
        return f"profiling '{self.pipeline.names[self.learning.focus]}'"

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "attributes": self.attributes.snapshot(),
            "partitions": self.content.partitions.snapshot(),
            "learning": self.learning.snapshot(),
            "since": self._since,
            "spent": self._spent,
            "batch_rows": self._batch_rows,
        }

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self.attributes.restore(record["attributes"])
        self.content.partitions.restore(record["partitions"])
        self.learning.restore(record["learning"])
        self._since, self._spent, self._batch_rows = int(record["since"]), record["spent"], int(record["batch_rows"])
        self._sides.clear()
        self._parts, self._sample = {}, None
