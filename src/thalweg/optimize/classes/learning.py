"""The optimization step of Content-Learns: which attribute tells what each operator passes (CBR 4.1, 4.4).

Operators are profiled in turn. After R tuples on one, the attribute with the highest gain ratio becomes its classifier
if it stands out from chance and measured work then falls (benefit.py). The paper's "some threshold" is a number of
standard errors here. Invariant: a class keeps its order until another is estimated
`worthwhile` cheaper, and only orders that the pipeline allows are ever kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.benefit import Tryout
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
    """Decisions for events, since the policy last took them."""

    def __post_init__(self) -> None:
        n, d = len(self.pipeline), self.content.partitions.d
        self.counts = PartCounts(n)
        self.rates = Selectivities(n, d, self.alpha)
        self.table = ClassTable([-1] * n, d)
        self.trial: Tryout | None = None
        self.focus = 0
        self.calm = 0
        """Consecutive samples that changed no attribute."""
        self.single = self.pipeline.written.operators
        """The order for unknown classes."""

    def lacking(self, op: int) -> int:
        """Tuples still missing from an operator's sample."""
        return max(self.sample - int(self.counts.rows(op)), 0)

    def next(self, budget: float, costs: Floats) -> list[int]:
        """The operators to profile now, in turn from the one in focus: those whose samples the budget can fill."""
        n, ops = len(self.pipeline), list[int]()
        for op in ((self.focus + k) % n for k in range(n)):
            if not self._pruned(op, costs):
                budget -= self.lacking(op)
                if budget < 0:
                    break
                ops.append(op)
        return ops

    def study(self, values: Values, bits: NDArray[np.int8]) -> None:
        """Count tuples in and out by partition of every attribute."""
        touched = self.counts.add(self.content, values, bits)
        trial = self.trial.table.attribute if self.trial else ()
        for op, j in enumerate(self.table.attribute):
            if j in touched or (trial and trial[op] in touched):
                self.rates.S[op] = self.rates.W[op]

    def optimize(self, costs: Floats) -> None:
        """Choose the attributes of operators whose samples are full, in turn, and try them out."""
        chosen: dict[int, tuple[int, str]] = {}
        table = self.table
        for _ in range(len(self.pipeline)):
            op, full = self.focus, not self.lacking(self.focus)
            if not full and not self._pruned(op, costs):
                break
            if full:
                found = self._choose(op)
                if found is not None:
                    chosen[op] = found
                self.calm = self.calm + 1 if found is None and self.table is table else 0
                self.counts.clear(op)
            self.focus = (op + 1) % len(self.pipeline)
        if not chosen:
            return
        under = self.table
        for op, (attribute, _) in chosen.items():
            under = under.replaced(op, attribute)
            if self.benefit and self.table.attribute[op] >= 0:
                self.table = self.table.replaced(op, -1)
        if self.benefit:
            self.trial = Tryout(chosen, under)
        else:
            self.table = under
            self.notes += [f"{self.told(op, j)}: {how_much}" for op, (j, how_much) in chosen.items()]

    def told(self, op: int, attribute: int, how: str = "tells") -> str:
        return f"'{self.content.name(attribute)}' {how} what '{self.pipeline.names[op]}' passes"

    def _pruned(self, op: int, costs: Floats) -> bool:
        """Whether the place of an operator can hardly change (4.4): it drops or passes nearly all, or is far cheaper or
        far more expensive than all others."""
        rate, others, little = self.rates.W[op], np.delete(costs, op), self.worthwhile
        if self.rates.met[op] < self.sample:
            return False
        idle = abs(rate - 1) < little / 2 and not self.counts.joined(op)
        far = costs[op] < little * others.min(initial=np.inf) or little * costs[op] > others.max(initial=0.0)
        return bool(rate < little / 2 or idle or (len(others) > 0 and far))

    def _choose(self, op: int) -> tuple[int, str] | None:
        """A new attribute for an operator whose sample is full, and how much it tells; None for no change."""
        ratios, errors = self.counts.ratios(op, self.content.usable)
        if not len(ratios):
            return None
        # A pair that tells no more than one member only costs more.
        singles = len(self.content.attributes)
        ratios[singles:] -= self.evidence * errors[singles:]
        best, present = int(ratios.argmax()), self.table.attribute[op]
        if ratios[best] <= self.evidence * errors[best]:
            # In use it is nearly free and S corrects itself (example 5.1): drop it only when no signal is left.
            if present >= 0 and ratios[present] <= 0:
                self.table = self.table.replaced(op, -1)
                self.notes.append(f"no attribute tells what '{self.pipeline.names[op]}' passes any more")
            return None
        self.rates.S[op] = self.counts.rates(op, best)
        measure = "share of the variance" if self.counts.joined(op) else "gain ratio"
        return None if best == present else (best, f"{measure} {ratios[best]:.2f} beyond chance")

    def judge(self) -> None:
        """End the benefit test if its outcome is clear."""
        trial = self.trial
        assert trial is not None
        kept = trial.verdict(self.sample, self.evidence)
        if kept is None:
            return
        if kept:
            self.table = trial.table
        how = "now tells" if kept else "tells too little of"
        outcome = f"work {trial.under.mean / trial.without.mean - 1:+.1%} on {trial.under.tuples:.0f} rows"
        self.notes += [f"{self.told(op, j, how)}: {how_much}, {outcome}" for op, (j, how_much) in trial.chosen.items()]
        self.trial = None

    def update(self, costs: Floats, table: ClassTable, parts: Parts | None) -> bool:
        """Add new classes, and reorder each class, and the unknown ones, if that is clearly cheaper; returns whether
        any got a new order."""
        if parts is not None:
            table.meet(parts)
        rates = np.vstack([self.rates.of(table), self.rates.W])
        orders = np.vstack([table.orders, self.single])
        wish = ranked(self.pipeline, rates, costs)
        fresh = orders[:, 0] < 0
        present = np.where(fresh[:, None], wish, orders)
        better = expected(rates, wish, costs) < (1 - self.worthwhile) * expected(rates, present, costs)
        changed = fresh | better
        if not changed.any():
            return False
        orders = np.where(changed[:, None], wish, orders)
        table.orders, self.single = orders[:-1], tuple(orders[-1].tolist())
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
        self.trial = None if trial is None else Tryout.of(trial, table(trial["table"]))
        self.focus, self.calm = int(record["focus"]), int(record["calm"])
        self.single = self.pipeline.closest(record["single"]).operators
