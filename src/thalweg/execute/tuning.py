"""Where an index tuner meets the stems: probes to it, facts when it asks, layouts from it. It decides nothing.

Access patterns are read off the journeys (which inputs were bound when a stem was visited), so probing knows nothing of
tuners. Layouts change between batches of one input, never under a probe; what has expired is dropped by the watermarks
alone, which no tuple that may still search it is behind (the rule that AMRI states with the earliest partition number,
section 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from thalweg.execute.shape import Shape
from thalweg.execute.slice import FOREVER, Slice
from thalweg.execute.stem import Stem
from thalweg.plan import Event
from thalweg.plan.layout import Layout
from thalweg.profile.evenness import mixed, shares
from thalweg.profile.patterns import mask_of
from thalweg.profile.stemfacts import Probe, SliceFacts, StemFacts
from thalweg.profile.visits import Visits

if TYPE_CHECKING:
    from thalweg.optimize.tuner import IndexTuner, IndexView

SAMPLE = 512
"""Stored tuples looked at to see how evenly bits split them."""
Waiting = Callable[[str, int], int]
"""Tuples of other streams that wait and will search what lives until a time, by alias and time."""


class Tuning:
    """A tuner at work on the stems of one engine."""

    def __init__(self, tuner: IndexTuner, shape: Shape, stems: Mapping[str, Stem]) -> None:
        self.tuner = tuner
        self.shape = shape
        self.stems = stems
        self.moved = 0
        """Rows indexed anew."""
        self._masks: dict[tuple[frozenset[int], int], int] = {}
        self._others = [shape.others(i) for i in range(len(shape.aliases))]
        for alias, layout in tuner.begin({a: s.attributes for a, s in stems.items()}).items():
            stems[alias].layout = layout

    @property
    def name(self) -> str:
        return self.tuner.name

    def observe(self, i: int, visits: Visits) -> None:
        """Tell the tuner what tuples of an input asked of the stems."""
        first, others = len(self.shape.filters[i]), self._others[i]
        probes = []
        for journey in visits.journeys:
            bound = frozenset([i])
            for v in journey.visits:
                if v.operator < first:
                    continue
                target = others[v.operator - first]
                if v.rows_in:
                    probes.append(self._probe(bound, target, v.rows_in, v.work, v.rows_out))
                bound |= {target}
            for t in journey.trials:
                known = frozenset([i, *(others[op - first] for op in t.visited if op >= first)])
                if t.rows:
                    probes.append(self._probe(known, others[t.operator - first], t.rows, t.work, t.matches))
        self.tuner.observe(self.shape.aliases[i], probes)

    def _probe(self, bound: frozenset[int], target: int, requests: int, work: float, matches: int) -> Probe:
        mask = self._masks.get((bound, target))
        if mask is None:
            pattern = self.shape.step(bound, target).pattern
            mask = self._masks[bound, target] = mask_of(pattern, len(self.shape.classes[target]))
        return Probe(self.shape.aliases[target], mask, requests, work, matches)

    def tune(self, built: Callable[[str], int], waiting: Waiting) -> list[Event]:
        """Bring the layouts in force that the tuner proposes now."""
        for change in self.tuner.propose(lambda alias: self._facts(alias, built, waiting)):
            self.moved += self.stems[change.stem].relayout(change.layout, migrate=change.slices)
        return self.tuner.drain()

    def explain(self, built: Callable[[str], int], waiting: Waiting) -> dict[str, IndexView]:
        return self.tuner.explain(lambda alias: self._facts(alias, built, waiting))

    def _facts(self, alias: str, built: Callable[[str], int], waiting: Waiting) -> StemFacts:
        stem, i = self.stems[alias], self.shape.number[alias]
        names = tuple(self.shape.key_columns[i][c][0] for c in self.shape.classes[i])
        keys = mixed(stem.sample(SAMPLE))
        evenness = [shares(keys[:, k].copy()) for k in range(stem.attributes)]
        layouts = stem.layouts()
        newest = max((s.first_time for s in stem.slices), default=0)
        slices = tuple(
            SliceFacts(s.number, layouts[s.number], s.rows, _life(stem, s, k, newest), waiting(alias, s.expiry))
            for k, s in enumerate(stem.slices)
        )
        return StemFacts(names, stem.rows, built(alias), len(stem.runs), evenness, slices)

    def snapshot(self) -> dict[str, Any]:
        return {
            "tuner": self.name,
            "learned": self.tuner.snapshot(),
            "layouts": {a: s.layout.record() for a, s in self.stems.items()},
            "moved": self.moved,
        }

    def restore(self, record: Mapping[str, Any]) -> None:
        self.tuner.restore(record["learned"])
        self.moved = int(record["moved"])
        for alias, layout in record["layouts"].items():
            self.stems[alias].layout = Layout.of(layout)


def _life(stem: Stem, part: Slice, place: int, newest: int) -> float:
    """The share of a window that a slice still has to live."""
    if stem.length is None or part.expiry == FOREVER:
        return (place + 1) / len(stem.slices)
    return min(max((part.expiry - newest) / (4 * stem.length), 0.0), 1.0)
