"""Trials: some partial results of profiled rows are counted, not joined, against stems that might have come next.

Counting a rival may cost as much as the chosen stem did; beyond that it is known to be worse. Joins: thesis 5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import Trial
from thalweg.execute.meter import Meter
from thalweg.execute.operators.stem import Stems
from thalweg.execute.routetable import Segment
from thalweg.execute.trip import Trip
from thalweg.plan import Pipeline

Ints = NDArray[np.int64]
SAMPLE = 64
"""Tested: partial results per step of a profiled ruster that we count against each other stem."""


class Trials:
    """Trials for rows of input `i`, whose stems begin at operator `first`."""

    def __init__(self, pipeline: Pipeline, stems: Stems, i: int, first: int, meter: Meter) -> None:
        self.pipeline = pipeline
        self.stems = stems
        self.first = first
        self.meter = meter
        self._others = stems.shape.others(i)
        self._own = stems.shape.row_column(i)

    def sample(self, trip: Trip, segment: Segment, partial: Ints, chunk: Ints, work: int) -> None:
        """Count some of the partial results that took `work` at a stem, and gave `chunk`, against the stem's rivals."""
        assert trip.matches is not None
        assert trip.numbers is not None
        alone = len(segment.bound) == 1
        if alone and len(chunk) < self.stems.buffer:
            # The matches per row are known only if all matches are in the buffer.
            came = partial[:, self._own]
            found = np.bincount(np.searchsorted(came, chunk[:, self._own]), minlength=len(came))
            trip.matches[np.searchsorted(trip.numbers, came), segment.operators[0]] = found
        rivals = self._rivals(trip, segment.place)
        if not rivals:
            return
        visited = frozenset(trip.ruster.route.operators[: segment.place])
        sample = np.ascontiguousarray(partial[:: max(1, len(partial) // SAMPLE)][:SAMPLE])
        for op in rivals:
            step = self.stems.shape.step(segment.bound, self._others[op - self.first])
            started = self.meter.start()
            counted = self.stems.stem(step.target).count(
                sample, step.pattern, step.pairs, trip.arrival.newest, trip.arrival.expiry,
                max(work, 2 * len(sample)), step.member,
            )  # fmt: skip
            (seconds,) = self.meter.share(self.meter.stop(started, op, 0), [op], [counted.work])
            trip.entries += counted.entries
            # Untried ones come last.
            matches = counted.matches
            rows = len(matches) if matches[-1] >= 0 else int(np.count_nonzero(matches >= 0))
            found = matches[:rows]
            survivors = int(np.count_nonzero(found))
            trip.trials.append(Trial(visited, op, rows, int(found.sum()), survivors, counted.work, seconds))
            trip.extra[op] += rows
            trip.extra_seconds[op] += seconds
            if alone:
                trip.matches[np.searchsorted(trip.numbers, sample[:rows, self._own]), op] = found

    def _rivals(self, trip: Trip, place: int) -> list[int]:
        """The stems that could have come at this place instead and that the ruster asks about."""
        route, also = trip.ruster.route.operators, trip.ruster.also
        eligible = self.pipeline.eligible(route[:place])
        rest = route[place + 1 :]
        wanted = also if isinstance(also, frozenset) else rest if also == "all" else rest[:1]
        return [op for op in eligible if op >= self.first and op != route[place] and op in wanted]

    @staticmethod
    def turns_back(trip: Trip, matches: int, rows: int) -> bool:
        """Whether a ruster that has met only its first stem should start with another."""
        share = trip.ruster.turn
        return share is not None and any(t.rows and t.matches * rows < share * matches * t.rows for t in trip.trials)
