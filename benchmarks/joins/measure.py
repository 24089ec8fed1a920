"""Fair timing on a shared machine: contenders take turns, every pass is checked, ratios are paired.

A pass is timed by the wall clock and by the processor. Ratios are formed within a round, where both sides met the same
load, and we report their median.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.joins.rivals import Answer


@dataclass(frozen=True)
class Contender:
    """A name, and a pass over the data that returns the answer."""

    name: str
    go: Callable[[], Answer]
    rounds: int | None = None
    """Limit on the number of passes, for slow contenders."""


@dataclass
class Timing:
    name: str
    answer: Answer | None = None
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    @property
    def processor_seconds(self) -> float:
        return statistics.median(self.processor)


class WrongAnswer(Exception):
    """Two contenders disagree, so their times mean nothing."""


def race(
    contenders: Sequence[Contender], rounds: int, known: Answer | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Timing]:  # fmt: skip
    """Time all contenders, one pass each per round; every round starts with another one."""
    timings = [Timing(c.name) for c in contenders]
    for turn in range(rounds):
        for k in range(len(contenders)):
            at = (k + turn) % len(contenders)
            contender, timing = contenders[at], timings[at]
            if contender.rounds is not None and len(timing.wall) >= contender.rounds:
                continue
            tell(f"round {turn + 1} of {rounds}: {contender.name}")
            gc.collect()
            wall, processor = time.perf_counter(), time.process_time()
            answer = contender.go()
            timing.wall.append(time.perf_counter() - wall)
            timing.processor.append(time.process_time() - processor)
            known = known or answer
            if answer != known:
                raise WrongAnswer(f"{contender.name} found {answer}, expected {known}")
            timing.answer = answer
    return timings


def ratio(slower: Timing, faster: Timing, clock: str = "wall") -> float:
    """How many times as fast the second is as the first, by pairs."""
    pairs = zip(getattr(slower, clock), getattr(faster, clock), strict=False)
    return statistics.median(a / b for a, b in pairs)
