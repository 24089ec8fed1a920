"""Flows: rows and seconds at each place of each input's order, per row of the query (thesis 5.5.3).

Every statistic is the mean of its last `WINDOW` observations; an observation is one batch. Time is counted in rows of the
query, so decisions on the same rows do not depend on a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WINDOW = 10
"""Size: the observations behind an average, W of the thesis (5.5.3)."""
MEMORY = 1 << 15
"""Size: rows of the query after which the count of an input's rows counts half."""


@dataclass
class Place:
    """One place of an order: the last observations of rows begun, in and out, seconds at the stem and of predicates."""

    last: deque[tuple[float, float, float, float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def mean(self, what: int) -> float:
        """Per row of the input."""
        begun = sum(o[0] for o in self.last)
        return sum(o[what] for o in self.last) / begun if begun else 0.0


class Flows:
    """The flows of all inputs.

    >>> flows = Flows(2)
    >>> flows.arrived(0, 30); flows.arrived(1, 10)
    >>> flows.observe(0, 0, 30, 30, 60, 3.0)
    >>> flows.rate(0), flows.rows(0, 0), flows.out(0, 0), round(flows.seconds(0, 0), 3)
    (0.75, 0.75, 1.5, 0.075)
    """

    def __init__(self, inputs: int) -> None:
        self._rows = [0.0] * inputs
        self._batches = [0.0] * inputs
        self._fresh = 0
        """Rows since older ones last lost weight."""
        self._places: dict[tuple[int, int], Place] = {}

    def arrived(self, i: int, rows: int) -> None:
        self._rows[i] += rows
        self._batches[i] += 1
        self._fresh += rows
        if self._fresh > MEMORY // 4:
            kept = 0.5 ** (self._fresh / MEMORY)
            self._rows = [r * kept for r in self._rows]
            self._batches = [b * kept for b in self._batches]
            self._fresh = 0

    def observe(
        self, i: int, place: int, begun: float, rows: float, out: float, seconds: float, judging: float = 0.0
    ) -> None:
        self._places.setdefault((i, place), Place()).last.append((begun, rows, out, seconds, judging))

    def forget(self, i: int) -> None:
        """The order of an input has changed."""
        for key in [k for k in self._places if k[0] == i]:
            del self._places[key]

    def known(self, i: int, place: int) -> int:
        """Observations of a place."""
        found = self._places.get((i, place))
        return 0 if found is None else len(found.last)

    def rate(self, i: int) -> float:
        whole = sum(self._rows)
        return self._rows[i] / whole if whole else 0.0

    def batches(self, i: int) -> float:
        whole = sum(self._rows)
        return self._batches[i] / whole if whole else 0.0

    def _mean(self, i: int, place: int, what: int) -> float:
        found = self._places.get((i, place))
        return 0.0 if found is None else self.rate(i) * found.mean(what)

    def rows(self, i: int, place: int) -> float:
        """d: rows that come to a place."""
        return self._mean(i, place, 1)

    def out(self, i: int, place: int) -> float:
        return self._mean(i, place, 2)

    def seconds(self, i: int, place: int) -> float:
        """d times c: seconds at a place."""
        return self._mean(i, place, 3)

    def judging(self, i: int, place: int) -> float:
        """Seconds of the predicates behind it."""
        return self._mean(i, place, 4)

    def snapshot(self) -> dict[str, Any]:
        places = [[i, k, [list(o) for o in p.last]] for (i, k), p in self._places.items()]
        return {"rows": list(self._rows), "batches": list(self._batches), "fresh": self._fresh, "places": places}

    def restore(self, record: Mapping[str, Any]) -> None:
        self._rows, self._batches = list(record["rows"]), list(record["batches"])
        self._fresh = record["fresh"]
        self._places = {}
        entries: Sequence[Any] = record["places"]
        for i, k, last in entries:
            place = self._places[i, k] = Place()
            place.last.extend(tuple(o) for o in last)
