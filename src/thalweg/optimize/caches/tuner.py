"""The contract of a cache tuner, and tuners by name: `off`, `all`, `auto`, `chaos`.

It owns the plan's caches: it hears what rows met and which orders are in force, and proposes caches to place and to
drop. Caches change cost, never results, so it may propose anything that the graph allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from thalweg.contract.tuner import Tuner
from thalweg.contract.visits import Visits
from thalweg.errors import DefinitionError
from thalweg.optimize.caches.candidates import Orders, candidates
from thalweg.plan import Change, Event, Plan, Reason
from thalweg.plan.cached import Cached, Placed
from thalweg.plan.change import Part
from thalweg.plan.graph import JoinGraph
from thalweg.profile.prices import RECORDED, Prices

NAMES = ("auto", "all", "off", "chaos")


class CacheTuner(Tuner, Protocol):
    """A tuner of caches."""

    listening: bool
    """Whether it wants to decide after the batch that it just heard of."""

    def begin(self, graph: JoinGraph) -> None:
        """Told once what is joined."""
        ...

    def orders(self, orders: Orders) -> None:
        """The orders in force; told when they change."""
        ...

    def heard(self, i: int, visits: Visits) -> None:
        """What a batch of an input met."""
        ...

    def missed(self, placed: Placed, rows: int, misses: float) -> None:
        """Of some rows that came to a cache, used or watched, how many missed."""
        ...

    @property
    def watched(self) -> set[Placed]:
        """Caches that are not used, and whose keys are to be counted."""
        ...

    def decide(self) -> None:
        """Between two batches."""
        ...

    def priorities(self) -> Mapping[Cached, float]:
        """Whose memory goes first, where it is scarce: that of the least."""
        ...


class Proposals:
    """What tuners of caches share: turn a wanted set of caches into changes, one by one, each with its event."""

    part: Part = "caches"
    name = "caches"
    listening = True

    def __init__(self) -> None:
        self.graph: JoinGraph | None = None
        self.tuples = 0
        self._wanted: dict[str, Placed] = {}
        self._whys: dict[str, Reason] = {}
        self._costs: dict[str, tuple[float | None, float | None]] = {}
        self._version = 0
        self._events: list[Event] = []

    def begin(self, graph: JoinGraph) -> None:
        self.graph = graph

    def heard(self, i: int, visits: Visits) -> None:
        self.tuples += visits.rows

    def missed(self, placed: Placed, rows: int, misses: float) -> None:
        """Not asked for."""

    @property
    def watched(self) -> set[Placed]:
        return set()

    def decide(self) -> None:
        """Nothing to weigh."""

    def priorities(self) -> Mapping[Cached, float]:
        return {}

    def want(self, wanted: Sequence[Placed]) -> None:
        assert self.graph is not None
        self._wanted = {p.named(self.graph.aliases): p for p in wanted}

    def propose(self, plan: Plan) -> Change | None:
        for name, placed in plan.caches.items():
            if self._wanted.get(name) != placed:
                return self._change(name, placed, None)
        for name, placed in self._wanted.items():
            if name not in plan.caches:
                return self._change(name, None, placed)
        return None

    def _change(self, name: str, before: Placed | None, after: Placed | None) -> Change:
        self._version += 1
        change = Change("caches", name, before, after, *self._costs.get(name, (None, None)))
        kind = "drop cache" if after is None else "place cache"
        why = self._whys.get(name) or Reason(self.why(name))
        self._events.append(Event(self.name, kind, self._version, self.tuples, why, change))
        return change

    def why(self, name: str) -> str:
        return "asked for"

    @property
    def version(self) -> int:
        return self._version

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def snapshot(self) -> dict[str, Any]:
        return {
            "version": self._version, "tuples": self.tuples, "listening": self.listening,
            "wanted": [p.record() for p in self._wanted.values()],
            "costs": [[name, *pair] for name, pair in self._costs.items()],
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        self._version, self.tuples, self.listening = record["version"], record["tuples"], record["listening"]
        self.want([Placed.of(p) for p in record["wanted"]])
        self._costs = {name: (before, after) for name, before, after in record["costs"]}


class All(Proposals):
    """Every candidate of the orders in force: to test, and to compare with."""

    name = "all"

    def orders(self, orders: Orders) -> None:
        assert self.graph is not None
        self.want([c.placed for c in candidates(orders, self.graph)])


class Chosen(Proposals):
    """Caches that were written down, whatever the orders are."""

    name = "written"

    def __init__(self, placed: Sequence[Placed]) -> None:
        super().__init__()
        self._placed = list(placed)

    def begin(self, graph: JoinGraph) -> None:
        super().begin(graph)
        self.want(self._placed)

    def orders(self, orders: Orders) -> None:
        """They are used wherever a route visits their inputs one after the other."""


class ChaosCaches(Proposals):
    """Draws caches of any segment, also such as no order allows, and drops them, at any moment."""

    name = "chaos"

    def __init__(self, seed: int = 0, probability: float = 0.3) -> None:
        super().__init__()
        self.probability = probability
        self._random = np.random.default_rng([seed, 55])

    def orders(self, orders: Orders) -> None:
        """Not asked for."""

    def propose(self, plan: Plan) -> Change | None:
        change = super().propose(plan)
        if change is not None or self._events:
            return change
        if self._random.random() < self.probability:
            self.want([p for _ in range(int(self._random.integers(0, 5))) if (p := self._draw()) is not None])
        return super().propose(plan)

    def _draw(self) -> Placed | None:
        graph, random = self.graph, self._random
        assert graph is not None
        if not graph.streams:
            return None
        i = int(random.choice(sorted(graph.streams)))
        order = [int(j) for j in random.permutation(len(graph)) if j != i]
        if random.random() < 0.7:
            done, rest = [i], order
            while rest:
                near = [j for j in rest if any(graph.connected(j, k) for k in done)] or rest
                done.append(near[int(random.integers(len(near)))])
                rest = [j for j in rest if j not in done]
            order = done[1:]
        first = int(random.integers(0, len(order)))
        last = int(random.integers(first, min(first + 4, len(order))))
        before, inputs = frozenset([i, *order[:first]]), frozenset(order[first : last + 1])
        if not inputs <= graph.stored:
            return None
        judges = graph.by_value(before, inputs) if random.random() < 0.5 else ()
        return Placed(i, Cached(inputs, graph.keys(before, inputs), judges))

    def why(self, name: str) -> str:
        return "a throw of the dice"

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "random": self._random.bit_generator.state}

    def restore(self, record: dict[str, Any]) -> None:
        super().restore(record)
        self._random.bit_generator.state = record["random"]


def make(name: str, seed: int = 0, prices: Prices | None = None) -> CacheTuner | None:
    """A fresh tuner by name; None for `off`."""
    if name == "off":
        return None
    if name == "all":
        return All()
    if name == "auto":
        from thalweg.optimize.caches.adaptive import AdaptiveCaches

        return AdaptiveCaches(prices or RECORDED)
    if name == "chaos":
        return ChaosCaches(seed)
    raise DefinitionError(f"no cache tuner '{name}'", hint=f"known are {', '.join(NAMES)}")
