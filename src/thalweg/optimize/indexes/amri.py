"""AMRI: layouts that follow the access patterns (the life cycle of section 1.2: assess, select, migrate).

While a stem is under assessment its access patterns are counted; when the schedule says that it is due, and the search
can be paid from a share of the work done (`budget`), the cheapest layout is selected, and adopted if cheaper by `gain`.
With `hashes`, K hash indexes for the most frequent patterns are kept instead (the paper's rival, 9.3). Defaults are
ours, since here an index is rebuilt in bulk and moving pays: on J `PAPER` does 6.3 times the work of hindsight's
layouts, ours 1.07 (benchmarks/index). Every change is an event with the estimates of both layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.optimize.auto.ledger import SHARE
from thalweg.optimize.indexes import migrate, schedule
from thalweg.optimize.indexes.bitdivision import Option, divide
from thalweg.optimize.indexes.layoutcost import Workload
from thalweg.optimize.indexes.layoutsearch import Choice, select
from thalweg.optimize.indexes.tuner import Facts, IndexView
from thalweg.plan import Change, Event, Plan, Reason
from thalweg.plan.change import Part
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.cdia import Cdia
from thalweg.profile.patterns.csria import Csria
from thalweg.profile.patterns.dia import Dia
from thalweg.profile.patterns.patterns import Assessment, attributes_of, named
from thalweg.profile.patterns.sria import Sria
from thalweg.profile.patterns.stemfacts import Probe, StemFacts
from thalweg.profile.prices import RECORDED, Prices

ASSESSMENTS: dict[str, Callable[[int, float, float, int], Assessment]] = {
    "sria": lambda n, e, t, s: Sria(n),
    "csria": lambda n, e, t, s: Csria(n, e, t),
    "dia": lambda n, e, t, s: Dia(n),
    "cdia-random": lambda n, e, t, s: Cdia(n, e, t, combination="random", seed=s),
    "cdia-highest": lambda n, e, t, s: Cdia(n, e, t, combination="highest", seed=s),
}
PAPER: dict[str, Any] = {
    "schedule": "hybrid", "migration": "nothing", "epsilon": 0.05, "theta": 0.1, "insurance": 0.0, "floor": 0,
    "gain": 0.05, "patience": 0, "budget": None,
}  # fmt: skip
"""The paper's choice (sections 9.1 and 9.6), by name `amri-paper`; the assessment is ours too."""
BUCKET_BYTES = np.dtype(np.int32).itemsize
"""An entry of a directory: the number of a row."""


@dataclass
class Amri:
    """An index tuner for all stems of a query.

    >>> tuner = Amri(window=100, period=100, insurance=0.0, floor=2)
    >>> tuner.begin({"r": 2}, lambda stem: StemFacts(("k", "l"), 1000, 1000, 1, even))
    {'r': Layout(kind='bits', bits=(), patterns=None)}
    >>> tuner.observe([Probe("r", 0b10, 200, 900.0, 50)])
    >>> even = lambda: [[2.0**-b for b in range(21)]] * 2
    >>> [c.after.bits for c in iter(lambda: tuner.propose(Plan()), None)]
    [(8, 2)]
    """

    assessment: str = "cdia-highest"
    schedule: str = "continuous"
    migration: str = "all"
    hashes: int | None = None
    window: int = 15_000
    period: int = 40_000
    epsilon: float = 0.002
    theta: float = 0.01
    insurance: float = 0.01
    """Share of the requests that selection takes to be searches by a single attribute, any of them: a route that the
    policy has not taken yet must not meet a full scan. Not in the paper; 0 is the paper."""
    floor: int = 3
    """Bits that each attribute gets whatever was asked, as far as they take no more than two thirds of all: then such a
    search meets an eighth of the stem, at a lower premium than insurance. Not in the paper; 0 is the paper."""
    gain: float = 0.02
    patience: int = 15
    """Assessments that are left without a selection, at most, while the access patterns stay as they were at the last
    one; 0 is the paper."""
    budget: float | None = SHARE
    """Share of the work done, priced, that selections may cost; those that can't be paid wait. Counted, not timed, so
    that decisions come again. None, no limit, is the paper."""
    memory: int | None = None
    """Bytes of all stems' directories together."""
    prices: Prices = RECORDED
    seed: int = 0
    name: str = "amri"
    part: Part = field(init=False, default="layouts")

    def __post_init__(self) -> None:
        if self.assessment not in ASSESSMENTS:
            raise DefinitionError(f"no assessment '{self.assessment}'", hint=did_you_mean(self.assessment, ASSESSMENTS))
        migrate.check(self.migration)
        self.grain = self.window // 8
        self.stems: dict[str, int] = {}
        self.layouts: dict[str, Layout] = {}
        self.assessed: dict[str, Assessment] = {}
        self.latest: dict[str, dict[int, float]] = {}
        """Frequencies of the last complete assessment."""
        self.requests = 0
        self.tunings = 0
        self._built: dict[str, int] = {}
        self._rest: dict[str, int] = {}
        self._version = 0
        self._events: list[Event] = []
        self._chosen: set[str] = set()
        self._price: dict[str, float] = {}
        """Of a request to each stem, at its last selection."""
        self._owed: list[str] = []
        """Stems that are due."""
        self._credit = 0.0
        self._clock = schedule.make(self.schedule, [], self.window, self.period)

    def begin(self, attributes: dict[str, int], facts: Facts) -> dict[str, Layout]:
        self._facts = facts
        self.stems = {stem: n for stem, n in attributes.items() if n > 0}
        start = Layout("bits") if self.hashes is None else Layout("hash", patterns=())
        self.layouts = dict.fromkeys(self.stems, start)
        make = ASSESSMENTS[self.assessment]
        self.assessed = {
            stem: make(n, self.epsilon, self.theta, self.seed + k) for k, (stem, n) in enumerate(self.stems.items())
        }
        self._built = dict.fromkeys(self.stems, 0)
        self._rest = dict.fromkeys(self.stems, 0)
        self._credit = self.prices.select * len(self.stems)
        self._clock = schedule.make(self.schedule, list(self.stems), self.window, self.period)
        return dict(self.layouts)

    # Assess

    def observe(self, probes: Sequence[Probe]) -> None:
        counts: dict[str, int] = {}
        done = 0.0
        for probe in probes:
            stem, requests = probe.stem, probe.requests
            if stem not in self.stems:
                continue
            counts[stem] = counts.get(stem, 0) + requests
            done += requests * self.prices.request + probe.work * self.prices.candidate
            if self._clock.assessing(stem):
                self.assessed[stem].observe(probe.mask, requests)
        self.requests += sum(counts.values())
        if self.budget is not None:
            self._credit = min(self._credit + self.budget * done, self.prices.select * len(self.stems))
        self._clock.observe(counts)

    @property
    def resting(self) -> bool:
        return all(self._rest.values())

    # Select

    def propose(self, plan: Plan) -> Change | None:
        self._owed += [stem for stem in self._clock.due() if stem not in self._owed]
        while self._owed and (self.budget is None or self._credit > 0):
            change = self._tune(self._owed.pop(0))
            if change is not None:
                return change
        return None

    def _tune(self, stem: str) -> Change | None:
        assessed, known = self.assessed[stem], self._facts(stem)
        frequencies, requests = assessed.frequencies(), assessed.requests
        assessed.reset()
        if not frequencies or known.rows < 2:
            return None
        workload, old = self._workload(stem, known, frequencies, requests), self.layouts[stem]
        self._built[stem] = known.built
        before = self._cost(old, workload, known)
        if self._rests(stem, before):
            return None
        self.tunings += 1
        self.latest[stem] = frequencies
        new = self._selected(stem, workload, known)
        after = self._cost(new, workload, known)
        # Nobody chose the layout a stem begins with, so the first selection is adopted for any gain and moves all slices, as
        # after the paper's training.
        first = stem not in self._chosen
        adopted = new != old and (first or after < (1 - self.gain) * before)
        self._price[stem] = after if adopted else before
        if not adopted:
            return None
        self.layouts[stem] = new
        windows = known.rows / max(workload.arrivals, 1.0)
        migration = "all" if first else self.migration
        self._chosen.add(stem)
        moved = migrate.to_move(migration, known.slices, new, workload, windows)
        change = Change("layouts", stem, old, new, before, after, moved, tuple(known.names))
        self._tell(change, workload, known)
        return change

    def _rests(self, stem: str, cost: float) -> bool:
        """Whether the last selection is recent, and a request costs about what it did then: requests and stored rows are
        as they were."""
        then = self._price.get(stem, 0.0)
        if self._rest[stem] and abs(cost - then) < self.gain * then:
            self._rest[stem] -= 1
            return True
        self._rest[stem] = self.patience
        return False

    def _workload(self, stem: str, known: StemFacts, frequencies: Mapping[int, float], requests: int) -> Workload:
        arrivals = max(known.built - self._built[stem], 1)
        attributes = self.stems[stem]
        # Sorted, so that the same patterns find the same prepared layouts.
        insured = {m: frequencies[m] * (1 - self.insurance) for m in sorted(frequencies)}
        for k in range(attributes if self.insurance else 0):
            insured[1 << k] = insured.get(1 << k, 0.0) + self.insurance / attributes
        return Workload(
            attributes, insured, float(requests), float(arrivals), float(known.rows), self.prices,
            known.evenness, float(max(known.runs, 1)),
        )  # fmt: skip

    def _selected(self, stem: str, workload: Workload, known: StemFacts) -> Layout:
        if self.hashes is not None:
            often = sorted(workload.frequencies, key=lambda m: (-workload.frequencies[m], m))
            patterns = [attributes_of(m, workload.attributes) for m in often if m][: self.hashes]
            return Layout("hash", patterns=tuple(sorted(patterns)))
        bits = known.bits if self.memory is None else min(known.bits, self._allowance(stem, workload, known))
        choice = self._cheapest(workload, bits)
        self._credit -= self.prices.select
        return Layout("bits", choice.bits)

    def _cheapest(self, workload: Workload, bits: int) -> Choice:
        return select(workload, bits, floor=min(self.floor, 2 * bits // 3 // workload.attributes))

    def _allowance(self, stem: str, workload: Workload, known: StemFacts) -> int:
        """Bits that the division of the budget grants a stem, the others as they were last assessed."""
        assert self.memory is not None
        options = []
        for other in self.stems:
            own = known if other == stem else self._facts(other)
            asked = workload
            if other != stem:
                asked = self._workload(other, own, self.latest.get(other, {}), self.window)
            options.append([Option(BUCKET_BYTES * 2.0**b, self._cheapest(asked, b).cost) for b in range(own.bits + 1)])
        return divide(options, self.memory).taken[list(self.stems).index(stem)]

    def _cost(self, layout: Layout, workload: Workload, known: StemFacts) -> float:
        """Cost for each search request."""
        if layout.kind == "bits":
            return workload.cost(layout.fitted(workload.attributes, known.rows)) / max(workload.requests, 1.0)
        p = workload.prices
        cost = workload.arrivals * sum(len(q) * p.hash + p.insert for q in layout.patterns or ())
        for mask, frequency in workload.frequencies.items():
            serving = layout.serving(attributes_of(mask, workload.attributes))
            met = workload.stored
            for k in serving:
                met *= workload.evenness[k][-1] if workload.evenness is not None else 0.0
            each = len(serving) * p.hash + met * p.candidate + workload.runs * p.bucket
            cost += workload.requests * frequency * each
        return cost / max(workload.requests, 1.0)

    def _tell(self, change: Change, workload: Workload, known: StemFacts) -> None:
        self._version += 1
        often = max(workload.frequencies, key=lambda m: workload.frequencies[m])
        why = Reason.of(
            "{pattern} is {share:.0%} of {requests:,.0f} requests; {moved} of {slices} slices move",
            pattern=named(often, known.names), share=workload.frequencies[often], requests=workload.requests,
            moved=len(change.slices), slices=len(known.slices),
        )  # fmt: skip
        self._events.append(Event(self.name, "index", self._version, self.requests, why, change))

    # What is known

    def explain(self, facts: Facts) -> dict[str, IndexView]:
        views = {}
        for stem in self.stems:
            known, present = facts(stem), self.layouts[stem]
            asked = self.assessed[stem]
            frequencies = asked.frequencies() if asked.requests >= self.window // 2 else self.latest.get(stem, {})
            if not frequencies or known.rows < 2:
                views[stem] = IndexView(present.named(known.names), why="not assessed yet")
                continue
            workload = self._workload(stem, known, frequencies, max(asked.requests, self.window))
            cost = self._cost(present, workload, known)
            best = Layout("bits", self._cheapest(workload, known.bits).bits)
            each = tuple(sorted(attributes_of(m, workload.attributes) for m in workload.frequencies if m))
            others = {
                "best now": best, "equal shares": Layout("bits"), "no index": Layout("hash", patterns=()),
                "a hash for each pattern": Layout("hash", patterns=each),
            }  # fmt: skip
            views[stem] = IndexView(
                present.named(known.names),
                tuple((named(m, known.names), f) for m, f in sorted(frequencies.items(), key=lambda i: -i[1])),
                tuple(
                    (
                        f"{label} ({layout.named(known.names)})" if label == "best now" else label,
                        self._cost(layout, workload, known) / max(cost, 1e-12),
                    )
                    for label, layout in others.items()
                ),
                f"{self.assessment}, {self.schedule}, {self.migration}; {self.tunings} tunings, {self._version} changes",
            )
        return views

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def snapshot(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "layouts": {s: layout.record() for s, layout in self.layouts.items()},
            "assessed": {s: a.snapshot() for s, a in self.assessed.items()},
            "latest": {s: sorted(f.items()) for s, f in self.latest.items()},
            "clock": self._clock.snapshot(),
            "counts": [self.requests, self.tunings, self._version],
            "built": self._built,
            "rest": self._rest,
            "chosen": sorted(self._chosen),
            "price": self._price,
            "owed": [self._owed, self._credit],
            "prices": self.prices.record(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        self.layouts = {s: Layout.of(layout) for s, layout in record["layouts"].items()}
        for stem, counted in record["assessed"].items():
            self.assessed[stem].restore(counted)
        self.latest = {s: {int(m): float(f) for m, f in lines} for s, lines in record["latest"].items()}
        self._clock.restore(record["clock"])
        self.requests, self.tunings, self._version = record["counts"]
        self._built = dict(record["built"])
        self._chosen = set(record["chosen"])
        self._rest = dict(record["rest"])
        self._price = dict(record["price"])
        owed, self._credit = record["owed"]
        self._owed = list(owed)
        # The prices of the first machine, so that a batch repeated elsewhere leads to the same decisions.
        self.prices = Prices.of(record["prices"])
