"""When a stem's access patterns are assessed: Continuous, Periodic, Triggered, Hybrid (AMRI, section 7).

The clock counts search requests of all stems. An assessment of a stem lasts `window` requests; when it ends, the stem
is due for selection. Continuous: always, everywhere. Periodic: everywhere at the start of each period. Triggered: at
the end of a period, the stem whose number of requests changed most against the period before, if by enough. Hybrid:
that one, and the one that has waited longest. Invariant: a stem is due only after an assessment of a whole window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from thalweg.errors import DefinitionError, did_you_mean

SIGNIFICANT = 0.25
"""Tested: change of a stem's requests, against the period before, that triggers an assessment."""


class Schedule:
    """Base of the four, and `continuous` itself.

    >>> schedule = Schedule(["r", "s"], window=100)
    >>> schedule.observe({"r": 60, "s": 60})
    >>> schedule.due(), schedule.due()
    (['r', 's'], [])
    """

    name: ClassVar[str] = "continuous"

    def __init__(self, stems: Sequence[str], window: int = 4_000, period: int = 8_000) -> None:
        self.stems = list(stems)
        self.window = window
        self.period = max(period, window)
        self.now = 0
        self.started: dict[str, int] = {}
        """Stem under assessment to the moment it began."""
        self.queue = list(stems)
        """Stems in the order in which they wait to be assessed; those assessed last at the end."""
        self.counts = dict.fromkeys(stems, 0)
        self.before: dict[str, int] | None = None
        self._turn = 0
        self._begin()

    def _begin(self) -> None:
        """A period begins; this one's base case assesses all stems all the time."""
        self._assess(self.stems)

    def _assess(self, stems: Sequence[str]) -> None:
        for stem in stems:
            self.started.setdefault(stem, self.now)

    def assessing(self, stem: str) -> bool:
        return stem in self.started

    def observe(self, requests: Mapping[str, int]) -> None:
        """Let the clock run by what was asked of each stem."""
        for stem, count in requests.items():
            self.counts[stem] += count
            self.now += count
        if self.now - self._turn >= self.period:
            self._turn = self.now
            self._begin()
            self.before, self.counts = self.counts, dict.fromkeys(self.stems, 0)

    def due(self) -> list[str]:
        """Stems whose assessment is complete; each is told once."""
        done = [s for s in self.stems if s in self.started and self.now - self.started[s] >= self.window]
        for stem in done:
            del self.started[stem]
            self.queue.remove(stem)
            self.queue.append(stem)
        self._again(done)
        return done

    def _again(self, done: Sequence[str]) -> None:
        self._assess(done)

    def _most_changed(self) -> list[str]:
        """The stem with the greatest relative change of its requests, if that is significant; all at the very start."""
        if self.before is None:
            return [] if self.now else list(self.stems)

        def change(stem: str) -> float:
            assert self.before is not None
            return abs(self.counts[stem] - self.before[stem]) / max(self.before[stem], 1)

        most = max(self.stems, key=change)
        return [most] if change(most) >= SIGNIFICANT else []

    def snapshot(self) -> dict[str, Any]:
        return {
            "now": self.now, "started": self.started, "queue": self.queue, "counts": self.counts,
            "before": self.before, "turn": self._turn,
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        self.now, self._turn = int(record["now"]), int(record["turn"])
        self.started = {k: int(v) for k, v in record["started"].items()}
        self.queue, self.counts, self.before = list(record["queue"]), dict(record["counts"]), record["before"]


class Periodic(Schedule):
    name = "periodic"

    def _again(self, done: Sequence[str]) -> None:
        """Not before the next period."""


class Triggered(Periodic):
    name = "triggered"

    def _begin(self) -> None:
        self._assess(self._most_changed())


class Hybrid(Periodic):
    name = "hybrid"

    def _begin(self) -> None:
        changed = self._most_changed()
        waiting = next((s for s in self.queue if s not in changed and s not in self.started), None)
        self._assess(changed if waiting is None else [*changed, waiting])


SCHEDULES: dict[str, type[Schedule]] = {c.name: c for c in (Schedule, Periodic, Triggered, Hybrid)}


def make(name: str, stems: Sequence[str], window: int, period: int) -> Schedule:
    if name not in SCHEDULES:
        raise DefinitionError(f"no schedule '{name}'", hint=did_you_mean(name, SCHEDULES))
    return SCHEDULES[name](stems, window, period)
