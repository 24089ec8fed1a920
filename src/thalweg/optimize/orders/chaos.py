"""`chaos`: random decisions all the time. Part of the product: what survives it does not depend on the plan.

Every batch is cut into random rusters, by lot or by a random tree over random attributes of its content (as query mesh
would classify); each gets a random allowed route, and at random a profile purpose with a random set of operators to be
tried after a drop. Answers, errors and exactly-once must be the same as under `written`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.optimize.indexes.tuner import Facts, IndexView
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Change, Event, Plan, Reason, Route, Ruster
from thalweg.plan.change import Part
from thalweg.plan.layout import Layout
from thalweg.plan.ruster import Also, Purpose
from thalweg.plan.tree import Column, Comparison, Tree
from thalweg.profile.content.attributes import Attributes, Values
from thalweg.profile.patterns.stemfacts import Probe

Rows = NDArray[np.int64]


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
        if len(batch) and random.random() < 0.5:
            part, labels = self._classes(batch)
        else:
            parts = int(random.integers(1, 5))
            part, labels = random.integers(0, parts, len(batch)), [""] * parts
        rusters = []
        for k, label in enumerate(labels):
            rows = np.flatnonzero(part == k)
            if len(rows) or not len(batch):
                rusters.append(self._ruster(rows, label))
        route = self._route()
        if random.random() < 0.3:
            self.reorder(route.operators, "a throw of the dice")
        return rusters

    def _classes(self, batch: Batch) -> tuple[Rows, list[str]]:
        """The class of each row under a random tree, and a name for each class."""
        content = Attributes()
        content.look(batch.data.slice(0, 0))
        columns: dict[int, Values] = {}

        def column(j: int) -> Values:
            if j not in columns:
                columns[j] = content.column(batch.data, j)
            return columns[j]

        tree = self._tree(content, column, int(self._random.integers(1, 4)) if len(content) else 0)
        leaves = {leaf: k for k, (leaf, _) in enumerate(tree.leaves())}
        return tree.relabelled(leaves).classify(column, len(batch)), [f"class {k}" for k in range(len(leaves))]

    def _tree(self, content: Attributes, column: Column, depth: int, place: int = 1) -> Tree:
        """Tests of random attributes against values that occur, so that they cut somewhere; nulls fail every test."""
        random = self._random
        if not depth or (place > 1 and random.random() < 0.2):
            return Tree(place)
        j = int(random.integers(len(content)))
        value = float(random.choice(column(j)))
        test = Comparison(j, value, equal=content.category[j] or bool(random.random() < 0.3))
        return Tree(
            test=test,
            yes=self._tree(content, column, depth - 1, 2 * place),
            no=self._tree(content, column, depth - 1, 2 * place + 1),
        )

    def _ruster(self, rows: Rows, label: str) -> Ruster:
        random = self._random
        trace = bool(random.random() < 0.3)
        if random.random() < 0.6:
            purpose: Purpose = "work" if random.random() < 0.8 else "explore"
            limit = float(random.exponential(8.0)) if random.random() < 0.3 else None
            if random.random() < 0.4:
                routes = tuple(self._route() for _ in range(int(random.integers(1, 6))))
                ids = random.integers(0, len(routes), len(rows), np.int32)
                labels = (label,) * len(routes)
                return Ruster.mixed(rows, routes, ids, labels, purpose=purpose, trace=trace, limit=limit)
            return Ruster(rows, self._route(), purpose, label=label, trace=trace, limit=limit)
        tried = frozenset(int(i) for i in range(len(self.pipeline)) if random.random() < 0.5)
        also: Also = ("all", "next", tried)[int(random.integers(0, 3))]
        turn = float(random.random()) if random.random() < 0.3 else None
        return Ruster(rows, self._route(), "profile", also, label, trace, turn=turn)

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
    >>> tuner.begin({"r": 2}, lambda stem: StemFacts(("k", "l"), 0, 0, 1, list))
    {}
    """

    name = "chaos"
    part: Part = "layouts"
    grain = window = 0
    resting = False

    def __init__(self, seed: int = 0, probability: float = 0.3) -> None:
        self.probability = probability
        self.stems: dict[str, int] = {}
        self.requests = 0
        self._due: list[str] = []
        """Stems whose dice are still to be thrown."""
        self._version = 0
        self._random = np.random.default_rng([seed, 77])
        self._events: list[Event] = []

    @property
    def tunings(self) -> int:
        return self._version

    def begin(self, attributes: dict[str, int], facts: Facts) -> dict[str, Layout]:
        self.stems, self._facts = dict(attributes), facts
        return {}

    def observe(self, probes: Sequence[Probe]) -> None:
        self.requests += sum(p.requests for p in probes)
        self._due = list(self.stems)

    def propose(self, plan: Plan) -> Change | None:
        while self._due:
            stem = self._due.pop(0)
            if self._random.random() >= self.probability:
                continue
            known, layout = self._facts(stem), self._layout(self.stems[stem])
            moved = frozenset(s.number for s in known.slices if self._random.random() < 0.5)
            self._version += 1
            why = "a throw of the dice; {moved} of {slices} slices move"
            facts = {"moved": len(moved), "slices": len(known.slices)}
            change = Change(
                "layouts", stem, plan.layouts.get(stem), layout, slices=moved, attributes=tuple(known.names)
            )
            self._events.append(Event(self.name, "index", self._version, self.requests, Reason(why, facts), change))
            return change
        return None

    def _layout(self, attributes: int) -> Layout:
        random = self._random
        kind = int(random.integers(4))
        if kind == 0:
            return Layout("bits", tuple(int(b) for b in random.integers(0, 6, attributes)))
        if kind == 1:
            every = [p for n in range(1, attributes + 1) for p in combinations(range(attributes), n)]
            return Layout("hash", patterns=tuple(p for p in every[:64] if random.random() < 0.4))
        return Layout("hash" if kind == 2 else "bits")

    def explain(self, facts: Facts) -> dict[str, IndexView]:
        return {}

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def snapshot(self) -> dict[str, Any]:
        return {"random": self._random.bit_generator.state, "counts": [self.requests, self._version], "due": self._due}

    def restore(self, record: dict[str, Any]) -> None:
        self._random.bit_generator.state = record["random"]
        self.requests, self._version = record["counts"]
        self._due = list(record["due"])
