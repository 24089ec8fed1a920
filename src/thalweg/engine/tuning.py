"""Connects an index tuner to the stems: it reports probes, answers questions and applies layouts. It decides nothing.

Access patterns come from the journeys (which inputs were bound when a stem was visited), so probing knows nothing about
tuners. They are added up over whole turns, in which each input has had a batch: a part of a turn would stand for one
input only. Layouts change between batches, never during a probe. Only watermarks drop what has expired, and no tuple
that may still search it is behind them (AMRI, section 4.2: earliest partition number).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.learned import FORMAT
from thalweg.contract.visits import ROWS_IN, ROWS_OUT, WORK, Visits
from thalweg.execute.shape import Shape
from thalweg.plan import Event, Plan, Route
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.evenness import FINE, SAMPLE, shares
from thalweg.profile.patterns.patterns import mask_of
from thalweg.profile.patterns.stemfacts import Probe, SliceFacts, StemFacts
from thalweg.state.kernels.count import agreement
from thalweg.state.slice import FOREVER, Slice
from thalweg.state.stem import SLICES, Stem

if TYPE_CHECKING:
    from thalweg.optimize.indexes.tuner import IndexTuner, IndexView

Waiting = Callable[[int, int], int]
"""How many waiting rows of other streams will search the tuples of an input that live until a time."""


class Tuning:
    """One tuner and the stems of one engine."""

    def __init__(
        self,
        tuner: IndexTuner,
        shape: Shape,
        stems: Mapping[str, Stem],
        waiting: Waiting,
    ) -> None:
        self.tuner = tuner
        self._waiting = waiting
        self.shape = shape
        self.stems = stems
        self.moved = 0
        """Rows indexed again."""
        self._noted: list[tuple[int, Visits]] = []
        """Batches that have not been added up yet."""
        self._rows = 0
        self.told = False
        self._alert = 0
        """Tuples left during which the tuner is told often even if it rests, because a route has changed."""
        self._soon = 0
        """Turns left that the tuner hears about as soon as they end."""
        self._routes: dict[int, Route | None] = dict.fromkeys(range(len(shape.aliases)))
        self._asked: dict[tuple[str, int], list[Any]] = {}
        """Requests, work and matches since the tuner was told, by stem and access pattern."""
        self._seen: set[int] = set()
        self._turn: frozenset[int] = frozenset()
        """Inputs of the last turn."""
        self._last = -1
        self._in_a_row = 0
        """Rows of one input, with none of another between them. Once they are enough to tell the tuner about, the other
        inputs count as silent."""
        self._others = [shape.others(i) for i in range(len(shape.aliases))]
        self._even: dict[str, tuple[int, list[list[float]]]] = {}
        """Rows built and evenness of each stem when it was last sampled."""
        self._shown: tuple[Any, dict[str, IndexView]] | None = None
        """The last explanation, with the selection and the layouts it is about."""
        self._sizes = np.empty(1 << FINE, np.int64)
        self._stores = {store.name: store for store in shape.stores}
        for alias, layout in tuner.begin({a: s.attributes for a, s in stems.items()}, self._facts).items():
            stems[alias].layout = layout

    def names(self, stem: str) -> tuple[str, ...]:
        """The columns that a stem's attributes are taken from."""
        return tuple(column for column, _ in self._stores[stem].attributes)

    @property
    def name(self) -> str:
        return self.tuner.name

    def observe(self, i: int, visits: Visits) -> None:
        """Note what the tuples of an input asked of the stems; the tuner is told at the end of a turn."""
        if i == self._last:
            over = self._in_a_row > self.tuner.grain
        else:
            self._last, self._in_a_row = i, 0
            over = i in self._seen
        if over:
            self._end_turn()
        self._seen.add(i)
        self._noted.append((i, visits))
        self._rows += visits.rows
        self._in_a_row += visits.rows
        if visits.journeys:
            route = visits.journeys[-1].ruster.route
            if route is not self._routes[i] and route != self._routes[i]:
                # Two turns and two assessments: in the first, some tuples took the old route; in the second, none did.
                self._alert, self._soon = 2 * self.tuner.window, 2
            self._routes[i] = route
        if not self.tuner.grain:
            self._tell()

    def news(self) -> bool:
        """Whether the tuner has been told anything new. Called when a batch of an input is over: if all inputs of the
        last turn have had a batch, this turn is over too."""
        if self._turn and self._turn <= self._seen:
            self._end_turn()
        return self.told

    def _end_turn(self) -> None:
        self._turn = frozenset(self._seen)
        self._seen.clear()
        eased = self.tuner.resting and not self._alert
        if self._soon or self._rows >= (self.tuner.window if eased else self.tuner.grain):
            self._tell()

    def _tell(self) -> None:
        self._alert, self._soon = max(self._alert - self._rows, 0), max(self._soon - 1, 0)
        self._add_up()
        probes = [Probe(stem, mask, *line) for (stem, mask), line in self._asked.items()]
        self._asked.clear()
        self._rows = 0
        self.told = True
        self.tuner.observe(probes)

    def _add_up(self) -> None:
        """Add up many batches in one go: arrays first, so that routes are looked at once and not for every batch."""
        sums: dict[tuple[int, tuple[Route, ...]], NDArray[np.int64]] = {}
        for i, visits in self._noted:
            for journey in visits.journeys:
                assert journey.counts is not None, "the fabric counts for every ruster"
                key = (i, journey.ruster.routes)
                sums[key] = sums[key] + journey.counts if key in sums else journey.counts
                for t in journey.trials:
                    self._add(i, t.visited, t.operator, t.rows, t.work, t.matches)
        self._noted.clear()
        for (i, routes), counts in sums.items():
            for route, line in zip(routes, counts.tolist(), strict=True):
                for place, op in enumerate(route.operators):
                    if line[op][ROWS_IN] and op >= len(self.shape.filters[i]):
                        met = line[op]
                        self._add(i, route.operators[:place], op, met[ROWS_IN], met[WORK], met[ROWS_OUT])

    def _add(self, i: int, visited: Iterable[int], operator: int, rows: int, work: float, matches: int) -> None:
        first, others = len(self.shape.filters[i]), self._others[i]
        bound = frozenset([i, *(others[op - first] for op in visited if op >= first)])
        store = self.shape.store(others[operator - first])
        mask = mask_of(self.shape.step(bound, others[operator - first]).pattern, len(store.attributes))
        line = self._asked.setdefault((store.name, mask), [0, 0.0, 0])
        line[:] = line[0] + rows, line[1] + work, line[2] + matches

    def tune(self) -> list[Event]:
        """Apply the layouts that the tuner proposes. Worth a call once the tuner has been told anything new."""
        self.told = False
        plan = Plan(layouts={alias: stem.layout for alias, stem in self.stems.items()})
        while (change := self.tuner.propose(plan)) is not None:
            self.moved += self.stems[change.where].relayout(change.after, migrate=change.slices)
            plan = plan.apply(change)
        return self.tuner.drain()

    def explain(self) -> dict[str, IndexView]:
        """As of the last selection. Cheap to call after every batch: layouts are only weighed again after a selection."""
        stamp = (self.tuner.tunings, {alias: stem.layout for alias, stem in self.stems.items()})
        if self._shown is None or self._shown[0] != stamp:
            views = self.tuner.explain(lambda alias: self._facts(alias, asked=True))
            self._shown = (stamp, views)
        return dict(self._shown[1])

    def _facts(self, alias: str, asked: bool = False) -> StemFacts:
        stem = self.stems[alias]

        def listed() -> tuple[SliceFacts, ...]:
            layouts, owner = stem.layouts(), self._stores[alias].inputs[0]
            newest = max((s.first_time for s in stem.slices), default=0)
            lives = [_life(stem, s, k, newest) for k, s in enumerate(stem.slices)]
            return tuple(
                SliceFacts(s.number, layouts[s.number], s.rows, life, self._waiting(owner, s.expiry))
                for s, life in zip(stem.slices, lives, strict=True)
            )

        return StemFacts(
            self.names(alias), stem.rows, stem.built, len(stem.runs),
            lambda: self._evenness(stem, stem.built, asked), listed,
        )  # fmt: skip

    def _evenness(self, stem: Stem, built: int, asked: bool) -> list[list[float]]:
        """Sampled again when a slice of the window is new. A question (`asked`) must not change later decisions."""
        before = self._even.get(stem.name)
        if before is not None and built - before[0] < stem.rows // SLICES:
            return before[1]
        found = self._look(stem)
        if not asked:
            self._even[stem.name] = (built, found)
        return found

    def _look(self, stem: Stem) -> list[list[float]]:
        keys = stem.sample(SAMPLE)
        agree = np.empty((stem.attributes, FINE + 1), np.int64)
        agreement(keys, self._sizes, agree)
        return shares(agree, len(keys))

    def snapshot(self) -> dict[str, Any]:
        self._add_up()
        return {
            "format": FORMAT,
            "tuner": self.name,
            "learned": self.tuner.snapshot(),
            "layouts": {a: s.layout.record() for a, s in self.stems.items()},
            "moved": self.moved,
            "asked": [[*key, *line] for key, line in self._asked.items()],
            "turn": [sorted(self._seen), self._last, self._in_a_row, self._rows, self.told, sorted(self._turn)],
            "pace": [self._alert, self._soon],
            "even": {alias: list(seen) for alias, seen in self._even.items()},
            "routes": [[i, list(r.operators)] for i, r in self._routes.items() if r is not None],
        }

    def reads(self, record: Mapping[str, Any]) -> bool:
        """Whether a record is one of this tuner, in this format."""
        return record.get("format") == FORMAT and record["tuner"] == self.name

    def restore(self, record: Mapping[str, Any]) -> None:
        self.tuner.restore(record["learned"])
        self._shown = None
        self.moved = int(record["moved"])
        self._asked = {(stem, int(mask)): line for stem, mask, *line in record["asked"]}
        seen, self._last, self._in_a_row, self._rows, self.told, turn = record["turn"]
        self._alert, self._soon = record["pace"]
        self._even = {alias: (int(built), even) for alias, (built, even) in record["even"].items()}
        self._routes |= {i: Route(tuple(operators)) for i, operators in record["routes"]}
        self._seen, self._turn = set(seen), frozenset(turn)
        for alias, layout in record["layouts"].items():
            self.stems[alias].layout = Layout.of(layout)


def _life(stem: Stem, part: Slice, place: int, newest: int) -> float:
    """The share of a window that a slice still has to live."""
    if stem.length is None or part.expiry == FOREVER:
        return (place + 1) / len(stem.slices)
    return min(max((part.expiry - newest) / (SLICES * stem.length), 0.0), 1.0)
