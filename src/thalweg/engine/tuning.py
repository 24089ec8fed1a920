"""Where an index tuner meets the stems: probes to it, facts when it asks, layouts from it. It decides nothing.

Access patterns are read off the journeys (which inputs were bound when a stem was visited), so probing knows nothing of
tuners. They are added up over whole turns of the inputs, in which each has had a batch: within a turn, one input's
patterns would be taken for all. Layouts change between batches of one input, never under a probe; what has expired is dropped by
the watermarks alone, which no tuple that may still search it is behind (AMRI, section 4.2: earliest partition number).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.contract.visits import Visits
from thalweg.execute.shape import Shape
from thalweg.plan import Event, Plan, Route
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.evenness import FINE, shares
from thalweg.profile.patterns.patterns import mask_of
from thalweg.profile.patterns.stemfacts import Probe, SliceFacts, StemFacts
from thalweg.state.kernels.count import agreement
from thalweg.state.slice import FOREVER, Slice
from thalweg.state.stem import Stem

if TYPE_CHECKING:
    from thalweg.optimize.indexes.tuner import IndexTuner, IndexView

SAMPLE = 512
"""Stored tuples looked at to see how evenly bits split them."""
SILENT = 16
"""Batches of one input in a row after which the others count as silent."""
EASE = 16
"""How many times more seldom a tuner that rests is told, while routes stay as they are."""
ALERT = 16
"""Observations for which a tuner is told often after a route has changed."""
SOON = 2
HASTE = 4
"""Turns after which it is told at once then, and how many times fewer tuples are enough."""
FORMAT = 2
"""Of what `snapshot` writes. A record of another one is not read: layouts are learned anew, and no answer changes."""
ROUTES = 4096
"""Routes of which it is remembered what they ask."""
Waiting = Callable[[int, int], int]
"""Rows of other streams that wait and will search what lives of an input until a time."""


class Tuning:
    """A tuner at work on the stems of one engine."""

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
        """Rows indexed anew."""
        self._noted: list[tuple[int, Visits]] = []
        """What has not been added up yet."""
        self._rows = 0
        self.told = False
        self._enough = tuner.grain
        """Tuples after which the tuner is told."""
        self._alert = 0
        """Tuples for which the tuner is told often, resting or not, since a route has changed."""
        self._soon = 0
        """Turns left in which the tuner is told at once."""
        self._routes: dict[int, Route | None] = dict.fromkeys(range(len(shape.aliases)))
        self._asked: dict[tuple[str, int], list[Any]] = {}
        """Requests, work and matches since the tuner was told, by stem and access pattern."""
        self._lines: dict[tuple[int, Route], dict[int, list[Any]]] = {}
        """Where the visits of a route's operators are added up."""
        self._seen: set[int] = set()
        self._turn: frozenset[int] = frozenset()
        """Inputs of the last turn."""
        self._last = -1
        self._in_a_row = 0
        self._others = [shape.others(i) for i in range(len(shape.aliases))]
        self._even: dict[str, tuple[int, list[list[float]]]] = {}
        """Rows built and evenness of each stem when it was last looked at."""
        self._shown: tuple[Any, dict[str, IndexView]] | None = None
        """What was explained last, and of which selection and layouts."""
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
        """Note what tuples of an input asked of the stems; the tuner is told when a turn is over."""
        if i == self._last:
            self._in_a_row += 1
            over = self._in_a_row > SILENT
        else:
            self._last, self._in_a_row = i, 0
            over = i in self._seen
        if over:
            self._end_turn()
        self._seen.add(i)
        self._noted.append((i, visits))
        self._rows += visits.rows
        if visits.journeys:
            route = visits.journeys[-1].ruster.route
            if route is not self._routes[i] and route != self._routes[i]:
                self._alert, self._soon = ALERT * self.tuner.grain, SOON
                self._enough = self.tuner.grain // HASTE
            self._routes[i] = route
        if not self.tuner.grain:
            self._tell()

    def news(self) -> bool:
        """Asked when a batch of an input is over: whether the tuner has been told anything new. A turn in which all
        inputs of the last one had a batch need not wait for the next to begin."""
        if self._turn and self._turn <= self._seen:
            self._end_turn()
        return self.told

    def _end_turn(self) -> None:
        self._turn = frozenset(self._seen)
        self._seen.clear()
        if self._rows >= self._enough:
            self._tell()

    def _tell(self) -> None:
        self._alert, self._soon = max(self._alert - self._rows, 0), max(self._soon - 1, 0)
        self._add_up()
        probes = [Probe(stem, mask, *line) for (stem, mask), line in self._asked.items() if line[0]]
        for line in self._asked.values():
            line[:] = 0, 0.0, 0
        self._rows = 0
        self.told = True
        self.tuner.observe(probes)

    def _add_up(self) -> None:
        """Once for many batches: what a loop has just done it does faster again than after a join."""
        for i, visits in self._noted:
            first = len(self.shape.filters[i])
            for journey in visits.journeys:
                for route, _, _, met in journey.by_route():
                    lines = self._lines.get((i, route))
                    if lines is None:
                        lines = self._lines_of(i, route)
                    for v in met:
                        if v.operator >= first:
                            line = lines[v.operator]
                            line[0] += v.rows_in
                            line[1] += v.work
                            line[2] += v.rows_out
                for t in journey.trials:
                    others = self._others[i]
                    bound = frozenset([i, *(others[op - first] for op in t.visited if op >= first)])
                    line = self._line(bound, others[t.operator - first])
                    line[0] += t.rows
                    line[1] += t.work
                    line[2] += t.matches
        self._noted.clear()

    def _lines_of(self, i: int, route: Route) -> dict[int, list[Any]]:
        """For each stem on a route, where it is added up what is asked of it."""
        if len(self._lines) >= ROUTES:
            self._lines.clear()
        first, bound = len(self.shape.filters[i]), frozenset([i])
        lines: dict[int, list[Any]] = {}
        for op in route.operators:
            if op >= first:
                target = self._others[i][op - first]
                lines[op] = self._line(bound, target)
                bound |= {target}
        self._lines[i, route] = lines
        return lines

    def _line(self, bound: frozenset[int], target: int) -> list[Any]:
        store = self.shape.store(target)
        mask = mask_of(self.shape.step(bound, target).pattern, len(store.attributes))
        return self._asked.setdefault((store.name, mask), [0, 0.0, 0])

    def tune(self) -> list[Event]:
        """Bring the layouts in force that the tuner proposes; worth asking once it has been told anything new."""
        self.told = False
        plan = Plan(layouts={alias: stem.layout for alias, stem in self.stems.items()})
        while (change := self.tuner.propose(plan)) is not None:
            self.moved += self.stems[change.where].relayout(change.after, migrate=change.slices)
            plan = plan.apply(change)
        self._pace()
        return self.tuner.drain()

    def _pace(self) -> None:
        grain = self.tuner.grain
        eased = EASE * grain if self._alert <= 0 and self.tuner.resting else grain
        self._enough = grain // HASTE if self._soon else eased

    def explain(self) -> dict[str, IndexView]:
        """As of the last selection: asked after every batch, it weighs other layouts only when one was made."""
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
        """Looked at again when a quarter of the stem is new. Who only asks must not change what is decided later."""
        before = self._even.get(stem.name)
        if before is not None and built - before[0] < stem.rows // 4:
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
            "pace": [self._enough, self._alert, self._soon],
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
        self._lines.clear()
        self._asked = {(stem, int(mask)): line for stem, mask, *line in record["asked"]}
        seen, self._last, self._in_a_row, self._rows, self.told, turn = record["turn"]
        self._enough, self._alert, self._soon = record["pace"]
        self._even = {alias: (int(built), even) for alias, (built, even) in record["even"].items()}
        self._routes |= {i: Route(tuple(operators)) for i, operators in record["routes"]}
        self._seen, self._turn = set(seen), frozenset(turn)
        for alias, layout in record["layouts"].items():
            self.stems[alias].layout = Layout.of(layout)


def _life(stem: Stem, part: Slice, place: int, newest: int) -> float:
    """The share of a window that a slice still has to live."""
    if stem.length is None or part.expiry == FOREVER:
        return (place + 1) / len(stem.slices)
    return min(max((part.expiry - newest) / (4 * stem.length), 0.0), 1.0)
