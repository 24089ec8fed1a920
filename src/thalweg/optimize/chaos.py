"""`chaos`: random decisions all the time. Part of the product: what survives it does not depend on the plan.

Every batch is cut into random rusters; each gets a random allowed route, and at random a profile purpose with a random
set of operators to be tried after a drop. Answers, errors and exactly-once must be the same as under `written`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from thalweg.execute.batch import Batch
from thalweg.optimize.policy import SingleRoute
from thalweg.optimize.tuner import Change, IndexView
from thalweg.plan import Event, Route, Ruster
from thalweg.plan.layout import Layout
from thalweg.plan.ruster import Also
from thalweg.profile.stemfacts import Probe, StemFacts


@dataclass
class Chaos(SingleRoute):
    """Draws everything.

    >>> import pyarrow as pa
    >>> from thalweg.plan import Operator, Pipeline
    >>> chaos = Chaos(Pipeline("s", tuple(Operator(n) for n in "abc")), seed=1)
    >>> rusters = chaos.route(Batch(pa.record_batch({"x": list(range(10))})))
    >>> sorted(int(i) for r in rusters for i in r.rows)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    name = "chaos"

    def route(self, batch: Batch) -> list[Ruster]:
        random = self._random
        parts = int(random.integers(1, 5))
        part = random.integers(0, parts, len(batch))
        rusters = []
        for k in range(parts):
            rows = np.flatnonzero(part == k)
            if len(rows) or not len(batch):
                rusters.append(self._ruster(rows))
        route = self._route()
        if random.random() < 0.3:
            self.reorder(route.operators, "a throw of the dice")
        return rusters

    def _ruster(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Ruster:
        random = self._random
        if random.random() < 0.6:
            return Ruster(rows, self._route(), "work" if random.random() < 0.8 else "explore")
        tried = frozenset(int(i) for i in range(len(self.pipeline)) if random.random() < 0.5)
        also: Also = ("all", "next", tried)[int(random.integers(0, 3))]
        return Ruster(rows, self._route(), "profile", also)

    def _route(self) -> Route:
        route: list[int] = []
        while len(route) < len(self.pipeline):
            route.append(int(self._random.choice(self.pipeline.eligible(route))))
        return Route(tuple(route))

    def why(self) -> str:
        return "random, on purpose"


class ChaosTuner:
    """Draws layouts of any kind for any stem at any moment, and which of its slices move.

    >>> tuner = ChaosTuner(seed=2)
    >>> tuner.begin({"r": 2})
    {}
    """

    name = "chaos"
    grain = 0
    resting = False

    def __init__(self, seed: int = 0, probability: float = 0.3) -> None:
        self.probability = probability
        self.stems: dict[str, int] = {}
        self.requests = 0
        self._version = 0
        self._random = np.random.default_rng([seed, 77])
        self._events: list[Event] = []

    def begin(self, attributes: dict[str, int]) -> dict[str, Layout]:
        self.stems = dict(attributes)
        return {}

    def observe(self, probes: Sequence[Probe]) -> None:
        self.requests += sum(p.requests for p in probes)

    def propose(self, facts: Callable[[str], StemFacts]) -> list[Change]:
        changes = []
        for stem, attributes in self.stems.items():
            if self._random.random() >= self.probability:
                continue
            known, layout = facts(stem), self._layout(attributes)
            moved = frozenset(s.number for s in known.slices if self._random.random() < 0.5)
            self._version += 1
            self._events.append(
                Event(self.name, "index", self._version, self.requests, "", f"{stem}: {layout.named(known.names)}",
                      f"a throw of the dice; {len(moved)} of {len(known.slices)} slices move")
            )  # fmt: skip
            changes.append(Change(stem, layout, moved))
        return changes

    def _layout(self, attributes: int) -> Layout:
        random = self._random
        kind = int(random.integers(4))
        if kind == 0:
            return Layout("bits", tuple(int(b) for b in random.integers(0, 6, attributes)))
        if kind == 1:
            every = [p for n in range(1, attributes + 1) for p in combinations(range(attributes), n)]
            return Layout("hash", patterns=tuple(p for p in every[:64] if random.random() < 0.4))
        return Layout("hash" if kind == 2 else "bits")

    def explain(self, facts: Callable[[str], StemFacts]) -> dict[str, IndexView]:
        return {}

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def snapshot(self) -> dict[str, Any]:
        return {"random": self._random.bit_generator.state, "counts": [self.requests, self._version]}

    def restore(self, record: dict[str, Any]) -> None:
        self._random.bit_generator.state = record["random"]
        self.requests, self._version = record["counts"]
