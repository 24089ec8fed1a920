"""The optimization step of Content-Learns: which attribute tells what each operator passes (CBR 4.1, 4.4).

One operator is profiled at a time, in turns. When R tuples were tried on it, the attribute of the greatest gain ratio
becomes its classifier if it stands out from chance and if measured work then falls (benefit.py). Where the paper says
"some threshold", here it is a number of standard errors. Invariant: a class keeps its order until another is estimated
`worthwhile` cheaper, and only orders that the pipeline allows are ever kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.benefit import Trial
from thalweg.optimize.classes.classtable import ClassTable
from thalweg.optimize.classes.selectivity import Selectivities, expected, ranked
from thalweg.plan import Pipeline
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.pairs import Content, Parts
from thalweg.profile.content.partcounts import PartCounts

Floats = NDArray[np.float64]


@dataclass
class Learning:
    """Attributes, rates and classes of one pipeline."""

    pipeline: Pipeline
    content: Content
    sample: int
    alpha: float
    evidence: float
    worthwhile: float
    benefit: bool
    notes: list[str] = field(default_factory=list)
    """What was decided since the policy last took them, for events."""

    def __post_init__(self) -> None:
        n, d = len(self.pipeline), self.content.partitions.d
        self.counts = PartCounts(n)
        self.rates = Selectivities(n, d, self.alpha)
        self.table = ClassTable([-1] * n, d)
        self.trial: Trial | None = None
        self.focus = 0
        self.calm = 0
        """Samples in a row that changed no attribute."""
        self.single = self.pipeline.written.operators
        """The order for classes that are not known."""

    @property
    def lacking(self) -> int:
        """Tuples that the sample of the operator in focus still lacks."""
        return max(self.sample - int(self.counts.rows(self.focus)), 0)

    def study(self, values: Values, bits: NDArray[np.int8]) -> None:
        """Count tuples in and out by partition of every attribute."""
        touched = self.counts.add(self.content, values, bits)
        trial = self.trial.table.attribute if self.trial else ()
        for op, j in enumerate(self.table.attribute):
            if j in touched or (trial and trial[op] in touched):
                self.rates.S[op] = self.rates.W[op]

    def optimize(self, costs: Floats) -> None:
        """When the sample of the operator in focus is full: choose its attribute, and go on to the next operator."""
        for _ in range(len(self.pipeline)):
            op = self.focus
            full = not self.lacking
            if not full and not self._pruned(op, costs):
                return
            if full:
                table, trial = self.table, self.trial
                self._choose(op)
                self.calm = self.calm + 1 if self.table is table and self.trial is trial else 0
                self.counts.clear(op)
            self.focus = (op + 1) % len(self.pipeline)
            if self.trial is not None:
                return

    def _pruned(self, op: int, costs: Floats) -> bool:
        """An operator whose place can hardly change (4.4): it drops or passes nearly all, or it is far cheaper or far more
        expensive than all others."""
        rate, others, little = self.rates.W[op], np.delete(costs, op), self.worthwhile
        if self.rates.met[op] < self.sample:
            return False
        idle = abs(rate - 1) < little / 2 and not self.counts.joined(op)
        far = costs[op] < little * others.min(initial=np.inf) or little * costs[op] > others.max(initial=0.0)
        return bool(rate < little / 2 or idle or (len(others) > 0 and far))

    def _choose(self, op: int) -> None:
        """The attribute of an operator whose sample is full."""
        ratios, errors = self.counts.ratios(op, self.content.usable)
        if not len(ratios):
            return
        # A pair that tells no more than one of its members only costs more.
        singles = len(self.content.attributes)
        ratios[singles:] -= self.evidence * errors[singles:]
        best, present = int(ratios.argmax()), self.table.attribute[op]
        name, measure = self.pipeline.names[op], self.measure(op)
        if ratios[best] <= self.evidence * errors[best]:
            # In use it costs next to nothing and S corrects itself (example 5.1): it goes when nothing is left of it.
            if present >= 0 and ratios[present] <= 0:
                self.table = self.table.replaced(op, -1)
                self.notes.append(f"no attribute tells what '{name}' passes any more")
            return
        self.rates.S[op] = self.counts.rates(op, best)
        if best == present:
            return
        under = self.table.replaced(op, best)
        if self.benefit:
            if present >= 0:
                self.table = self.table.replaced(op, -1)
            self.trial = Trial(op, best, float(ratios[best]), under)
        else:
            self.table = under
            told = f"'{self.content.name(best)}' tells what '{name}' passes: {measure} {ratios[best]:.2f}"
            self.notes.append(told)

    def measure(self, op: int) -> str:
        return "share of the variance" if self.counts.joined(op) else "gain ratio"

    def judge(self) -> None:
        """End the benefit test if its outcome is clear."""
        trial = self.trial
        assert trial is not None
        kept = trial.verdict(self.sample, self.evidence)
        if kept is None:
            return
        if kept:
            self.table = trial.table
        before, after = trial.without.mean, trial.under.mean
        attribute, name = self.content.name(trial.attribute), self.pipeline.names[trial.operator]
        self.notes.append(
            f"'{attribute}' {'now tells' if kept else 'tells too little of'} what '{name}' passes: "
            f"{trial.ratio:.2f} beyond chance, work {after / before - 1:+.1%} on {trial.under.tuples:.0f} tuples"
        )
        self.trial = None

    def update(self, costs: Floats, table: ClassTable, parts: Parts | None) -> bool:
        """Add classes that were met, and give classes a new order where that is clearly cheaper; whether any got one."""
        if parts is not None:
            table.meet(parts)
        if not len(table):
            return False
        rates = self.rates.of(table)
        wish = ranked(self.pipeline, rates, costs)
        fresh = table.orders[:, 0] < 0
        present = np.where(fresh[:, None], wish, table.orders)
        better = expected(rates, wish, costs) < (1 - self.worthwhile) * expected(rates, present, costs)
        if not (fresh | better).any():
            return False
        table.orders = np.where((fresh | better)[:, None], wish, table.orders)
        return True

    def update_single(self, costs: Floats) -> bool:
        """The same for the order of those that no class is known for."""
        rates, present = self.rates.W[None, :], np.array([self.single], np.int64)
        wish = ranked(self.pipeline, rates, costs)
        if expected(rates, wish, costs)[0] >= (1 - self.worthwhile) * expected(rates, present, costs)[0]:
            return False
        self.single = tuple(wish[0].tolist())
        return True

    def snapshot(self) -> dict[str, Any]:
        return {
            "counts": self.counts.snapshot(), "rates": self.rates.snapshot(), "table": self.table.record(),
            "trial": None if self.trial is None else self.trial.record(), "focus": self.focus, "calm": self.calm,
            "single": list(self.single),
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        def table(kept: dict[str, Any]) -> ClassTable:
            return ClassTable.of(kept, self.content.partitions.d, lambda o: self.pipeline.closest(o).operators)

        if record["counts"] is not None:
            self.counts.restore(record["counts"])
        self.rates.restore(record["rates"])
        self.table, trial = table(record["table"]), record["trial"]
        self.trial = None if trial is None else Trial.of(trial, table(trial["table"]))
        self.focus, self.calm = int(record["focus"]), int(record["calm"])
        self.single = self.pipeline.closest(record["single"]).operators
